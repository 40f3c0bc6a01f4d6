//! The control thread with real sockets, real threads, and a host that does as little as possible.

mod another_user;
mod calls;
mod document;
mod hostile;
mod patience;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use gpreempt_proto::{Answer, Call, Event, EventKind, Refusal, RefusalKind, Request, Stats, Status, Target};

use super::{Handle, LoadConfig, Publisher, Server};
use crate::inbox::Input;

/// Longer than anything takes on a loaded machine: only a hang reaches it.
const HANG: Duration = Duration::from_secs(60);

/// A served socket.
struct Scene {
    publisher: Arc<Publisher>,
    path: PathBuf,
    /// What the host was told, except questions for the state.
    inputs: Receiver<Input>,
    handle: Option<Handle>,
    host: Option<JoinHandle<()>>,
    _place: tempfile::TempDir,
}

impl Scene {
    /// The host publishes as its status how many changes it has made, and says so in its answers.
    fn new() -> Scene {
        let mut changes = 0;
        Scene::with(Box::new(|| Err("no file".to_owned())), move |publisher, input| {
            match input {
                Input::Publish => {
                    publisher.publish(
                        Status { daemon_pid: changes, ..Status::default() },
                        Stats { schema: 7, ..Stats::default() },
                    );
                }
                Input::Request(asked) => {
                    changes += 1;
                    let note = format!("change {changes} by {}: {:?}", asked.uid, asked.request);
                    asked.answer.send(Answer::Done { note: Some(note) });
                }
                other => return Some(other),
            }
            None
        })
    }

    /// A host that does this with what it is told; what it returns comes out of `inputs`.
    fn with(load: LoadConfig, mut host: impl FnMut(&Publisher, Input) -> Option<Input> + Send + 'static) -> Scene {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("control.sock");
        let publisher = Publisher::new(1_000).unwrap();
        let (to_host, inbox) = crate::os::channel::channel().unwrap();
        let (told, inputs) = channel();
        let server = Server::bind(&path).unwrap();
        let handle = server.start(Arc::clone(&publisher), to_host, load).unwrap();
        let shared = Arc::clone(&publisher);
        let host = std::thread::spawn(move || {
            // As the real one: a client that waits long for it on a busy machine would be told that it does not answer.
            let _ = crate::os::priority::raise();
            // Ends when the control thread, which has the only way to it, does.
            for input in inbox.iter() {
                if let Some(input) = host(&shared, input) {
                    // A test that looks at nothing has dropped the other end.
                    let _ = told.send(input);
                }
            }
        });
        Scene { publisher, path, inputs, handle: Some(handle), host: Some(host), _place: place }
    }

    fn client(&self) -> Talk {
        Talk::new(UnixStream::connect(&self.path).unwrap())
    }

    fn handle(&self) -> &Handle {
        self.handle.as_ref().unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.handle.take());
        let outcome = self.host.take().unwrap().join();
        assert!(std::thread::panicking() || outcome.is_ok());
    }
}

/// A client that does as it is told, and not as the protocol says.
struct Talk {
    reader: BufReader<UnixStream>,
}

impl Talk {
    fn new(stream: UnixStream) -> Talk {
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.set_write_timeout(Some(HANG)).unwrap();
        Talk { reader: BufReader::new(stream) }
    }

    fn stream(&self) -> &UnixStream {
        self.reader.get_ref()
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream().write_all(bytes).unwrap();
    }

    fn ask(&mut self, request: Request) {
        self.send(&line(request));
    }

    /// The next answer; `None` if the daemon closed the connection.
    fn hear(&mut self) -> Option<Answer> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn call(&mut self, request: Request) -> Answer {
        self.ask(request);
        self.hear().expect("an answer")
    }

    /// The status, asked for again while the machine has no time to tell it.
    fn status(&mut self) -> Status {
        let begun = std::time::Instant::now();
        loop {
            match self.call(Request::Status) {
                Answer::Status(status) => return *status,
                late if is_late(&late) && begun.elapsed() < HANG => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn refused(&mut self, request: Request) -> Refusal {
        refusal(self.call(request))
    }
}

/// Whether a question was not answered in time, as on a machine with much to do.
fn is_late(answer: &Answer) -> bool {
    let late = |refusal: &Refusal| refusal.kind == RefusalKind::Busy && refusal.message.contains("does not answer");
    matches!(answer, Answer::Refused(refusal) if late(refusal))
}

fn refusal(answer: Answer) -> Refusal {
    match answer {
        Answer::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

fn line(request: Request) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Call::new(request)).unwrap();
    line.push(b'\n');
    line
}

/// An event about a process of root.
fn event(at_ms: u64, pid: u32, job: &str) -> Event {
    Event { at_ms, kind: EventKind::Gone, gpu: None, pid: Some(pid), job: Some(job.to_owned()), uid: Some(0) }
}

fn is_busy(answer: &Answer) -> bool {
    matches!(answer, Answer::Refused(Refusal { kind: RefusalKind::Busy, .. }))
}
