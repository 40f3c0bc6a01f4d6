//! Recorded runs as Chrome trace-event JSON, the format ui.perfetto.dev opens.
//!
//! Each gpu is a process, each task that uses it a thread, and the machine itself another thread. Kernels and cycles
//! are complete events ("X"). Requests and stops are asynchronous events ("b", "e"), because complete events of one
//! thread must not overlap and these do: a request waits from its arrival while an older one still runs, and a
//! mechanism that only stops launching leaves kernels running in a task that counts as stopped.

use std::io::{self, Write};

use gpreempt_core::Nanos;
use gpreempt_output::perfetto::{ChromeEvent, List};
use serde_json::{Value, json};

use crate::outcome::{RunOutcome, TraceEvent, TraceKind};
use crate::workload::Workload;

/// The thread of the machine itself; tasks follow.
const MACHINE_THREAD: usize = 0;

/// Writes the trace of a recorded run.
///
/// # Errors
/// Errors of the writer.
pub fn write(outcome: &RunOutcome, workload: &Workload, mut writer: impl Write) -> io::Result<()> {
    let about = json!({
        "kind": "simulated",
        "mechanism": outcome.mechanism,
        "workload": workload.name,
    });
    let mut list = List::begin(&mut writer, &about)?;
    name_rows(outcome, workload, &mut list)?;
    for event in &outcome.trace {
        write_event(event, workload, &mut list)?;
    }
    list.end()
}

/// Writes the names and the order of processes and threads.
fn name_rows(outcome: &RunOutcome, workload: &Workload, list: &mut List<impl Write>) -> io::Result<()> {
    let mut row = |kind: &str, gpu: usize, thread: usize, args: Value| {
        list.push(&ChromeEvent { name: kind, ph: "M", pid: process(gpu), tid: thread, args, ..ChromeEvent::default() })
    };
    for gpu in 0..workload.gpus {
        let name = format!("gpu {gpu}, simulated, {}", outcome.mechanism);
        row("process_name", gpu, MACHINE_THREAD, json!({ "name": name }))?;
        row("process_sort_index", gpu, MACHINE_THREAD, json!({ "sort_index": gpu }))?;
        row("thread_name", gpu, MACHINE_THREAD, json!({ "name": "machine" }))?;
        for (index, task) in workload.tasks.iter().enumerate() {
            if !task.gpus.contains(&gpu) {
                continue;
            }
            let name = format!("{} (level {})", task.name, task.level);
            row("thread_name", gpu, thread(index), json!({ "name": name }))?;
            row("thread_sort_index", gpu, thread(index), json!({ "sort_index": thread(index) }))?;
        }
    }
    Ok(())
}

fn write_event(event: &TraceEvent, workload: &Workload, list: &mut List<impl Write>) -> io::Result<()> {
    let task = event.task.and_then(|task| workload.tasks.get(task));
    let task_name = task.map_or("machine", |task| task.name.as_str());
    let name;
    let mut entry = ChromeEvent {
        name: "",
        ph: "X",
        pid: process(event.gpu),
        tid: event.task.map_or(MACHINE_THREAD, thread),
        ts: Some(micros(event.at)),
        dur: Some(micros(event.length)),
        ..ChromeEvent::default()
    };
    match event.what {
        TraceKind::Kernel { request, index, repeated } => {
            name = format!("kernel {index}{}", if repeated { " again" } else { "" });
            entry.cat = Some("kernel");
            entry.args = json!({ "request": request, "index": index, "repeated": repeated });
        }
        TraceKind::Request { request } => {
            name = format!("{task_name} request");
            entry.cat = Some("request");
            entry.id = Some(format!("{task_name}/{request}"));
            entry.args = json!({ "request": request });
        }
        TraceKind::Stopped => {
            name = format!("{task_name} stopped");
            entry.cat = Some("stopped");
            entry.id = Some(format!("{task_name}/{}/{}", event.gpu, event.at.0));
        }
        TraceKind::Cycle => {
            name = "cycle".to_string();
            entry.cat = Some("cycle");
        }
        TraceKind::Detected => {
            name = "inversion detected".to_string();
            entry.cat = Some("decision");
            entry.ph = "i";
            entry.dur = None;
            entry.s = Some("t");
        }
    }
    entry.name = &name;
    if entry.id.is_none() { list.push(&entry) } else { list.push_span(&entry) }
}

/// Returns the process number of a gpu. It starts at 1, because viewers treat process 0 specially.
fn process(gpu: usize) -> usize {
    gpu + 1
}

fn thread(task: usize) -> usize {
    MACHINE_THREAD + 1 + task
}

fn micros(time: Nanos) -> f64 {
    time.0 as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    fn outcome(trace: Vec<TraceEvent>) -> RunOutcome {
        RunOutcome {
            mechanism: "sample",
            duration: Nanos::from_millis(1),
            tasks: Vec::new(),
            preemptions: 0,
            cycles: 0,
            cycle_time: Nanos::ZERO,
            repeated_kernels: 0,
            longest_starved: Nanos::ZERO,
            events: 0,
            trace,
        }
    }

    fn written(trace: Vec<TraceEvent>) -> Value {
        let workload = Workload::load("quick").expect("a built-in workload");
        let mut bytes = Vec::new();
        write(&outcome(trace), &workload, &mut bytes).expect("memory takes everything");
        serde_json::from_slice(&bytes).expect("valid JSON")
    }

    fn event(task: Option<usize>, at: u64, length: u64, what: TraceKind) -> TraceEvent {
        TraceEvent { at: Nanos(at), length: Nanos(length), task, gpu: 0, what }
    }

    fn of<'a>(trace: &'a Value, phase: &str) -> Vec<&'a Value> {
        let events = trace["traceEvents"].as_array().expect("a list of events");
        events.iter().filter(|event| event["ph"] == phase).collect()
    }

    #[test]
    fn an_empty_run_still_names_its_rows_and_says_it_is_simulated() {
        let trace = written(Vec::new());
        assert_eq!(trace["otherData"]["kind"], "simulated");
        let names: Vec<_> = of(&trace, "M")
            .into_iter()
            .filter(|event| event["name"] == "thread_name")
            .map(|event| event["args"]["name"].as_str().unwrap_or_default())
            .collect();
        assert_eq!(names, ["machine", "vgg19 (level 12)", "distilbert (level 12)", "training (level 3)"]);
    }

    #[test]
    fn spans_and_instants_keep_their_row_and_time_in_microseconds() {
        let kernel = TraceKind::Kernel { request: 7, index: 3, repeated: true };
        let trace = written(vec![
            event(Some(2), 1_500, 2_000, kernel),
            event(None, 3_500, 250, TraceKind::Cycle),
            event(Some(0), 3_000, 0, TraceKind::Detected),
        ]);
        let spans = of(&trace, "X");
        assert_eq!(spans[0]["name"], "kernel 3 again");
        assert_eq!((&spans[0]["ts"], &spans[0]["dur"]), (&json!(1.5), &json!(2.0)));
        assert_eq!((&spans[0]["pid"], &spans[0]["tid"]), (&json!(1), &json!(3)));
        assert_eq!(spans[1]["tid"], json!(MACHINE_THREAD));
        let instants = of(&trace, "i");
        assert_eq!(instants.len(), 1);
        assert_eq!(instants[0]["tid"], json!(1));
    }

    #[test]
    fn overlapping_requests_are_pairs_with_different_ids() {
        let trace = written(vec![
            event(Some(0), 0, 10_000, TraceKind::Request { request: 1 }),
            event(Some(0), 5_000, 10_000, TraceKind::Request { request: 2 }),
        ]);
        let (begins, ends) = (of(&trace, "b"), of(&trace, "e"));
        assert_eq!((begins.len(), ends.len()), (2, 2));
        assert_ne!(begins[0]["id"], begins[1]["id"]);
        assert_eq!(begins[1]["id"], ends[1]["id"]);
        assert_eq!(ends[1]["ts"], json!(15.0));
    }
}
