//! One block with gpreempt as a trace for ui.perfetto.dev: requests, stops, offline kernels.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use gpreempt_output::perfetto::{ChromeEvent, List};
use gpreempt_proto::EventKind;
use serde_json::{Value, json};

use crate::environment::block::Outcome;

/// Rows of the trace.
const REQUESTS: usize = 1;
const ANSWERING: usize = 2;
const STOPS: usize = 3;
const OFFLINE: usize = 4;
/// All rows belong to one gpu.
const GPU: usize = 1;

pub(super) fn write(path: &Path, kind: &str, gpu: &str, outcome: &Outcome) -> Result<()> {
    let failed = || format!("cannot write the trace {}", path.display());
    let file = File::create(path).with_context(failed)?;
    write_to(BufWriter::new(file), kind, gpu, outcome).with_context(failed)
}

fn write_to(writer: impl Write, kind: &str, gpu: &str, outcome: &Outcome) -> Result<()> {
    let mut list = List::begin(writer, &json!({ "kind": kind, "gpu": gpu, "arm": "with gpreempt" }))?;
    let mut row = |name: &str, tid: usize, args: Value| {
        list.push(&ChromeEvent { name, ph: "M", pid: GPU, tid, args, ..ChromeEvent::default() })
    };
    row("process_name", 0, json!({ "name": format!("demo with gpreempt, {kind}") }))?;
    let rows = [
        (REQUESTS, "online: requests from arrival"),
        (ANSWERING, "online: kernels of a request"),
        (STOPS, "offline: stopped by gpreempt"),
        (OFFLINE, "offline: kernels from end to end"),
    ];
    for (tid, name) in rows {
        row("thread_name", tid, json!({ "name": name }))?;
        row("thread_sort_index", tid, json!({ "sort_index": tid }))?;
    }
    // Everything is shown from the beginning of the window on.
    let origin = outcome.window.from_ns;
    let micros = |at: u64| (i128::from(at) - i128::from(origin)) as f64 / 1e3;
    for (number, request) in outcome.requests.iter().enumerate() {
        list.push_span(&ChromeEvent {
            name: if request.answered_ns.is_some() { "request" } else { "request, given up" },
            pid: GPU,
            tid: REQUESTS,
            cat: Some("request"),
            ts: Some(micros(request.arrived_ns)),
            dur: Some(request.latency_us),
            id: Some(format!("request/{number}")),
            args: json!({ "request": number }),
            ..ChromeEvent::default()
        })?;
        if let (Some(from), Some(to)) = (request.submitted_ns, request.answered_ns) {
            list.push(&span("answering", ANSWERING, "kernels", micros(from), micros(to) - micros(from), Value::Null))?;
        }
    }
    for (number, pair) in outcome.offline_ends.windows(2).enumerate() {
        let &[from, to] = pair else { continue };
        let args = json!({ "kernel": number + 1 });
        list.push(&span("kernel", OFFLINE, "kernel", micros(from), micros(to) - micros(from), args))?;
    }
    write_stops(&mut list, outcome)?;
    list.end()?;
    Ok(())
}

fn span<'a>(name: &'a str, tid: usize, cat: &'a str, ts: f64, dur: f64, args: Value) -> ChromeEvent<'a> {
    ChromeEvent {
        name,
        ph: "X",
        pid: GPU,
        tid,
        cat: Some(cat),
        ts: Some(ts),
        dur: Some(dur),
        args,
        ..ChromeEvent::default()
    }
}

/// Stops from the daemon's log, which has milliseconds: a stop is drawn back from its resume by the time it lasted.
fn write_stops(list: &mut List<impl Write>, outcome: &Outcome) -> Result<()> {
    let Some(activity) = &outcome.daemon else { return Ok(()) };
    let origin = i128::from(outcome.window.from_ns) + activity.clock_offset_ns;
    for event in activity.events.iter().filter(|event| event.pid == Some(outcome.offline_pid)) {
        let at = (i128::from(event.at_ms) * 1_000_000 - origin) as f64 / 1e3;
        match &event.kind {
            EventKind::Resumed { reason, stopped_us, took_us } => {
                let args = json!({ "reason": reason, "resume_took_us": took_us });
                list.push(&span("stopped", STOPS, "stop", at - stopped_us, *stopped_us, args))?;
            }
            EventKind::Preempted { reason, by, after_us, took_us, .. } => {
                let args = json!({ "reason": reason, "by": by, "inversion_us": after_us, "took_us": took_us });
                let instant =
                    ChromeEvent { ph: "i", s: Some("t"), dur: None, ..span("stop", STOPS, "stop", at, 0.0, args) };
                list.push(&instant)?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gpreempt_proto::{Event as Logged, Reason};

    use super::*;
    use crate::environment::block::Request;
    use crate::environment::managed::DaemonActivity;
    use crate::environment::measure::Window;

    #[test]
    fn requests_kernels_and_stops_lie_where_they_happened() {
        let resumed = EventKind::Resumed { reason: Reason::NothingAbove, stopped_us: 12_000.0, took_us: 300.0 };
        let logged = |at_ms, kind| Logged { at_ms, kind, gpu: None, pid: Some(7), job: None, uid: None };
        let outcome = Outcome {
            window: Window { from_ns: 1_000_000_000, to_ns: 2_000_000_000 },
            requests: vec![Request {
                arrived_ns: 1_010_000_000,
                submitted_ns: Some(1_011_000_000),
                answered_ns: Some(1_020_000_000),
                latency_us: 10_000.0,
            }],
            offline_ends: vec![990_000_000, 1_050_000_000],
            daemon: Some(DaemonActivity {
                // The wall clock was 5 s when the monotonic one was 1 s.
                clock_offset_ns: 4_000_000_000,
                events: vec![logged(5_025, resumed.clone()), Logged { pid: Some(8), ..logged(5_030, resumed) }],
                ..DaemonActivity::default()
            }),
            offline_pid: 7,
            ..Outcome::default()
        };
        let mut bytes = Vec::new();
        write_to(&mut bytes, "emulated", "a gpu", &outcome).unwrap();
        let trace: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(trace["otherData"]["kind"], "emulated");
        let events = trace["traceEvents"].as_array().unwrap();
        let find = |name: &str| events.iter().filter(|event| event["name"] == name).collect::<Vec<_>>();
        let request = find("request");
        assert_eq!((&request[0]["ts"], &request[1]["ts"]), (&json!(10_000.0), &json!(20_000.0)));
        let kernel = find("kernel");
        assert_eq!((&kernel[0]["ts"], &kernel[0]["dur"]), (&json!(-10_000.0), &json!(60_000.0)));
        let stops = find("stopped");
        assert_eq!(stops.len(), 1, "only those of the offline program");
        assert_eq!((&stops[0]["ts"], &stops[0]["dur"]), (&json!(13_000.0), &json!(12_000.0)));
    }
}
