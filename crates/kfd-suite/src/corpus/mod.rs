//! The corpus: kernels that one C source describes for the gpu and for the host, compared bit by bit.
//!
//! A directory holds the results of the corpus's `build.sh`: a code object for each kernel and level of optimisation,
//! and `libcorpus.so` with the same functions for the host. The manifest says how each is run.

mod error;
mod library;
mod manifest;

use std::path::{Path, PathBuf};

pub use error::CorpusError;
pub use library::Library;
pub use manifest::{CorpusKernel, Input, Manifest, Output};

use kfd_runtime::{Arguments, CodeObject, Executable, GpuAddr, Launch, Order, Placement, Signal};

use crate::bench::Bench;
use crate::checksum::Checksum;

/// Levels of optimisation that every kernel is compiled with.
pub const LEVELS: [&str; 2] = ["O0", "O2"];
/// What lies before and after an output, to see writes that miss it.
const GUARD: [u8; 256] = [0xA5; 256];

/// A kernel compiled with a level of optimisation, on a gpu.
#[derive(Debug)]
pub struct Loaded<'a> {
    kernel: &'a CorpusKernel,
    level: &'static str,
    program: Executable,
}

/// The corpus on disk and in memory.
#[derive(Debug)]
pub struct Corpus {
    directory: PathBuf,
    manifest: Manifest,
    library: Library,
}

impl Corpus {
    /// Opens a corpus that was built into `directory`, described by the file `manifest`.
    ///
    /// # Errors
    ///
    /// If a file is missing or holds something else.
    pub fn open(manifest: &Path, directory: &Path) -> Result<Corpus, CorpusError> {
        let manifest = Manifest::read(manifest)?;
        let library = Library::open(&directory.join("libcorpus.so"))?;
        Ok(Corpus { directory: directory.to_owned(), manifest, library })
    }

    /// Returns the kernels of the manifest.
    #[must_use]
    pub fn kernels(&self) -> &[CorpusKernel] {
        &self.manifest.kernels
    }

    /// Returns the library of the host's versions.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Loads a kernel in each of its levels.
    ///
    /// # Errors
    ///
    /// If an object is missing or broken, or the gpu fails.
    pub fn load<'a>(&self, kernel: &'a CorpusKernel, bench: &mut Bench) -> Result<Vec<Loaded<'a>>, CorpusError> {
        let load = |level| {
            let path = self.directory.join(format!("{}.{level}.hsaco", kernel.name));
            let bytes = std::fs::read(&path).map_err(|source| CorpusError::Read { path, source })?;
            let object = CodeObject::parse(&bytes).map_err(kfd_runtime::Error::from)?;
            Ok(Loaded { kernel, level, program: Executable::load(&mut bench.queue, &object)? })
        };
        LEVELS.into_iter().map(load).collect()
    }

    /// Runs a kernel on the gpu and on the host with the same input. Returns the checksum of its output.
    ///
    /// # Errors
    ///
    /// If the gpu fails, or a bit differs.
    pub fn run(&self, loaded: &Loaded<'_>, bench: &mut Bench, seed: u64) -> Result<Checksum, CorpusError> {
        let kernel = loaded.kernel;
        let input = self.library.fill(&kernel.input, seed)?;
        let mut expected = kernel.output.start();
        self.library.run(&kernel.name, &input, &mut expected, kernel.items)?;
        let found = dispatch(loaded, bench, &input).map_err(|error| error.of(&loaded.name(), seed))?;
        match kernel.output.difference(&found, &expected) {
            Some(difference) => Err(CorpusError::Wrong(difference).of(&loaded.name(), seed)),
            None => Ok(Checksum::of(&found)),
        }
    }
}

impl Loaded<'_> {
    /// Returns the name of kernel and level.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.kernel.name, self.level)
    }
}

/// Runs the kernel and returns its output.
fn dispatch(loaded: &Loaded<'_>, bench: &mut Bench, input: &[u8]) -> Result<Vec<u8>, CorpusError> {
    let CorpusKernel { name, items, group, stack, .. } = loaded.kernel;
    let mut program = loaded.program.kernel(name)?;
    program.scratch_per_item = program.scratch_per_item.max(*stack);
    let start = loaded.kernel.output.start();
    let from = bench.buffer(input, Placement::Gtt)?;
    let guarded = bench.buffer(&[&GUARD, start.as_slice(), &GUARD].concat(), Placement::Gtt)?;
    let to = GpuAddr(guarded.address().0 + GUARD.len() as u64);
    let arguments = Arguments::default().address(from.address()).address(to).u32(items.cast_unsigned());
    let block = bench.buffer(&arguments.block(program.argument_bytes), Placement::Gtt)?;
    let done = Signal::new(bench.device(), 1)?;
    let launch = Launch { grid: loaded.kernel.grid(), group: *group };
    bench.queue.dispatch(&program, block.address(), &launch, Order::AfterPrevious, &done)?;
    bench.wait(&done)?;
    let after = guarded.read(0, start.len() + 2 * GUARD.len())?;
    let (before, rest) = after.split_at(GUARD.len());
    let (found, behind) = rest.split_at(start.len());
    if before != GUARD || behind != GUARD {
        return Err(CorpusError::Wrong("wrote outside its output".to_owned()));
    }
    if from.read(0, input.len())? != input {
        return Err(CorpusError::Wrong("changed its input".to_owned()));
    }
    Ok(found.to_vec())
}
