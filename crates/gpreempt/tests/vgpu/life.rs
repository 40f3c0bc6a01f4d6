//! Nothing is left behind, whichever process dies.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use linux_host::process::{self, ProcStat};

use super::on_vgpu;

const PATIENCE: Duration = Duration::from_secs(20);

/// A shell that has opened the gpu, and so has an executor, and then waits.
struct Client {
    child: Child,
}

impl Client {
    fn start() -> Client {
        // Shells put files on small descriptors without asking whether these are in use.
        Client::run("exec 3<>/dev/kfd; exec 4</dev/null; echo ready; read line; exit 0")
    }

    /// A shell script that says when it is ready.
    fn run(script: &str) -> Client {
        let mut child = on_vgpu(&["sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("can be started");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Client { child }
    }

    /// Lets it go on to its end; how it ended and what it complained about.
    fn finish(mut self) -> (ExitStatus, String) {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut text).expect("text");
        (self.child.wait().expect("ends"), text)
    }

    /// The launcher became the program, so they are one process.
    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(pid: u32, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().expect("kill runs");
        assert!(status.success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Inodes of the sockets of the virtual gpu that this launcher made.
fn sockets(launcher: u32) -> Vec<String> {
    let name = format!("@gpreempt-vgpu-{launcher}-");
    let table = std::fs::read_to_string("/proc/net/unix").expect("can be read");
    let lines = table.lines().filter(|line| line.contains(&name));
    lines.filter_map(|line| line.split_whitespace().nth(6).map(str::to_owned)).collect()
}

/// Executor processes of a client.
pub(super) fn executors(client: u32) -> Vec<u32> {
    let is_executor = |stat: ProcStat| stat.comm == "vgpu-executor" && stat.parent == client;
    process::pids().filter(|&pid| ProcStat::read(pid).is_some_and(is_executor)).collect()
}

/// The supervisor whose listening socket this launcher made.
pub(super) fn supervisor(launcher: u32) -> u32 {
    let sockets: Vec<String> = sockets(launcher).iter().map(|inode| format!("socket:[{inode}]")).collect();
    let listens = |pid: &u32| {
        let link = std::fs::read_link(format!("/proc/{pid}/fd/0")).unwrap_or_default();
        sockets.iter().any(|socket| link.as_os_str() == socket.as_str())
    };
    let named = |pid: &u32| ProcStat::read(*pid).is_some_and(|stat| stat.comm == "vgpu-supervisor");
    process::pids().find(|pid| named(pid) && listens(pid)).expect("the supervisor runs")
}

fn nothing_is_left(client: u32, executors: &[u32], supervisor: u32) {
    until("sockets are gone", || sockets(client).is_empty());
    until("the supervisor is gone", || !process::is_alive(supervisor));
    until("executors are gone", || !executors.iter().any(|&pid| process::is_alive(pid)));
}

fn ends_clean(how: impl FnOnce(&mut Client)) {
    let mut client = Client::start();
    let pid = client.pid();
    until("an executor runs", || !executors(pid).is_empty());
    let (executors, supervisor) = (executors(pid), supervisor(pid));
    how(&mut client);
    client.child.wait().expect("ends");
    nothing_is_left(pid, &executors, supervisor);
}

#[test]
fn nothing_is_left_after_a_normal_end() {
    ends_clean(|client| drop(client.child.stdin.take()));
}

#[test]
fn nothing_is_left_after_ctrl_c() {
    ends_clean(|client| Client::signal(client.pid(), "INT"));
}

#[test]
fn nothing_is_left_after_an_abort() {
    ends_clean(|client| Client::signal(client.pid(), "ABRT"));
}

#[test]
fn nothing_is_left_after_the_client_is_killed() {
    ends_clean(|client| Client::signal(client.pid(), "KILL"));
}

#[test]
fn a_client_outlives_its_supervisor_and_finds_the_gpu_gone() {
    let client = Client::run("exec 3<>/dev/kfd; echo ready; read line; cat /dev/kfd; exit 5");
    let pid = client.pid();
    let (executors, supervisor) = (executors(pid), supervisor(pid));
    Client::signal(supervisor, "KILL");
    until("the supervisor is gone", || !process::is_alive(supervisor));
    // The executor notices by itself, the client at its next question.
    until("executors end", || !executors.iter().any(|&executor| process::is_alive(executor)));
    let (status, complaint) = client.finish();
    assert_eq!(status.code(), Some(5), "{status}");
    assert!(complaint.contains("No such device"), "{complaint}");
    nothing_is_left(pid, &executors, supervisor);
}

#[test]
fn programs_that_touch_no_gpu_start_no_executor_and_keep_their_behaviour() {
    let client = Client::run("ls / >/dev/null; echo ready; read line");
    let pid = client.pid();
    assert!(executors(pid).is_empty());
    assert_eq!(process::threads(pid).count(), 1);
    client.finish();
    until("sockets are gone", || sockets(pid).is_empty());
}

#[test]
fn nothing_is_left_of_programs_that_end_as_soon_as_they_have_opened_the_gpu() {
    // Many executors, so that the program's end finds some of them just being born.
    for _ in 0..20 {
        let mut child = on_vgpu(&["sh", "-c", "exec 3<>/dev/kfd"])
            .env("GPREEMPT_VGPU_WORKERS", "16")
            .spawn()
            .expect("can be started");
        assert!(child.wait().expect("ends").success());
        until("sockets are gone", || sockets(child.id()).is_empty());
    }
}
