//! The machine as a whole, as `/proc/stat` and `/proc/loadavg` show it. See proc_stat(5) and proc_loadavg(5).

use std::fs;

/// Processor time of the whole machine since it started, all cores together, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// Ticks in which a core did work, interrupts included.
    pub busy: u64,
    /// Ticks in which a core had work and the hypervisor ran another machine.
    pub steal: u64,
    /// Ticks in which a core had nothing to do.
    pub idle: u64,
}

impl CpuTicks {
    /// Reads the first line of `/proc/stat`.
    #[must_use]
    pub fn read() -> Option<CpuTicks> {
        CpuTicks::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the file. Kernels may append fields; guest time is part of user time already.
    #[must_use]
    pub fn parse(text: &str) -> Option<CpuTicks> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let fields: Vec<u64> = line.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = fields[..] else { return None };
        Some(CpuTicks { busy: user + nice + system + irq + softirq, steal, idle: idle + iowait })
    }
}

/// Returns the number of threads that run, are ready to run, or wait for a disk, averaged over the last minute.
#[must_use]
pub fn load_average() -> Option<f64> {
    parse_load(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn parse_load(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_that_of_the_last_minute() {
        assert_eq!(parse_load("2.97 1.88 0.92 3/412 12345\n"), Some(2.97));
        assert_eq!((parse_load(""), parse_load("much\n")), (None, None));
        assert!(load_average().is_some_and(|load| load >= 0.0));
    }

    #[test]
    fn work_interrupts_steal_and_rest_are_told_apart() {
        let text = "cpu  100 20 30 1000 5 7 8 9 50 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(CpuTicks::parse(text), Some(CpuTicks { busy: 165, steal: 9, idle: 1005 }));
        assert_eq!(CpuTicks::parse("cpu0 1 2 3 4 5 6 7 8\n"), None);
        assert_eq!(CpuTicks::parse("cpu  1 2 3\n"), None);
    }

    #[test]
    fn this_machine_has_a_total() {
        let ticks = CpuTicks::read().expect("every Linux has it");
        assert!(ticks.busy + ticks.idle > 0);
    }
}
