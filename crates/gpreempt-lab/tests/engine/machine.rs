//! Requests, rings, dispatch.

use gpreempt_core::Nanos;
use gpreempt_lab::machine::Dispatch;
use gpreempt_lab::outcome::RunOutcome;
use gpreempt_lab::workload::{Load, Task};

use crate::support::*;

#[test]
fn a_request_alone_takes_its_kernels_and_one_fetch() {
    let kernels = vec![
        kernel(FULL, us(100)),
        kernel(FULL / 2, us(30)),
        // Two and a half times the gpu: three rounds.
        kernel(FULL * 5 / 2, us(10)),
    ];
    let outcome = record(&profile(), &workload(us(1_000), vec![online(at(&[us(50)]), kernels)]), "none");
    assert_eq!(latencies(&outcome, 0), [us(1 + 100 + 30 + 3 * 10)]);
    assert_eq!((outcome.tasks[0].completed, outcome.tasks[0].kernels), (1, 3));
}

#[test]
fn a_host_slower_than_the_gpu_sets_the_pace() {
    let mut slow = profile();
    slow.host.submit_us.value = 50.0;
    let outcome = record(&slow, &workload(us(1_000), vec![online(at(&[us(0)]), kernels(4, 8, us(10)))]), "none");
    // The last of four enters the ring at 150 us, and each one finds an empty queue.
    assert_eq!(latencies(&outcome, 0), [us(150 + 1 + 10)]);
}

#[test]
fn a_request_behind_a_long_kernel_waits_for_it() {
    let tasks =
        vec![offline(at(&[us(0)]), kernels(1, FULL, us(500))), online(at(&[us(100)]), kernels(1, FULL, us(20)))];
    let outcome = record(&profile(), &workload(us(1_000), tasks), "none");
    assert_eq!(latencies(&outcome, 1), [us(1 + 500 + 20 - 100)]);
}

#[test]
fn kernels_that_leave_room_for_each_other_run_side_by_side() {
    let tasks = vec![
        offline(at(&[us(0)]), kernels(1, FULL / 2, us(500))),
        online(at(&[us(100)]), kernels(1, FULL / 2, us(20))),
    ];
    let outcome = record(&profile(), &workload(us(1_000), tasks), "none");
    assert_eq!(latencies(&outcome, 1), [us(21)]);
}

#[test]
fn workgroups_that_would_end_almost_together_end_together() {
    let tasks = |second| {
        vec![offline(at(&[us(0)]), kernels(1, FULL / 2, us(100))), online(at(&[second]), kernels(1, FULL / 2, us(100)))]
    };
    let latency = |second| latencies(&record(&profile(), &workload(us(500), tasks(second)), "none"), 1)[0];
    // Within a 64th of the workgroup's time.
    assert_eq!(latency(us(1)), us(1 + 99));
    assert_eq!(latency(us(2)), us(1 + 100));
}

#[test]
fn the_scarcest_resource_decides_how_many_workgroups_fit() {
    let mut hungry = kernel(2, us(10));
    hungry.lds = 640 * 1024 / 2 + 1;
    let outcome = record(&profile(), &workload(us(1_000), vec![online(at(&[us(0)]), vec![hungry])]), "none");
    assert_eq!(latencies(&outcome, 0), [us(1 + 10 + 10)]);
}

#[test]
fn a_workgroup_larger_than_the_gpu_still_runs() {
    let mut huge = kernel(3, us(10));
    (huge.waves, huge.vgprs, huge.lds) = (1_000, 512, u32::MAX);
    let outcome = record(&profile(), &workload(us(1_000), vec![online(at(&[us(0)]), vec![huge])]), "none");
    assert_eq!(latencies(&outcome, 0), [us(1 + 3 * 10)]);
}

#[test]
fn of_missed_arrivals_the_newest_is_served_and_the_others_are_counted() {
    let arrivals = [us(0), us(10), us(20), us(30)];
    let outcome = record(&profile(), &workload(us(1_000), vec![online(at(&arrivals), kernels(1, 1, us(100)))]), "none");
    assert_eq!((outcome.tasks[0].completed, outcome.tasks[0].skipped), (2, 2));
    // The second request counts from its own arrival at 30 us.
    assert_eq!(latencies(&outcome, 0), [us(101), us(101 + 101 - 30)]);
}

#[test]
fn a_closed_loop_thinks_between_requests() {
    let load = Load::Closed { think: us(40) };
    let outcome = record(&profile(), &workload(us(1_000), vec![offline(load, kernels(1, 1, us(59)))]), "none");
    assert_eq!(outcome.tasks[0].completed, 10);
}

#[test]
fn busy_is_the_share_of_the_gpu_a_task_used() {
    let tasks = vec![offline(at(&[us(0)]), kernels(3, FULL / 4, us(100)))];
    let outcome = record(&profile(), &workload(us(1_000), tasks), "none");
    assert_eq!(outcome.tasks[0].busy, us(3 * 100 / 4));
}

#[test]
fn round_robin_shares_the_slots_evenly() {
    let tasks = || {
        vec![offline(at(&[us(0)]), kernels(1, 100 * FULL, us(10))), online(at(&[us(100)]), kernels(1, FULL, us(10)))]
    };
    let shared = record(&profile(), &workload(us(2_000), tasks()), "round-robin");
    let fifo = record(&profile(), &workload(us(2_000), tasks()), "none");
    // Half of the gpu for two rounds, after the round that was under way; in doorbell order it comes after all hundred.
    assert_eq!(latencies(&shared, 1), [us(11 + 20)]);
    assert_eq!(latencies(&fifo, 1), [us(1 + 1_000 + 10 - 100)]);
    assert_eq!(latencies(&shared, 0), [us(1 + 1_010)]);
}

#[test]
fn ring_pointers_are_monotone_and_the_read_pointer_never_overtakes() {
    for dispatch in [Dispatch::Doorbell, Dispatch::RoundRobin] {
        let script = (0..200).fold(Script::with(dispatch), |script, i| script.at(us(7 * i), |_| {}));
        let tasks = vec![offline(CLOSED, kernels(20, FULL / 3, us(9))), online(CLOSED, kernels(3, FULL, us(30)))];
        let (_, script) = script.run(&workload(us(2_000), tasks));
        assert!(script.seen.len() > 200);
        for view in &script.seen {
            assert!(view.rptr <= view.wptr, "{view:?}");
        }
        for pair in script.seen.windows(2) {
            assert!(pair[0].rptr <= pair[1].rptr && pair[0].wptr <= pair[1].wptr, "{pair:?}");
        }
        // Both advance at fetch and at submission, not at completion.
        assert!(script.seen.iter().any(|view| view.rptr == view.wptr && view.unfinished));
        assert!(script.seen.iter().any(|view| view.rptr < view.wptr));
    }
}

#[test]
fn a_mechanism_hears_of_the_first_doorbell_and_of_the_last_completion() {
    let tasks = vec![online(at(&[us(10), us(20), us(500)]), kernels(2, 1, us(50)))];
    let (_, script) = Script::default().run(&workload(us(1_000), tasks));
    // The request of 20 us follows without a pause in between.
    assert_eq!(script.submitted, [(us(10), 0), (us(111), 0), (us(500), 0)]);
    assert_eq!(script.drained, [(us(212), 0), (us(601), 0)]);
}

#[test]
fn more_processes_than_address_spaces_take_turns_and_all_progress() {
    let mut narrow = profile();
    narrow.queues.vmids.value = 2.0;
    let tasks: Vec<_> = (0..5).map(|_| offline(CLOSED, kernels(4, FULL / 2, us(300)))).collect();
    let outcome = record(&narrow, &workload(Nanos::from_millis(100), tasks), "none");
    let kernels: Vec<u64> = outcome.tasks.iter().map(|task| task.kernels).collect();
    let (least, most) = (kernels.iter().min().unwrap(), kernels.iter().max().unwrap());
    assert!(*least > 100 && most - least <= most / 5, "{kernels:?}");
    // A rotation after every quantum, which itself takes firmware and what leaves and enters: 10 + 80 + 80 us.
    assert!((83..=87).contains(&outcome.cycles), "{}", outcome.cycles);
    assert_eq!((outcome.repeated_kernels, outcome.preemptions), (0, 0));
}

#[test]
fn idle_processes_cause_no_rotation() {
    let mut narrow = profile();
    narrow.queues.vmids.value = 2.0;
    let never_while_running = at(&[Nanos::from_secs(9)]);
    let mut tasks: Vec<_> = (0..5).map(|_| offline(never_while_running.clone(), kernels(1, 1, us(1)))).collect();
    tasks.push(offline(CLOSED, kernels(4, FULL / 2, us(300))));
    let outcome = record(&narrow, &workload(Nanos::from_millis(100), tasks), "none");
    assert_eq!(outcome.cycles, 0);
}

/// One address space; the newest process is the one mapped first.
fn one_slot(tasks: Vec<Task>) -> RunOutcome {
    let mut narrow = profile();
    narrow.queues.vmids.value = 1.0;
    record(&narrow, &workload(us(20_000), tasks), "none")
}

#[test]
fn an_unused_slot_is_given_away_at_once() {
    let request = || online(at(&[us(100), us(5_000)]), kernels(1, FULL, us(50)));
    let idle = offline(at(&[us(15_000)]), kernels(1, 1, us(50)));
    // The rotation costs what the firmware needs; nothing moves. The second request finds its process mapped.
    assert_eq!(latencies(&one_slot(vec![request(), idle]), 0), [us(10 + 50), us(1 + 50)]);
    // A slot whose owner gets done is free, too: at 301 us, long before the quantum of 1000 us is over.
    let short = offline(at(&[us(0)]), kernels(1, FULL, us(300)));
    let outcome = one_slot(vec![request(), short]);
    assert_eq!(latencies(&outcome, 0), [us(301 - 100 + 10 + 50), us(1 + 50)]);
    assert_eq!(outcome.cycles, 1);
}

#[test]
fn the_quantum_counts_from_the_last_rotation() {
    let busy = || offline(at(&[us(0)]), kernels(1, FULL, us(10_000)));
    let latency = |arrival| latencies(&one_slot(vec![online(at(&[arrival]), kernels(1, FULL, us(50))), busy()]), 0)[0];
    // Firmware, and the full gpu of the other saved: a request within the quantum waits for its end, a later one does
    // not.
    assert_eq!(latency(us(400)), us(600 + 10 + 80 + 50));
    assert_eq!(latency(us(3_000)), us(10 + 80 + 50));
}

#[test]
fn all_ranks_of_a_collective_wait_for_the_last() {
    let mut all_reduce = kernel(4, us(100));
    all_reduce.collective = true;
    let mut job = offline(at(&[us(0)]), vec![all_reduce]);
    job.gpus = vec![0, 1];
    // Gpu 1 is taken until 301 us.
    let mut other = offline(at(&[us(0)]), kernels(1, FULL, us(300)));
    other.gpus = vec![1];
    let outcome = record(&profile(), &workload(us(1_000), vec![other, job]), "none");
    assert_eq!(latencies(&outcome, 1), [us(1 + 300 + 100)]);
    let gpus: Vec<(usize, Nanos)> = spans(&outcome, 1).iter().map(|span| (span.gpu, span.length)).collect();
    assert_eq!(gpus, [(0, us(400)), (1, us(100))]);
    assert_eq!(outcome.tasks[1].kernels, 1);
}
