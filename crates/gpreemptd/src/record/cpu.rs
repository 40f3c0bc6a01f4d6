//! Processor time of the daemon, of its deciding thread and of the actuator, from the kernel's clocks: no file is
//! opened.

use std::time::Duration;

use linux_host::clock;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// Processor times since each started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// The daemon's process, all threads together.
    pub daemon: Duration,
    /// The calling thread, which is the deciding one.
    pub watch: Duration,
    /// The actuator's process; zero without one.
    pub actuator: Duration,
}

impl CpuTimes {
    /// Reads the clocks. The time of a process that is gone is zero.
    #[must_use]
    pub fn read(actuator_pid: Option<u32>) -> CpuTimes {
        CpuTimes {
            daemon: of_clock(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap_or_default(),
            watch: clock::thread_cpu(),
            actuator: actuator_pid.and_then(of_process).unwrap_or_default(),
        }
    }
}

fn of_process(pid: u32) -> Option<Duration> {
    of_clock(clock_getcpuclockid(Pid::from_raw(pid.try_into().ok()?)).ok()?)
}

fn of_clock(clock: ClockId) -> Option<Duration> {
    clock_gettime(clock).ok().map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_times_of_thread_and_process() {
        let before = CpuTimes::read(Some(std::process::id()));
        let mut sum = 0u64;
        let worked = |now: CpuTimes| now.watch > before.watch + Duration::from_millis(30) && now.daemon > before.daemon;
        // The times only move when work is done, however long that takes on a loaded machine.
        while !worked(CpuTimes::read(None)) {
            sum = (0..100_000u64).fold(sum, |sum, n| std::hint::black_box(sum.wrapping_add(n * n)));
        }
        let after = CpuTimes::read(Some(std::process::id()));
        assert!(after.actuator > before.actuator && after.actuator >= after.watch);
        assert_eq!(CpuTimes::read(Some(u32::MAX)).actuator, Duration::ZERO, "there is no such process");
    }
}
