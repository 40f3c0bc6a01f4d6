//! A process with queues that does what the test says, line by line.

use std::env;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kfd::KfdDevice;
use kfd_abi::criu::{CriuArgs, CriuOp};
use kfd_runtime::{Device, Error, Order, Queue, Runtime, Signal};

/// How long a packet lasts.
const PACKET: Duration = Duration::from_micros(100);
/// How long a packet may take before the queue is taken for stopped for good.
const LONG: u64 = 60_000;
/// How long a packet is waited for that must not run.
const SHORT: u64 = 30;

/// A queue, the signal of its packets, and whether one is on its way.
struct Work {
    queue: Queue,
    signal: Signal,
    sent: bool,
}

impl Work {
    fn open(device: &Device) -> Result<Work> {
        Ok(Work { queue: Queue::new(device)?, signal: Signal::new(device, 0)?, sent: false })
    }

    fn send(&mut self) -> Result<()> {
        // It may have run meanwhile.
        if !self.sent || self.signal.value()? <= 0 {
            self.signal.set(1)?;
            self.queue.dispatch_timed(PACKET, 1, Order::AfterPrevious, &self.signal)?;
            self.sent = true;
        }
        Ok(())
    }

    fn wait(&mut self, limit: Duration) -> Result<bool> {
        match self.queue.wait(&self.signal, limit) {
            Ok(()) => {
                self.sent = false;
                Ok(true)
            }
            Err(Error::Timeout { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Is the process.
pub(crate) fn be() -> Result<()> {
    let runtime = Runtime::open()?;
    let device = runtime.device(0)?;
    let kfd = KfdDevice::open()?;
    let mut works: Vec<Work> = Vec::new();
    answer("ready")?;
    for line in stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["open"] => {
                let work = Work::open(device)?;
                answer(&work.queue.id().to_string())?;
                works.push(work);
            }
            ["close"] => {
                let begin = Instant::now();
                drop(works.pop());
                answer(&begin.elapsed().as_micros().to_string())?;
            }
            ["run", milliseconds] => {
                let end = Instant::now() + Duration::from_millis(milliseconds.parse()?);
                works.iter_mut().try_for_each(Work::send)?;
                let mut done = true;
                for work in &mut works {
                    done &= work.wait(end.saturating_duration_since(Instant::now()))?;
                }
                answer(if done { "done" } else { "late" })?;
            }
            ["long", milliseconds] => {
                let lasts = Duration::from_millis(milliseconds.parse()?);
                let work = works.first_mut().context("there is no queue")?;
                work.queue.dispatch_timed(lasts, 1, Order::AfterPrevious, None)?;
                answer("sent")?;
            }
            [op @ ("evict" | "restore")] => {
                let op = if op == "evict" { CriuOp::PROCESS_INFO } else { CriuOp::UNPAUSE };
                let mut args = CriuArgs { op, ..CriuArgs::default() };
                // SAFETY: these operations follow no address.
                let result = unsafe { kfd.call(&mut args) };
                answer(&result.err().and_then(|error| error.raw_os_error()).unwrap_or(0).to_string())?;
            }
            _ => bail!("unknown command `{line}`"),
        }
    }
    Ok(())
}

fn answer(text: &str) -> Result<()> {
    println!("{text}");
    Ok(stdout().flush()?)
}

/// The test's end of it. Killed when dropped.
pub(crate) struct Tenant {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Ids of its queues.
    pub(crate) queues: Vec<u32>,
}

impl Tenant {
    /// Starts one with so many queues.
    pub(crate) fn start(queues: usize) -> Result<Tenant> {
        let mut child = Command::new(env::current_exe()?)
            .arg("tenant")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a tenant")?;
        let input = child.stdin.take().context("a tenant without input")?;
        let output = BufReader::new(child.stdout.take().context("a tenant without output")?);
        let mut tenant = Tenant { child, input, output, queues: Vec::new() };
        let ready = tenant.read()?;
        ensure!(ready == "ready", "a tenant said `{ready}`");
        for _ in 0..queues {
            tenant.open()?;
        }
        Ok(tenant)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn read(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(!line.is_empty(), "a tenant ended: {:?}", self.child.try_wait());
        Ok(line.trim_end().to_owned())
    }

    fn ask(&mut self, command: &str) -> Result<String> {
        writeln!(self.input, "{command}").with_context(|| format!("cannot say `{command}` to a tenant"))?;
        self.read()
    }

    /// Opens one more queue and returns its id.
    pub(crate) fn open(&mut self) -> Result<u32> {
        let id = self.ask("open")?.parse()?;
        self.queues.push(id);
        Ok(id)
    }

    /// Destroys the newest queue.
    pub(crate) fn close(&mut self) -> Result<Duration> {
        self.queues.pop();
        Ok(Duration::from_micros(self.ask("close")?.parse()?))
    }

    /// Evicts its queues, as a checkpoint does.
    pub(crate) fn evict(&mut self) -> Result<()> {
        let error = self.ask("evict")?;
        ensure!(error == "0", "it cannot be evicted: error {error}");
        Ok(())
    }

    /// Restores its queues.
    pub(crate) fn restore(&mut self) -> Result<()> {
        let error = self.ask("restore")?;
        ensure!(error == "0", "it cannot be restored: error {error}");
        Ok(())
    }

    /// Fails unless a packet runs on every queue.
    pub(crate) fn must_run(&mut self) -> Result<()> {
        let answer = self.ask(&format!("run {LONG}"))?;
        ensure!(answer == "done", "a queue of tenant {} does not run: {answer}", self.pid());
        Ok(())
    }

    /// Fails if a packet ends on every queue.
    pub(crate) fn must_not_run(&mut self) -> Result<()> {
        let answer = self.ask(&format!("run {SHORT}"))?;
        ensure!(answer == "late", "all queues of tenant {} run: {answer}", self.pid());
        Ok(())
    }

    /// Sends a packet that lasts long to its first queue, and gives it time to begin.
    pub(crate) fn send_long(&mut self, lasts: Duration) -> Result<()> {
        self.ask(&format!("long {}", lasts.as_millis()))?;
        std::thread::sleep(Duration::from_millis(100));
        Ok(())
    }

    /// Kills it and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        // A process that has ended already needs no kill.
        let _ = self.kill();
    }
}
