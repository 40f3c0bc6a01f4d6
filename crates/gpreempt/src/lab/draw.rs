//! Draws a recorded run as rows of characters.

use gpreempt_core::Nanos;
use gpreempt_lab::outcome::{TraceEvent, TraceKind};
use gpreempt_lab::{RunOutcome, Workload};

/// Characters per row.
const WIDTH: u64 = 100;

/// The meaning of the characters.
pub(crate) const LEGEND: &str = "█ runs   ▒ runs again   ░ stopped   · waits   C cycle";

/// Draws `from` to `to`: one row for the machine, one for each task.
pub(crate) fn draw(outcome: &RunOutcome, workload: &Workload, from: Nanos, to: Nanos) -> Vec<String> {
    let names = workload.tasks.iter().map(|task| task.name.as_str());
    let widest = names.clone().map(|name| name.chars().count()).max();
    let widest = widest.unwrap_or(0).max("machine".len());
    let row = |name: &str, cells: String| format!("{name:>widest$} |{cells}|");
    let cells = |task: Option<usize>| -> String {
        let events: Vec<&TraceEvent> = outcome.trace.iter().filter(|event| event.task == task).collect();
        (0..WIDTH)
            .map(|column| {
                let length = to.since(from).0.max(1);
                let at = |column: u64| Nanos(from.0 + column * length / WIDTH);
                character(&events, at(column), at(column + 1))
            })
            .collect()
    };
    let mut rows = vec![row("machine", cells(None))];
    rows.extend(names.enumerate().map(|(task, name)| row(name, cells(Some(task)))));
    rows
}

/// Returns the character of the activity that filled most of a span. A cycle is shown however short it is.
fn character(events: &[&TraceEvent], from: Nanos, to: Nanos) -> char {
    let time = |of: &dyn Fn(&TraceKind) -> bool| -> u64 {
        let events = events.iter().filter(|event| of(&event.what));
        events.map(|event| overlap(event, from, to)).sum()
    };
    if time(&|what| matches!(what, TraceKind::Cycle)) > 0 {
        return 'C';
    }
    let runs = time(&|what| matches!(what, TraceKind::Kernel { repeated: false, .. }));
    let again = time(&|what| matches!(what, TraceKind::Kernel { repeated: true, .. }));
    let stopped = time(&|what| matches!(what, TraceKind::Stopped));
    let in_flight = time(&|what| matches!(what, TraceKind::Request { .. }));
    let waits = in_flight.saturating_sub(runs + again + stopped);
    let idle = to.since(from).0.saturating_sub(runs + again + stopped + waits);
    // Of equal shares the first wins.
    let shares = [(runs, '█'), (again, '▒'), (stopped, '░'), (waits, '·'), (idle, ' ')];
    let mut most = shares[0];
    for share in shares {
        if share.0 > most.0 {
            most = share;
        }
    }
    most.1
}

fn overlap(event: &TraceEvent, from: Nanos, to: Nanos) -> u64 {
    let end = event.at.plus(event.length).0.min(to.0);
    end.saturating_sub(event.at.0.max(from.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: u64, length: u64, what: TraceKind) -> TraceEvent {
        TraceEvent { at: Nanos(at), length: Nanos(length), task: None, gpu: 0, what }
    }

    fn kernel(repeated: bool) -> TraceKind {
        TraceKind::Kernel { request: 0, index: 0, repeated }
    }

    #[test]
    fn a_character_shows_what_filled_most_of_its_time() {
        let request = event(0, 100, TraceKind::Request { request: 0 });
        let runs = event(0, 40, kernel(false));
        let stopped = event(40, 50, TraceKind::Stopped);
        let events = [&request, &runs, &stopped];
        let at = |from, to| character(&events, Nanos(from), Nanos(to));
        assert_eq!(at(0, 40), '█');
        assert_eq!(at(30, 90), '░');
        assert_eq!(at(90, 100), '·');
        assert_eq!(at(100, 110), ' ');
        let again = event(0, 10, kernel(true));
        assert_eq!(character(&[&again], Nanos(0), Nanos(10)), '▒');
    }

    #[test]
    fn a_short_cycle_is_not_lost() {
        let cycle = event(5, 1, TraceKind::Cycle);
        assert_eq!(character(&[&cycle], Nanos(0), Nanos(1_000)), 'C');
        assert_eq!(character(&[&cycle], Nanos(10), Nanos(1_000)), ' ');
    }
}
