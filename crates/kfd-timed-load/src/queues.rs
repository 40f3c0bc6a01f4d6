//! Many queues in many processes, all open at the same time: more than the hardware has slots for.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kfd_runtime::{Order, Queue, Runtime, Signal};
use serde::Serialize;

use crate::latency::microseconds;
use crate::{LOST, Queues, print};

/// A member says so when all its queues are open.
const OPEN: &str = "open";

#[derive(Serialize)]
struct Report {
    load: &'static str,
    processes: u32,
    /// Queues of each process.
    queues: u32,
    /// Packets that ended, of all queues.
    packets: u64,
    /// Duration of a packet.
    duration_us: u64,
    /// From the moment when all queues are open until the last process has ended.
    runtime_us: f64,
}

/// Opens the queues of all processes, then runs packets on all of them.
pub(super) fn run(options: &Queues) -> Result<()> {
    let Queues { processes, queues, packets, duration_us, .. } = *options;
    if options.member {
        return be_member(options);
    }
    let mut members = (0..processes).map(|_| Member::start(options)).collect::<Result<Vec<_>>>()?;
    for (index, member) in members.iter_mut().enumerate() {
        member.await_open().with_context(|| format!("process {index} of {processes} failed"))?;
    }
    let begin = Instant::now();
    for (index, member) in members.iter_mut().enumerate() {
        member.go().with_context(|| format!("process {index} of {processes} failed"))?;
    }
    for (index, member) in members.iter_mut().enumerate() {
        member.await_end().with_context(|| format!("process {index} of {processes} failed"))?;
    }
    let report = Report {
        load: "queues",
        processes,
        queues,
        packets: u64::from(processes) * u64::from(queues) * u64::from(packets),
        duration_us,
        runtime_us: microseconds(begin.elapsed()),
    };
    print(&report, &options.common, || {
        let (packets, seconds) = (report.packets, report.runtime_us / 1e6);
        format!("{packets} packets on {processes} x {queues} queues in {seconds:.3} s")
    })
}

/// Opens queues, waits for a line, runs packets on all queues at once.
fn be_member(options: &Queues) -> Result<()> {
    let lasts = Duration::from_micros(options.duration_us);
    let runtime = Runtime::open()?;
    let device = runtime.device(options.common.gpu)?;
    let waves = options.common.waves(device);
    let mut queues = Vec::new();
    for index in 0..options.queues {
        let queue = Queue::new(device).with_context(|| format!("cannot open queue {index}"))?;
        queues.push((queue, Signal::new(device, 0)?));
    }
    println!("{OPEN}");
    io::stdout().flush()?;
    let read = io::stdin().read_line(&mut String::new()).context("cannot read the start line")?;
    ensure!(read > 0, "the process that started this one has ended");
    for (queue, signal) in &mut queues {
        signal.set(options.packets.into())?;
        for _ in 0..options.packets {
            queue.dispatch_timed(lasts, waves, Order::AfterPrevious, &*signal)?;
        }
    }
    for (index, (queue, signal)) in queues.iter().enumerate() {
        queue.wait(signal, LOST).with_context(|| format!("queue {index} did not end"))?;
    }
    Ok(())
}

/// One of the processes. Killed when dropped.
struct Member {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Member {
    fn start(options: &Queues) -> Result<Member> {
        let program = env::current_exe().context("cannot tell where this executable is")?;
        let mut child = Command::new(program)
            .args(["queues", "--member"])
            .args(["--queues", &options.queues.to_string(), "--packets", &options.packets.to_string()])
            .args(["--duration-us", &options.duration_us.to_string(), "--gpu", &options.common.gpu.to_string()])
            .args(options.common.waves.map(|waves| format!("--waves={waves}")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process")?;
        let output = BufReader::new(child.stdout.take().context("a process without output")?);
        Ok(Member { child, output })
    }

    fn await_open(&mut self) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.trim_end() != OPEN {
            bail!("it ended with {} before its queues were open", self.child.wait()?);
        }
        Ok(())
    }

    fn go(&mut self) -> Result<()> {
        let mut input = self.child.stdin.take().context("a process without input")?;
        writeln!(input, "go").context("it ended early")
    }

    fn await_end(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // A process that has ended already needs no kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
