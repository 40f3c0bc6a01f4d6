//! Processor time of processes and threads, from `/proc`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

/// Processor times that the statistics show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// All threads of the daemon.
    pub daemon: Duration,
    /// The deciding thread.
    pub watch: Duration,
    /// The actuator; zero while there is none.
    pub actuator: Duration,
}

impl CpuTimes {
    /// Reads them; to be called by the deciding thread. What cannot be read is zero.
    #[must_use]
    pub fn read(actuator_pid: Option<u32>) -> CpuTimes {
        CpuTimes {
            daemon: process_cpu(None).unwrap_or_default(),
            watch: thread_cpu().unwrap_or_default(),
            actuator: actuator_pid.and_then(|pid| process_cpu(Some(pid))).unwrap_or_default(),
        }
    }
}

/// Processor time of a process, of this one unless a number is given, all its threads together; `None` if it is gone. In
/// clock ticks, 10 ms usually.
#[must_use]
pub fn process_cpu(pid: Option<u32>) -> Option<Duration> {
    let who = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    ticks(&fs::read_to_string(Path::new("/proc").join(who).join("stat")).ok()?)
}

/// Processor time of the calling thread. In nanoseconds where the kernel counts so, else in clock ticks.
#[must_use]
pub fn thread_cpu() -> Option<Duration> {
    let exact = fs::read_to_string("/proc/thread-self/schedstat").ok();
    if let Some(nanos) = exact.and_then(|text| text.split_whitespace().next()?.parse().ok()) {
        return Some(Duration::from_nanos(nanos));
    }
    ticks(&fs::read_to_string("/proc/thread-self/stat").ok()?)
}

/// User and system time of a `stat` line. The name in parentheses may contain anything, parentheses included.
fn ticks(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    // The state is field 3 of the manual page, the times are 14 and 15.
    let mut fields = rest.split_whitespace().skip(14 - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let per_second = sysconf(SysconfVar::CLK_TCK).ok()??;
    Some(Duration::from_secs(1).mul_f64(user.saturating_add(system) as f64 / per_second as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let line =
            "12 (a ) R 1 (b) S 1 12 12 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 1 0 500 1000 10 18446744073709551615";
        let per_second = sysconf(SysconfVar::CLK_TCK).unwrap().unwrap() as f64;
        assert_eq!(ticks(line), Some(Duration::from_secs_f64(200.0 / per_second)));
    }

    #[test]
    fn a_line_that_is_cut_off_or_empty_has_no_times() {
        assert_eq!(ticks(""), None);
        assert_eq!(ticks("12 (name) S 1 12"), None);
        assert_eq!(ticks("12 (name) S 1 12 12 0 -1 4194304 100 0 0 0 many 50"), None);
    }

    #[test]
    fn work_shows_in_the_times_of_thread_and_process() {
        let (thread, process) = (thread_cpu().unwrap(), process_cpu(None).unwrap());
        let mut sum = 0u64;
        // The times only move when work is done, however long that takes on a loaded machine.
        while thread_cpu().unwrap() < thread + Duration::from_millis(30) || process_cpu(None).unwrap() <= process {
            sum = (0..100_000u64).fold(sum, |sum, n| std::hint::black_box(sum.wrapping_add(n * n)));
        }
        assert_eq!(process_cpu(Some(u32::MAX)), None, "there is no such process");
        let read = CpuTimes::read(Some(std::process::id()));
        assert!(read.watch > thread && read.daemon > process && read.actuator > process);
    }
}
