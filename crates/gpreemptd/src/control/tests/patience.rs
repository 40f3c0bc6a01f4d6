//! What the handler does at which time: with a clock of the test's own.

use gpreempt_core::Nanos;

use super::*;
use crate::clock;
use crate::control::Peer;
use crate::control::client::Client;
use crate::control::handler::RequestHandler;

struct Bench {
    handler: RequestHandler,
    publisher: Arc<Publisher>,
    inbox: crate::inbox::Inbox,
    _host: crate::inbox::InputSender,
}

impl Bench {
    fn new() -> Bench {
        let publisher = Publisher::new(100).unwrap();
        let (to_host, inbox) = crate::os::channel::channel().unwrap();
        let handler = RequestHandler::new(Arc::clone(&publisher), to_host.clone(), Box::new(|| Err(String::new())));
        Bench { handler, publisher, inbox, _host: to_host }
    }

    /// A client of this user that has sent these calls.
    fn client(uid: u32, requests: impl IntoIterator<Item = Request>) -> (Client, Talk) {
        let (theirs, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut talk = Talk::new(theirs);
        requests.into_iter().for_each(|request| talk.ask(request));
        let mut client = Client::new(ours, Peer { uid, daemon_uid: 0 }, None);
        client.receive().unwrap();
        (client, talk)
    }

    fn turn(&mut self, clients: &mut [Client], now: Nanos) {
        clients.iter_mut().for_each(|client| self.handler.serve(client, now));
        self.handler.deliver(clients.iter_mut(), now);
        clients.iter_mut().for_each(|client| client.flush(now).unwrap());
    }
}

#[test]
fn publications_are_asked_for_at_most_every_20_ms_however_many_ask() {
    let mut bench = Bench::new();
    // So late that every publication of this test is too old when it is asked for.
    let start = clock::now().plus(Nanos::from_secs(3600));
    let mut asked = Vec::new();
    for ms in 0..200 {
        let now = start.plus(Nanos::from_millis(ms));
        let mut clients: Vec<_> = (0..5).map(|_| Bench::client(0, [Request::Status]).0).collect();
        bench.turn(&mut clients, now);
        asked.extend(bench.inbox.try_iter().map(|input| {
            assert!(matches!(input, Input::Publish), "{input:?}");
            ms
        }));
        if bench.publisher.wanted() {
            bench.publisher.publish(Status::default(), Stats::default());
        }
    }
    assert_eq!(asked, [0, 20, 40, 60, 80, 100, 120, 140, 160, 180]);
}

#[test]
fn a_publication_that_does_not_come_is_asked_for_again() {
    let mut bench = Bench::new();
    let start = clock::now();
    let (client, mut talk) = Bench::client(0, [Request::Status, Request::Status]);
    let mut clients = [client];
    bench.turn(&mut clients, start);
    assert_eq!(bench.inbox.try_iter().count(), 1);
    bench.turn(&mut clients, start.plus(Nanos::from_millis(499)));
    assert_eq!(bench.inbox.try_iter().count(), 0);
    bench.turn(&mut clients, start.plus(Nanos::from_millis(500)));
    assert!(is_busy(&talk.hear().unwrap()));
    bench.turn(&mut clients, start.plus(Nanos::from_millis(501)));
    assert_eq!(bench.inbox.try_iter().count(), 1, "for the second call");
}

#[test]
fn a_change_that_is_not_answered_is_given_up_and_its_late_answer_goes_nowhere() {
    let mut bench = Bench::new();
    let start = clock::now();
    let (client, mut talk) =
        Bench::client(1000, [Request::Release { target: Target::Pid(1) }, Request::Release { target: Target::Pid(2) }]);
    let mut clients = [client];
    bench.turn(&mut clients, start);
    let Ok(Input::Request(first)) = bench.inbox.try_recv() else { panic!("nothing was asked") };
    bench.turn(&mut clients, start.plus(Nanos::from_secs(3)));
    assert!(is_busy(&talk.hear().unwrap()));
    bench.turn(&mut clients, start.plus(Nanos::from_secs(3)));
    let Ok(Input::Request(second)) = bench.inbox.try_recv() else { panic!("the second was not asked") };
    first.answer.send(Answer::Done { note: Some("first".to_owned()) });
    bench.turn(&mut clients, start.plus(Nanos::from_secs(4)));
    second.answer.send(Answer::Done { note: Some("second".to_owned()) });
    bench.turn(&mut clients, start.plus(Nanos::from_secs(4)));
    assert_eq!(talk.hear(), Some(Answer::Done { note: Some("second".to_owned()) }));
}

#[test]
fn each_user_has_its_own_allowance_for_each_kind_of_call() {
    let mut bench = Bench::new();
    let now = clock::now();
    let log = || Request::Log { since_ms: None, target: None, limit: Some(0) };
    let mut passed = |uid, request: &dyn Fn() -> Request, count: usize| {
        let mut passed = 0;
        for _ in 0..count {
            let (client, mut talk) = Bench::client(uid, [request()]);
            bench.turn(&mut [client], now);
            passed += usize::from(!is_busy(&talk.hear().unwrap()));
        }
        passed
    };
    assert_eq!(passed(1000, &|| Request::Notify { pid: Some(1) }, 2_100), 2_000);
    assert_eq!(passed(1000, &log, 500), 400);
    assert_eq!(passed(1001, &log, 500), 400);
    assert_eq!(passed(0, &log, 500), 500, "an operator may look as often as needed");
}

#[test]
fn more_changes_than_a_user_may_make_do_not_reach_the_host() {
    let mut bench = Bench::new();
    let now = clock::now();
    for uid in [1000, 0] {
        for _ in 0..150 {
            let (client, _talk) = Bench::client(uid, [Request::Release { target: Target::Pid(1) }]);
            bench.turn(&mut [client], now);
        }
        assert_eq!(bench.inbox.try_iter().count(), 100, "user {uid}");
    }
    let (client, _talk) = Bench::client(1000, [Request::Release { target: Target::Pid(1) }]);
    bench.turn(&mut [client], now.plus(Nanos::from_millis(20)));
    assert_eq!(bench.inbox.try_iter().count(), 1, "50 per second");
}

#[test]
fn only_the_operator_reloads() {
    let mut bench = Bench::new();
    let (client, mut talk) = Bench::client(1000, [Request::Reload]);
    bench.turn(&mut [client], clock::now());
    assert_eq!(refusal(talk.hear().unwrap()).kind, RefusalKind::Forbidden);
}

#[test]
fn a_sender_from_another_pid_namespace_has_to_name_the_process() {
    let mut bench = Bench::new();
    let (client, mut talk) = Bench::client(1000, [Request::Notify { pid: None }]);
    bench.turn(&mut [client], clock::now());
    assert_eq!(refusal(talk.hear().unwrap()).kind, RefusalKind::Unknown);
}

#[test]
fn who_takes_nothing_of_an_answer_is_closed_after_a_while_but_a_watcher_is_not() {
    for watch in [false, true] {
        let mut bench = Bench::new();
        let start = clock::now();
        let long = "j".repeat(1_000);
        (0..100).for_each(|at| bench.publisher.note(event(at, 1, &long)));
        let log = || Request::Log { since_ms: None, target: None, limit: None };
        let first = if watch { Request::Watch } else { log() };
        let (client, talk) = Bench::client(0, std::iter::once(first).chain((0..50).map(|_| log())));
        let mut clients = [client];
        for _ in 0..10 {
            bench.turn(&mut clients, start);
        }
        let [client] = &clients;
        assert!(!client.has_room(), "socket and output are full");
        assert!(!client.is_over(start.plus(Nanos::from_millis(9_999))));
        assert_eq!(client.is_over(start.plus(Nanos::from_secs(10))), !watch);
        drop(talk);
    }
}
