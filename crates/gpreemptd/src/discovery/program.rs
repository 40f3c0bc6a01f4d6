//! A program with compute queues: its identity, its memory, its tracer.

use std::io;
use std::sync::Arc;

use kfd::{Pid, ProcessMemory};
use linux_host::process::ProcStatus;

use crate::identity::{Identity, executable, started, status};

/// A program: a process between two executions.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) identity: Identity,
    pub(super) memory: Result<Arc<ProcessMemory>, String>,
    pub(super) traced_by: Option<Pid>,
}

impl Program {
    /// Reads the identity of a process; `None` if it has already ended.
    pub(super) fn read(pid: Pid, variables: &[String]) -> io::Result<Option<Program>> {
        // Opened before the rest is read: if the program ends meanwhile, the memory tells at the next look.
        let memory = ProcessMemory::open_read_only(pid).map(Arc::new).map_err(|error| error.to_string());
        let status = status(pid)?;
        if status.is_dead() {
            return Ok(None);
        }
        let identity = Identity::read(pid, variables)?;
        let traced_by = tracer(pid, &status);
        Ok(Some(Program { identity, memory, traced_by }))
    }

    /// Whether the process ended or executed another program.
    pub(super) fn has_ended(&self, thoroughly: bool) -> bool {
        match &self.memory {
            Ok(memory) => !memory.is_current(),
            // Without its memory it takes two files to know.
            Err(_) if thoroughly => {
                let pid = self.identity.pid();
                started(pid).ok() != Some(self.identity.started)
                    || executable(pid).unwrap_or_default() != self.identity.executable
            }
            Err(_) => false,
        }
    }

    /// Reads its tracer and its owner again. Says whether either changed.
    pub(super) fn update(&mut self) -> bool {
        // One that is gone is told by the next scan.
        let Ok(status) = status(self.identity.pid()) else { return false };
        let traced_by = tracer(self.identity.pid(), &status);
        let moved = self.identity.update(&status);
        std::mem::replace(&mut self.traced_by, traced_by) != traced_by || moved
    }
}

/// The process that traces. The kernel names the thread.
fn tracer(pid: Pid, traced: &ProcStatus) -> Option<Pid> {
    let thread = traced.tracer?;
    match status(Pid(thread)) {
        Ok(tracer) => Some(Pid(tracer.thread_group)),
        // It has let go meanwhile, or hides from us.
        Err(_) => status(pid).ok()?.tracer.map(Pid),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    use kfd::ptrace::Tracee;

    use super::*;

    fn start(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        hear(&mut child, "ready");
        child
    }

    fn hear(child: &mut Child, expected: &str) {
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), expected);
    }

    fn say(child: &mut Child) {
        writeln!(child.stdin.as_mut().unwrap()).unwrap();
    }

    #[test]
    fn a_program_ends_when_its_process_executes_another() {
        let mut child = start("echo ready; read line; exec cat");
        let pid = Pid(child.id());
        let program = Program::read(pid, &[]).unwrap().expect("alive");
        let refused = Program { memory: Err("refused".to_owned()), ..Program::read(pid, &[]).unwrap().unwrap() };
        assert!(!program.has_ended(true) && !refused.has_ended(true));
        say(&mut child);
        say(&mut child);
        // What it says now is said by the other program.
        hear(&mut child, "");
        assert!(program.has_ended(false) && refused.has_ended(true) && !refused.has_ended(false));
        let next = Program::read(pid, &[]).unwrap().expect("alive");
        assert_eq!(next.identity.started, program.identity.started);
        assert_ne!(next.identity.executable, program.identity.executable);
        child.kill().unwrap();
        // It is dead, but has not been waited for.
        let dead = || matches!(Program::read(pid, &[]), Ok(None));
        while !dead() {
            std::thread::yield_now();
        }
        assert!(next.has_ended(false));
        child.wait().unwrap();
        assert_eq!(Program::read(pid, &[]).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_tracer_is_told_by_its_process_and_only_when_it_changes() {
        let mut child = start("echo ready; read line");
        let pid = Pid(child.id());
        let own = Pid(std::process::id());
        let mut program = Program::read(pid, &[]).unwrap().expect("alive");
        assert_eq!(program.traced_by, None);
        // Traced by a thread, whose process counts.
        let leader = Tracee::seize(pid, |_| ()).unwrap();
        assert!(program.update());
        assert_eq!(program.traced_by, Some(own));
        assert!(!program.update());
        leader.detach();
        assert!(program.update());
        assert_eq!(program.traced_by, None);
        say(&mut child);
        child.wait().unwrap();
    }
}
