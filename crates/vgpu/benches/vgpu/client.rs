//! What this executable does as a program on the virtual GPU, started by [`crate::processes`].

use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kfd_abi::hsa::AmdSignal;
use kfd_runtime::{Arguments, Buffer, CodeObject, Device, Executable, Kernel, Launch, Order, Placement, Runtime};
use kfd_runtime::{Result, Signal};
use kfd_suite::Bench;
use kfd_suite::suite;
use linux_host::process::{ProcStat, pids};
use serde_json::{Value, json};
use vgpu::sys::monotonic_raw_ns;

use crate::measure::percentile;
use crate::{crowd, sharing};

/// Where a signal holds the time at which its packet started.
const START: u64 = std::mem::offset_of!(AmdSignal, start_ts) as u64;

/// Bytes for what a kernel writes: a number for each work item of the largest launch, 96 workgroups of a wave.
const OUT: usize = 96 * 64 * 4;

/// The argument that makes a client of this executable; the task follows.
pub(crate) const OPTION: &str = "--client";

/// Runs a task and prints what it found as JSON.
pub(crate) fn main(task: Option<&str>, arguments: &[String]) -> ExitCode {
    type Failure = Box<dyn std::error::Error + Send + Sync>;
    let found: std::result::Result<Value, Failure> = match task {
        Some("doorbell") => doorbell().map_err(Into::into),
        Some("share") => share().map_err(Into::into),
        Some("hooks") => Ok(hooks()),
        Some("spin") => spin().map_err(Into::into),
        Some("idle") => crowd::idle().map_err(Into::into),
        Some("busy") => crowd::busy(arguments).map_err(Into::into),
        Some("pong") => crowd::pong(arguments).map_err(Into::into),
        Some("stop") => sharing::stop(),
        Some("cycles") => sharing::cycles(),
        Some("doorbells") => sharing::doorbells(),
        Some("idle-cost") => sharing::idle_cost(),
        Some("together") => sharing::together(),
        _ => Ok(json!({ "error": "no such task" })),
    };
    println!("{}", found.unwrap_or_else(|error| json!({ "error": error.to_string() })));
    ExitCode::SUCCESS
}

/// A kernel of the suite with its arguments on the virtual GPU.
pub(crate) struct Program {
    bench: Bench,
    kernel: Kernel,
    arguments: Buffer,
    signal: Signal,
    _code: Executable,
    _out: Buffer,
}

impl Program {
    /// Takes one address and numbers.
    pub(crate) fn new(bench: Bench, name: &str, numbers: &[u32]) -> Result<Self> {
        let mut bench = bench;
        let job = suite::find(name).and_then(|test| test.job(1)).expect("a kernel of the suite");
        let code = Executable::load(&mut bench.queue, &CodeObject::parse(job.object)?)?;
        let kernel = code.kernel(job.kernel)?;
        let out = bench.device().allocate(OUT, Placement::Gtt)?;
        let arguments = numbers.iter().fold(Arguments::default().address(out.address()), |all, n| all.u32(*n));
        let arguments = bench.buffer(&arguments.block(kernel.argument_bytes), Placement::Gtt)?;
        let signal = Signal::new(bench.device(), 1)?;
        Ok(Self { bench, kernel, arguments, signal, _code: code, _out: out })
    }

    pub(crate) fn device(&self) -> &Device {
        self.bench.device()
    }

    /// Runs it to its end.
    pub(crate) fn run(&mut self, launch: &Launch) -> Result<()> {
        self.signal.set(1)?;
        self.bench.queue.dispatch(
            &self.kernel,
            self.arguments.address(),
            launch,
            Order::AfterPrevious,
            &self.signal,
        )?;
        self.bench.wait(&self.signal)
    }
}

/// The first gpu.
pub(crate) fn bench() -> Result<Bench> {
    let runtime = Runtime::open()?;
    Bench::new(runtime.device(0)?)
}

/// From the doorbell to the first wave: shortly after the queue was busy, and after a calm.
fn doorbell() -> Result<Value> {
    let mut program = Program::new(bench()?, "fill", &[1, 64])?;
    Ok(json!({
        "soon": first_wave(&mut program, Duration::from_millis(1), 1000)?,
        "calm": first_wave(&mut program, Duration::from_millis(80), 50)?,
    }))
}

/// From the doorbell to the first wave of a kernel, so often with a pause before each.
pub(crate) fn first_wave(program: &mut Program, pause: Duration, count: u32) -> Result<Value> {
    let mut samples = Vec::new();
    for _ in 0..count {
        std::thread::sleep(pause);
        let rung = monotonic_raw_ns();
        program.run(&Launch::linear(1, 64))?;
        // SAFETY: the signal lives, and is mapped at its address in this process. The device has written its time,
        // ticks of ten nanoseconds on the clock read above.
        let started = unsafe { &*((program.signal.handle().0 + START) as *const AtomicU64) };
        samples.push(Duration::from_nanos((10 * started.load(Ordering::Acquire)).saturating_sub(rung)));
    }
    Ok(json!({ "p50": percentile(&mut samples, 50), "p99": percentile(&mut samples, 99), "samples": count }))
}

/// What the executor gets of a core, alone and beside two programs that spin.
fn share() -> Result<Value> {
    // Long enough to be measured by the kernel's ticks, short enough for a bench.
    const TIME: Duration = Duration::from_millis(1500);
    let mut program = Program::new(bench()?, "spin", &[20_000])?;
    let mut measure = || -> Result<f64> {
        let (begin, before) = (Instant::now(), executor_time());
        while begin.elapsed() < TIME {
            program.run(&Launch::linear(64, 64))?;
        }
        Ok((executor_time() - before) / begin.elapsed().as_secs_f64())
    };
    let alone = measure()?;
    let spinners = [spinner(), spinner()];
    let beside = measure()?;
    for mut spinner in spinners.into_iter().flatten() {
        let _ = spinner.kill();
        let _ = spinner.wait();
    }
    Ok(json!({ "alone": alone, "beside": beside }))
}

fn spinner() -> Option<Child> {
    let own = std::env::current_exe().ok()?;
    Command::new(own).args([OPTION, "spin"]).stdout(Stdio::null()).spawn().ok()
}

/// Spins until the parent process ends.
fn spin() -> Result<Value> {
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        for _ in 0..100_000 {
            std::hint::spin_loop();
        }
    }
    Ok(Value::Null)
}

/// Returns the seconds that the executors of this process have run: its children of that name.
fn executor_time() -> f64 {
    let own = std::process::id();
    let executors = pids().filter_map(ProcStat::read).filter(|stat| stat.comm == "vgpu-executor" && stat.parent == own);
    executors.filter_map(|stat| stat.cpu()).map(|time| time.as_secs_f64()).sum()
}

/// Milliseconds of `python3 -c pass` without and with the hooks.
fn hooks() -> Value {
    const ROUNDS: usize = 15;
    let time = |hooked: bool| -> Option<Duration> {
        let mut python = Command::new("python3");
        python.args(["-c", "pass"]);
        if !hooked {
            python.env_remove("LD_PRELOAD");
        }
        let begin = Instant::now();
        python.status().ok().filter(std::process::ExitStatus::success).map(|_| begin.elapsed())
    };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.extend(time(false));
        with.extend(time(true));
    }
    let middle = |samples: &mut Vec<Duration>| (!samples.is_empty()).then(|| percentile(samples, 50) / 1e3);
    let least = |samples: &Vec<Duration>| samples.iter().min().map(|least| least.as_secs_f64() * 1e3);
    json!({
        "without": { "median": middle(&mut without), "least": least(&without) },
        "with": { "median": middle(&mut with), "least": least(&with) },
    })
}
