//! `gpreempt stats`: counters and latencies.

use std::io::Write;

use anyhow::Result;
use comfy_table::{Cell, Table};
use gpreempt_proto::{ActuatorKind, DaemonStats, Distribution, GpuStats, Stats};

use crate::cli::Report;
use crate::client;
use crate::output::{self, count, from_micros, number, percent, span};

pub(crate) fn run(report: &Report, out: &mut impl Write) -> Result<()> {
    let stats = client::stats(&mut client::connect(&report.reach)?)?;
    if report.json {
        return output::json(&stats, out);
    }
    write(&stats, output::room(), out)
}

fn write(stats: &Stats, room: Option<usize>, out: &mut impl Write) -> Result<()> {
    for line in daemon(&stats.daemon) {
        writeln!(out, "{line}")?;
    }
    if !stats.gpus.is_empty() {
        show(counters(&stats.gpus), &[2, 4], room, out)?;
    }
    if stats.gpus.iter().any(|gpu| gpu.kernel.is_some()) {
        show(kernel(&stats.gpus), &[9, 7, 4], room, out)?;
    }
    show(times(stats), &[3, 5], room, out)
}

fn show(mut table: Table, dispensable: &[usize], room: Option<usize>, out: &mut impl Write) -> Result<()> {
    let note = match room {
        Some(room) => output::hide_until(&mut table, dispensable, room),
        None => {
            table.force_no_tty();
            None
        }
    };
    writeln!(out, "{table}")?;
    if let Some(note) = note {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

fn daemon(stats: &DaemonStats) -> [String; 3] {
    let share = |seconds: f64| percent((stats.uptime_s > 0.0).then(|| seconds / stats.uptime_s));
    let period = match stats.watch_period_us {
        Some(period) => format!("rings are polled every {}", from_micros(period)),
        None if stats.actuator == Some(ActuatorKind::Kernel) => "the kernel watches".to_owned(),
        None => "no rings are polled".to_owned(),
    };
    [
        format!(
            "Up {}. CPU use, of one core: daemon {} (deciding thread {}), actuator {}.",
            span(stats.uptime_s),
            share(stats.cpu_s),
            share(stats.watch_cpu_s),
            share(stats.actuator_cpu_s)
        ),
        format!(
            "{}, {}, {}, {}; now {period}.",
            count(stats.polls, "poll", "polls"),
            count(stats.scans, "scan", "scans"),
            count(stats.decisions, "decision", "decisions"),
            count(stats.notifications, "notification", "notifications")
        ),
        format!(
            "Actuator: {}{}, {}.",
            stats.actuator.map(|kind| format!("{}, ", kind.in_words())).unwrap_or_default(),
            count(stats.actuator_starts, "start", "starts"),
            count(stats.actuator_kills, "kill by the guardian", "kills by the guardian")
        ),
    ]
}

fn counters(gpus: &[GpuStats]) -> Table {
    let mut table =
        output::table(&["gpu", "inversions", "control bursts", "preempts", "resumes", "failures", "cycles"]);
    for gpu in gpus {
        let numbers = [gpu.inversions, gpu.control_bursts, gpu.preempts, gpu.resumes, gpu.failures, gpu.cycles];
        table.add_row(std::iter::once(Cell::new(&gpu.gpu)).chain(numbers.map(number)));
    }
    table
}

/// What woke the scheduler in the kernel, and how often it looked.
fn kernel(gpus: &[GpuStats]) -> Table {
    let mut table = output::table(&[
        "gpu",
        "kernel wake-ups",
        "doorbell",
        "completion",
        "queues",
        "period",
        "net",
        "core",
        "looks",
        "missed by doorbell",
    ]);
    for gpu in gpus {
        let Some(kernel) = &gpu.kernel else { continue };
        let numbers = [
            kernel.wakeups,
            kernel.wakeups_doorbell,
            kernel.wakeups_completed,
            kernel.wakeups_queues,
            kernel.wakeups_period,
            kernel.wakeups_net,
            kernel.wakeups_core,
            kernel.looks,
            kernel.missed_by_doorbell,
        ];
        table.add_row(std::iter::once(Cell::new(&gpu.gpu)).chain(numbers.map(number)));
    }
    table
}

fn times(stats: &Stats) -> Table {
    let mut table = output::listing(&["gpu", "time", "count", "mean", "p50", "p95", "p99", "max"], &[0, 1]);
    let mut add = |gpu: &str, name: &str, times: &Distribution| {
        let values = [times.mean_us, times.p50_us, times.p95_us, times.p99_us, times.max_us];
        let shown = values.map(|value| if times.count == 0 { number("-") } else { number(from_micros(value)) });
        table.add_row([Cell::new(gpu), Cell::new(name), number(times.count)].into_iter().chain(shown));
    };
    add("-", "late wake-up", &stats.daemon.wakeup);
    for gpu in &stats.gpus {
        add(&gpu.gpu, "detection", &gpu.detection);
        add(&gpu.gpu, "plan", &gpu.plan);
        add(&gpu.gpu, "preempt", &gpu.actuation.preempt);
        add(&gpu.gpu, "resume", &gpu.actuation.resume);
        add(&gpu.gpu, "stopped", &gpu.stopped);
        add(&gpu.gpu, "inversion", &gpu.inversion);
        if gpu.winnable.count > 0 {
            add(&gpu.gpu, "winnable (estimate)", &gpu.winnable);
        }
        add(&gpu.gpu, "burst, protected", &gpu.burst_protected);
        add(&gpu.gpu, "burst, control", &gpu.burst_control);
        if let Some(kernel) = &gpu.kernel {
            add(&gpu.gpu, "look of the kernel", &kernel.look);
            add(&gpu.gpu, "decision of the kernel", &kernel.decision);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_counters_are_on_the_screen() {
        let detection =
            Distribution { count: 100, mean_us: 101.0, p50_us: 98.0, p95_us: 180.0, p99_us: 199.0, max_us: 1250.0 };
        let daemon = DaemonStats {
            uptime_s: 600.0,
            cpu_s: 12.0,
            watch_cpu_s: 9.0,
            actuator_cpu_s: 0.6,
            polls: 123_456,
            scans: 1,
            decisions: 300,
            watch_period_us: Some(200.0),
            actuator: Some(ActuatorKind::Combined),
            actuator_starts: 1,
            ..DaemonStats::default()
        };
        let gpu = GpuStats {
            gpu: "0000:c1:00.0".into(),
            inversions: 100,
            control_bursts: 1,
            preempts: 99,
            resumes: 98,
            cycles: 197,
            detection,
            ..GpuStats::default()
        };
        let stats = Stats { schema: 2, daemon, gpus: vec![gpu] };
        let mut text = Vec::new();
        write(&stats, None, &mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), include_str!("stats/expected.txt"));
    }

    #[test]
    fn counters_of_the_scheduler_in_the_kernel_have_a_table_of_their_own() {
        let kernel = gpreempt_proto::KernelStats { wakeups: 4711, wakeups_doorbell: 99, ..Default::default() };
        let gpu = GpuStats { gpu: "0000:c1:00.0".into(), kernel: Some(kernel), ..GpuStats::default() };
        let daemon = DaemonStats { actuator: Some(ActuatorKind::Kernel), ..DaemonStats::default() };
        let mut text = Vec::new();
        write(&Stats { schema: 2, daemon, gpus: vec![gpu] }, None, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for shown in ["now the kernel watches.", "Actuator: kernel, ", "kernel wake-ups", "4711", "look of the kernel"]
        {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }
}
