//! What is counted and how it is summed up: no mechanism may look better by serving less.

use gpreempt_core::Nanos;
use gpreempt_lab::Workload;
use gpreempt_lab::experiment::{Row, compare};
use gpreempt_lab::machine::SwitchPath;
use gpreempt_lab::mechanism::find;
use gpreempt_lab::outcome::TaskOutcome;
use gpreempt_lab::workload::Load;

use crate::support::*;

fn row(workload: &Workload, mechanism: &str) -> Row {
    compare(&profile(), workload, &[find(mechanism).unwrap()], 1, &|_, _| {}).rows.remove(1)
}

fn recorded(task: &TaskOutcome) -> Vec<u64> {
    task.latency.iter_recorded().map(|step| step.value_iterated_to()).collect()
}

/// Latencies of the histograms are exact to a thousandth.
fn about(times: Option<f64>, expected: f64) -> bool {
    times.is_some_and(|times| (times / expected - 1.0).abs() < 0.002)
}

#[test]
fn times_alone_compares_each_request_with_its_own_task() {
    // Every request meets a kernel that came a moment before it: one of 200 us before those of 100 us, one of 1 ms
    // before those of 10 ms.
    let every_tenth = |offset: u64| at(&(0..100).map(|i| us(100_000 * i + offset)).collect::<Vec<_>>());
    let one = |length| kernels(1, FULL, us(length));
    let tasks = vec![
        offline(every_tenth(0), one(200)),
        offline(every_tenth(50_000), one(1_000)),
        online(every_tenth(0), one(99)),
        online(every_tenth(50_000), one(9_999)),
    ];
    let online = row(&workload(Nanos::from_secs(10), tasks), "none").online;
    // Half of the requests take 1.1 times as long as alone and half 3 times. Pooled quantiles would show the long
    // requests only: 11 ms over 10 ms.
    assert!(about(online.times_alone_p50, 1.1), "{online:?}");
    assert!(about(online.times_alone_p99, 3.0), "{online:?}");
    assert!(online.p99 > us(10_990), "the absolute columns stay pooled: {online:?}");
}

#[test]
fn what_is_in_flight_at_the_end_is_counted_and_shows_its_age() {
    // The second request meets a kernel that outlasts the run; two more arrive behind it, of which one is dropped.
    let tasks = vec![
        offline(at(&[us(150)]), kernels(1, FULL, Nanos::from_secs(1))),
        online(at(&[us(0), us(200), us(300), us(400)]), kernels(1, FULL, us(99))),
    ];
    let workload = workload(us(10_000), tasks);
    let task = &record(&profile(), &workload, "none").tasks[1];
    assert_eq!((task.completed, task.skipped, task.unfinished), (1, 1, 2));
    let ages = recorded(task);
    assert_eq!(ages.len(), 3, "{ages:?}");
    assert!(ages[0].abs_diff(100_000) < 100 && ages[1].abs_diff(9_600_000) < 10_000, "{ages:?}");
    let online = row(&workload, "none").online;
    assert_eq!((online.unfinished, online.served()), (2, Some(0.25)));
    assert!(online.times_alone_p99 > Some(90.0), "one request of 100 us and silence are not 1.00x: {online:?}");
}

#[test]
fn a_request_too_young_to_tell_is_counted_and_changes_no_latency() {
    let load = at(&[us(0), us(1_000), us(1_990)]);
    let outcome = record(&profile(), &workload(us(2_000), vec![online(load, kernels(1, 1, us(99)))]), "none");
    let task = &outcome.tasks[0];
    assert_eq!((task.completed, task.unfinished, task.latency.len()), (2, 1, 2));
}

#[test]
fn a_task_that_is_never_served_has_its_age_as_latency() {
    let tasks = vec![
        offline(at(&[us(0)]), kernels(1, FULL, Nanos::from_secs(1))),
        online(at(&[us(1_000)]), kernels(1, 1, us(99))),
    ];
    let online = row(&workload(us(9_000), tasks), "none").online;
    assert_eq!((online.completed, online.served()), (0, Some(0.0)));
    assert!(online.has_latency() && about(online.times_alone_p99, 80.0), "{online:?}");
}

#[test]
fn offline_tasks_count_alike_however_short_their_kernels_are() {
    // Only the one with few long kernels shares its gpu.
    let mut many = offline(CLOSED, kernels(100, FULL, us(10)));
    let mut few = offline(CLOSED, kernels(1, FULL, us(10_000)));
    (many.gpus, few.gpus) = (vec![0], vec![1]);
    let mut heavy = online(Load::Closed { think: us(10) }, kernels(1, FULL, us(10_000)));
    heavy.gpus = vec![1];
    let share = row(&workload(Nanos::from_secs(1), vec![many, few, heavy]), "none").offline.share_of_alone.unwrap();
    // Whole for the one, about half for the other; of all kernels 99.9 % are the first one's.
    assert!((0.70..0.80).contains(&share), "{share}");
}

#[test]
fn a_task_without_a_kernel_alone_is_left_out_of_the_share() {
    let endless = || offline(CLOSED, kernels(1, FULL, Nanos::from_secs(9)));
    let mut other = offline(CLOSED, kernels(1, FULL, us(100)));
    other.gpus = vec![1];
    let share = |tasks| row(&workload(us(10_000), tasks), "none").offline.share_of_alone;
    assert_eq!(share(vec![endless(), other]), Some(1.0));
    assert_eq!(share(vec![endless()]), None);
}

#[test]
fn waiting_behind_others_is_starving_under_every_mechanism() {
    let tasks = || {
        vec![online(at(&[us(0)]), kernels(1, FULL, us(5_000))), offline(at(&[us(1_000)]), kernels(1, FULL, us(100)))]
    };
    // Nothing is ever stopped, and the training job waits for 4 ms all the same.
    for mechanism in ["none", "round-robin", "reef"] {
        let starved = record(&profile(), &workload(us(9_000), tasks()), mechanism).longest_starved;
        assert!(starved >= us(4_000) && starved <= us(4_010), "{mechanism}: {starved:?}");
    }
    // Online work that starves is not what the figure is about.
    let mut swapped = tasks();
    (swapped[0].role, swapped[1].role) = (swapped[1].role, swapped[0].role);
    assert_eq!(record(&profile(), &workload(us(9_000), swapped), "none").longest_starved, us(1));
}

#[test]
fn cycles_that_follow_each_other_are_one_time_without_the_gpu() {
    let (outcome, script) = Script::default()
        .at(us(101), |machine| {
            for _ in 0..3 {
                machine.switch(0, &[], &[], SwitchPath::Driver, Nanos::ZERO);
            }
        })
        .run(&workload(us(5_000), vec![offline(at(&[us(0)]), kernels(1, FULL, us(1_000)))]));
    let costs: u64 = script.cycles.iter().map(|(_, done)| done.cost.0).sum();
    assert_eq!((script.cycles.len(), outcome.longest_starved), (3, Nanos(costs)));
}

#[test]
fn a_rank_that_spins_does_not_advance() {
    let mut all_reduce = kernel(4, us(100));
    all_reduce.collective = true;
    let mut job = offline(at(&[us(0)]), vec![all_reduce]);
    job.gpus = vec![0, 1];
    let mut other = online(at(&[us(0)]), kernels(1, FULL, us(300)));
    other.gpus = vec![1];
    let outcome = record(&profile(), &workload(us(1_000), vec![other, job]), "none");
    // One rank is on its gpu all the time, and waits for the other.
    assert_eq!(outcome.longest_starved, us(301));
}

#[test]
fn who_still_starves_at_the_end_is_not_forgotten() {
    let tasks =
        vec![online(at(&[us(0)]), kernels(1, FULL, us(5_000))), offline(at(&[us(1_000)]), kernels(1, FULL, us(100)))];
    assert_eq!(record(&profile(), &workload(us(3_000), tasks), "none").longest_starved, us(2_000));
}
