//! The client against servers that answer, are silent, break off, or talk nonsense.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gpreempt_proto::{
    Answer, Call, Client, ClientError, Event, EventKind, Refusal, RefusalKind, Request, Status, Target, VERSION,
};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

struct Scene {
    _folder: tempfile::TempDir,
    path: PathBuf,
    server: JoinHandle<()>,
}

/// Serves one client with this function.
fn serve(serve: impl FnOnce(UnixStream) + Send + 'static) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || serve(listener.accept().unwrap().0));
    Scene { _folder: folder, path, server }
}

fn calls(stream: &UnixStream) -> impl Iterator<Item = Call> + use<> {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

fn line(answer: &Answer) -> String {
    format!("{}\n", serde_json::to_string(answer).unwrap())
}

#[test]
fn each_call_gets_its_answer() {
    let scene = serve(|mut stream| {
        for call in calls(&stream) {
            assert_eq!(call.version, VERSION);
            let answer = match call.request {
                Request::Status => Answer::Status(Box::new(Status { daemon_pid: 7, ..Status::default() })),
                other => Answer::Done { note: Some(format!("{other:?}")) },
            };
            stream.write_all(line(&answer).as_bytes()).unwrap();
        }
    });
    let mut client = Client::connect_to(&scene.path, LONG).unwrap();
    let Answer::Status(status) = client.call(Request::Status).unwrap() else { panic!("no status") };
    assert_eq!(status.daemon_pid, 7);
    let set = Request::Set { target: Target::Job("train".into()), level: 3 };
    let expected = Answer::Done { note: Some(format!("{set:?}")) };
    assert_eq!(client.call(set).unwrap(), expected);
    drop(client);
    scene.server.join().unwrap();
}

#[test]
fn an_answer_may_come_in_pieces_and_with_others() {
    let scene = serve(|mut stream| {
        let mut calls = calls(&stream);
        calls.next();
        let first = line(&Answer::Done { note: Some("ü".repeat(50_000)) });
        let second = line(&Answer::Done { note: None });
        let (head, tail) = first.as_bytes().split_at(12_345);
        stream.write_all(head).unwrap();
        stream.write_all(&[tail, second.as_bytes()].concat()).unwrap();
        calls.next();
    });
    let mut client = Client::connect_to(&scene.path, LONG).unwrap();
    let Answer::Done { note: Some(note) } = client.call(Request::Reload).unwrap() else { panic!("no note") };
    assert_eq!(note.chars().count(), 50_000);
    assert_eq!(client.call(Request::Reload).unwrap(), Answer::Done { note: None });
}

#[test]
fn what_is_refused_is_an_error_in_the_daemons_words() {
    let scene = serve(|mut stream| {
        calls(&stream).next();
        let refusal = Refusal { kind: RefusalKind::Forbidden, message: "job train is not yours".into() };
        stream.write_all(line(&Answer::Refused(refusal)).as_bytes()).unwrap();
    });
    let error = Client::connect_to(&scene.path, LONG).unwrap().call(Request::Reload).unwrap_err();
    assert!(matches!(&error, ClientError::Refused(refusal) if refusal.kind == RefusalKind::Forbidden));
    assert_eq!(error.to_string(), "job train is not yours");
}

#[test]
fn without_a_daemon_there_is_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let missing = Client::connect_to(&path, LONG).unwrap_err();
    drop(UnixListener::bind(&path).unwrap());
    let stale = Client::connect_to(&path, LONG).unwrap_err();
    for error in [missing, stale] {
        assert!(matches!(error, ClientError::NoDaemon { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("control.sock") && said.contains("systemctl start gpreempt"), "{said}");
    }
    let long = PathBuf::from(format!("/tmp/{}", "x".repeat(200)));
    assert!(matches!(Client::connect_to(&long, LONG), Err(ClientError::NoDaemon { .. })));
}

#[test]
fn a_daemon_that_says_nothing_is_not_waited_for() {
    let scene = serve(|stream| assert_eq!(calls(&stream).count(), 1));
    let mut client = Client::connect_to(&scene.path, Duration::from_millis(50)).unwrap();
    assert!(matches!(client.call(Request::Status), Err(ClientError::Silent { .. })));
}

#[test]
fn a_daemon_that_accepts_no_client_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    // Clients that are not accepted queue up until there is no room left.
    let mut waiting = Vec::new();
    let error = loop {
        match Client::connect_to(&path, Duration::from_millis(50)) {
            Ok(client) => waiting.push(client),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ClientError::Silent { .. }), "{error}");
}

#[test]
fn nonsense_and_endless_lines_are_told_from_answers() {
    for nonsense in ["hello\n".to_owned(), "{\"answer\":\"later\"}\n".to_owned(), "x".repeat(3 << 20)] {
        let scene = serve(move |mut stream| {
            calls(&stream).next();
            // The client may leave before the end.
            let _ = stream.write_all(nonsense.as_bytes());
        });
        let error = Client::connect_to(&scene.path, LONG).unwrap().call(Request::Status).unwrap_err();
        assert!(matches!(error, ClientError::Malformed { .. }), "{error}");
    }
}

#[test]
fn a_daemon_that_goes_away_is_a_failure() {
    let scene = serve(|stream| drop(calls(&stream).next()));
    let error = Client::connect_to(&scene.path, LONG).unwrap().call(Request::Status).unwrap_err();
    assert!(matches!(error, ClientError::Lost { .. }), "{error}");
}

#[test]
fn events_come_until_the_client_stops_them() {
    let event = Event { at_ms: 5, kind: EventKind::Recovered, gpu: None, pid: None, job: None, uid: None };
    let sent = event.clone();
    let scene = serve(move |mut stream| {
        let mut calls = calls(&stream);
        assert_eq!(calls.next().unwrap().request, Request::Watch);
        stream.write_all(line(&Answer::Event(Box::new(sent))).as_bytes()).unwrap();
        stream.write_all(line(&Answer::Missed { events: 3 }).as_bytes()).unwrap();
        // The end of the connection is the client's.
        assert_eq!(calls.count(), 0);
    });
    let mut events = Client::connect_to(&scene.path, LONG).unwrap().watch().unwrap();
    assert_eq!(events.next().unwrap().unwrap(), Answer::Event(Box::new(event)));
    assert_eq!(events.next().unwrap().unwrap(), Answer::Missed { events: 3 });
    let stopper = events.stopper().unwrap();
    let waiting = thread::spawn(move || events.next().is_none());
    stopper.stop();
    assert!(waiting.join().unwrap());
    scene.server.join().unwrap();
}

#[test]
fn a_watch_whose_daemon_goes_away_ends_with_an_error() {
    let scene = serve(|stream| drop(calls(&stream).next()));
    let mut events = Client::connect_to(&scene.path, LONG).unwrap().watch().unwrap();
    assert!(matches!(events.next(), Some(Err(ClientError::Lost { .. }))));
}
