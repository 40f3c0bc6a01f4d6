//! Stopping, resuming, resetting.

use gpreempt_core::Nanos;
use gpreempt_lab::machine::SwitchPath;
use gpreempt_lab::outcome::TraceKind;

use crate::support::*;

/// Firmware and grace of [`profile`].
const FIXED: u64 = 10 + 5;
/// Saving, or restoring, a full gpu from VRAM.
const FULL_SAVE: u64 = 80;

#[test]
fn a_cycle_costs_firmware_grace_and_both_ways_of_what_it_moves() {
    let tasks = || vec![offline(at(&[us(0)]), kernels(1, FULL, us(1_000)))];
    let (_, bounced) = Script::default()
        .at(us(100), |machine| {
            machine.switch(0, &[], &[], SwitchPath::Driver, Nanos::ZERO);
        })
        .run(&workload(us(5_000), tasks()));
    assert_eq!(bounced.cycles[0].1.cost, us(FIXED + 2 * FULL_SAVE));

    let (_, stopped) = Script::default()
        .at(us(100), |machine| {
            assert_eq!(machine.switch_cost(0, &[0], &[], SwitchPath::Driver), us(FIXED + FULL_SAVE));
            machine.stop(0, &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .at(us(1_000), |machine| {
            machine.resume(0, &[0], SwitchPath::Driver, us(2));
        })
        .run(&workload(us(5_000), tasks()));
    let cycles: Vec<(Nanos, Nanos)> = stopped.cycles.iter().map(|(at, done)| (*at, done.cost)).collect();
    let cost = FIXED + FULL_SAVE;
    assert_eq!(cycles, [(us(100 + cost), us(cost)), (us(1_002 + cost), us(cost))]);
}

#[test]
fn the_debug_trap_moves_the_save_area_to_host_memory_and_the_driver_does_not() {
    for (how, restore) in [(SwitchPath::Driver, FULL_SAVE), (SwitchPath::DebugTrap, 8 * FULL_SAVE)] {
        let (_, script) = Script::default()
            .at(us(100), move |machine| {
                machine.stop(0, &[0], how, Nanos::ZERO);
            })
            .at(us(1_000), move |machine| {
                machine.resume(0, &[0], how, Nanos::ZERO);
            })
            .run(&workload(us(5_000), vec![offline(at(&[us(0)]), kernels(1, FULL, us(1_000)))]));
        assert_eq!(script.cycles[0].1.cost, us(FIXED + FULL_SAVE), "the first save still goes to VRAM");
        assert_eq!(script.cycles[1].1.cost, us(FIXED + restore));
    }
}

#[test]
fn lds_and_wave_overhead_are_saved_too() {
    let mut profile = profile();
    profile.cycle.wave_overhead_bytes.value = 100.0;
    let mut kernel = kernel(10, us(1_000));
    (kernel.waves, kernel.lds) = (4, 1_000);
    let bytes = 10 * (4 * (16 * 256 + 100) + 1_000);
    let expected = (f64::from(bytes) / 4.096).round() as u64;
    Script::default()
        .at(us(100), move |machine| {
            let cost = machine.switch_cost(0, &[0], &[], SwitchPath::Driver);
            assert_eq!(cost, Nanos(FIXED * 1_000 + expected));
        })
        .run_on(&profile, &workload(us(500), vec![offline(at(&[us(0)]), vec![kernel])]));
}

#[test]
fn a_context_switch_knows_no_grace() {
    Script::default()
        .at(us(100), |machine| {
            assert_eq!(machine.switch_cost(0, &[0], &[], SwitchPath::ContextSwitch), us(10 + FULL_SAVE));
        })
        .run(&workload(us(500), vec![offline(at(&[us(0)]), kernels(1, FULL, us(1_000)))]));
}

#[test]
fn a_kernel_stopped_in_the_middle_completes_once_with_the_time_it_had_left() {
    let (outcome, script) = Script::default()
        .at(us(301), |machine| {
            machine.stop(0, &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .at(us(2_000), |machine| {
            machine.resume(0, &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .run(&workload(us(10_000), vec![offline(at(&[us(0)]), kernels(3, FULL, us(1_000)))]));
    let resumed = 2_000 + FIXED + FULL_SAVE;
    assert_eq!(latencies(&outcome, 0), [us(resumed + 700 + 2 * 1_000)]);
    assert_eq!((outcome.tasks[0].kernels, outcome.repeated_kernels), (3, 0));
    assert_eq!(outcome.tasks[0].busy, us(3_000));
    assert_eq!((outcome.preemptions, outcome.cycles), (1, 2));
    // Stopped from the end of the one cycle to the end of the other, and without the gpu since the first began.
    let stop = script.cycles[1].0.since(script.cycles[0].0);
    assert_eq!(outcome.longest_starved, us(resumed - 301));
    let span = outcome.trace.iter().find(|event| event.what == TraceKind::Stopped).unwrap();
    assert_eq!((span.at, span.length), (script.cycles[0].0, stop));
    let spans: Vec<Nanos> = spans(&outcome, 0).iter().map(|span| span.length).collect();
    assert_eq!(spans, [us(300), us(700), us(1_000), us(1_000)]);
}

#[test]
fn everybody_on_the_gpu_pays_for_a_cycle() {
    let tasks = vec![
        offline(at(&[us(0)]), kernels(1, FULL / 2, us(1_000))),
        online(at(&[us(0)]), kernels(1, FULL / 2, us(500))),
    ];
    let (outcome, script) = Script::default()
        .at(us(100), |machine| {
            machine.stop(0, &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .run(&workload(us(5_000), tasks));
    // Both saved, one put back.
    let cost = FIXED + FULL_SAVE + FULL_SAVE / 2;
    assert_eq!(script.cycles[0].1.cost, us(cost));
    assert_eq!(latencies(&outcome, 1), [us(1 + 500 + cost)]);
    assert_eq!((outcome.cycles, outcome.cycle_time), (1, us(cost)));
}

#[test]
fn the_stopped_make_room_at_once_for_who_waits() {
    let tasks =
        vec![offline(at(&[us(0)]), kernels(1, FULL, us(10_000))), online(at(&[us(100)]), kernels(2, FULL, us(50)))];
    let (outcome, _) = Script::default()
        .at(us(100), |machine| {
            machine.stop(0, &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .run(&workload(us(5_000), tasks));
    assert_eq!(latencies(&outcome, 1), [us(FIXED + FULL_SAVE + 2 * 50)]);
}

#[test]
fn cycles_of_one_gpu_wait_for_each_other_and_those_of_another_do_not() {
    let (outcome, script) = Script::default()
        .at(us(100), |machine| {
            machine.switch(0, &[], &[], SwitchPath::Driver, Nanos::ZERO);
            machine.switch(0, &[], &[], SwitchPath::Driver, Nanos::ZERO);
            machine.switch(1, &[], &[], SwitchPath::Driver, Nanos::ZERO);
        })
        .run(&{
            let mut both = offline(at(&[us(999)]), kernels(1, 1, us(1)));
            both.gpus = vec![0, 1];
            workload(us(1_000), vec![both])
        });
    let ends: Vec<(usize, Nanos)> = script.cycles.iter().map(|(at, done)| (done.gpu, *at)).collect();
    assert_eq!(ends, [(0, us(115)), (1, us(115)), (0, us(130))]);
    assert_eq!(outcome.cycles, 3);
}

#[test]
fn stop_and_resume_in_one_call_are_one_cycle() {
    let tasks = || {
        vec![offline(at(&[us(0)]), kernels(1, FULL, us(1_000))), online(at(&[us(200)]), kernels(1, FULL, us(1_000)))]
    };
    let (outcome, _) = Script::default()
        .at(us(100), |machine| {
            machine.stop(0, &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .at(us(500), |machine| {
            machine.switch(0, &[1], &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .at(us(700), |machine| {
            let views = [machine.view(0, 0).unwrap(), machine.view(1, 0).unwrap()];
            assert_eq!([views[0].stopped, views[1].stopped], [false, true]);
        })
        .run(&workload(us(5_000), tasks()));
    assert_eq!(outcome.cycles, 2);
}

#[test]
fn what_was_saved_comes_back_before_anything_new_starts() {
    // The online task takes the gpu as soon as the offline one leaves; on resume half a gpu is free.
    let tasks = vec![
        offline(at(&[us(0)]), kernels(1, FULL, us(1_000))),
        online(at(&[us(150)]), vec![kernel(FULL / 2, us(3_000)), kernel(FULL, us(10))]),
    ];
    let (outcome, _) = Script::default()
        .at(us(101), |machine| {
            machine.stop(0, &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .at(us(1_000), |machine| {
            machine.resume(0, &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .run(&workload(us(9_000), tasks));
    // Cycle: the online half out and in, the offline half in. The second half of the offline follows when the first is
    // done.
    let resumed = 1_000 + FIXED + 3 * FULL_SAVE / 2;
    assert_eq!(latencies(&outcome, 0), [us(resumed + 900 + 900)]);
    assert_eq!(outcome.tasks[0].kernels, 1);
}

#[test]
fn a_task_stopped_while_idle_waits_with_its_next_request() {
    let (outcome, _) = Script::default()
        .at(us(100), |machine| {
            machine.stop(0, &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .at(us(1_000), |machine| {
            let view = machine.view(0, 0).unwrap();
            assert!(view.unfinished && view.stopped && view.rptr == 0 && view.wptr == 2, "{view:?}");
            machine.resume(0, &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .run(&workload(us(5_000), vec![offline(at(&[us(500)]), kernels(2, FULL, us(50)))]));
    // Its doorbell rang long ago: the mapped queue looks at the ring without one.
    assert_eq!(latencies(&outcome, 0), [us(500 + FIXED + 2 * 50)]);
    assert_eq!(outcome.longest_starved, us(500 + FIXED));
}

#[test]
fn stopping_one_rank_of_a_collective_stalls_the_others() {
    let job = || {
        let mut all_reduce = kernel(4, us(1_000));
        all_reduce.collective = true;
        let mut job = offline(at(&[us(0)]), vec![all_reduce]);
        job.gpus = vec![0, 1, 2];
        workload(us(9_000), vec![job])
    };
    let (outcome, _) = Script::default()
        .at(us(101), |machine| {
            machine.stop(1, &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .at(us(2_000), |machine| {
            let others = [machine.view(0, 0).unwrap(), machine.view(0, 2).unwrap()];
            assert!(others.iter().all(|view| view.resident == 4 && !view.stopped), "they spin");
            machine.resume(1, &[0], SwitchPath::Driver, Nanos::ZERO);
        })
        .run(&job());
    let resumed = 2_000 + FIXED + 4;
    assert_eq!(latencies(&outcome, 0), [us(resumed + 900)]);
    // A tenth of the 20th part of three gpus: spinning is not advancing.
    assert_eq!(outcome.tasks[0].busy, us(3 * 1_000 * 4 / u64::from(FULL)));
}

#[test]
fn a_reset_kills_what_runs_and_a_resubmission_begins_before_it() {
    let (outcome, script) = Script::default()
        .at(us(351), |machine| {
            machine.reset(0, &[0], 2);
        })
        .at(us(500), |machine| {
            let view = machine.view(0, 0).unwrap();
            assert!(view.resident == 0 && view.rptr == view.wptr && view.unfinished, "{view:?}");
            machine.resubmit(0, machine.now());
        })
        .run(&workload(us(5_000), vec![offline(at(&[us(0)]), kernels(10, FULL, us(100)))]));
    // Kernels 0 to 2 were complete; the fourth is killed, and two of the three run again.
    assert_eq!(script.cycles[0].1.cost, us(20));
    assert_eq!(latencies(&outcome, 0), [us(500 + 1 + 900)]);
    assert_eq!((outcome.repeated_kernels, outcome.tasks[0].kernels), (3, 10));
    let busy = 350 + 900;
    assert_eq!(outcome.tasks[0].busy, us(busy));
}

#[test]
fn a_reset_of_an_idle_task_repeats_nothing() {
    let (outcome, _) = Script::default()
        .at(us(300), |machine| {
            machine.reset(0, &[0], 2);
        })
        .at(us(400), |machine| machine.resubmit(0, machine.now()))
        .run(&workload(us(5_000), vec![offline(at(&[us(0), us(1_000)]), kernels(2, FULL, us(100)))]));
    assert_eq!(latencies(&outcome, 0), [us(201), us(201)]);
    assert_eq!(outcome.repeated_kernels, 0);
}

#[test]
fn holding_lets_the_started_kernel_finish_and_nothing_follow() {
    let (outcome, _) = Script::default()
        .at(us(150), |machine| machine.hold(0, 0))
        .at(us(1_000), |machine| machine.release(0, 0))
        .run(&workload(us(5_000), vec![offline(at(&[us(0)]), kernels(4, 2 * FULL, us(50)))]));
    // Kernel 1 had begun at 101 us with half of its workgroups; both halves end by 201 us.
    assert_eq!(latencies(&outcome, 0), [us(1_000 + 2 * 100)]);
    // What was launched goes on: it starves only when that is done.
    assert_eq!(outcome.longest_starved, us(1_000 - 201));
}
