//! Parses the lines of clients and renders answers.

use gpreempt_core::Level;
use gpreempt_proto::{Answer, LONGEST_LINE, Refusal, RefusalKind, Request, VERSION};
use serde_json::Value;

/// Longest line that is a request.
pub(super) const LONGEST_REQUEST: usize = 64 * 1024;

/// Parses a line, whatever it contains.
pub(super) fn parse(line: &[u8]) -> Result<Request, Refusal> {
    let malformed = |message: String| Refusal { kind: RefusalKind::Malformed, message };
    if line.len() > LONGEST_REQUEST {
        return Err(too_long());
    }
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        malformed(format!(
            "not a JSON document ({error}); a call is one line like {{\"version\":{VERSION},\"request\":\"status\"}}"
        ))
    })?;
    let Value::Object(call) = &value else {
        return Err(malformed(format!(
            "a call is a JSON object like {{\"version\":{VERSION},\"request\":\"status\"}}"
        )));
    };
    match call.get("version").map(|version| version.as_u64().ok_or(version)) {
        Some(Ok(version)) if version == u64::from(VERSION) => {}
        Some(Ok(version)) => return Err(other_version(&version.to_string())),
        Some(Err(version)) => return Err(other_version(&shorten(&version.to_string()))),
        None => return Err(malformed(format!("the key \"version\" is missing; this daemon speaks version {VERSION}"))),
    }
    let known = Request::NAMES.join(", ");
    match call.get("request").map(|name| name.as_str().ok_or(name)) {
        Some(Ok(name)) if Request::NAMES.contains(&name) => {}
        Some(Ok(name)) => {
            return Err(malformed(format!("unknown request {:?}; there are {known}", shorten(name))));
        }
        Some(Err(name)) => {
            return Err(malformed(format!(
                "the request is {}, not a name; there are {known}",
                shorten(&name.to_string())
            )));
        }
        None => return Err(malformed(format!("the key \"request\" is missing; there are {known}"))),
    }
    // A number too large for its type would be reported as malformed, though only its value is wrong.
    let level = call.get("level").and_then(Value::as_number);
    let highest = u64::from(Level::MAX.get());
    if let Some(level) = level.filter(|level| level.as_u64().is_none_or(|level| level > highest)) {
        let message = format!("level {} is out of range; levels are 0 to {highest}", shorten(&level.to_string()));
        return Err(Refusal { kind: RefusalKind::Range, message });
    }
    let name = call.get("request").and_then(Value::as_str).unwrap_or_default().to_owned();
    serde_json::from_value(value)
        .map_err(|error| malformed(format!("request {name:?}: {}", shorten(&error.to_string()))))
}

/// Returns the refusal of a line that is too long.
pub(super) fn too_long() -> Refusal {
    let message = format!("a line of more than {LONGEST_REQUEST} bytes; no request is that long");
    Refusal { kind: RefusalKind::Malformed, message }
}

fn other_version(theirs: &str) -> Refusal {
    let message = format!(
        "the call is of version {theirs}, this daemon speaks version {VERSION}; use the command of the daemon's release"
    );
    Refusal { kind: RefusalKind::Version, message }
}

/// Shortens a client's own text for an error message.
fn shorten(text: &str) -> String {
    const MOST: usize = 120;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Renders an answer as a line. If it is longer than a client accepts, a status loses its lists of queues, of which a
/// process may have hundreds; an answer that is still too long becomes a refusal.
pub(super) fn render(answer: &Answer) -> Vec<u8> {
    let whole = |answer: &Answer| serde_json::to_vec(answer).ok().filter(|line| line.len() < LONGEST_LINE);
    let mut line = whole(answer).or_else(|| whole(&without_queues(answer)?)).unwrap_or_else(|| {
        let message = format!("the answer is longer than {LONGEST_LINE} bytes, more than a line may be");
        let refusal = Answer::Refused(Refusal { kind: RefusalKind::Busy, message });
        serde_json::to_vec(&refusal).unwrap_or_default()
    });
    line.push(b'\n');
    line
}

fn without_queues(answer: &Answer) -> Option<Answer> {
    let Answer::Status(status) = answer else { return None };
    let mut status = status.clone();
    status.tenants.iter_mut().for_each(|tenant| tenant.queues.clear());
    Some(Answer::Status(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpreempt_proto::{Call, QueueStatus, Status, Target, TenantStatus};
    use proptest::prelude::*;

    fn all() -> Vec<Request> {
        let target = || Target::Job("train".to_owned());
        vec![
            Request::Status,
            Request::Stats,
            Request::Log { since_ms: Some(1), target: Some(Target::Pid(3)), limit: Some(10) },
            Request::Watch,
            Request::Set { target: target(), level: 15 },
            Request::Hold { target: target(), seconds: 60 },
            Request::Release { target: Target::Pid(7) },
            Request::Unmanage { pid: 7 },
            Request::Manage { pid: 7 },
            Request::Notify { pid: None },
            Request::Reload,
        ]
    }

    fn refused(line: &str) -> Refusal {
        parse(line.as_bytes()).expect_err(line)
    }

    #[test]
    fn every_request_is_understood_and_named() {
        assert_eq!(all().len(), Request::NAMES.len());
        for (request, name) in all().into_iter().zip(Request::NAMES) {
            let line = serde_json::to_string(&Call::new(request.clone())).unwrap();
            assert!(line.contains(&format!("\"request\":\"{name}\"")), "{line}");
            assert_eq!(parse(line.as_bytes()), Ok(request), "{line}");
        }
    }

    #[test]
    fn unknown_keys_are_ignored() {
        assert_eq!(parse(br#"{"version":2,"request":"status","colour":"red"}"#), Ok(Request::Status));
    }

    #[test]
    fn another_version_is_refused_with_both_numbers() {
        for theirs in ["1", "3", "0", "-1", "\"2\"", "1.5"] {
            let refusal = refused(&format!(r#"{{"version":{theirs},"request":"from the future"}}"#));
            assert_eq!(refusal.kind, RefusalKind::Version);
            assert!(refusal.message.contains(&format!("version {theirs},")), "{refusal}");
            assert!(refusal.message.contains("speaks version 2"), "{refusal}");
        }
    }

    #[test]
    fn an_unknown_request_is_told_the_known_ones() {
        for line in [r#"{"version":2,"request":"dance"}"#, r#"{"version":2}"#, r#"{"version":2,"request":[1]}"#] {
            let refusal = refused(line);
            assert_eq!(refusal.kind, RefusalKind::Malformed);
            for name in Request::NAMES {
                assert!(refusal.message.contains(name), "{refusal}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, kind, word) in [
            ("", RefusalKind::Malformed, "JSON"),
            ("status", RefusalKind::Malformed, "JSON"),
            ("[1]", RefusalKind::Malformed, "object"),
            (r#"{"request":"status"}"#, RefusalKind::Malformed, "version"),
            (r#"{"version":2,"request":"set","level":3}"#, RefusalKind::Malformed, "target"),
            (r#"{"version":2,"request":"set","target":{"pid":1},"level":16}"#, RefusalKind::Range, "16"),
            (r#"{"version":2,"request":"set","target":{"pid":1},"level":300}"#, RefusalKind::Range, "0 to 15"),
            (r#"{"version":2,"request":"set","target":{"pid":1},"level":-1}"#, RefusalKind::Range, "-1"),
            (r#"{"version":2,"request":"set","target":{"pid":-1},"level":1}"#, RefusalKind::Malformed, "-1"),
            (r#"{"version":2,"request":"set","target":"train","level":1}"#, RefusalKind::Malformed, "train"),
        ] {
            let refusal = refused(line);
            assert_eq!(refusal.kind, kind, "{line}: {refusal}");
            assert!(refusal.message.contains(word), "{line}: {refusal}");
        }
    }

    #[test]
    fn a_long_or_deep_line_gets_a_short_answer() {
        let name = "x".repeat(50_000);
        let deep = "[".repeat(60_000);
        for line in [format!(r#"{{"version":2,"request":"{name}"}}"#), deep, "y".repeat(LONGEST_REQUEST + 1)] {
            assert!(refused(&line).message.len() < 400);
        }
    }

    #[test]
    fn an_answer_longer_than_a_line_becomes_a_refusal() {
        let answer = Answer::Done { note: Some("n".repeat(LONGEST_LINE)) };
        let told: Answer = serde_json::from_slice(&render(&answer)).unwrap();
        assert!(matches!(told, Answer::Refused(Refusal { kind: RefusalKind::Busy, .. })), "{told:?}");
    }

    #[test]
    fn a_status_with_very_many_queues_is_told_without_them() {
        let tenant = |pid| TenantStatus { pid, queues: vec![QueueStatus::default(); 100], ..TenantStatus::default() };
        let status = Status { tenants: (0..512).map(tenant).collect(), ..Status::default() };
        let line = render(&Answer::Status(Box::new(status)));
        assert!(line.len() <= LONGEST_LINE);
        match serde_json::from_slice(&line).unwrap() {
            Answer::Status(told) => {
                assert_eq!(told.tenants.len(), 512);
                assert!(told.tenants.iter().all(|tenant| tenant.queues.is_empty()));
            }
            other => panic!("{other:?}"),
        }
    }

    /// Calls with random parts replaced: closer to what is accepted than random bytes are.
    fn nearly() -> impl Strategy<Value = Vec<u8>> {
        let call = prop::sample::select(all()).prop_map(|request| serde_json::to_vec(&Call::new(request)).unwrap());
        let change = (any::<prop::sample::Index>(), any::<u8>());
        (call, prop::collection::vec(change, 0..4)).prop_map(|(mut line, changes)| {
            for (index, byte) in changes {
                let place = index.index(line.len());
                line[place] = byte;
            }
            line
        })
    }

    proptest! {
        #[test]
        fn any_bytes_are_understood_or_refused(line in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Err(refusal) = parse(&line) {
                prop_assert!(!render(&Answer::Refused(refusal)).is_empty());
            }
        }

        #[test]
        fn damaged_calls_are_understood_or_refused(line in nearly()) {
            if let Ok(Request::Set { level, .. }) = parse(&line) {
                prop_assert!(level <= 15);
            }
        }
    }
}
