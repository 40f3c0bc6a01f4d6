//! Every call and every refusal.

use std::net::Shutdown;
use std::sync::mpsc::RecvTimeoutError;

use gpreempt_proto::LONGEST_LINE;

use super::*;
use crate::config::Config;

fn me() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[test]
fn status_and_stats_are_what_the_host_publishes() {
    let scene = Scene::new();
    let mut client = scene.client();
    assert_eq!(client.status(), Status::default());
    assert_eq!(client.call(Request::Stats), Answer::Stats(Box::new(Stats { schema: 7, ..Stats::default() })));
}

#[test]
fn changes_reach_the_host_with_their_user_and_its_answer_comes_back() {
    let scene = Scene::new();
    let mut client = scene.client();
    let target = || Target::Job("train".to_owned());
    let changes = [
        Request::Set { target: target(), level: 9 },
        Request::Hold { target: target(), seconds: 60 },
        Request::Release { target: Target::Pid(4) },
        Request::Unmanage { pid: 4 },
        Request::Manage { pid: 4 },
    ];
    for (number, request) in (1..).zip(changes) {
        let note = format!("change {number} by {}: {request:?}", me());
        assert_eq!(client.call(request), Answer::Done { note: Some(note) });
    }
}

#[test]
fn a_status_after_a_change_shows_it_to_every_client() {
    let scene = Scene::new();
    let (mut client, mut other) = (scene.client(), scene.client());
    // The burst that the rate limit allows.
    for number in 1..=90 {
        client.call(Request::Release { target: Target::Pid(1) });
        let watcher = if number % 2 == 0 { &mut client } else { &mut other };
        assert_eq!(watcher.status().daemon_pid, number);
    }
}

#[test]
fn a_notification_is_about_the_sender_unless_it_names_another() {
    let scene = Scene::new();
    let mut client = scene.client();
    assert_eq!(client.call(Request::Notify { pid: None }), Answer::Done { note: None });
    assert_eq!(client.call(Request::Notify { pid: Some(77) }), Answer::Done { note: None });
    let told: Vec<(u32, u32)> = (0..2)
        .map(|_| match scene.inputs.recv_timeout(HANG).unwrap() {
            Input::Notified { pid, uid } => (pid, uid),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [(std::process::id(), me()), (77, me())]);
}

#[test]
fn a_notification_arrives_though_its_sender_is_gone() {
    let scene = Scene::new();
    let mut client = scene.client();
    client.ask(Request::Notify { pid: Some(5) });
    drop(client);
    assert!(matches!(scene.inputs.recv_timeout(HANG), Ok(Input::Notified { pid: 5, .. })));
}

#[test]
fn a_watcher_sees_events_from_then_on_in_order_and_may_still_ask() {
    let scene = Scene::new();
    scene.publisher.note(event(1, 10, "before"));
    let mut client = scene.client();
    client.ask(Request::Watch);
    assert_eq!(client.call(Request::Notify { pid: Some(5) }), Answer::Done { note: None }, "the watch has begun");
    for at in 2..200 {
        scene.publisher.note(event(at, 10, "train"));
    }
    for at in 2..200 {
        assert_eq!(client.hear(), Some(Answer::Event(Box::new(event(at, 10, "train")))));
    }
}

#[test]
fn the_log_is_filtered_by_time_target_and_number() {
    let scene = Scene::new();
    for at in 1..=900 {
        scene.publisher.note(event(at, (at % 3) as u32, if at % 2 == 0 { "even" } else { "odd" }));
    }
    let mut client = scene.client();
    let mut log = |since_ms, target, limit| match client.call(Request::Log { since_ms, target, limit }) {
        Answer::Log { events, truncated } => (events.iter().map(|event| event.at_ms).collect::<Vec<_>>(), truncated),
        other => panic!("{other:?}"),
    };
    assert_eq!(log(None, None, None), ((1..=900).collect(), false));
    assert_eq!(log(Some(898), None, None), (vec![898, 899, 900], false));
    assert_eq!(log(Some(895), Some(Target::Job("odd".to_owned())), None), (vec![895, 897, 899], false));
    assert_eq!(log(None, Some(Target::Pid(0)), Some(2)), (vec![897, 900], true));
    assert_eq!(log(None, Some(Target::Pid(9)), None), (vec![], false));
    (901..=1_100).for_each(|at| scene.publisher.note(event(at, 1, "odd")));
    assert_eq!(log(None, None, None), ((101..=1_100).collect(), true), "100 were forgotten");
    assert!(log(Some(100), None, None).1);
    assert!(!log(Some(101), None, None).1, "nothing of that time was forgotten");
}

#[test]
fn a_log_longer_than_a_line_is_cut_at_its_old_end() {
    let scene = Scene::new();
    let long = "j".repeat(10_000);
    (0..300).for_each(|at| scene.publisher.note(event(at, 1, &long)));
    let mut client = scene.client();
    client.ask(Request::Log { since_ms: None, target: None, limit: None });
    let mut text = String::new();
    client.reader.read_line(&mut text).unwrap();
    assert!(text.len() <= LONGEST_LINE, "{}", text.len());
    match serde_json::from_str(&text).unwrap() {
        Answer::Log { events, truncated: true } => {
            assert!(events.len() > 90, "{}", events.len());
            assert_eq!(events.last().unwrap().at_ms, 299);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_come_in_the_order_of_the_calls() {
    let scene = Scene::new();
    let mut client = scene.client();
    let log = || Request::Log { since_ms: None, target: None, limit: None };
    let mut calls = Vec::new();
    for _ in 0..20 {
        for request in [Request::Status, log(), Request::Release { target: Target::Pid(1) }, Request::Stats] {
            calls.extend(line(request));
        }
    }
    client.send(&calls);
    let mut hear = || client.hear().expect("an answer");
    for _ in 0..20 {
        let status = hear();
        assert!(matches!(status, Answer::Status(_)) || is_late(&status), "{status:?}");
        assert!(matches!(hear(), Answer::Log { .. }));
        assert!(matches!(hear(), Answer::Done { .. }));
        let stats = hear();
        assert!(matches!(stats, Answer::Stats(_)) || is_late(&stats), "{stats:?}");
    }
}

#[test]
fn who_sends_no_more_is_still_answered_and_then_closed() {
    let scene = Scene::new();
    let mut client = scene.client();
    let mut calls = line(Request::Release { target: Target::Pid(1) });
    calls.extend(line(Request::Status));
    // The last line without its end.
    calls.pop();
    client.send(&calls);
    client.stream().shutdown(Shutdown::Write).unwrap();
    assert!(matches!(client.hear(), Some(Answer::Done { .. })));
    assert!(matches!(client.hear(), Some(Answer::Status(_))));
    assert_eq!(client.hear(), None);
}

#[test]
fn calls_that_are_not_understood_are_refused_and_the_connection_goes_on() {
    let scene = Scene::new();
    let mut client = scene.client();
    for (bytes, kind) in [
        (&b"\xff\xfe\x00\n"[..], RefusalKind::Malformed),
        (b"{\"version\":1,\"request\":\"status\"}\n", RefusalKind::Version),
        (b"{\"version\":2,\"request\":\"dance\"}\n", RefusalKind::Malformed),
        (b"{\"version\":2,\"request\":\"set\",\"target\":{\"pid\":1},\"level\":16}\n", RefusalKind::Range),
    ] {
        client.send(bytes);
        assert_eq!(refusal(client.hear().unwrap()).kind, kind);
    }
    client.status();
}

#[test]
fn a_client_that_only_talks_nonsense_is_closed() {
    let scene = Scene::new();
    let mut client = scene.client();
    client.send(&b"what?\n".repeat(100));
    let answers = std::iter::from_fn(|| client.hear()).map(|answer| refusal(answer).kind);
    assert_eq!(answers.collect::<Vec<_>>(), [RefusalKind::Malformed; 16]);
}

#[test]
fn a_burst_of_changes_is_carried_out_and_refused_ones_do_not_reach_the_engine() {
    let scene = Scene::new();
    let mut client = scene.client();
    let answers: Vec<Answer> = (0..400).map(|_| client.call(Request::Release { target: Target::Pid(1) })).collect();
    assert!(!answers[..100].iter().any(is_busy));
    let done = answers.iter().filter(|answer| !is_busy(answer)).count();
    assert_eq!(client.status().daemon_pid as usize, done);
}

#[test]
fn a_host_that_drops_a_change_is_said_to_end() {
    let scene = Scene::with(Box::new(|| Err(String::new())), |_, input| match input {
        Input::Request(asked) => {
            drop(asked);
            None
        }
        other => Some(other),
    });
    let refused = scene.client().refused(Request::Release { target: Target::Pid(1) });
    assert_eq!(refused.kind, RefusalKind::Busy);
    assert!(refused.message.contains("shutting down"), "{refused}");
}

#[test]
fn a_host_that_publishes_nothing_is_reported_and_the_log_still_answers() {
    let scene = Scene::with(Box::new(|| Err(String::new())), |_, input| Some(input));
    scene.publisher.note(event(1, 1, "train"));
    let mut waiting = scene.client();
    waiting.ask(Request::Status);
    let log = Request::Log { since_ms: None, target: None, limit: None };
    assert!(matches!(scene.client().call(log), Answer::Log { .. }));
    let refused = refusal(waiting.hear().unwrap());
    assert_eq!(refused.kind, RefusalKind::Busy);
    assert!(refused.message.contains("the daemon does not answer"), "{refused}");
}

#[test]
fn a_good_configuration_reaches_the_host() {
    let load = || {
        let mut config = Config::default();
        config.source = Some("/etc/gpreempt/gpreempt.toml".into());
        config.log_events = 64;
        Ok(config)
    };
    let scene = Scene::with(Box::new(load), |_, input| Some(input));
    (0..500).for_each(|at| scene.publisher.note(event(at, 1, "train")));
    match scene.client().call(Request::Reload) {
        Answer::Done { note: Some(note) } => assert!(note.contains("/etc/gpreempt/gpreempt.toml"), "{note}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(scene.inputs.recv_timeout(HANG), Ok(Input::Configured(config)) if config.log_events == 64));
    assert_eq!(scene.publisher.events_from(0).first, 501 - 64, "the log keeps as many as it says");
    scene.handle().reload();
    assert!(matches!(scene.inputs.recv_timeout(HANG), Ok(Input::Configured(_))));
}

#[test]
fn a_bad_configuration_is_refused_with_its_whole_message_and_goes_nowhere() {
    let message = "gpreempt.toml:3:7: level 99 is out of range\n  levels are 0 to 15";
    let scene = Scene::with(Box::new(|| Err(message.to_owned())), |_, input| Some(input));
    let refused = scene.client().refused(Request::Reload);
    assert_eq!(refused, Refusal { kind: RefusalKind::Configuration, message: message.to_owned() });
    let log = Request::Log { since_ms: None, target: None, limit: None };
    match scene.client().call(log) {
        Answer::Log { events, .. } => assert!(
            matches!(&events[..], [Event { kind: EventKind::Reloaded { message: told }, .. }] if told.contains(message)),
            "{events:?}"
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.inputs.recv_timeout(Duration::ZERO).unwrap_err(), RecvTimeoutError::Timeout);
}

#[test]
fn the_end_closes_connections_and_removes_the_socket() {
    let mut scene = Scene::new();
    let mut client = scene.client();
    client.call(Request::Status);
    assert!(scene.handle().is_serving());
    drop(scene.handle.take());
    assert_eq!(client.hear(), None);
    assert!(!scene.path.exists());
}
