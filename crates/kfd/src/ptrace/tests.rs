use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

/// A shell that reads commands from us, and what it says.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Shell {
    fn start(script: &str) -> Shell {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Shell { child, input, output: BufReader::new(output).lines() }
    }

    fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn hear(&mut self) -> String {
        self.output.next().unwrap().unwrap()
    }

    /// Waits for its end, which is only allowed when it is not traced any more.
    fn code(mut self) -> Option<i32> {
        drop(self.input);
        self.child.wait().unwrap().code()
    }
}

/// A shell whose own child is to be traced: its real parent is not us. Prints the child's number, later its status.
fn parent_of(child: &str) -> (Shell, Pid) {
    let mut shell = Shell::start(&format!("exec 3<&0; sh -c '{child}' <&3 & echo $!; wait $!; echo status $?"));
    let pid = shell.hear().parse().unwrap();
    (shell, Pid(pid))
}

fn seize(pid: Pid) -> (Tracee, mpsc::Receiver<End>) {
    let (sender, ended) = mpsc::channel();
    let tracee = Tracee::seize(pid, move |end| sender.send(end).unwrap()).unwrap();
    (tracee, ended)
}

fn send(pid: Pid, signal: i32) {
    // SAFETY: the process is one that the test started and has not reaped.
    assert_eq!(unsafe { libc::kill(pid.raw(), signal) }, 0);
}

/// Waits for something that will happen; only a failure takes the whole time.
fn await_that(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

fn field(pid: Pid, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
}

#[test]
fn a_program_runs_on_while_it_is_traced_and_after() {
    let mut shell = Shell::start("while read line; do echo got $line; done; exit 5");
    let (tracee, _ended) = seize(shell.pid());
    assert_ne!(field(shell.pid(), "TracerPid:"), "0");
    shell.say("one");
    assert_eq!(shell.hear(), "got one");
    tracee.detach();
    assert_eq!(field(shell.pid(), "TracerPid:"), "0");
    shell.say("two");
    assert_eq!(shell.hear(), "got two");
    assert_eq!(shell.code(), Some(5));
}

#[test]
fn signals_reach_the_program() {
    let mut shell = Shell::start("trap 'echo usr1' USR1; echo ready; while :; do read line; done");
    assert_eq!(shell.hear(), "ready");
    let (tracee, ended) = seize(shell.pid());
    for _ in 0..20 {
        send(shell.pid(), libc::SIGUSR1);
        assert_eq!(shell.hear(), "usr1");
    }
    send(shell.pid(), libc::SIGTERM);
    assert_eq!(ended.recv().unwrap(), End::Killed(libc::SIGTERM));
    assert_eq!(tracee.end(), Some(End::Killed(libc::SIGTERM)));
    assert_eq!(shell.code(), None);
}

#[test]
fn a_stopped_program_stays_stopped_until_it_is_continued() {
    let mut shell = Shell::start("trap 'echo continued' CONT; echo ready; while :; do read line; done");
    assert_eq!(shell.hear(), "ready");
    let (tracee, _ended) = seize(shell.pid());
    for _ in 0..3 {
        assert!(!tracee.is_stopped());
        send(shell.pid(), libc::SIGSTOP);
        await_that("job control stops the program", || tracee.is_stopped());
        assert!(field(shell.pid(), "State:").starts_with(['t', 'T']));
        send(shell.pid(), libc::SIGCONT);
        assert_eq!(shell.hear(), "continued");
        await_that("the program is seen to continue", || !tracee.is_stopped());
    }
    tracee.detach();
    send(shell.pid(), libc::SIGKILL);
    assert_eq!(shell.code(), None);
}

#[test]
fn a_stopped_program_stays_stopped_when_it_is_detached() {
    let mut shell = Shell::start("trap 'echo continued' CONT; echo ready; while :; do read line; done");
    assert_eq!(shell.hear(), "ready");
    let (tracee, _ended) = seize(shell.pid());
    send(shell.pid(), libc::SIGSTOP);
    await_that("job control stops the program", || tracee.is_stopped());
    tracee.detach();
    await_that("it stops again, untraced", || field(shell.pid(), "State:").starts_with('T'));
    send(shell.pid(), libc::SIGCONT);
    assert_eq!(shell.hear(), "continued");
    send(shell.pid(), libc::SIGKILL);
    assert_eq!(shell.code(), None);
}

#[test]
fn the_real_parent_learns_the_exit_code() {
    let (mut shell, child) = parent_of("read line; exit 7");
    let (tracee, ended) = seize(child);
    shell.say("go");
    assert_eq!(ended.recv().unwrap(), End::Exited(7));
    assert_eq!(shell.hear(), "status 7");
    assert!(matches!(tracee.run(|| ()), Err(Error::Gone { .. })));
    assert_eq!(shell.code(), Some(0));
}

#[test]
fn the_real_parent_learns_of_a_kill() {
    let (mut shell, child) = parent_of("read line");
    let (_leader, ended) = seize(child);
    send(child, libc::SIGKILL);
    assert_eq!(ended.recv().unwrap(), End::Killed(libc::SIGKILL));
    assert_eq!(shell.hear(), "status 137");
    assert_eq!(shell.code(), Some(0));
}

#[test]
fn jobs_run_on_one_thread_which_traces() {
    let shell = Shell::start("read line; exit 3");
    let (tracee, _ended) = seize(shell.pid());
    let thread = || std::thread::current().id();
    let first = tracee.run(thread).unwrap();
    assert_eq!(tracee.run(thread).unwrap(), first);
    assert_ne!(first, thread());
    let pid = shell.pid();
    // Only the thread that traces may ask; from any other the kernel knows of no such tracee.
    assert!(tracee.run(move || sys::ptrace(libc::PTRACE_INTERRUPT, pid, 0)).unwrap().is_ok());
    assert!(sys::ptrace(libc::PTRACE_INTERRUPT, pid, 0).is_err());
    tracee.detach();
    assert_eq!(shell.code(), Some(3));
}

#[test]
fn a_watched_pipe_is_noticed_between_jobs() {
    let shell = Shell::start("read line; exit 3");
    let (tracee, _ended) = seize(shell.pid());
    let (source, end) = sys::pipe().unwrap();
    let (sender, noticed) = mpsc::channel();
    tracee.watch(source, move |_| sender.send(()).unwrap());
    for _ in 0..3 {
        sys::write_byte(&end).unwrap();
        noticed.recv().unwrap();
    }
    // A closed pipe is noticed once and then forgotten, with its handler.
    drop(end);
    while noticed.recv().is_ok() {}
    drop(tracee);
    assert_eq!(shell.code(), Some(3));
}

#[test]
fn a_traced_program_is_refused_to_a_second_tracer() {
    let shell = Shell::start("read line; exit 3");
    let (tracee, _ended) = seize(shell.pid());
    let error = Tracee::seize(shell.pid(), |_| {}).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EPERM));
    assert!(error.to_string().contains("another debugger traces it"), "{error}");
    drop(tracee);
    assert_eq!(shell.code(), Some(3));
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let error = Tracee::seize(Pid(u32::MAX >> 1), |_| {}).unwrap_err();
    assert!(error.is_gone());
    assert!(error.to_string().starts_with("SEIZE of process 2147483647 failed"), "{error}");
}

#[test]
fn a_program_that_was_detached_is_followed_to_its_end() {
    let mut shell = Shell::start("trap 'echo usr1' USR1; echo ready; while read line; do echo got $line; done; exit 5");
    assert_eq!(shell.hear(), "ready");
    let pid = shell.pid();
    let (tracee, ended) = seize(pid);
    let (sender, probed) = mpsc::channel();
    await_that("it waits for input", || calling::may_be_interrupted(pid));
    tracee.detach_if(move || sender.send(field(pid, "TracerPid:")).is_ok());
    assert_eq!(probed.recv().unwrap(), "0");
    // Jobs run as before, and no tracer stands between the program and its signals.
    assert!(tracee.run(|| ()).is_ok() && tracee.is_detached());
    shell.say("one");
    assert_eq!(shell.hear(), "got one");
    send(pid, libc::SIGUSR1);
    assert_eq!(shell.hear(), "usr1");
    drop(shell.input);
    assert_eq!(ended.recv().unwrap(), End::Lost);
    assert!(matches!(tracee.run(|| ()), Err(Error::Gone { .. })));
    assert_eq!(shell.child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_program_is_traced_again_if_it_cannot_do_without() {
    let mut shell = Shell::start("trap 'echo usr1' USR1; echo ready; while read line; do echo got $line; done; exit 5");
    assert_eq!(shell.hear(), "ready");
    let pid = shell.pid();
    let (tracee, ended) = seize(pid);
    await_that("it waits for input", || calling::may_be_interrupted(pid));
    let (sender, probed) = mpsc::channel();
    tracee.detach_if(move || {
        // Jobs that are posted before may run while the program is asked to stop.
        sender.send(()).unwrap();
        false
    });
    probed.recv().unwrap();
    assert!(tracee.run(|| ()).is_ok() && !tracee.is_detached());
    assert_ne!(field(pid, "TracerPid:"), "0");
    send(pid, libc::SIGUSR1);
    assert_eq!(shell.hear(), "usr1");
    drop(shell.input);
    assert_eq!(ended.recv().unwrap(), End::Exited(5));
    assert_eq!(shell.child.wait().unwrap().code(), Some(5));
}

#[test]
fn consent_to_a_process_that_does_not_exist_is_refused() {
    // Systems without consent refuse, too.
    assert!(allow_tracer(Pid(u32::MAX >> 1)).is_err());
}
