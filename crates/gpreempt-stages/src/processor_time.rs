//! Processor time of the daemon's processes and of the module's threads.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use linux_host::process::{ProcStat, pids, threads};

/// Names of the module's threads begin with this.
const KERNEL_THREADS: &str = "gpreempt";
/// The parent of all threads of the kernel.
const KTHREADD: u32 = 2;

/// Returns the processor time so far of a process, all its descendants, and the threads of the module. What has ended
/// is not counted, so nothing that matters may end between two readings.
pub(crate) fn of_scheduler(daemon: Option<u32>) -> Duration {
    let all: Vec<(u32, ProcStat)> = pids().filter_map(|pid| Some((pid, ProcStat::read(pid)?))).collect();
    let mut ours: HashSet<u32> = daemon.into_iter().collect();
    loop {
        let before = ours.len();
        ours.extend(
            all.iter().filter(|(_, stat)| ours.contains(&stat.parent)).map(|(pid, _)| *pid).collect::<Vec<_>>(),
        );
        if ours.len() == before {
            break;
        }
    }
    let of_module = |stat: &ProcStat| stat.parent == KTHREADD && stat.comm.starts_with(KERNEL_THREADS);
    ours.extend(all.iter().filter(|(_, stat)| of_module(stat)).map(|(pid, _)| *pid));
    ours.into_iter().map(of_process).sum()
}

fn of_process(pid: u32) -> Duration {
    let path = |thread: u32| format!("/proc/{pid}/task/{thread}/schedstat");
    let texts = threads(pid).filter_map(|thread| fs::read_to_string(path(thread)).ok());
    texts.filter_map(|text| parse(&text)).sum()
}

/// The first number of the file is the time on a processor, in nanoseconds.
fn parse(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_busy_process_grows() {
        let own = std::process::id();
        let before = of_scheduler(Some(own));
        let mut number = 1u64;
        while of_scheduler(Some(own)) <= before {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert_eq!(parse("1500 20 3\n"), Some(Duration::from_nanos(1500)));
        assert_eq!(parse(""), None);
    }
}
