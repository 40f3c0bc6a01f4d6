//! What the document shows is what the daemon takes and says.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/control.md");

/// All documents in the blocks that are marked as JSON.
fn examples() -> Vec<Value> {
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let blocks = text.split("```json\n").skip(1).map(|rest| rest.split_once("```").expect("the block ends").0);
    blocks
        .flat_map(|block| {
            serde_json::Deserializer::from_str(block)
                .into_iter::<Value>()
                .map(|value| value.unwrap_or_else(|error| panic!("{error} in\n{block}")))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn names<'a>(values: &'a [Value], path: &str) -> BTreeSet<&'a str> {
    values.iter().filter_map(|value| value.pointer(path)?.as_str()).collect()
}

#[test]
fn every_example_is_what_the_types_say_to_the_last_key() {
    for example in examples() {
        let again = if example.get("request").is_some() {
            let call: Call =
                serde_json::from_value(example.clone()).unwrap_or_else(|error| panic!("{error}: {example}"));
            let text = serde_json::to_vec(&call).unwrap();
            assert_eq!(crate::control::line::parse(&text), Ok(call.request.clone()), "{example}");
            serde_json::to_value(call)
        } else {
            let answer: Answer =
                serde_json::from_value(example.clone()).unwrap_or_else(|error| panic!("{error}: {example}"));
            serde_json::to_value(answer)
        };
        assert_eq!(again.unwrap(), example);
    }
}

#[test]
fn every_request_answer_refusal_and_event_has_an_example() {
    let examples = examples();
    let requests = BTreeSet::from_iter(Request::NAMES.iter().copied());
    assert_eq!(names(&examples, "/request"), requests);
    let answers = ["done", "event", "log", "missed", "refused", "stats", "status"];
    assert_eq!(names(&examples, "/answer"), BTreeSet::from(answers));
    let refusals = ["busy", "configuration", "forbidden", "malformed", "observing", "range", "unknown", "version"];
    assert_eq!(names(&examples, "/kind"), BTreeSet::from(refusals));
    let events = [
        "actuator",
        "appeared",
        "backed_off",
        "failed",
        "gone",
        "held",
        "inversion_ended",
        "level_set",
        "managed",
        "preempted",
        "recovered",
        "released",
        "reloaded",
        "resumed",
        "unmanaged",
        "would_preempt",
    ];
    assert_eq!(names(&examples, "/event"), BTreeSet::from(events));
}
