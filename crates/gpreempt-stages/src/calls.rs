//! The driver's part of a one-cycle switch: a call that changes nothing makes no cycle.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use kfd::{Grace, Pid, SwitchAction, SwitchEntry, Switcher};
use linux_host::process::ProcStat;
use serde::Serialize;

use crate::arm::Running;
use crate::sample::Percentiles;

#[derive(Args)]
pub(crate) struct Options {
    /// How many calls to make.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    calls: u32,
}

#[derive(Serialize)]
pub(crate) struct Calls {
    /// Time of a call.
    switch_without_cycle: Percentiles,
}

/// Resumes a process that runs, again and again.
pub(crate) fn measure(options: &Options) -> Result<Calls> {
    let mut load = Command::new("/bin/kfd-timed-load");
    load.args(["offline", "--depth", "4"]).stdin(Stdio::null()).stdout(Stdio::null());
    let load = Running(load.spawn().context("cannot start a load")?);
    let switcher = Switcher::open()?;
    while switcher.queues(Pid(load.pid()))?.is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let started = ProcStat::read(load.pid()).context("the load has ended")?.start;
    let entry = SwitchEntry { pid: Pid(load.pid()), started, queue: None, action: SwitchAction::Resume };
    let mut times = Vec::new();
    for _ in 0..options.calls {
        let begin = Instant::now();
        let switched = switcher.switch(&[entry], Grace::HARDWARE)?;
        times.push(begin.elapsed().as_nanos() as f64 / 1e3);
        ensure!(switched.cycles == 0 && switched.results == [Ok(0)], "a call changed something: {switched:?}");
    }
    let switch_without_cycle = Percentiles::of(times).context("--calls is 0; there is nothing to measure")?;
    Ok(Calls { switch_without_cycle })
}
