//! Prints the checksum of the exercise in a program, for the comparison with a module of the kernel.

use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Instant;

use gpreempt_core_exercise::{GpcxResult, gpcx_init, gpcx_result, gpcx_run, gpcx_size};

/// Decisions, unless the first argument says another number.
const DECISIONS: u32 = 100_000;
/// The seed, unless the second argument says another number.
const SEED: u64 = 1;

extern "C" fn clock() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(BEGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Memory in pieces of the alignment that the exercise wants.
#[derive(Clone)]
#[repr(align(64))]
struct Piece {
    _bytes: [u8; 64],
}

/// Runs the exercise.
fn run(decisions: u32, seed: u64) -> Result<GpcxResult, i32> {
    let mut result = GpcxResult::default();
    let mut memory = vec![Piece { _bytes: [0; 64] }; gpcx_size().div_ceil(size_of::<Piece>())];
    let (start, size) = (memory.as_mut_ptr(), size_of_val(&*memory));
    // SAFETY: the memory is as large as the exercise says, and is used by it alone until it is freed.
    let answers = unsafe {
        [
            gpcx_init(start.cast(), size, seed),
            gpcx_run(start.cast(), decisions, Some(clock)),
            gpcx_result(start.cast(), &mut result),
        ]
    };
    answers.into_iter().find(|answer| *answer != 0).map_or(Ok(result), Err)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (decisions, seed) = (arguments.next(), arguments.next());
    let decisions = decisions.map_or(Ok(DECISIONS), |text| text.parse());
    let seed = seed.map_or(Ok(SEED), |text| text.parse());
    let (Ok(decisions), Ok(seed)) = (decisions, seed) else {
        eprintln!("usage: gpreempt-core-exercise [DECISIONS [SEED]]; both are numbers");
        return ExitCode::from(2);
    };
    match run(decisions, seed) {
        Ok(result) => {
            let GpcxResult { checksum, decisions, plans, entries, preempts, polls, decide_ns, longest_ns } = result;
            println!(
                "{{\"checksum\": \"{checksum:016x}\", \"decisions\": {decisions}, \"plans\": {plans}, \"entries\": \
                 {entries}, \"preempts\": {preempts}, \"polls\": {polls}, \"ns_per_decision\": {}, \"longest_ns\": \
                 {longest_ns}}}",
                decide_ns.checked_div(decisions).unwrap_or(0)
            );
            ExitCode::SUCCESS
        }
        Err(errno) => {
            eprintln!("the exercise failed with error {errno}");
            ExitCode::FAILURE
        }
    }
}
