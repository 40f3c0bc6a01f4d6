//! Comparison, timeline and plausibility.

use std::sync::Mutex;

use gpreempt_core::Nanos;
use gpreempt_lab::Profile;
use gpreempt_lab::experiment::{Implausible, compare, plausibility, timeline};
use gpreempt_lab::mechanism::{MechanismSpec, all, find};
use gpreempt_lab::workload::Load;

use crate::support::*;

fn small() -> gpreempt_lab::Workload {
    workload(
        Nanos::from_millis(200),
        vec![
            online(Load::Poisson { mean: us(4_000) }, kernels(5, FULL / 2, us(40))),
            offline(CLOSED, kernels(30, FULL, us(200))),
        ],
    )
}

#[test]
fn a_comparison_begins_with_each_side_alone_and_keeps_the_order() {
    let mechanisms: Vec<&MechanismSpec> = all().iter().collect();
    let told = Mutex::new(Vec::new());
    let comparison = compare(&profile(), &small(), &mechanisms, 3, &|done, of| {
        told.lock().unwrap().push((done, of));
    });
    let names: Vec<&str> = comparison.rows.iter().map(|row| row.mechanism).collect();
    let expected: Vec<&str> = std::iter::once("alone").chain(all().iter().map(|entry| entry.name)).collect();
    assert_eq!(names, expected);
    let mut told = told.into_inner().unwrap();
    told.sort_unstable();
    let runs = all().len() + 2;
    assert_eq!(told, (1..=runs).map(|done| (done, runs)).collect::<Vec<_>>());

    let alone = &comparison.rows[0];
    assert_eq!(alone.online.times_alone_p50, Some(1.0));
    assert_eq!(alone.offline.share_of_alone, Some(1.0));
    assert_eq!((alone.cycles, alone.preemptions), (0, 0));
    for row in &comparison.rows[1..] {
        assert!(row.online.times_alone_p99.unwrap() >= 1.0, "{}", row.mechanism);
        assert!(row.offline.share_of_alone.unwrap() <= 1.0, "{}", row.mechanism);
    }
    let p99 = |name: &str| comparison.rows.iter().find(|row| row.mechanism == name).unwrap().online.p99;
    assert!(
        p99("reef") < p99("xsched-lv2") && p99("xsched-lv2") < p99("xsched-lv1") && p99("xsched-lv1") < p99("none")
    );
}

#[test]
fn arrivals_are_the_same_for_every_mechanism_and_alone() {
    let comparison = compare(&profile(), &small(), &[find("reef").unwrap(), find("tsg").unwrap()], 3, &|_, _| {});
    let arrivals: Vec<u64> =
        comparison.rows.iter().map(|row| row.online.completed + row.online.skipped + row.online.unfinished).collect();
    assert!(arrivals[0] > 10 && arrivals.iter().all(|&n| n == arrivals[0]), "{arrivals:?}");
}

#[test]
fn a_comparison_without_online_tasks_says_so_instead_of_dividing_by_zero() {
    let mut workload = small();
    workload.tasks.remove(0);
    let comparison = compare(&profile(), &workload, &[find("none").unwrap()], 3, &|_, _| {});
    assert_eq!(comparison.rows[1].online.times_alone_p50, None);
    assert_eq!(comparison.rows[1].offline.share_of_alone, Some(1.0));
}

#[test]
fn the_timeline_meets_kernel_25_and_only_resets_repeat() {
    for entry in all() {
        let timeline = timeline(&profile(), entry, 1);
        let repeats = matches!(entry.name, "reef" | "xsched-lv3");
        assert_eq!(timeline.repeated_kernels > 0, repeats, "{}", entry.name);
        assert_eq!(timeline.kernels_executed, 120 + timeline.repeated_kernels, "{}", entry.name);
        assert!(timeline.inference_latency >= timeline.inference_alone, "{}", entry.name);
        assert!(timeline.training_end.is_some(), "{}", entry.name);
        let running = timeline.outcome.trace.iter().find(|event| {
            event.task == Some(0)
                && event.at < timeline.arrival
                && event.at.plus(event.length) >= timeline.arrival
                && matches!(event.what, gpreempt_lab::outcome::TraceKind::Kernel { index: 25, .. })
        });
        assert!(running.is_some(), "{}", entry.name);
    }
}

#[test]
fn the_timeline_tells_when_it_was_noticed_stopped_and_resumed() {
    let timeline = timeline(&profile(), find("tsg").unwrap(), 1);
    assert_eq!(timeline.inference_alone, Some(us(1 + 2_000)));
    let (stopped, resumed) = (timeline.stopped.unwrap(), timeline.resumed.unwrap());
    assert!(timeline.arrival < stopped && stopped < resumed);
    assert!(timeline.training_delay.unwrap() > us(2_000));
}

#[test]
fn two_rows_calibrate_the_gv100_and_the_others_are_predicted() {
    let gv100 = Profile::load("gv100").unwrap();
    let result = plausibility(&gv100, 1).unwrap();
    assert_eq!(result.rows.len(), 60);
    for row in &result.rows {
        let tolerance = match (row.calibration, row.level) {
            (true, _) => 0.1,
            (false, 1) => 2.0,
            (false, 2) => 4.0,
            // The published figures scatter that much around a constant.
            (false, _) => 15.0,
        };
        assert!(row.deviation_percent.abs() <= tolerance, "{row:?}");
    }
    assert_eq!(result.rows.iter().filter(|row| row.calibration).count(), 2);
}

#[test]
fn a_slow_host_gets_all_its_samples_or_an_explanation() {
    let mut slow = Profile::load("gv100").unwrap();
    // A sample takes twice as long as on the real machine; runs of a fixed length would end before there are enough.
    slow.host.wakeup_us.value = 1_000.0;
    let result = plausibility(&slow, 1).unwrap();
    assert!(result.length_ratio > 0.0, "{}", result.length_ratio);
    assert!(result.rows.iter().all(|row| row.predicted_p99_us.is_finite()));
    // Slower than everything that was published: there is no length of kernels that would explain it.
    slow.host.wakeup_us.value = 100_000.0;
    let error = plausibility(&slow, 1).unwrap_err();
    assert!(matches!(error, Implausible::TooSlow { .. }), "{error}");
}

/// The first row of that mechanism.
fn row<'a>(comparison: &'a gpreempt_lab::experiment::Comparison, name: &str) -> &'a gpreempt_lab::experiment::Row {
    comparison.rows.iter().find(|row| row.mechanism == name).unwrap()
}

fn compared(workload: &str, seconds: u64, names: &[&str]) -> gpreempt_lab::experiment::Comparison {
    let mut workload = gpreempt_lab::Workload::load(workload).unwrap();
    workload.duration = Nanos::from_secs(seconds);
    let mechanisms: Vec<&MechanismSpec> = names.iter().map(|name| find(name).unwrap()).collect();
    compare(&Profile::load("mi300x-spx").unwrap(), &workload, &mechanisms, 1, &|_, _| {})
}

#[test]
fn where_kernels_fill_the_gpu_save_and_restore_protects_on_a_stock_kernel_and_better_on_a_patched_one() {
    let comparison = compared("quick", 10, &["none", "cwsr-watch", "cwsr-ioctl"]);
    let p99 = |name| row(&comparison, name).online.times_alone_p99.unwrap();
    assert!(p99("cwsr-watch") * 10.0 < p99("none"), "{} against {}", p99("cwsr-watch"), p99("none"));
    assert!(p99("cwsr-ioctl") * 2.0 < p99("cwsr-watch"));
    let offline = |name| row(&comparison, name).offline.share_of_alone.unwrap();
    assert!(offline("cwsr-watch") > 0.5 && offline("cwsr-ioctl") > 0.85);
}

#[test]
fn where_kernels_leave_room_costly_stops_are_not_made() {
    // Six small networks on a large gpu, and cycles of three milliseconds each: stopping five would take longer than
    // the request they are stopped for.
    let comparison = compared("disb-c", 5, &["none", "cwsr-watch"]);
    let (none, watch) = (row(&comparison, "none"), row(&comparison, "cwsr-watch"));
    assert!(watch.online.times_alone_p99.unwrap() < none.online.times_alone_p99.unwrap() * 1.25);
    assert!(watch.offline.share_of_alone.unwrap() > none.offline.share_of_alone.unwrap() - 0.05);
}
