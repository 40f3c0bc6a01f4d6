//! `gpreempt ps`: processes on the gpus, their jobs, levels and states.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::Result;
use comfy_table::{Cell, Color, Table};
use gpreempt_proto::{GpuStatus, JobStatus, Mode, State, Status, TenantStatus};

use crate::cli::Report;
use crate::client;
use crate::output::{self, bytes, count, number, plain, span};

const HEADER: [&str; 14] = [
    "gpu",
    "pid",
    "command",
    "container",
    "user",
    "job",
    "level",
    "state",
    "pending",
    "VRAM",
    "since",
    "why",
    "stops",
    "stopped",
];
const TEXTS: [usize; 7] = [0, 2, 3, 4, 5, 7, 11];

/// Columns that a narrow terminal leaves out, in this order: the notes or other commands show their contents, too.
const DISPENSABLE: [usize; 9] = [3, 13, 9, 12, 4, 8, 10, 0, 2];

pub(crate) fn run(report: &Report, out: &mut impl Write) -> Result<()> {
    let status = client::status(&mut client::connect(&report.reach)?)?;
    if report.json {
        return output::json(&status, out);
    }
    write(&status, output::room(), out)
}

/// Writes the report for a terminal of `room` columns, or for a file.
fn write(status: &Status, room: Option<usize>, out: &mut impl Write) -> Result<()> {
    writeln!(out, "{}", heading(status))?;
    if status.tenants.is_empty() {
        writeln!(out, "No process has a compute queue on a gpu.")?;
    } else {
        let mut table = table(status);
        let note = match room {
            Some(room) => output::hide_until(&mut table, &DISPENSABLE, room),
            None => {
                table.force_no_tty();
                None
            }
        };
        writeln!(out, "{table}")?;
        if let Some(note) = note {
            writeln!(out, "{note}")?;
        }
    }
    for note in notes(status) {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

fn heading(status: &Status) -> String {
    let mode = match status.mode {
        Mode::Enforce => "Enforcing",
        Mode::Observe => "Only observing, nothing is stopped (set `mode = \"enforce\"` in the configuration to act)",
        Mode::Other => "In a mode that this release does not know",
    };
    let actuator = status.actuator.map(|kind| format!(" (actuator: {})", kind.in_words())).unwrap_or_default();
    let config = status.config.as_deref().unwrap_or("no configuration");
    format!("{mode}{actuator}: daemon {}, up {}, {config}.", status.daemon_pid, span(status.uptime_s))
}

fn table(status: &Status) -> Table {
    let mut table = output::listing(&HEADER, &TEXTS);
    for tenant in &status.tenants {
        table.add_row(row(tenant));
    }
    table
}

fn row(tenant: &TenantStatus) -> [Cell; 14] {
    let text =
        |text: Option<&str>, longest| Cell::new(text.map_or_else(|| "-".to_owned(), |text| plain(text, longest)));
    [
        Cell::new(&tenant.gpu),
        number(tenant.pid),
        text(Some(&tenant.command), 16),
        text(tenant.container.as_deref(), 20),
        text(Some(&tenant.user), 12),
        text(tenant.job.as_deref(), 24),
        number(tenant.level.map_or_else(|| "-".to_owned(), |level| level.to_string())),
        state(tenant.state),
        number(tenant.pending),
        number(bytes(tenant.vram)),
        number(span(tenant.since_s)),
        text(why(tenant).as_deref(), 32),
        number(tenant.preempted),
        number(span(tenant.stopped_s)),
    ]
}

fn state(state: State) -> Cell {
    let colour = match state {
        State::Wants => Some(Color::Red),
        State::Running => Some(Color::Green),
        State::Stopped => Some(Color::Yellow),
        State::Idle | State::Blocked | State::Evicted | State::Unknown | State::Other => None,
    };
    match colour.filter(|_| output::colours()) {
        Some(colour) => Cell::new(state).fg(colour),
        None => Cell::new(state),
    }
}

/// Returns why a tenant is stopped, and by which job.
fn why(tenant: &TenantStatus) -> Option<String> {
    let why = tenant.why.as_ref()?;
    Some(match &why.by {
        Some(by) => format!("{} by {by}", why.reason),
        None => why.reason.to_string(),
    })
}

/// Returns the lines below the table.
fn notes(status: &Status) -> Vec<String> {
    let mut notes: Vec<String> = status.gpus.iter().flat_map(gpu_notes).collect();
    notes.extend(status.jobs.iter().flat_map(job_notes));
    for tenant in &status.tenants {
        if let Some(reason) = &tenant.unstoppable {
            let command = plain(&tenant.command, 16);
            notes.push(format!("{} ({command}): unstoppable: {}", tenant.pid, plain(reason, usize::MAX)));
        }
    }
    // A process has a line for each gpu.
    let processes = |filter: fn(&&TenantStatus) -> bool| {
        let pids: BTreeSet<u32> = status.tenants.iter().filter(filter).map(|tenant| tenant.pid).collect();
        (!pids.is_empty()).then(|| count(pids.len() as u64, "process", "processes"))
    };
    if let Some(processes) = processes(|tenant| tenant.level.is_none()) {
        notes.push(format!("{processes} without a level (-): never stopped, never protected."));
    }
    if let Some(processes) = processes(|tenant| tenant.level.is_some() && tenant.state == State::Unknown) {
        notes.push(format!(
            "{processes} in state unknown: no other job competes on the gpu, or the rings are not known or not polled yet."
        ));
    }
    notes
}

fn gpu_notes(gpu: &GpuStatus) -> Vec<String> {
    let mut notes = Vec::new();
    if gpu.resetting {
        notes.push(format!("{}: the driver is resetting this gpu.", gpu.gpu));
    } else if let Some(breaker) = &gpu.breaker {
        let message = plain(&breaker.message, usize::MAX);
        notes.push(format!("{}: left to the hardware for another {}: {message}", gpu.gpu, span(breaker.retry_in_s)));
    }
    if gpu.overcommitted {
        notes.push(format!(
            "{}: overcommitted: its deadline jobs together ask for more time than the gpu has; deadlines will be missed.",
            gpu.gpu
        ));
    }
    notes
}

fn job_notes(job: &JobStatus) -> Vec<String> {
    let name = plain(&job.job, 64);
    let mut notes = Vec::new();
    if let Some(left) = job.held_s {
        notes.push(format!("{name}: held for another {}; `gpreempt release --job {name}` ends the hold.", span(left)));
    }
    if job.level_set {
        notes.push(format!("{name}: level {} was set by a user.", job.level));
    }
    notes
}

#[cfg(test)]
mod tests {
    use gpreempt_proto::{Breaker, Reason, Why};

    use super::*;

    fn tenant(pid: u32, command: &str, level: Option<u8>, state: State) -> TenantStatus {
        TenantStatus {
            gpu: "0000:c1:00.0".into(),
            pid,
            command: command.into(),
            user: "alice".into(),
            job: level.map(|_| format!("alice/{command}")),
            level,
            state,
            since_s: 0.25,
            vram: 3 << 30,
            ..TenantStatus::default()
        }
    }

    fn status() -> Status {
        let train = TenantStatus {
            container: Some("1f2e3d4c5b6a".into()),
            why: Some(Why { reason: Reason::HigherWants, by: Some("alice/serve".into()) }),
            pending: 12,
            preempted: 7,
            stopped_s: 150.0,
            ..tenant(4712, "train", Some(2), State::Stopped)
        };
        let old = TenantStatus {
            unstoppable: Some("runtime not enabled".into()),
            ..tenant(4713, "an\u{1b}cient-program-x", None, State::Idle)
        };
        let gpu = GpuStatus {
            gpu: "0000:c1:00.0".into(),
            overcommitted: true,
            breaker: Some(Breaker { message: "5 failures of the driver".into(), retry_in_s: 8.0 }),
            ..GpuStatus::default()
        };
        let job = JobStatus {
            job: "alice/train".into(),
            level: 2,
            level_set: true,
            held_s: Some(42.0),
            ..JobStatus::default()
        };
        Status {
            daemon_pid: 4242,
            mode: Mode::Enforce,
            uptime_s: 11_520.0,
            config: Some("/etc/gpreempt/gpreempt.toml".into()),
            gpus: vec![gpu],
            jobs: vec![job],
            tenants: vec![tenant(4711, "serve", Some(12), State::Running), train, old],
            ..Status::default()
        }
    }

    fn written(status: &Status, room: Option<usize>) -> String {
        let mut text = Vec::new();
        write(status, room, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn everything_is_on_the_screen() {
        assert_eq!(written(&status(), None), include_str!("ps/expected.txt"));
    }

    #[test]
    fn eighty_columns_suffice_for_what_matters() {
        let text = written(&status(), Some(80));
        assert!(text.contains("left out to fit the terminal"), "{text}");
        for word in ["4712", "alice/train", "stopped", "higher_wants by alice/serve"] {
            assert!(text.contains(word), "{word} is missing: {text}");
        }
        let table: Vec<&str> = text.lines().skip(1).take(7).collect();
        assert!(table.iter().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_process_that_is_not_polled_is_explained_once() {
        let mut status = status();
        status.tenants = vec![tenant(1, "a", Some(3), State::Unknown), tenant(1, "a", Some(3), State::Unknown)];
        let text = written(&status, None);
        assert_eq!(text.matches("1 process in state unknown: no other job competes").count(), 1, "{text}");
    }

    #[test]
    fn a_daemon_that_only_observes_says_so_first() {
        let text = written(&Status { daemon_pid: 7, ..Status::default() }, None);
        assert_eq!(
            text,
            "Only observing, nothing is stopped (set `mode = \"enforce\"` in the configuration to act): daemon 7, up 0, no configuration.\n\
             No process has a compute queue on a gpu.\n"
        );
    }
}
