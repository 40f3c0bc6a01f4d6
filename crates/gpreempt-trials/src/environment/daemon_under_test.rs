//! The daemon under test: `gpreempt daemon` as a process, with a configuration and a socket in a directory of its own.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use gpreempt_proto::{Answer, Client, ClientError, Request, Stats, Status};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::interrupt::Interrupt;

/// How long the daemon may take to answer, to see processes and to end. Milliseconds on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks at something that takes a moment.
const LOOK: Duration = Duration::from_millis(5);
/// Lines of the log that an error message quotes.
const QUOTED_LINES: usize = 8;

/// A daemon, running or not. Dropping it kills the process, whereupon everything that it had stopped runs again, and
/// removes the directory.
#[derive(Debug)]
pub struct DaemonUnderTest {
    directory: TempDir,
    child: Option<Child>,
}

impl DaemonUnderTest {
    /// Makes the directory and writes the configuration. Starts nothing.
    ///
    /// # Errors
    /// If the directory cannot be made or written.
    pub fn prepare(config: &str) -> Result<DaemonUnderTest> {
        let directory = tempfile::tempdir().context("cannot make a directory for the daemon")?;
        let daemon = DaemonUnderTest { directory, child: None };
        daemon.write_config(config)?;
        Ok(daemon)
    }

    /// Starts `COMMAND daemon --config ... --socket ...` and waits until the daemon answers. `command` is the gpreempt
    /// executable with its environment, or a program that runs it.
    ///
    /// # Errors
    /// If the daemon cannot be started, ends at once or does not answer, with the end of its log; or if the user
    /// interrupts.
    pub fn start(&mut self, mut command: Command, interrupt: &Interrupt) -> Result<()> {
        let log =
            File::options().create(true).append(true).open(self.log()).context("cannot write the daemon's log")?;
        command.arg("daemon").arg("--config").arg(self.config()).arg("--socket").arg(self.socket());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        self.child = Some(command.spawn().context("cannot start the daemon")?);
        let begun = Instant::now();
        while self.status().is_err() {
            interrupt.check()?;
            if let Some(status) = self.try_wait()? {
                bail!("the daemon ended at once ({status}): {}", self.complaints());
            }
            if begun.elapsed() > PATIENCE {
                bail!("the daemon does not answer: {}", self.complaints());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.directory.path().join("gpreempt.toml")
    }

    /// The control socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Replaces the configuration file. The daemon reads it when it starts and when it is told to reload.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_config(&self, text: &str) -> Result<()> {
        let path = self.config();
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The process that was started; `None` if none was or its end was noticed.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The last lines that the daemon wrote to stderr, as one line.
    #[must_use]
    pub fn complaints(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(QUOTED_LINES)..].join("; ")
    }

    /// Sends one request over a connection of its own.
    ///
    /// # Errors
    /// If the daemon does not answer or refuses.
    pub fn ask(&self, request: Request) -> Result<Answer, ClientError> {
        Client::connect_to(&self.socket(), PATIENCE)?.call(request)
    }

    /// Asks for gpus, jobs and tenants.
    ///
    /// # Errors
    /// If the daemon does not answer.
    pub fn status(&self) -> Result<Status> {
        match self.ask(Request::Status)? {
            Answer::Status(status) => Ok(*status),
            other => bail!("the daemon does not tell its status: {other:?}"),
        }
    }

    /// Asks for the counters since the daemon started.
    ///
    /// # Errors
    /// If the daemon does not answer.
    pub fn stats(&self) -> Result<Stats> {
        match self.ask(Request::Stats)? {
            Answer::Stats(stats) => Ok(*stats),
            other => bail!("the daemon does not tell its statistics: {other:?}"),
        }
    }

    /// Waits until the daemon sees queues of these processes and has a rule for each.
    ///
    /// # Errors
    /// If it does not within [`PATIENCE`], or the user interrupts.
    pub fn wait_until_known(&self, pids: &[u32], interrupt: &Interrupt) -> Result<()> {
        let begun = Instant::now();
        loop {
            interrupt.check()?;
            let tenants = self.status()?.tenants;
            let known = |pid: &u32| tenants.iter().any(|tenant| tenant.pid == *pid && tenant.level.is_some());
            if pids.iter().all(known) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let seen: Vec<_> = tenants.iter().map(|tenant| (tenant.pid, tenant.level)).collect();
                bail!("the daemon does not manage processes {pids:?}, it sees {seen:?}: {}", self.complaints());
            }
            thread::sleep(LOOK);
        }
    }

    /// How the process ended, if it has. From then on there is no process.
    ///
    /// # Errors
    /// If the system cannot tell.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let status = child.try_wait().context("cannot wait for the daemon")?;
        if status.is_some() {
            self.child = None;
        }
        Ok(status)
    }

    /// Kills the process and waits for its end. Directory and socket stay for another one.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().context("cannot kill the daemon")?;
            child.wait().context("cannot wait for the daemon")?;
        }
        Ok(())
    }

    /// Ends the process with SIGTERM, as an operator does. One that does not end is killed.
    ///
    /// # Errors
    /// If it fails or does not end within [`PATIENCE`], with the end of its log.
    pub fn stop(&mut self) -> Result<()> {
        let Some(pid) = self.pid() else { return Ok(()) };
        // It may have ended by itself, which the wait tells.
        let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGTERM);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match self.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the daemon failed ({status}): {}", self.complaints()),
                None => thread::sleep(LOOK),
            }
        }
        self.kill()?;
        bail!("the daemon did not end within {} s after SIGTERM: {}", PATIENCE.as_secs(), self.complaints());
    }
}

impl Drop for DaemonUnderTest {
    fn drop(&mut self) {
        // It still runs only if the trial failed or was interrupted.
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Result<DaemonUnderTest> {
        let mut daemon = DaemonUnderTest::prepare("mode = \"observe\"\n")?;
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        daemon.start(command, &Interrupt::never())?;
        Ok(daemon)
    }

    #[test]
    fn a_daemon_that_ends_at_once_is_told_with_its_last_words() {
        let error = start("echo first >&2; for i in 1 2 3 4 5 6 7; do echo $i >&2; done; echo no gpu >&2; exit 3");
        let said = error.unwrap_err().to_string();
        assert!(said.contains("exit status: 3") && said.ends_with("7; no gpu") && !said.contains("first"), "{said}");
    }

    #[test]
    fn a_daemon_that_was_not_started_can_be_stopped_and_killed() {
        let mut daemon = DaemonUnderTest::prepare("").unwrap();
        daemon.stop().unwrap();
        daemon.kill().unwrap();
        assert_eq!(daemon.pid(), None);
        let directory = daemon.socket().parent().unwrap().to_owned();
        drop(daemon);
        assert!(!directory.exists());
    }
}
