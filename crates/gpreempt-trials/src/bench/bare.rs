//! The yardstick of watching: a loop that only sleeps and reads.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kfd::{Pid, ProcessMemory};
use linux_host::clock;

use super::thread::Usage;

/// Processor time of a loop that sleeps and reads as often as a thread did that used `usage` in `window`, from the
/// memory of a process.
pub(super) fn cpu_ns(usage: Usage, window: Duration, pid: u32) -> Result<u64> {
    let memory = ProcessMemory::open_read_only(Pid(pid))?;
    let address = readable(pid)?;
    memory.read_u64(address)?;
    let looped = thread::spawn(move || {
        // As punctual as the thread that it is compared with.
        let _ = gpreemptd::os::priority::raise();
        let begun = clock::thread_cpu();
        let nap = window.checked_div(u32::try_from(usage.sleeps.max(1)).unwrap_or(u32::MAX)).unwrap_or_default();
        let mut read = 0;
        for slept in 1..=usage.sleeps {
            thread::sleep(nap);
            let wanted = usage.reads * slept / usage.sleeps;
            while read < wanted {
                let _ = std::hint::black_box(memory.read_u64(address));
                read += 1;
            }
        }
        clock::thread_cpu().saturating_sub(begun)
    });
    let Ok(used) = looped.join() else { bail!("the bare loop failed") };
    Ok(u64::try_from(used.as_nanos()).unwrap_or(u64::MAX))
}

/// An address of a process that can be read: that of its stack.
fn readable(pid: u32) -> Result<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).context("cannot see the memory of a program")?;
    let stack = maps.lines().find(|line| line.ends_with("[stack]"));
    let end = stack.and_then(|line| line.split_whitespace().next()?.split_once('-')).map(|(_, end)| end);
    let end = end.and_then(|end| u64::from_str_radix(end, 16).ok()).context("a program has no stack")?;
    // The highest words hold the name of the program.
    Ok(end - 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_reads_take_more_time() {
        let pid = std::process::id();
        let used = |reads| cpu_ns(Usage { cpu_ns: 0, sleeps: 20, reads }, Duration::from_micros(200), pid).unwrap();
        assert!(used(100_000) > used(0));
    }
}
