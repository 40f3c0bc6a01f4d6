//! Finds stopped processes that must run: the stop itself may be what they wait for.

use std::collections::BTreeMap;

use kfd::Pid;
use kfd::waiting::{self, WaitingCall};

use super::{DiscoveryEvent, ResumeCause};
use crate::identity::status;

/// SIGHUP, SIGINT and SIGTERM as bits from signal 1.
const ENDING_SIGNALS: u64 = 1 << 0 | 1 << 1 | 1 << 14;
/// Threads of one process that are looked at in one scan; those of a larger process take turns.
const MOST_THREADS: usize = 256;

const CAUSES: [ResumeCause; 3] = [ResumeCause::Destroying, ResumeCause::Exiting, ResumeCause::Terminated];

/// The processes that are stopped now.
#[derive(Debug, Default)]
pub(super) struct StoppedProcesses {
    processes: BTreeMap<Pid, StoppedProcess>,
}

#[derive(Debug, Default)]
struct StoppedProcess {
    /// What was told and still lasts.
    told: Vec<ResumeCause>,
    /// Where among its threads the next look begins.
    turn: usize,
}

impl StoppedProcesses {
    /// These are stopped now, and no others.
    pub(super) fn set(&mut self, pids: Vec<Pid>) {
        let mut before = std::mem::take(&mut self.processes);
        self.processes = pids.into_iter().map(|pid| (pid, before.remove(&pid).unwrap_or_default())).collect();
    }

    /// Looks at all of them.
    pub(super) fn look(&mut self, found: &mut Vec<DiscoveryEvent>) {
        for (pid, process) in &mut self.processes {
            let causes = process.causes(*pid);
            process.told.retain(|cause| causes.contains(cause));
            for cause in causes {
                if !process.told.contains(&cause) {
                    process.told.push(cause);
                    found.push(DiscoveryEvent::MustResume { pid: *pid, cause });
                }
            }
        }
    }
}

impl StoppedProcess {
    fn causes(&mut self, pid: Pid) -> Vec<ResumeCause> {
        // One that is gone is told by the scan.
        let Ok(status) = status(pid) else { return Vec::new() };
        let mut threads = waiting::threads(pid);
        if threads.len() > MOST_THREADS {
            self.turn = (self.turn + MOST_THREADS) % threads.len();
            threads.rotate_left(self.turn);
            threads.truncate(MOST_THREADS);
        }
        let calls: Vec<WaitingCall> = threads.iter().filter_map(|thread| waiting::call(pid, *thread)).collect();
        let holds = |cause: &ResumeCause| match cause {
            ResumeCause::Destroying => calls.contains(&WaitingCall::DestroyQueue),
            ResumeCause::Exiting => status.is_dead() || calls.contains(&WaitingCall::Exit),
            ResumeCause::Terminated => status.pending & ENDING_SIGNALS != 0,
        };
        CAUSES.into_iter().filter(holds).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use nix::sys::signal::{Signal, kill};

    use super::*;

    struct Running(Child);

    impl Running {
        fn start(script: &str) -> Running {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            Running(child)
        }

        fn pid(&self) -> Pid {
            Pid(self.0.id())
        }

        /// Stops it, and waits until it has stopped: of two signals that are pending, the one with the lower number
        /// comes first.
        fn stop(&self) {
            self.send(Signal::SIGSTOP);
            until("it has stopped", || status(self.pid()).is_ok_and(|status| status.state == 'T'));
        }

        fn send(&self, signal: Signal) {
            kill(nix::unistd::Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn look(stopped: &mut StoppedProcesses) -> Vec<(Pid, ResumeCause)> {
        let mut found = Vec::new();
        stopped.look(&mut found);
        found
            .into_iter()
            .map(|event| match event {
                DiscoveryEvent::MustResume { pid, cause } => (pid, cause),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let begun = std::time::Instant::now();
        while !holds() {
            assert!(begun.elapsed().as_secs() < 30, "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_signal_to_end_is_told_once_and_again_when_it_comes_again() {
        let program = Running::start("echo ready; read line");
        let pid = program.pid();
        let mut stopped = StoppedProcesses::default();
        stopped.set(vec![pid]);
        assert_eq!(look(&mut stopped), []);
        // While it is stopped, signals stay pending.
        program.stop();
        program.send(Signal::SIGTERM);
        assert_eq!(look(&mut stopped), [(pid, ResumeCause::Terminated)]);
        assert_eq!(look(&mut stopped), []);
        stopped.set(vec![pid]);
        assert_eq!(look(&mut stopped), [], "it was told before");
        stopped.set(Vec::new());
        assert_eq!(look(&mut stopped), []);
        stopped.set(vec![pid]);
        assert_eq!(look(&mut stopped), [(pid, ResumeCause::Terminated)]);
    }

    #[test]
    fn other_signals_are_no_reason() {
        let program = Running::start("echo ready; read line");
        let mut stopped = StoppedProcesses::default();
        stopped.set(vec![program.pid()]);
        program.stop();
        program.send(Signal::SIGUSR1);
        program.send(Signal::SIGALRM);
        assert_eq!(look(&mut stopped), []);
    }

    #[test]
    fn a_process_that_ended_and_was_not_waited_for_is_exiting() {
        let program = Running::start("echo ready; read line");
        let pid = program.pid();
        let mut stopped = StoppedProcesses::default();
        stopped.set(vec![pid, Pid(u32::MAX >> 1)]);
        program.send(Signal::SIGKILL);
        until("the end is seen", || look(&mut stopped) == [(pid, ResumeCause::Exiting)]);
        assert_eq!(look(&mut stopped), []);
    }
}
