//! What the device's firmware counted: /sys/kernel/debug/vmi300.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

fn file() -> Result<PathBuf> {
    let devices = fs::read_dir("/sys/kernel/debug/vmi300").context("there is no device of kernel/vmi300")?;
    let device = devices.flatten().map(|entry| entry.path()).min().context("no device has counters")?;
    Ok(device.join("0"))
}

/// Reads a counter of the first gpu.
pub(crate) fn count(name: &str) -> Result<u64> {
    let text = fs::read_to_string(file()?).context("cannot read the counters")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("there is no counter `{name}`"))?.parse()?)
}
