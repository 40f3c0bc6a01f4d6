//! The null measurement: how late threads wake, with nothing of ours at work.
//!
//! Counted instructions have one thread of the emulator for all processors of the guest, which take turns. A wake-up
//! that falls into the turn of another processor waits for its end: no time of a table means less than this.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use linux_host::clock;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use serde::Serialize;

use crate::sample::Percentiles;

#[derive(Args)]
pub(crate) struct Options {
    /// How often to sleep.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    sleeps: u32,

    /// For how long.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1000)]
    sleep_us: u64,
}

#[derive(Serialize)]
pub(crate) struct Null {
    processors: usize,
    /// Wake-ups of an ordinary thread, all other processors idle.
    idle: Percentiles,
    /// Wake-ups of an ordinary thread while another one is always busy.
    busy: Percentiles,
    /// Wake-ups of a real-time thread while another thread is always busy.
    busy_real_time: Percentiles,
}

pub(crate) fn measure(options: &Options) -> Result<Null> {
    let idle = lateness(options)?;
    let end = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&end);
    let busy_thread = thread::spawn(move || {
        while !seen.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let busy = lateness(options)?;
    kfd::sched::set_real_time().context("cannot become a real-time thread")?;
    let busy_real_time = lateness(options)?;
    end.store(true, Ordering::Relaxed);
    // It only spins.
    let _ = busy_thread.join();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    Ok(Null { processors, idle, busy, busy_real_time })
}

/// Sleeps again and again until stated instants, and sums up how late it wakes.
fn lateness(options: &Options) -> Result<Percentiles> {
    let mut late = Vec::new();
    for _ in 0..options.sleeps {
        let due = clock::monotonic() + Duration::from_micros(options.sleep_us);
        let until = TimeSpec::from_duration(due);
        clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &until)
            .context("cannot sleep")?;
        late.push(clock::monotonic().saturating_sub(due).as_nanos() as f64 / 1e3);
    }
    Percentiles::of(late).context("--sleeps is 0; there is nothing to measure")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_wakes_before_its_time() {
        let late = lateness(&Options { sleeps: 5, sleep_us: 100 }).unwrap();
        assert!(late.count == 5 && late.p50_us >= 0.0);
        assert!(lateness(&Options { sleeps: 0, sleep_us: 1 }).is_err());
    }
}
