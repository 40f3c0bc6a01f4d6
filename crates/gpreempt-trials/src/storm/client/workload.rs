//! The self-test's kernels in a loop, on several queues at once.

use std::io::Write;
use std::sync::mpsc::{self, Sender};
use std::thread;

use anyhow::{Context, Result, bail};
use kfd_runtime::{Device, Runtime};
use kfd_suite::suite::{self, Test};
use kfd_suite::{Bench, Outcome};

/// Threads that share the tests, each with a compute queue and a copy queue of its own.
const THREADS: usize = 2;

pub(super) fn run(rounds: u64, long: u32, out: &mut impl Write) -> Result<()> {
    let runtime = Runtime::open()?;
    let device = runtime.device(0)?;
    let (sender, lines) = mpsc::channel();
    thread::scope(|scope| {
        let start = |share| {
            let sender = sender.clone();
            scope.spawn(move || loop_over(share, device, rounds, &sender))
        };
        let mut threads: Vec<_> = (0..THREADS).map(start).collect();
        let busy = sender.clone();
        threads.push(scope.spawn(move || keep_busy(device, rounds, long, &busy)));
        // Without this one the lines end with the threads.
        drop(sender);
        for line in lines {
            writeln!(out, "{line}")?;
            out.flush()?;
        }
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread panicked"),
        })
    })
}

/// Every test belongs to one thread, so its line is printed once for each round.
fn loop_over(share: usize, device: &Device, rounds: u64, lines: &Sender<String>) -> Result<()> {
    let mut bench = Bench::new(device)?;
    for round in 0..rounds {
        for test in suite::ALL.iter().skip(share).step_by(THREADS) {
            let line = run_one(test, &mut bench, round)?;
            if lines.send(line).is_err() {
                // The reader is gone; it says why.
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Runs a kernel of so many steps in every round: most tests end before a tracer could stop them.
pub(super) fn keep_busy(device: &Device, rounds: u64, steps: u32, lines: &Sender<String>) -> Result<()> {
    let mut bench = Bench::new(device)?;
    for round in 0..rounds {
        let outcome = bench.run(&suite::spin_for(steps)).with_context(|| format!("long kernel in round {round}"))?;
        if lines.send(line("long", round, outcome)?).is_err() {
            // The reader is gone; it says why.
            return Ok(());
        }
    }
    Ok(())
}

/// Runs a test with inputs of this round. Returns a line with name, round and checksum.
pub(super) fn run_one(test: &Test, bench: &mut Bench, round: u64) -> Result<String> {
    let outcome = test.run(bench, round).with_context(|| format!("{} in round {round}", test.name))?;
    line(test.name, round, outcome)
}

fn line(name: &str, round: u64, outcome: Outcome) -> Result<String> {
    match outcome.mismatch {
        Some(mismatch) => bail!("{name} in round {round}: {mismatch}"),
        None => Ok(format!("{name} {round} {}", outcome.checksum)),
    }
}
