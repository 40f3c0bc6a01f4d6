//! Stops and resumes a process of others at random moments, as a policy host that holds and releases its job.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use crate::cases::Random;
use crate::control::{Control, POLLING};
use crate::report;

const JOB: u64 = 7;
const LEVEL: u8 = 5;
/// Longer than any stop here: holds end when they are released.
const HOLD_MS: u64 = 60_000;

#[derive(Args)]
pub(crate) struct Options {
    /// The process.
    #[arg(long)]
    pid: u32,

    /// How often to stop it at most.
    #[arg(long, value_name = "N", default_value_t = 200)]
    stops: u32,

    /// Longest time between two changes.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 20)]
    longest_ms: u64,
}

/// Holds and releases, and reports how often the module has stopped the process.
pub(crate) fn storm(options: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    control.job(JOB, LEVEL)?;
    control.process(options.pid, JOB)?;
    let before = control.gpu()?;
    let mut random = Random(u64::from(options.pid));
    let mut pause = || {
        let longest_us = options.longest_ms.saturating_mul(1000).max(1);
        sleep(Duration::from_micros(1 + random.below(longest_us)));
    };
    for _ in 0..options.stops {
        if !linux_host::process::is_alive(options.pid) {
            break;
        }
        control.hold(JOB, LEVEL, HOLD_MS)?;
        pause();
        control.hold(JOB, LEVEL, 0)?;
        pause();
    }
    let after = control.gpu()?;
    let (stops, failures) = (after.preempts - before.preempts, after.failures - before.failures);
    report("stops", stops);
    report("failures", failures);
    ensure!(failures == 0, "{failures} entries failed");
    Ok(())
}
