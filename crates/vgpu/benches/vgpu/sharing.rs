//! What this executable measures as one of several programs on a virtual GPU, started by [`crate::contention`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kfd::{Grace, Kfd, Pid, QueueId, Tracer};
use kfd_runtime::{Device, Order, Queue, Signal};
use linux_host::process::{ProcStat, pids, read, threads};
use serde_json::{Value, json};
use vgpu::launch::Running;
use vgpu::protocol::{CycleStatus, Status};

use crate::client::{self, Program};
use crate::crowd::{ENDLESS, Other, Shared};
use crate::measure::percentile;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Idle programs beside the one that measures.
pub(crate) const CROWDS: [usize; 3] = [1, 4, 16];

fn endless() -> String {
    ENDLESS.to_string()
}

/// A program whose queues are stopped and let go.
struct Victim {
    tracer: Tracer,
    queues: Vec<QueueId>,
    gpu: Running,
}

impl Victim {
    fn attach(pid: u32) -> Result<Self> {
        let (tracer, _) = Tracer::attach(Arc::new(Kfd::open()?), Pid(pid))?;
        let queues = tracer.snapshot()?.iter().map(|entry| QueueId(entry.queue_id)).collect();
        Ok(Self { tracer, queues, gpu: Running::own()? })
    }

    /// All cycles so far.
    fn cycles(&self, cause: &str) -> Result<CycleStatus> {
        let status = self.gpu.status()?;
        let of = |gpu: &vgpu::protocol::GpuStatus| gpu.cycles.get(cause).copied();
        Ok(status.gpus.first().and_then(of).unwrap_or_default())
    }

    /// Stops and lets go so often; the time of each call that stops, and until the last wave had stopped.
    fn stop(&self, rounds: u32, mut between: impl FnMut()) -> Result<(Vec<Duration>, Vec<Duration>)> {
        let (mut calls, mut stops) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let before = self.cycles("suspend")?.stop_total_ns;
            std::thread::sleep(Duration::from_millis(2));
            let begin = Instant::now();
            self.tracer.suspend(&self.queues, Grace::SHORTEST)?;
            calls.push(begin.elapsed());
            stops.push(Duration::from_nanos(self.cycles("suspend")?.stop_total_ns - before));
            self.tracer.resume(&self.queues)?;
            between();
        }
        Ok((calls, stops))
    }
}

fn percentiles(samples: &mut [Duration]) -> Value {
    json!({ "p50": percentile(samples, 50), "p99": percentile(samples, 99), "samples": samples.len() })
}

/// From the request to the last wave stopped, beside a futex that wakes and is answered under the same load.
pub(crate) fn stop() -> Result<Value> {
    const ROUNDS: u32 = 400;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("page");
    let shared = Shared::open(&path)?;
    let _pong = Other::start(&["pong", &path.to_string_lossy()])?;
    let busy = Other::start(&["busy", "64", &endless()])?;
    let victim = Victim::attach(busy.pid())?;
    let mut trips = Vec::new();
    let (mut calls, mut stops) = victim.stop(ROUNDS, || {
        std::thread::sleep(Duration::from_millis(2));
        let begin = Instant::now();
        shared.round_trip();
        trips.push(begin.elapsed());
    })?;
    let waves = victim.cycles("suspend")?.waves;
    Ok(json!({
        "call": percentiles(&mut calls),
        "stop": percentiles(&mut stops),
        "futex": percentiles(&mut trips),
        "waves": waves as f64 / f64::from(ROUNDS),
    }))
}

/// What a cycle costs with idle programs on the gpu, and with a busy one.
pub(crate) fn cycles() -> Result<Value> {
    const ROUNDS: u32 = 100;
    let mut found = Vec::new();
    let mut idle = Vec::new();
    for crowd in CROWDS {
        let more = Other::start_many(&["idle"], crowd - idle.len())?;
        idle.extend(more);
        let victim = Victim::attach(idle[0].pid())?;
        found.push(json!({ "idle": crowd, "cost": cost(&victim, ROUNDS)? }));
    }
    drop(idle);
    let busy = Other::start(&["busy", "64", &endless()])?;
    let victim = Victim::attach(busy.pid())?;
    found.push(json!({ "idle": 0, "cost": cost(&victim, ROUNDS)? }));
    Ok(json!({ "crowds": found }))
}

fn cost(victim: &Victim, rounds: u32) -> Result<Value> {
    let both = || -> Result<[u64; 3]> {
        let (one, other) = (victim.cycles("suspend")?, victim.cycles("resume")?);
        Ok([one.count + other.count, one.total_ns + other.total_ns, one.modelled_ns + other.modelled_ns])
    };
    let before = both()?;
    let (mut calls, _) = victim.stop(rounds, || {})?;
    let after = both()?;
    let count = (after[0] - before[0]).max(1) as f64;
    let mean = |n: usize| (after[n] - before[n]) as f64 / count / 1e3;
    Ok(json!({ "whole": mean(1), "modelled": mean(2), "call": percentiles(&mut calls) }))
}

/// Doorbells with no other process on the gpu, and with fifteen.
pub(crate) fn doorbells() -> Result<Value> {
    let mut program = Program::new(client::bench()?, "fill", &[1, 64])?;
    let mut alone = (submission(program.device())?, client::first_wave(&mut program, Duration::from_millis(1), 300)?);
    let others = Other::start_many(&["idle"], 15)?;
    let crowded = (submission(program.device())?, client::first_wave(&mut program, Duration::from_millis(1), 300)?);
    drop(others);
    alone.0 = alone.0.min(submission(program.device())?);
    Ok(json!({
        "alone": { "submission": alone.0, "wave": alone.1 },
        "crowded": { "submission": crowded.0, "wave": crowded.1 },
    }))
}

/// Nanoseconds that putting a packet into a ring takes: packet, write index and doorbell. The fastest of many batches.
fn submission(device: &Device) -> Result<f64> {
    const BATCH: u32 = 100;
    const BATCHES: usize = 300;
    let mut queue = Queue::new(device)?;
    let mut fastest = f64::INFINITY;
    for _ in 0..BATCHES {
        let signal = Signal::new(device, BATCH.into())?;
        let begin = Instant::now();
        for _ in 0..BATCH {
            queue.barrier_and(&[], Order::AfterPrevious, &signal)?;
        }
        fastest = fastest.min(begin.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH));
        queue.wait(&signal, Duration::from_secs(60))?;
    }
    Ok(fastest)
}

/// What 32 idle programs cost with their executors and the supervisor, in parts of a core.
pub(crate) fn idle_cost() -> Result<Value> {
    const CLIENTS: usize = 32;
    const TIME: Duration = Duration::from_secs(2);
    let clients = Other::start_many(&["idle"], CLIENTS)?;
    let status = Running::own()?.status()?;
    std::thread::sleep(Duration::from_millis(300));
    let measured = |begin: f64, end: f64, time: Duration| (end - begin) / time.as_secs_f64();
    let programs: BTreeSet<u32> = clients.iter().map(Other::pid).collect();
    let (begin, before) = (Instant::now(), used(&status, &programs));
    std::thread::sleep(TIME);
    let (after, time) = (used(&status, &programs), begin.elapsed());
    let cycles = |status: &Status| -> u64 {
        status.gpus.iter().flat_map(|gpu| gpu.cycles.values()).map(|cycle| cycle.count).sum()
    };
    let later = Running::own()?.status()?;
    Ok(json!({
        "clients": CLIENTS,
        "supervisor": measured(before.0, after.0, time),
        "executors": measured(before.1, after.1, time),
        "cycles": (cycles(&later) - cycles(&status)) as f64 / (time.as_secs_f64() + 0.3),
    }))
}

/// Returns the seconds that the supervisor has run, and those of some programs and their executors.
fn used(status: &Status, programs: &BTreeSet<u32>) -> (f64, f64) {
    let parent = |pid: u32| ProcStat::read(pid).map(|stat| stat.parent);
    let belongs = |pid: u32| programs.contains(&pid) || parent(pid).is_some_and(|parent| programs.contains(&parent));
    (run_time(status.supervisor), pids().filter(|pid| belongs(*pid)).map(run_time).sum())
}

/// Returns the seconds that all threads of a process have run: by schedstat, because clock ticks are too coarse.
fn run_time(pid: u32) -> f64 {
    let texts = threads(pid).filter_map(|thread| read(pid, &format!("task/{thread}/schedstat")).ok());
    let nanoseconds = texts.filter_map(|text| String::from_utf8_lossy(&text).split(' ').next()?.parse::<f64>().ok());
    nanoseconds.sum::<f64>() / 1e9
}

/// Two busy programs: what each gets, and what both get done against one alone.
pub(crate) fn together() -> Result<Value> {
    const ROUNDS: u32 = 5;
    const TIME: Duration = Duration::from_millis(400);
    /// Kernels of a few milliseconds.
    const LOOPS: &str = "10000";
    let directory = tempfile::tempdir()?;
    let start = |name: &str, groups: &str| -> Result<(Other, Shared)> {
        let path = directory.path().join(name);
        let shared = Shared::open(&path)?;
        Ok((Other::start(&["busy", groups, LOOPS, &path.to_string_lossy()])?, shared))
    };
    let measure = |all: [&Shared; 2]| -> [f64; 2] {
        // What the other had under way ends.
        std::thread::sleep(Duration::from_millis(100));
        let done = || all.map(|one| one.count().load(Ordering::Relaxed));
        let (begin, before) = (Instant::now(), done());
        std::thread::sleep(TIME);
        let (after, time) = (done(), begin.elapsed().as_secs_f64());
        [0, 1].map(|n| (after[n] - before[n]) as f64 / time)
    };
    let (_large, large) = start("large", "96")?;
    let (small_program, small) = start("small", "32")?;
    // Alone and together by turns, because machines are shared.
    let (mut alone, mut both) = (0.0, [0.0; 2]);
    for _ in 0..ROUNDS {
        small_program.signal(libc::SIGSTOP);
        alone += measure([&large, &small])[0];
        small_program.signal(libc::SIGCONT);
        let found = measure([&large, &small]);
        both = [both[0] + found[0], both[1] + found[1]];
    }
    Ok(json!({ "alone": alone, "large": both[0], "small": both[1] }))
}
