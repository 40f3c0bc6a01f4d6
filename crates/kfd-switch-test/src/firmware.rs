//! What the device's firmware counted: /sys/kernel/debug/vmi300.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

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

/// Reads a counter when it has not changed for a while. The driver does not wait until the firmware has read a runlist.
pub(crate) fn settled(name: &str) -> Result<u64> {
    let mut before = count(name)?;
    loop {
        sleep(Duration::from_millis(50));
        let now = count(name)?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
}

/// Waits until no queue is left.
pub(crate) fn await_no_queue() -> Result<()> {
    let begin = Instant::now();
    while count("mapped")? > 0 {
        if begin.elapsed() > Duration::from_secs(60) {
            bail!("{} queues are left on the gpu", count("mapped")?);
        }
        sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Waits until the driver has put away all processes but this one: it takes their queues off after they have ended, in
/// cycles that a case would count.
pub(crate) fn await_no_other_process() -> Result<()> {
    let begin = Instant::now();
    loop {
        let own = std::process::id().to_string();
        let known = fs::read_dir("/sys/class/kfd/kfd/proc").context("the driver does not list processes")?;
        let others = known.flatten().filter(|entry| *entry.file_name() != *own).count();
        if others == 0 {
            return Ok(());
        }
        if begin.elapsed() > Duration::from_secs(60) {
            bail!("{others} processes of earlier cases are left in the driver");
        }
        sleep(Duration::from_millis(2));
    }
}
