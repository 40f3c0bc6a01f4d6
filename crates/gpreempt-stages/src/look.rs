//! What a look at queues costs, by their number.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use gpreempt_proto::Distribution;
use serde::Serialize;

use crate::arm::{Arm, Running, Scheduler, Watch, start_daemon, statistics};
use crate::sample::rounded;

/// Most queues of one process: the driver has 255.
const OF_ONE: u32 = 128;

#[derive(Args)]
pub(crate) struct Options {
    /// Numbers of queues, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,16,256")]
    queues: Vec<u32>,

    /// How long to look.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000)]
    duration_ms: u64,
}

#[derive(Debug, Serialize)]
struct Look {
    queues: u32,
    scheduler: Scheduler,
    looks: u64,
    look_us: f64,
    ns_per_queue: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Looks {
    looks: Vec<Look>,
}

pub(crate) fn measure(options: &Options) -> Result<Looks> {
    let directory = tempfile::tempdir().context("cannot make a directory")?;
    for name in ["online", "offline"] {
        fs::copy("/bin/kfd-timed-load", directory.path().join(name)).context("cannot copy the load")?;
    }
    let mut looks = Vec::new();
    for &queues in &options.queues {
        for scheduler in [Scheduler::Combined, Scheduler::Kernel] {
            let time = Duration::from_millis(options.duration_ms);
            looks.push(measure_once(queues, scheduler, time, directory.path())?);
        }
    }
    Ok(Looks { looks })
}

/// Idle queues of the higher level, polled every millisecond, beside one lower program that makes jobs compete.
fn measure_once(queues: u32, scheduler: Scheduler, time: Duration, directory: &Path) -> Result<Look> {
    let arm = Arm { scheduler, watch: Watch::Poll, period_us: Some(1000) };
    let processes = queues.div_ceil(OF_ONE);
    let _online = (0..processes).map(|_| start_queues(queues / processes, directory)).collect::<Result<Vec<_>>>()?;
    let mut offline = Command::new(directory.join("offline"));
    offline.args(["offline", "--depth", "4"]).stdin(Stdio::null()).stdout(Stdio::null());
    let _offline = Running(offline.spawn().context("cannot start a load")?);
    let daemon = start_daemon(&arm, directory)?;
    thread::sleep(Duration::from_millis(300));
    let before = looks_so_far()?;
    thread::sleep(time);
    let after = looks_so_far()?;
    daemon.end().context("the daemon")?;
    let looks = after.count - before.count;
    ensure!(looks > 0, "{scheduler:?} has not looked at {queues} queues");
    let total_us = after.mean_us * after.count as f64 - before.mean_us * before.count as f64;
    let look_us = total_us / looks as f64;
    Ok(Look {
        queues,
        scheduler,
        looks,
        look_us: rounded(look_us, 2),
        ns_per_queue: rounded(look_us * 1e3 / f64::from(queues), 0),
    })
}

/// Durations of looks: of the kernel if it looks, else of the daemon.
fn looks_so_far() -> Result<Distribution> {
    // The daemon answers with what the kernel told last, and asks it again.
    statistics()?;
    thread::sleep(Duration::from_millis(200));
    let stats = statistics()?;
    let kernel = stats.gpus.into_iter().find_map(|gpu| gpu.kernel);
    Ok(kernel.map_or(stats.daemon.poll, |kernel| kernel.look))
}

/// Starts a process with so many queues, which waits after it has opened them.
fn start_queues(queues: u32, directory: &Path) -> Result<Running> {
    let mut load = Command::new(directory.join("online"));
    load.args(["queues", "--member", "--queues", &queues.to_string(), "--packets", "1"]);
    let mut load = Running(load.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start a load")?);
    let output = load.0.stdout.take().context("the load has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    ensure!(line.trim() == "open", "the load with {queues} queues says {line:?}");
    Ok(load)
}
