//! Clients that mean no good.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

/// Numbers that look random and are the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// Does one bad thing; what it returns stays connected.
fn misbehave(path: &std::path::Path, noise: &mut Noise) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(path).ok()?;
    // A daemon that does not read must not stop the test.
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    // That the daemon closes the connection meanwhile is what the test is about.
    match noise.next() % 7 {
        0 => {
            let count = noise.next() as usize % 5_000;
            let _ = stream.write_all(&noise.bytes(count));
        }
        1 => {
            let _ = stream.write_all(&vec![b'x'; 300_000]);
            let mut answer = Vec::new();
            let _ = stream.take(1 << 20).read_to_end(&mut answer);
            return None;
        }
        2 => {
            let call = line(Request::Status);
            let _ = stream.write_all(&call[..noise.next() as usize % call.len()]);
        }
        3 => return None,
        4 => {
            // Never reads what it asks for.
            let log = line(Request::Log { since_ms: None, target: None, limit: None });
            let _ = stream.write_all(&log.repeat(30));
        }
        5 => {
            let _ = stream.write_all(&line(Request::Watch));
        }
        _ => {
            let mut call = line(Request::Release { target: Target::Pid(1) });
            let place = noise.next() as usize % call.len();
            call[place] = noise.next() as u8;
            let _ = stream.write_all(&call);
        }
    }
    noise.next().is_multiple_of(2).then_some(stream)
}

#[test]
fn a_thousand_bad_clients_do_not_keep_a_good_one_from_being_served() {
    let scene = Scene::new();
    let long = "j".repeat(300);
    (0..500).for_each(|at| scene.publisher.note(event(at, 1, &long)));
    let mut good = scene.client();
    good.status();
    let (left, done) = (AtomicUsize::new(4), AtomicBool::new(false));
    let served = std::thread::scope(|scope| {
        for seed in 0..4 {
            let (path, left, done) = (&scene.path, &left, &done);
            scope.spawn(move || {
                let mut noise = Noise(seed);
                let mut open = std::collections::VecDeque::new();
                for _ in 0..250 {
                    open.extend(misbehave(path, &mut noise));
                    // Fewer than there is room for, so that every client gets in.
                    if open.len() > 50 {
                        open.pop_front();
                    }
                }
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    done.store(true, Ordering::Release);
                }
            });
        }
        let mut served = 0;
        while !done.load(Ordering::Acquire) {
            good.status();
            scene.publisher.note(event(served, 1, &long));
            served += 1;
        }
        served
    });
    assert!(served > 0);
    scene.client().status();
    assert!(scene.handle().is_serving());
}

/// Connects until it is let in.
fn admitted(scene: &Scene) -> Talk {
    let started = std::time::Instant::now();
    while started.elapsed() < HANG {
        let mut client = scene.client();
        // A refused client may find the connection closed before it has asked.
        let asked = client.stream().write_all(&line(Request::Notify { pid: Some(1) }));
        if client.hear() == Some(Answer::Done { note: None }) && asked.is_ok() {
            return client;
        }
        std::thread::yield_now();
    }
    panic!("no client is let in");
}

#[test]
fn one_client_too_many_is_told_so_and_room_is_used_again() {
    let scene = Scene::new();
    for _ in 0..2 {
        let mut clients: Vec<Talk> = (0..256).map(|_| admitted(&scene)).collect();
        let refused = refusal(scene.client().hear().unwrap());
        assert_eq!(refused.kind, RefusalKind::Busy);
        assert!(refused.message.contains("256 clients"), "{refused}");
        assert_eq!(clients[255].call(Request::Notify { pid: Some(1) }), Answer::Done { note: None });
    }
}

#[test]
fn a_watcher_that_does_not_read_loses_events_and_is_told_how_many() {
    const EVENTS: u64 = 30_000;
    let scene = Scene::new();
    let (mut lazy, mut keen) = (scene.client(), scene.client());
    for client in [&mut lazy, &mut keen] {
        client.ask(Request::Watch);
        assert_eq!(client.call(Request::Notify { pid: Some(1) }), Answer::Done { note: None });
    }
    for at in 0..EVENTS {
        scene.publisher.note(event(at, 1, "train"));
        if at % 500 == 499 {
            assert_eq!(follow(&mut keen, at - 499, 500), (500, 0), "a client that reads misses nothing");
        }
    }
    let (seen, missed) = follow(&mut lazy, 0, EVENTS);
    assert!(seen > 1_000 && missed > 1_000, "{seen} seen, {missed} missed");
}

/// Reads events that are numbered from `first`. Returns how many were seen and how many were reported as missed; there
/// is no other gap.
fn follow(client: &mut Talk, first: u64, events: u64) -> (u64, u64) {
    let (mut seen, mut missed) = (0, 0);
    while seen + missed < events {
        match client.hear().unwrap() {
            Answer::Event(event) => {
                assert_eq!(event.at_ms, first + seen + missed);
                seen += 1;
            }
            Answer::Missed { events } => missed += events,
            other => panic!("{other:?}"),
        }
    }
    (seen, missed)
}

/// Set for a test that another test starts as a process, and not where all tests are run.
const CHILD: &str = "GPREEMPT_TEST_CHILD";

/// Runs one of the ignored tests of this program as a process of its own, and returns it with its ends of two pipes.
pub(super) fn child(command: &mut Command, test: &str) -> std::process::Child {
    let test = format!("control::tests::{test}");
    let command = command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", &test]).env(CHILD, "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
#[ignore = "a process of another test"]
fn child_with_few_descriptors() {
    use nix::sys::resource::{Resource, setrlimit};
    if std::env::var_os(CHILD).is_none() {
        // Among other tests it would take away their descriptors.
        return eprintln!("skipped: another test runs it");
    }
    let scene = Scene::new();
    setrlimit(Resource::RLIMIT_NOFILE, 32, 32).unwrap();
    println!("\nserves {}", scene.path.display());
    // Until the other end is closed.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    assert!(scene.handle().is_serving());
}

#[test]
fn without_descriptors_the_daemon_serves_who_is_there_and_the_others_later() {
    let mut server = child(&mut Command::new(std::env::current_exe().unwrap()), "hostile::child_with_few_descriptors");
    let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut lines = lines.skip_while(|line| !line.starts_with("serves "));
    let path = lines.next().unwrap().split_off("serves ".len());
    let mut clients: Vec<Talk> = (0..64).map(|_| Talk::new(UnixStream::connect(&path).unwrap())).collect();
    for client in &mut clients {
        client.ask(Request::Notify { pid: Some(1) });
    }
    let mut first = clients.remove(0);
    assert_eq!(first.hear(), Some(Answer::Done { note: None }));
    // Clients that have been accepted keep being served while others wait for a descriptor.
    for _ in 0..100 {
        assert_eq!(first.call(Request::Notify { pid: Some(1) }), Answer::Done { note: None });
    }
    for mut client in clients {
        // Each that goes makes room for one that waits.
        assert_eq!(client.hear(), Some(Answer::Done { note: None }));
    }
    drop(server.stdin.take());
    let rest: Vec<String> = lines.collect();
    assert!(server.wait().unwrap().success(), "{rest:?}");
}
