//! The commands that talk to the daemon, against one that says what the test wants.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use gpreempt_proto::{
    Answer, Call, Event, EventKind, Mode, Reason, Refusal, RefusalKind, Request, Stats, Status, Target, TenantStatus,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A socket behind which every call is answered by a function; the test hears what was asked.
struct Daemon {
    _folder: tempfile::TempDir,
    socket: PathBuf,
    asked: Receiver<Request>,
}

impl Daemon {
    fn new(answer: fn(&Request) -> Vec<Answer>) -> Daemon {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let socket = folder.path().join("control.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let (sender, asked) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a client");
                let sender = sender.clone();
                thread::spawn(move || {
                    let lines = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
                    for line in lines.map_while(Result::ok) {
                        let call: Call = serde_json::from_str(&line).expect("a call");
                        for answer in answer(&call.request) {
                            let line = serde_json::to_string(&answer).expect("JSON");
                            writeln!(stream, "{line}").expect("a client that reads");
                        }
                        let _ = sender.send(call.request);
                    }
                });
            }
        });
        Daemon { _folder: folder, socket, asked }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpreempt"));
        command.args(arguments).env("GPREEMPT_SOCKET", &self.socket);
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command starts")
    }

    /// What a command prints that must succeed.
    fn printed(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    fn asked(&self) -> Request {
        self.asked.recv().expect("a request")
    }
}

fn usual(request: &Request) -> Vec<Answer> {
    let tenant = TenantStatus { pid: 4711, command: "train".into(), gpu: "0000:c1:00.0".into(), ..Default::default() };
    vec![match request {
        Request::Status => Answer::Status(Box::new(Status {
            schema: 2,
            daemon_pid: std::process::id(),
            mode: Mode::Observe,
            tenants: vec![tenant],
            ..Status::default()
        })),
        Request::Stats => Answer::Stats(Box::new(Stats { schema: 2, ..Stats::default() })),
        Request::Log { .. } => Answer::Log { events: vec![event()], truncated: false },
        Request::Watch => Answer::Event(Box::new(event())),
        Request::Reload => Answer::Refused(Refusal {
            kind: RefusalKind::Configuration,
            message: "/etc/gpreempt/gpreempt.toml:3:1: unknown key `lewel`".into(),
        }),
        _ => Answer::Done { note: Some("done as asked".into()) },
    }]
}

fn event() -> Event {
    let kind = EventKind::Resumed { reason: Reason::NothingAbove, stopped_us: 1500.0, took_us: 20.0 };
    Event { at_ms: 1000, kind, gpu: Some("0000:c1:00.0".into()), pid: Some(4711), job: Some("train".into()), uid: None }
}

#[test]
fn the_bare_command_is_ps() {
    let daemon = Daemon::new(usual);
    let bare = daemon.printed(&[]);
    assert!(bare.starts_with("Only observing") && bare.contains("4711"), "{bare}");
    assert_eq!(bare, daemon.printed(&["ps"]));
    let socket = daemon.socket.to_str().expect("UTF-8");
    assert_eq!(bare, daemon.printed(&["ps", "--socket", socket]));
}

#[test]
fn what_is_for_programs_has_a_schema_and_units() {
    let daemon = Daemon::new(usual);
    for arguments in [["ps", "--json"].as_slice(), &["--json"], &["stats", "--json"], &["log", "--json"]] {
        let document: Value = serde_json::from_str(&daemon.printed(arguments)).expect("JSON");
        assert_eq!(document["schema"], 2, "{arguments:?}");
    }
    let ps: Value = serde_json::from_str(&daemon.printed(&["ps", "--json"])).expect("JSON");
    assert!(ps["tenants"][0]["vram_bytes"].is_number() && ps["tenants"][0]["since_s"].is_number(), "{ps}");
}

#[test]
fn orders_arrive_as_they_were_given() {
    let daemon = Daemon::new(usual);
    let (train, process) = (Target::Job("train".into()), Target::Pid(4711));
    let orders: [(&[&str], Request); 7] = [
        (&["set", "3", "--job", "train"], Request::Set { target: train.clone(), level: 3 }),
        (&["hold", "--pid", "4711", "--for", "5m"], Request::Hold { target: process, seconds: 300 }),
        (&["hold", "--job", "train"], Request::Hold { target: train.clone(), seconds: 60 }),
        (&["release", "--job", "train"], Request::Release { target: train }),
        (&["unmanage", "4711"], Request::Unmanage { pid: 4711 }),
        (&["manage", "4711"], Request::Manage { pid: 4711 }),
        (&["notify", "--pid", "4711"], Request::Notify { pid: Some(4711) }),
    ];
    for (arguments, expected) in orders {
        assert_eq!(daemon.printed(arguments), "done as asked\n");
        assert_eq!(daemon.asked(), expected);
    }
    daemon.printed(&["notify"]);
    assert_eq!(
        daemon.asked(),
        Request::Notify { pid: Some(std::process::id()) },
        "the caller's work, not the command's"
    );
}

#[test]
fn the_log_is_asked_for_what_matters() {
    let daemon = Daemon::new(usual);
    let text = daemon.printed(&["log", "--since", "10m", "--job", "train"]);
    assert_eq!(
        text,
        "1970-01-01T00:00:01.000Z 0000:c1:00.0    4711 train: resumed (nothing_above) after 1.50 ms, in 20.0 us\n"
    );
    let Request::Log { since_ms: Some(since), target, limit } = daemon.asked() else { panic!("no log") };
    assert!(since > 1_700_000_000_000, "{since} is no time of these years");
    assert_eq!((target, limit), (Some(Target::Job("train".into())), Some(1000)));
}

#[test]
fn what_the_daemon_refuses_is_a_failure_in_its_words() {
    let daemon = Daemon::new(usual);
    let output = daemon.output(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: /etc/gpreempt/gpreempt.toml:3:1: unknown key `lewel`\n"
    );
}

#[test]
fn without_a_daemon_every_command_says_how_to_start_it() {
    for arguments in
        [[].as_slice(), &["ps"], &["set", "3", "--pid", "1"], &["stats"], &["log"], &["watch"], &["reload"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_gpreempt"))
            .args(arguments)
            .env("GPREEMPT_SOCKET", "/no/such/control.sock")
            .output()
            .expect("the command starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("/no/such/control.sock") && said.contains("start `gpreempt daemon`"), "{said}");
    }
}

/// Starts a watch and returns it when its first line is there.
fn watching(daemon: &Daemon, arguments: &[&str]) -> (Child, String) {
    let mut child = daemon.command(arguments).stdout(Stdio::piped()).spawn().expect("the command starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    (child, line)
}

#[test]
fn a_watch_shows_events_and_ends_well_with_ctrl_c() {
    let daemon = Daemon::new(usual);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (mut child, line) = watching(&daemon, &["watch", "--json"]);
        let event: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&event["schema"], &event["event"]), (&2.into(), &"resumed".into()), "{event}");
        let pid = Pid::from_raw(child.id().try_into().expect("a process number"));
        kill(pid, signal).expect("the watch is there");
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{signal}");
    }
}

#[test]
fn a_program_runs_at_a_level_with_its_own_exit_code() {
    let daemon = Daemon::new(usual);
    let script = "echo $GPREEMPT_LEVEL $GPREEMPT_JOB; exit 7";
    let output = daemon.output(&["run", "--level", "12", "--job", "serve", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "12 serve\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("gpreempt: the daemon only observes"), "{said}");
}

#[test]
fn a_program_runs_without_a_daemon_and_with_a_warning() {
    let output = Command::new(env!("CARGO_BIN_EXE_gpreempt"))
        .args(["run", "--level", "3", "--", "true"])
        .env("GPREEMPT_SOCKET", "/no/such/control.sock")
        .output()
        .expect("the command starts");
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the level has no effect") && said.contains("start `gpreempt daemon`"), "{said}");
}

#[test]
fn mistakes_in_usage_end_with_code_2() {
    let mistakes: [(&[&str], &str); 13] = [
        (&["set", "16", "--pid", "1"], "16"),
        (&["set", "3"], "--pid PID or --job NAME"),
        (&["set", "3", "--pid", "1", "--job", "a"], "--job"),
        (&["hold"], "--pid PID or --job NAME"),
        (&["hold", "--pid", "1", "--for", "soon"], "10m"),
        (&["release"], "--pid PID or --job NAME"),
        (&["release", "4711"], "gpreempt unmanage PID"),
        (&["release", "1", "--pid", "1"], "gpreempt unmanage PID"),
        (&["unmanage", "train"], "PID"),
        (&["manage"], "PID"),
        (&["run", "--level", "3"], "CMD"),
        (&["run", "--level", "3", "--", "/no/such/program"], "/no/such/program"),
        (&["log", "--since", "yesterday"], "30s"),
    ];
    for (arguments, expected) in mistakes {
        let output = Command::new(env!("CARGO_BIN_EXE_gpreempt"))
            .args(arguments)
            .env("GPREEMPT_SOCKET", "/no/such/control.sock")
            .output()
            .expect("the command starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}
