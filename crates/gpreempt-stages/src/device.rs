//! What the device of kernel/vmi300 counts.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// Counters of the first gpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceCounters {
    /// Runlist cycles that took something off the gpu.
    pub(crate) unmaps: u64,
    /// Packets that ended.
    pub(crate) retired: u64,
}

impl DeviceCounters {
    /// Reads them from debugfs.
    pub(crate) fn read() -> Result<DeviceCounters> {
        let path = first_gpu().context("no device of kernel/vmi300 in debugfs; this program runs in the guest")?;
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        DeviceCounters::parse(&text).with_context(|| format!("{} lacks a counter", path.display()))
    }

    fn parse(text: &str) -> Option<DeviceCounters> {
        let count = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(found, _)| *found == name).and_then(|(_, value)| value.parse().ok())
        };
        Some(DeviceCounters { unmaps: count("unmaps")?, retired: count("retired")? })
    }
}

fn first_gpu() -> Option<PathBuf> {
    let devices = fs::read_dir("/sys/kernel/debug/vmi300").ok()?;
    let mut paths: Vec<PathBuf> = devices.flatten().map(|device| device.path().join("0")).collect();
    paths.sort();
    paths.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_lines_of_name_and_number() {
        let counters = DeviceCounters::parse("runlists 9\nunmaps 7\nidle_unmaps 1\nretired 40\n");
        assert_eq!(counters, Some(DeviceCounters { unmaps: 7, retired: 40 }));
        assert_eq!(DeviceCounters::parse("unmaps x\nretired 1\n"), None);
    }
}
