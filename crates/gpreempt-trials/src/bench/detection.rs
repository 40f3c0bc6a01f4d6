//! How soon work is seen, and what watching costs.
//!
//! Both are measured from outside: the online program notes the time of every doorbell and the daemon's log has the
//! time of the poll that saw it; processor time, sleeps and reads of the deciding thread are the kernel's counts, in a
//! while in which the gpu is contended for and nothing has to be decided.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gpreempt_proto::EventKind;
use serde::Serialize;

use super::Bed;
use super::bare;
use super::goal::Goal;
use super::thread::Thread;
use crate::environment::block::{Calibration, Outcome, Request};
use crate::environment::managed::{self, DaemonActivity};
use crate::environment::measure::Latency;
use crate::output::from_micros;

/// Periods of polls in microseconds. Without one the daemon is notified.
const PERIODS: [Option<u32>; 5] = [Some(50), Some(200), Some(1000), Some(5000), None];
pub(super) const MEASUREMENTS: u64 = PERIODS.len() as u64;

/// What the daemon does by itself where it is notified, in milliseconds: the least it can.
const IDLE_MS: u32 = 10;
/// One kernel, so that a request is one doorbell.
const REQUEST_US: f64 = 4000.0;
const REQUESTS: u32 = 150;
const DUTY: f64 = 0.08;
/// For how long the cost of watching is measured.
const WINDOW: Duration = Duration::from_millis(2500);
/// A request finds offline work running if the one before was answered so long ago.
const APART_NS: u64 = 15_000_000;

const LATE_US: f64 = 200.0;
const TIMES_BARE: f64 = 1.3;

/// One way to learn of work.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Case {
    /// `None` where the daemon is notified.
    pub(super) period_us: Option<u32>,
    /// Doorbells that met running offline work.
    pub(super) doorbells: usize,
    /// Of those, the ones whose work was done before it was seen; they count with the time that took.
    pub(super) unseen: usize,
    /// From the doorbell to the end of the poll that saw it.
    pub(super) detection: Option<Latency>,
    /// Of one processor: all threads of the daemon, and the deciding one.
    pub(super) daemon_cpu_share: f64,
    pub(super) watch_cpu_share: f64,
    pub(super) sleeps_per_s: f64,
    pub(super) reads_per_s: f64,
    /// A loop with the same number of sleeps and reads.
    pub(super) bare_cpu_share: f64,
    pub(super) watch_times_bare: Option<f64>,
    /// How much later than asked the deciding thread woke.
    pub(super) wakeup_p99_us: f64,
}

pub(super) fn measure(bed: &Bed<'_>) -> Result<Vec<Case>> {
    let mut workload = bed.workload.clone();
    workload.online.kernels = 1;
    workload.online.kernel_us = REQUEST_US;
    workload.online.duty = DUTY;
    workload.blocks.rounds = 1;
    workload.blocks.requests = REQUESTS;
    let bed = Bed { workload: &workload, ..*bed };
    bed.bar.set_message("(detection)");
    let calibration = bed.setting(&workload, String::new()).calibrate()?;
    PERIODS.iter().map(|&period| measure_one(&bed, period, &calibration)).collect()
}

fn measure_one(bed: &Bed<'_>, period_us: Option<u32>, calibration: &Calibration) -> Result<Case> {
    let name = name(period_us);
    bed.bar.set_message(format!("(detection, {name})"));
    let (scan, period) = period_us.map_or((IDLE_MS, IDLE_MS * 1000), |period| (5, period));
    // Every inversion has to be acted upon to be in the log.
    let settings =
        format!("scan_ms = {scan}\n[watch]\nfixed = true\nperiod_us = {period}\n[breaker]\ncontrol_one_in = 0\n");
    let mut setting = bed.setting(bed.workload, settings);
    let mut daemon = managed::start(bed.place, bed.workload, &setting.settings, bed.interrupt)?;
    if period_us.is_none() {
        setting.online_arguments = vec!["--notify".into(), daemon.socket().into()];
    }
    let mut online = setting.start_online(calibration, 0)?;
    let (mut offline, _) = setting.start_offline(calibration)?;
    daemon.wait_until_known(&[online.pid(), offline.pid()], bed.interrupt)?;
    let watch = Thread::find(daemon.pid().context("the daemon does not run")?, "decide")?;
    let (before, begun, stats) = (watch.usage()?, Instant::now(), daemon.stats()?);
    sleep(WINDOW);
    let (used, window, activity) =
        (watch.usage()?.since(before), begun.elapsed(), DaemonActivity::since(&stats, &daemon)?);
    let bare = bare::cpu_ns(used, window, online.pid())?;
    let stats = daemon.stats()?;
    let mut outcome = Outcome::default();
    outcome.serve(&mut online, REQUESTS, bed.other_work, &mut || {})?;
    let served = DaemonActivity::since(&stats, &daemon)?;
    offline.enough();
    offline.until(|line| matches!(line, crate::load::Line::End(_)))?;
    offline.wait()?;
    online.wait()?;
    daemon.stop()?;
    bed.bar.inc(1);
    let detection = detections(&outcome.requests, &served);
    let share = |cpu_ns: u64| cpu_ns as f64 / window.as_nanos() as f64;
    let times: Vec<f64> = detection.iter().map(|(time_us, _)| *time_us).collect();
    Ok(Case {
        period_us,
        doorbells: detection.len(),
        unseen: detection.iter().filter(|(_, seen)| !seen).count(),
        detection: Some(Latency::of(&times).context("no doorbell met running offline work")?),
        daemon_cpu_share: activity.cpu_share,
        watch_cpu_share: share(used.cpu_ns),
        sleeps_per_s: used.sleeps as f64 / window.as_secs_f64(),
        reads_per_s: used.reads as f64 / window.as_secs_f64(),
        bare_cpu_share: share(bare),
        watch_times_bare: (bare > 0).then(|| used.cpu_ns as f64 / bare as f64),
        wakeup_p99_us: served.stats.daemon.wakeup.p99_us,
    })
}

/// From each doorbell that met running offline work to the poll that saw it, in microseconds, and whether one did.
fn detections(requests: &[Request], activity: &DaemonActivity) -> Vec<(f64, bool)> {
    let polls: Vec<u64> = activity
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Preempted { seen_ns, .. } => seen_ns,
            _ => None,
        })
        .collect();
    let mut found = Vec::new();
    let mut idle_since = 0;
    for request in requests {
        let (Some(rung), Some(answered)) = (request.submitted_ns, request.answered_ns) else { continue };
        if rung.saturating_sub(idle_since) >= APART_NS {
            let seen = polls.iter().copied().filter(|poll| (rung..=answered).contains(poll)).min();
            found.push(((seen.unwrap_or(answered) - rung) as f64 / 1e3, seen.is_some()));
        }
        idle_since = answered;
    }
    found
}

pub(super) fn name(period_us: Option<u32>) -> String {
    period_us.map_or_else(|| "notified".to_owned(), |period| format!("every {}", from_micros(period.into())))
}

pub(super) fn goals(cases: &[Case]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for case in cases {
        let name = name(case.period_us);
        let most = f64::from(case.period_us.unwrap_or(0)) + LATE_US;
        let p99 = case.detection.as_ref().map(|detection| detection.p99_us);
        goals.push(Goal::at_most("detection_p99_us", &name, most, p99, || {
            let woke = from_micros(case.wakeup_p99_us);
            format!("the deciding thread woke p99 {woke} late; {} of {} unseen", case.unseen, case.doorbells)
        }));
        goals.push(Goal::at_most("watch_cpu_times_bare_loop", &name, TIMES_BARE, case.watch_times_bare, || {
            format!("{:.0} sleeps and {:.0} reads in a second", case.sleeps_per_s, case.reads_per_s)
        }));
    }
    goals
}

#[cfg(test)]
mod tests {
    use gpreempt_proto::{Bound, Event, Reason};

    use super::*;

    const MS: u64 = 1_000_000;

    fn request(rung_ms: u64, answered_ms: u64) -> Request {
        let (submitted_ns, answered_ns) = (Some(rung_ms * MS), Some(answered_ms * MS));
        Request { arrived_ns: rung_ms * MS, submitted_ns, answered_ns, latency_us: 0.0 }
    }

    fn stop(seen_ns: u64) -> Event {
        let kind = EventKind::Preempted {
            reason: Reason::HigherWants,
            by: None,
            bound: Bound::Detection,
            after_us: 0.0,
            took_us: 0.0,
            queues: 1,
            seen_ns: Some(seen_ns),
        };
        Event { at_ms: 0, kind, gpu: None, pid: None, job: None, uid: None }
    }

    #[test]
    fn doorbells_are_matched_with_the_first_poll_that_saw_them() {
        let activity =
            DaemonActivity { events: vec![stop(100 * MS + 300_000), stop(102 * MS)], ..DaemonActivity::default() };
        let requests = [request(100, 104), request(105, 109), request(200, 250)];
        // The second came while everything was still stopped; the third was never seen.
        assert_eq!(detections(&requests, &activity), [(300.0, true), (50_000.0, false)]);
    }
}
