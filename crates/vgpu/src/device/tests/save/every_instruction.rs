//! Saved and restored between any two instructions.

use vgpu_isa::wave::{mode, status};

use super::super::kernels::{ADD, COUNT, PRIVATE, REVERSE, SPIN};
use super::super::machine::{CONFIG, Machine, dispatch, halves};
use super::super::walker::{EXEC, MODE, STATUS, walk};
use super::{Case, Run, machine};
use crate::device::{DeviceActivity, Geometry, PacketFormat, SaveArea, WaveProgress, WorkgroupWave};

const ADDING: Case = Case { code: ADD, lds: 0, scratch: 0, items: 320, group: 64, input: true };
const REVERSING: Case = Case { code: REVERSE, lds: 4096, scratch: 0, items: 1024, group: 1024, input: false };
const PRIVATELY: Case = Case { code: PRIVATE, lds: 0, scratch: 16, items: 64, group: 64, input: false };
const ROOM: u32 = 128 << 10;

fn expected(case: &Case) -> Vec<u32> {
    (0..case.items)
        .map(|n| match case.code {
            code if code == ADD => n * 3 + 7,
            code if code == REVERSE => 1023 - n + 0x12345,
            _ => n + 5,
        })
        .collect()
}

#[test]
fn a_kernel_stopped_after_any_instruction_has_the_same_result() {
    for case in [ADDING, REVERSING, PRIVATELY] {
        for turns in 0..80 {
            let mut run = Run::new(&case, ROOM);
            run.turns(turns);
            let done = run.done();
            let waves = run.save();
            let found = walk(&mut run.machine.port(), run.area.address, run.area.control_stack);
            assert_eq!(found.len(), waves as usize);
            for wave in &found {
                assert!(run.code.contains(&wave.pc(&mut run.machine.port())));
            }
            assert_eq!(run.machine.run(), DeviceActivity::Idle, "a saved queue does nothing");
            run.restore();
            assert_eq!(run.finish(case.items), expected(&case), "after {turns} turns");
            if done {
                break;
            }
            assert_ne!(turns, 79, "the kernel is longer than the test");
        }
    }
}

#[test]
fn a_kernel_stopped_after_every_instruction_has_the_same_result() {
    for case in [ADDING, REVERSING, PRIVATELY] {
        let mut run = Run::new(&case, ROOM);
        let mut waves = 0;
        while !run.done() {
            run.turns(1);
            waves += run.save();
            run.restore();
        }
        assert_eq!(run.finish(case.items), expected(&case));
        let counters = run.machine.device.lock().unwrap().save_counters();
        assert_eq!((counters.saves, counters.waves), (counters.restores, waves.into()));
        assert!(counters.landed >= 8 && 2 * counters.moved >= counters.landed, "{counters:?}");
    }
}

#[test]
fn registers_lie_where_a_debugger_looks_for_them() {
    let mut run = Run::new(&Case { items: 128, ..ADDING }, ROOM);
    // Both groups are past their first load then, and neither has ended.
    run.turns(12);
    assert_eq!(run.save(), 2);
    let found = walk(&mut run.machine.port(), run.area.address, run.area.control_stack);
    let mut groups = Vec::new();
    for wave in found {
        let word = |offset: u32| run.machine.u32(wave.at + u64::from(offset));
        let (layout, [low, high]) = (wave.layout, halves(run.out));
        assert_eq!((layout.arch_vgprs, layout.acc_vgprs, layout.sgprs, layout.lds_bytes), (8, 0, 48, 0));
        assert_eq!([6, 7].map(|n| word(layout.sgpr(n))), [low, high]);
        assert_eq!(EXEC.map(|n| word(layout.hwreg(n))), [!0; 2]);
        assert_eq!(word(layout.hwreg(MODE)), mode::USUAL);
        assert_eq!(word(layout.hwreg(STATUS)), status::VALID | status::VCCZ);
        groups.push(word(layout.ttmp(8)));
    }
    groups.sort_unstable();
    assert_eq!(groups, [0, 1]);
}

#[test]
fn waves_wait_at_their_barrier_and_ended_ones_stay_ended() {
    let mut run = Run::new(&REVERSING, ROOM);
    run.turns(3);
    let mut device = run.machine.device.lock().unwrap();
    device.suspend(run.queue.id);
    let states = |waves: &[WorkgroupWave]| waves.iter().map(|member| member.state).collect::<Vec<_>>();
    let group = &mut device.off_device(run.queue.id).unwrap()[0];
    group.waves[0].state = WaveProgress::Ended;
    group.waves[4].state = WaveProgress::AtBarrier;
    group.waves[4].wave.status |= status::IN_BARRIER;
    let before = states(&group.waves);
    assert_eq!(device.save(run.queue.id).unwrap().waves, 15);
    let found = walk(&mut run.machine.port(), run.area.address, run.area.control_stack);
    assert_eq!(found[0].layout.lds_bytes, 4096, "the first wave that is left saves the LDS");
    device.restore(run.queue.id).unwrap();
    assert_eq!(states(&device.take().unwrap().group.waves), before);
}

#[test]
fn a_register_changed_in_the_area_is_what_the_wave_continues_with() {
    const LANE: u64 = 37;
    // After eight instructions of the only wave, v1 holds what was loaded and nothing was added to it.
    let case = Case { items: 64, ..ADDING };
    let mut run = Run::new(&case, ROOM);
    run.turns(8);
    assert_eq!(run.save(), 1);
    let found = walk(&mut run.machine.port(), run.area.address, run.area.control_stack);
    let at = found[0].at + u64::from(found[0].layout.arch_vgpr(1)) + 4 * LANE;
    let loaded = LANE as u32 * 3;
    assert_eq!(run.machine.u32(at), loaded);
    let changed = loaded ^ (1 << 20);
    run.machine.set_u32(at, changed);
    run.restore();
    let mut predicted = expected(&case);
    predicted[LANE as usize] = changed + 7;
    assert_eq!(run.finish(case.items), predicted);
}

#[test]
fn grids_keep_the_rest_and_packets_their_order() {
    let (mut machine, _) = machine(2, 256 << 10);
    let counter = machine.alloc(8);
    let arguments = machine.buffer(&halves(counter));
    let kernel = machine.plain_kernel(COUNT);
    let queue = machine.queue(PacketFormat::Aql);
    let signals = [1, 2, 3].map(|_| machine.signal(1, None));
    for signal in signals {
        machine.submit(&queue, &dispatch(kernel, arguments, 64 * 100, 64, signal));
    }
    let mut before = [1; 3];
    while before != [0; 3] {
        machine.worker.turn(&machine.device);
        let mut device = machine.device.lock().unwrap();
        assert!(device.suspend(queue.id));
        device.save(queue.id).unwrap();
        device.restore(queue.id).unwrap();
        drop(device);
        let now = signals.map(|signal| machine.value(signal));
        assert!(now.is_sorted(), "the barrier bit holds: {now:?}");
        before = now;
    }
    assert_eq!(machine.u32(counter), 300);
    assert_eq!((machine.slots.waves(), machine.u64(queue.read)), (0, 3));
}

#[test]
fn workgroups_of_all_xccs_come_back_in_the_order_in_which_they_waited() {
    let mut machine = Machine::of_size(CONFIG, 2, Geometry::cdna(6, 3));
    let (control_stack, size) = (4096, 64 << 10);
    let address = machine.alloc(3 * u64::from(size));
    machine.save_area = Some(SaveArea { address, size, control_stack, xccs: 3 });
    let (go, out) = (machine.alloc(8), machine.alloc(8));
    let arguments = machine.buffer(&[halves(go), halves(out)].concat());
    let spin = machine.plain_kernel(SPIN);
    let queue = machine.queue(PacketFormat::Aql);
    machine.submit(&queue, &dispatch(spin, arguments, 64 * 7, 64, 0));
    for _ in 0..100 {
        machine.worker.turn(&machine.device);
    }
    let mut device = machine.device.lock().unwrap();
    let mut order = || {
        device.suspend(queue.id);
        let order: Vec<_> = device.off_device(queue.id).unwrap().iter().map(|group| (group.id, group.was)).collect();
        device.save(queue.id).unwrap();
        device.restore(queue.id).unwrap();
        order
    };
    let before = order();
    let xccs: Vec<_> = before.iter().filter_map(|(_, was)| Some(was.as_ref()?.xcc)).collect();
    assert!(before.len() == 7 && !xccs.is_sorted(), "{before:?}");
    assert_eq!(order(), before);
}

#[test]
fn a_queue_comes_back_when_others_leave_room() {
    let (mut machine, _) = machine(10, 384 << 10);
    let (go, out) = (machine.alloc(8), machine.alloc(8));
    let arguments = machine.buffer(&[halves(go), halves(out)].concat());
    let spin = machine.plain_kernel(SPIN);
    let first = machine.queue(PacketFormat::Aql);
    machine.save_area = None;
    let second = machine.queue(PacketFormat::Aql);
    let signals = [1, 2].map(|_| machine.signal(1, None));
    // Two compute units have 64 slots: either queue fills the device.
    for (queue, signal) in [&first, &second].into_iter().zip(signals) {
        machine.submit(queue, &dispatch(spin, arguments, 64 * 100, 64, signal));
        machine.run();
        assert_eq!(machine.slots.waves(), 64);
        let mut device = machine.device.lock().unwrap();
        if queue.id == first.id {
            device.suspend(first.id);
            assert_eq!(device.save(first.id).unwrap().waves, 64);
        } else {
            device.restore(first.id).unwrap();
        }
    }
    machine.run();
    let counters = machine.device.lock().unwrap().save_counters();
    assert_eq!((counters.landed, machine.slots.waves()), (0, 64), "there is no room yet");
    machine.set_u32(go, 1);
    machine.run();
    assert_eq!(signals.map(|signal| machine.value(signal)), [0, 0]);
    let counters = machine.device.lock().unwrap().save_counters();
    assert_eq!((counters.landed, machine.slots.waves()), (64, 0));
}
