//! Each mechanism against what its description says.

use gpreempt_core::Nanos;
use gpreempt_lab::mechanism::{all, find};
use gpreempt_lab::outcome::TraceKind;
use gpreempt_lab::workload::Workload;

use crate::support::*;

/// Twenty training kernels of 1 ms submitted at once; a short request in the middle of the sixth.
fn contended() -> Workload {
    workload(
        Nanos::from_millis(40),
        vec![offline(at(&[us(0)]), kernels(20, FULL, us(1_000))), online(at(&[us(5_401)]), kernels(2, FULL, us(100)))],
    )
}

/// The request alone.
const ALONE: u64 = 1 + 200;
/// From its arrival to the end of the kernel it meets.
const REST: u64 = 600;

fn online_latency(mechanism: &str) -> Nanos {
    latencies(&record(&profile(), &contended(), mechanism), 1)[0]
}

#[test]
fn names_are_unique_and_found() {
    for entry in all() {
        assert_eq!(find(entry.name).map(|found| found.about), Some(entry.about));
        assert_eq!(all().iter().filter(|other| other.name == entry.name).count(), 1);
    }
    assert!(find("no-such").is_none());
}

/// The constants of these decide their rows: readers must be able to tell what is known from what is not.
#[test]
fn what_a_mechanism_assumes_is_marked_as_published_designed_or_estimated() {
    for entry in all() {
        for assumption in entry.assumes {
            let marked = ["published", "design", "estimate"].iter().any(|mark| assumption.contains(mark));
            assert!(marked, "{}: {assumption}", entry.name);
        }
        assert_eq!(entry.assumes.is_empty(), entry.name == "none", "{}", entry.name);
    }
    let of = |name: &str| find(name).unwrap().assumes.join("\n");
    assert!(of("reef").contains("progress record") && of("round-robin").contains("sixteenth"));
    assert!(of("tsg").contains("200 us") && of("tsg").contains("1 us"));
    // A timeline shows one stop only, and that is the one that still saves to VRAM.
    assert!(of("cwsr-watch").contains("the first stop of a task saves to VRAM"));
    assert!(!of("cwsr-ioctl").contains("first stop"));
}

#[test]
fn every_mechanism_completes_everything_exactly_once() {
    for entry in all() {
        let outcome = record(&profile(), &contended(), entry.name);
        let figures: Vec<(u64, u64)> = outcome.tasks.iter().map(|task| (task.completed, task.kernels)).collect();
        assert_eq!(figures, [(1, 20), (1, 2)], "{}", entry.name);
    }
}

#[test]
fn every_mechanism_leaves_tasks_of_one_level_alone() {
    let mut workload = contended();
    workload.tasks[1].level = workload.tasks[0].level;
    for entry in all() {
        let outcome = record(&profile(), &workload, entry.name);
        assert_eq!((outcome.preemptions, outcome.repeated_kernels), (0, 0), "{}", entry.name);
    }
}

#[test]
fn no_priority_waits_for_all_that_was_submitted_before() {
    assert_eq!(online_latency("none"), us(20_001 - 5_401 + 200));
}

#[test]
fn reef_answers_after_a_reset_and_pays_with_repeated_kernels() {
    let outcome = record(&profile(), &contended(), "reef");
    // The doorbell is noticed while the gpu stands still.
    assert_eq!(latencies(&outcome, 1), [us(20 + 200)]);
    assert_eq!(outcome.repeated_kernels, 3);
    assert_eq!((outcome.preemptions, outcome.cycles), (1, 1));
    // Three kernels again, of which the killed one had run for 400 us.
    let delay = 20 + 200 + 400 + 2_000;
    assert_eq!(latencies(&outcome, 0), [us(1 + 20_000 + delay + 1)]);
    assert!(
        spans(&outcome, 0).iter().filter(|span| matches!(span.what, TraceKind::Kernel { repeated: true, .. })).count()
            == 3
    );
}

#[test]
fn a_request_submitted_under_reef_while_a_higher_one_runs_waits_unharmed() {
    let tasks =
        vec![offline(at(&[us(300)]), kernels(3, FULL, us(100))), online(at(&[us(0)]), kernels(1, FULL, us(1_000)))];
    let outcome = record(&profile(), &workload(us(9_000), tasks), "reef");
    assert_eq!(latencies(&outcome, 1), [us(1_001)]);
    assert_eq!(latencies(&outcome, 0), [us(701 + 1 + 300)]);
    assert_eq!((outcome.repeated_kernels, outcome.cycles), (0, 0));
}

#[test]
fn time_slice_groups_answer_at_the_end_of_the_slice() {
    let outcome = record(&profile(), &contended(), "tsg");
    // Slices of 200 us from time zero: the next ends at 5600 us. Then a switch, with the gpu saved.
    let switched = 5_600 + 10 + 80;
    assert_eq!(latencies(&outcome, 1), [us(switched + 200 - 5_401)]);
    // Back at once: what was saved is restored.
    let back = switched + 200 + 10 + 80;
    assert_eq!(latencies(&outcome, 0), [us(20_001 + back - 5_600)]);
    assert_eq!((outcome.cycles, outcome.repeated_kernels, outcome.preemptions), (2, 0, 1));
    // From the begin of the one switch to the end of the other.
    assert_eq!(outcome.longest_starved, us(90 + 200 + 90));
}

#[test]
fn time_slice_groups_cost_nothing_without_contention() {
    let tasks = vec![
        offline(at(&[us(2_000)]), kernels(3, FULL, us(100))),
        online(at(&[us(0), us(4_000)]), kernels(1, FULL, us(1_000))),
    ];
    let outcome = record(&profile(), &workload(us(9_000), tasks), "tsg");
    assert_eq!(latencies(&outcome, 1), [us(1_001), us(1_001)]);
    assert_eq!(latencies(&outcome, 0), [us(301)]);
    assert_eq!(outcome.cycles, 0);
}

#[test]
fn the_long_slice_of_the_upper_group_ends_too() {
    let tasks = vec![offline(CLOSED, kernels(1, FULL, us(100))), online(CLOSED, kernels(1, FULL, us(1_000)))];
    let outcome = record(&profile(), &workload(Nanos::from_secs(3), tasks), "tsg");
    assert!((1..=10).contains(&outcome.tasks[0].completed), "{}", outcome.tasks[0].completed);
    assert!(outcome.longest_starved > Nanos::from_millis(990));
}

#[test]
fn xsched_waits_for_what_its_level_cannot_take_back() {
    // The scheduler hears of the request after 3 us, as its worker does; the first launch takes another submission
    // time.
    let head = 3 + 1 + ALONE;
    // Level 1: the rest of kernel 5, and kernels 6 to 11: four were launched when the first four were complete.
    assert_eq!(online_latency("xsched-lv1"), us(REST + 6 * 1_000 + 200 + wakeups_of_the_worker()));
    assert_eq!(online_latency("xsched-lv2"), us(REST + 200 + wakeups_of_the_worker()));
    let third = online_latency("xsched-lv3");
    assert!(third >= us(20 + ALONE - 1) && third <= us(20 + head), "{third:?}");
}

/// The training job starts later than without a shim: one wake-up and one submission.
fn wakeups_of_the_worker() -> u64 {
    3 + 1
}

#[test]
fn only_the_third_level_of_xsched_repeats() {
    let repeated =
        ["xsched-lv1", "xsched-lv2", "xsched-lv3"].map(|name| record(&profile(), &contended(), name).repeated_kernels);
    assert_eq!(repeated, [0, 0, 1]);
}

#[test]
fn the_shim_of_xsched_costs_throughput_when_kernels_are_short() {
    let mut sleepy = profile();
    sleepy.host.wakeup_us.value = 30.0;
    let tasks = |duration| vec![offline(CLOSED, kernels(64, FULL, duration))];
    let kernels_done = |mechanism: &str, duration| {
        let outcome = record(&sleepy, &workload(Nanos::from_millis(50), tasks(duration)), mechanism);
        outcome.tasks[0].kernels as f64
    };
    let share = |duration| kernels_done("xsched-lv1", duration) / kernels_done("none", duration);
    assert!(share(us(5)) < 0.9, "{}", share(us(5)));
    assert!(share(us(100)) > 0.99, "{}", share(us(100)));
}

#[test]
fn stopping_the_whole_scheduler_wins_nothing() {
    let with = record(&profile(), &contended(), "stop-sched");
    assert!(latencies(&with, 1)[0] > online_latency("none"));
    // The inversion of 14 ms is seen at 10, 15 and 20 ms.
    assert_eq!((with.cycles, with.preemptions), (3, 0));
}
