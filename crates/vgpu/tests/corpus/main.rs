//! Compiled kernels on the virtual device, in process: their results are those of the host.

mod rig;
mod storm;
mod suite;
#[path = "../../src/device/tests/walker.rs"]
#[allow(dead_code, reason = "the other tests look at more of a wave")]
mod walker;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use kfd_runtime::{Arguments, CodeObject, GpuAddr, Launch};
use kfd_suite::corpus::{CorpusKernel, LEVELS, Library, Manifest};
use rig::{PreemptionPattern, Rig};
use storm::{EveryInstruction, QUIET, RandomPreemptions};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;
const THREADS: usize = 2;
/// What lies before and after an output, to see writes that miss it.
const GUARD: [u8; 256] = [0xA5; 256];

/// Instructions that a wave runs before others get their turn: long, and short enough that waves mix.
fn quantum(seed: u64) -> u64 {
    if seed.is_multiple_of(2) { 61 } else { 100_000 }
}

/// The corpus, or a directory like it that `VGPU_CORPUS` names.
fn sources() -> PathBuf {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    std::env::var_os("VGPU_CORPUS").map_or(ours, PathBuf::from)
}

#[test]
#[ignore = "needs clang-19"]
fn the_corpus_gives_the_same_bits_as_the_host() {
    whole_corpus(|kernel, object, input, seed| {
        let mut rig = Rig::new(room(kernel, object, input), quantum(seed));
        run(kernel, object, input, &mut rig, &mut ())
    });
}

#[test]
#[ignore = "needs clang-19"]
fn the_corpus_gives_the_same_bits_in_a_storm() {
    whole_corpus(|kernel, object, input, seed| {
        let mut rig = Rig::saving(room(kernel, object, input), QUIET);
        run(kernel, object, input, &mut rig, &mut RandomPreemptions::new(seed, storm::preemptions() / 10))
    });
}

#[test]
#[ignore = "needs clang-19"]
fn the_shortest_kernel_of_the_corpus_is_preempted_after_every_instruction() {
    let Built { directory, library, kernels } = &*BUILT;
    let size = |kernel: &&CorpusKernel| {
        let file = directory.join(format!("{}.O2.hsaco", kernel.name));
        std::fs::metadata(file).map(|file| file.len()).unwrap_or(u64::MAX)
    };
    let shortest = kernels.iter().min_by_key(size).unwrap();
    let input = library.fill(&shortest.input, 1).unwrap();
    let mut expected = shortest.output.start();
    library.run(&shortest.name, &input, &mut expected, shortest.items).unwrap();
    let file = directory.join(format!("{}.O2.hsaco", shortest.name));
    let object = CodeObject::parse(&std::fs::read(file).unwrap()).unwrap();
    let mut rig = Rig::saving(room(shortest, &object, &input), 1);
    let mut hail = EveryInstruction(0);
    let found = run(shortest, &object, &input, &mut rig, &mut hail).unwrap();
    assert_eq!(shortest.output.difference(&found, &expected), None, "{}", shortest.name);
    assert!(hail.0 > 100, "{} was preempted {} times", shortest.name, hail.0);
}

/// The compiled corpus.
struct Built {
    directory: PathBuf,
    library: Library,
    kernels: Vec<CorpusKernel>,
}

/// Compiled once for all tests.
static BUILT: LazyLock<Built> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus");
    std::fs::create_dir_all(&directory).unwrap();
    let built = Command::new("sh").arg(sources().join("build.sh")).arg(&directory).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let library = Library::open(&directory.join("libcorpus.so")).unwrap();
    let kernels = Manifest::read(&sources().join("corpus.toml")).unwrap().kernels;
    Built { directory, library, kernels }
});

/// Runs every kernel at all levels with all seeds by `run`, which says what is in the output then.
fn whole_corpus(run: impl Fn(&CorpusKernel, &CodeObject, &[u8], u64) -> Result<Vec<u8>, String> + Sync) {
    let Built { directory, library, kernels } = &*BUILT;
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = check(kernel, library, directory, &run);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    let runs = kernels.len() * LEVELS.len() * SEEDS.count();
    assert!(wrong.is_empty(), "{} of {runs} runs are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs a kernel at all levels with all seeds; a line for each run that is wrong.
fn check(
    kernel: &CorpusKernel,
    library: &Library,
    directory: &Path,
    run: impl Fn(&CorpusKernel, &CodeObject, &[u8], u64) -> Result<Vec<u8>, String>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for seed in SEEDS {
        let input = library.fill(&kernel.input, seed).unwrap();
        let mut expected = kernel.output.start();
        library.run(&kernel.name, &input, &mut expected, kernel.items).unwrap();
        for level in LEVELS {
            let file = directory.join(format!("{}.{level}.hsaco", kernel.name));
            let object = CodeObject::parse(&std::fs::read(&file).unwrap()).unwrap();
            let said = match run(kernel, &object, &input, seed) {
                Ok(found) => kernel.output.difference(&found, &expected),
                Err(error) => Some(error),
            };
            wrong.extend(said.map(|said| format!("{} {level} seed {seed}: {said}", kernel.name)));
        }
    }
    wrong
}

/// Bytes that a run needs.
fn room(kernel: &CorpusKernel, object: &CodeObject, input: &[u8]) -> usize {
    object.size() + input.len() + kernel.output.start().len()
}

/// What a kernel leaves in its output, or what went wrong.
fn run(
    kernel: &CorpusKernel,
    object: &CodeObject,
    input: &[u8],
    rig: &mut Rig,
    preemptions: &mut dyn PreemptionPattern,
) -> Result<Vec<u8>, String> {
    let start = kernel.output.start();
    let from = rig.place(input);
    let guarded = rig.place(&[&GUARD, start.as_slice(), &GUARD].concat());
    let to = guarded + GUARD.len() as u64;
    let arguments = Arguments::default().address(GpuAddr(from)).address(GpuAddr(to)).u32(kernel.items.cast_unsigned());
    let launch = Launch { grid: kernel.grid(), group: kernel.group };
    rig.dispatch(preemptions, object, &kernel.name, &launch, arguments, kernel.stack)?;
    let after = rig.read(guarded, start.len() + 2 * GUARD.len());
    let (before, rest) = after.split_at(GUARD.len());
    let (found, behind) = rest.split_at(start.len());
    if before != GUARD || behind != GUARD {
        return Err("wrote outside its output".to_owned());
    }
    if rig.read(from, input.len()) != input {
        return Err("changed its input".to_owned());
    }
    Ok(found.to_vec())
}
