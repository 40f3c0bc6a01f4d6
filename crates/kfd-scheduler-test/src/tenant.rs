//! A process with queues that does what the test says, line by line.

use std::env;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kfd_runtime::{Error, Order, Queue, Runtime, Signal};

/// How long work may take before it is taken for stopped for good.
const LONG: u64 = 60_000;

/// A queue, the signal of its packets, and how many are on their way.
struct Work {
    queue: Queue,
    signal: Signal,
}

/// Is the process.
pub(crate) fn be(gpu: usize) -> Result<()> {
    let runtime = Runtime::open()?;
    let device = runtime.device(gpu)?;
    let waves = device.node().gpu.cus.saturating_mul(device.node().gpu.waves_per_cu).max(1);
    let mut works: Vec<Work> = Vec::new();
    answer("ready")?;
    for line in stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["open"] => {
                works.push(Work { queue: Queue::new(device)?, signal: Signal::new(device, 0)? });
                answer("open")?;
            }
            ["close"] => {
                drop(works.pop());
                answer("closed")?;
            }
            // So many packets of so many microseconds on each queue.
            ["send", count, microseconds] => {
                let (count, lasts) = (count.parse::<i64>()?, Duration::from_micros(microseconds.parse()?));
                for work in &mut works {
                    work.signal.set(work.signal.value()? + count)?;
                    for _ in 0..count {
                        work.queue.dispatch_timed(lasts, waves, Order::AfterPrevious, &work.signal)?;
                    }
                }
                answer("sent")?;
            }
            ["wait", milliseconds] => {
                let limit = Duration::from_millis(milliseconds.parse()?);
                let mut done = true;
                for work in &mut works {
                    done &= match work.queue.wait(&work.signal, limit) {
                        Ok(()) => true,
                        Err(Error::Timeout { .. }) => false,
                        Err(error) => return Err(error.into()),
                    };
                }
                answer(if done { "done" } else { "late" })?;
            }
            // Packets that have not ended.
            ["left"] => {
                let mut left = 0;
                for work in &works {
                    left += work.signal.value()?;
                }
                answer(&left.to_string())?;
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
}

impl Tenant {
    /// Starts one with a queue on the first gpu.
    pub(crate) fn start() -> Result<Tenant> {
        Tenant::start_as(&["tenant"])
    }

    /// Starts this program as something that answers like a tenant, and opens a queue.
    pub(crate) fn start_as(arguments: &[&str]) -> Result<Tenant> {
        let mut child = Command::new(env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a tenant")?;
        let input = child.stdin.take().context("a tenant without input")?;
        let output = BufReader::new(child.stdout.take().context("a tenant without output")?);
        let mut tenant = Tenant { child, input, output };
        let ready = tenant.read()?;
        ensure!(ready == "ready", "a tenant said `{ready}`");
        tenant.open()?;
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

    pub(crate) fn ask(&mut self, command: &str) -> Result<String> {
        writeln!(self.input, "{command}").with_context(|| format!("cannot say `{command}` to a tenant"))?;
        self.read()
    }

    /// Opens one more queue.
    pub(crate) fn open(&mut self) -> Result<()> {
        self.ask("open").map(drop)
    }

    /// Destroys the newest queue.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.ask("close").map(drop)
    }

    /// Sends so many packets of so many microseconds.
    pub(crate) fn send(&mut self, count: u32, microseconds: u32) -> Result<()> {
        self.ask(&format!("send {count} {microseconds}")).map(drop)
    }

    /// Returns how many packets have not ended.
    pub(crate) fn left(&mut self) -> Result<i64> {
        Ok(self.ask("left")?.parse()?)
    }

    /// Fails unless all its packets end.
    pub(crate) fn must_finish(&mut self) -> Result<()> {
        let answer = self.ask(&format!("wait {LONG}"))?;
        ensure!(answer == "done", "packets of tenant {} do not end: {answer}, {} left", self.pid(), self.left()?);
        Ok(())
    }

    /// Fails unless some of its packets end soon, and some are left.
    pub(crate) fn must_progress(&mut self) -> Result<()> {
        let before = self.left()?;
        for _ in 0..600 {
            std::thread::sleep(Duration::from_millis(10));
            if self.left()? < before {
                return Ok(());
            }
        }
        bail!("tenant {} does not run: {before} packets are left", self.pid());
    }

    /// Fails if packets end within so many milliseconds. One that was on the gpu may have.
    pub(crate) fn must_stand(&mut self, milliseconds: u64) -> Result<()> {
        let before = self.left()?;
        std::thread::sleep(Duration::from_millis(milliseconds));
        let after = self.left()?;
        ensure!(before == after && before > 0, "tenant {} runs: {before} packets, then {after}", self.pid());
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
