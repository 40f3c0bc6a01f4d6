//! What a newer daemon of the same version may add, this client must accept: unknown keys in every object, unknown
//! words in every vocabulary, unknown events and unknown answers.

use std::fmt::{Debug, Display};

use gpreempt_proto::{
    Action, Answer, Bound, Bounds, Breaker, DaemonStats, Event, EventKind, GpuStats, GpuStatus, JobStatus, Mode,
    PolicyKind, QueueClass, QueueStatus, Reason, Refusal, RefusalKind, State, Stats, Status, TenantStatus, Why,
};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use strum::VariantArray;

/// The keys whose values are words of a vocabulary.
const VOCABULARIES: [&str; 9] = ["mode", "policy", "reason", "bound", "action", "state", "kind", "event", "answer"];

/// The keys that an event has whatever its kind.
const EVENT_KEYS: [&str; 7] = ["answer", "event", "at_ms", "gpu", "pid", "job", "uid"];

fn kinds() -> Vec<EventKind> {
    let message = || "words".to_owned();
    let mut kinds = vec![
        EventKind::Appeared { level: Some(3), rule: Some("batch".to_owned()) },
        EventKind::Gone,
        EventKind::InversionEnded { lasted_us: 1.5, winnable_us: 0.5 },
        EventKind::LevelSet { from: 3, to: 4, by_uid: 0 },
        EventKind::Held { seconds: 60, by_uid: 0 },
        EventKind::Released,
        EventKind::Unmanaged { by_uid: 0 },
        EventKind::Managed { by_uid: 0 },
        EventKind::BackedOff { message: message(), seconds: 30.0 },
        EventKind::Recovered,
        EventKind::Actuator { message: message() },
        EventKind::Reloaded { message: message() },
    ];
    kinds.extend(Action::VARIANTS.iter().map(|&action| EventKind::Failed { action, message: message() }));
    for &reason in Reason::VARIANTS {
        kinds.push(EventKind::Resumed { reason, stopped_us: 1.0, took_us: 2.0 });
        kinds.push(EventKind::WouldPreempt { reason, by: None });
    }
    for &bound in Bound::VARIANTS {
        let (reason, by) = (Reason::HigherWants, Some("serve".to_owned()));
        let (after_us, took_us, seen_ns) = (1.0, 2.0, Some(3));
        kinds.push(EventKind::Preempted { reason, by, bound, after_us, took_us, queues: 1, seen_ns });
    }
    kinds
}

fn events() -> Vec<Event> {
    let event = |kind| {
        let (gpu, job) = (Some("0000:c1:00.0".to_owned()), Some("train".to_owned()));
        Event { at_ms: 7, kind, gpu, pid: Some(4711), job, uid: Some(1000) }
    };
    kinds().into_iter().map(event).collect()
}

fn status(mode: Mode) -> Status {
    let gpu = |&policy: &PolicyKind| {
        let breaker = Some(Breaker { message: "words".to_owned(), retry_in_s: 1.0 });
        GpuStatus { policy, breaker, overcommitted: true, ..GpuStatus::default() }
    };
    let queue = |&kind: &QueueClass| QueueStatus { kind, ..QueueStatus::default() };
    let tenant = |&state: &State| TenantStatus {
        state,
        why: Some(Why { reason: Reason::HigherWants, by: None }),
        queues: QueueClass::VARIANTS.iter().map(queue).collect(),
        ..TenantStatus::default()
    };
    Status {
        mode,
        gpus: PolicyKind::VARIANTS.iter().map(gpu).collect(),
        jobs: vec![JobStatus { bounds: Some(Bounds::default()), ..JobStatus::default() }],
        tenants: State::VARIANTS.iter().map(tenant).collect(),
        ..Status::default()
    }
}

/// At least one answer of each kind, with every word of every vocabulary.
fn answers() -> Vec<Answer> {
    let stats = Stats { daemon: DaemonStats::default(), gpus: vec![GpuStats::default()], ..Stats::default() };
    let mut answers = vec![
        Answer::Stats(Box::new(stats)),
        Answer::Log { events: events(), truncated: false },
        Answer::Missed { events: 3 },
        Answer::Done { note: Some("words".to_owned()) },
    ];
    answers.extend(Mode::VARIANTS.iter().map(|&mode| Answer::Status(Box::new(status(mode)))));
    answers.extend(events().into_iter().map(|event| Answer::Event(Box::new(event))));
    let refusal = |&kind: &RefusalKind| Answer::Refused(Refusal { kind, message: "words".to_owned() });
    answers.extend(RefusalKind::VARIANTS.iter().map(refusal));
    answers
}

/// Adds to a document what a newer daemon may add, as `replace` and `extra` choose, and returns what this client is to
/// make of it.
fn age(document: &mut Value, replace: &mut impl FnMut() -> bool, extra: &mut impl FnMut() -> Option<Value>) -> Value {
    match document {
        Value::Array(items) => items.iter_mut().map(|item| age(item, replace, extra)).collect(),
        Value::Object(keys) => {
            let mut expected = Map::new();
            for (key, value) in &mut *keys {
                let replaced = VOCABULARIES.contains(&key.as_str()) && value.is_string() && replace();
                expected.insert(key.clone(), if replaced { "other".into() } else { age(value, replace, extra) });
                if replaced {
                    *value = "a_word_of_the_future".into();
                }
            }
            if let Some(extra) = extra() {
                keys.insert("a_key_of_the_future".to_owned(), extra);
            }
            if expected.get("answer").is_some_and(|answer| answer == "other") {
                expected.retain(|key, _| key == "answer");
            } else if expected.get("event").is_some_and(|event| event == "other") {
                expected.retain(|key, _| EVENT_KEYS.contains(&key.as_str()));
            }
            Value::Object(expected)
        }
        plain => plain.clone(),
    }
}

/// Any value that JSON knows.
fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z \"\\\\ü]{0,12}".prop_map(Value::from),
        Just(json!([1, {"deep": [null, "x"]}])),
        Just(json!({"reason": 3, "answer": []})),
    ]
}

proptest! {
    #[test]
    fn a_client_reads_what_a_newer_daemon_says(
        index in any::<prop::sample::Index>(),
        replaced in prop::collection::vec(any::<bool>(), 1..40),
        extras in prop::collection::vec(prop::option::of(anything()), 1..40),
    ) {
        let answers = answers();
        let answer = &answers[index.index(answers.len())];
        let mut document = serde_json::to_value(answer).unwrap();
        let (mut replaced, mut extras) = (replaced.into_iter().cycle(), extras.into_iter().cycle());
        let expected = age(&mut document, &mut || replaced.next().unwrap(), &mut || extras.next().unwrap());
        let line = serde_json::to_string(&document).unwrap();
        let heard: Answer = serde_json::from_str(&line).map_err(|error| TestCaseError::fail(format!("{error}: {line}")))?;
        prop_assert_eq!(serde_json::to_value(heard).unwrap(), expected);
    }
}

#[test]
fn with_everything_unknown_every_answer_is_still_read() {
    for answer in answers() {
        let mut document = serde_json::to_value(&answer).unwrap();
        let expected = age(&mut document, &mut || true, &mut || Some(json!({"new": true})));
        let heard: Answer =
            serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{error}: {document}"));
        assert_eq!(serde_json::to_value(heard).unwrap(), expected);
    }
}

fn check_vocabulary<T>(other: T)
where
    T: VariantArray + Serialize + DeserializeOwned + Display + PartialEq + Debug,
{
    for word in T::VARIANTS {
        let text = serde_json::to_value(word).unwrap();
        assert_eq!(text, word.to_string(), "people and programs read the same word");
        assert_eq!(serde_json::from_value::<T>(text).unwrap(), *word);
    }
    assert_eq!(serde_json::from_value::<T>("a_word_of_the_future".into()).unwrap(), other);
    assert_eq!(other.to_string(), "other");
}

#[test]
fn every_vocabulary_has_its_words_and_another_for_those_to_come() {
    check_vocabulary(Mode::Other);
    check_vocabulary(PolicyKind::Other);
    check_vocabulary(Reason::Other);
    check_vocabulary(Bound::Other);
    check_vocabulary(Action::Other);
    check_vocabulary(State::Other);
    check_vocabulary(QueueClass::Other);
    check_vocabulary(RefusalKind::Other);
}
