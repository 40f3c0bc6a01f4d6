//! Places ahead of execution, masks, and processes that share the compute units.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::super::chip::{Chip, ChipSlots, ProcessSlot};
use super::super::{
    CuMask, DeviceActivity, Geometry, HardwareQueueUpdate, PacketFormat, ProcessDevice, WorkgroupOutcome,
};
use super::kernels::{COUNT, SPIN};
use super::machine::{CONFIG, Machine, RING, Ring, dispatch, halves};

/// A machine with a queue, and a kernel of `groups` workgroups of one wave on it that waits for a word: the queue, the
/// word and the signal at the end.
fn long_kernel(machine: &mut Machine, groups: u32) -> (Ring, u64, u64) {
    let (go, out) = (machine.alloc(8), machine.alloc(8));
    let arguments = machine.buffer(&[halves(go), halves(out)].concat());
    let spin = machine.plain_kernel(SPIN);
    let queue = machine.queue(PacketFormat::Aql);
    let signal = machine.signal(1, None);
    machine.submit(&queue, &dispatch(spin, arguments, 64 * groups, 64, signal));
    (queue, go, signal)
}

/// A kernel that counts its workgroups, on a queue of its own: the queue and the counter.
fn counting_kernel(machine: &mut Machine, groups: u32) -> (Ring, u64) {
    let counter = machine.alloc(8);
    let arguments = machine.buffer(&halves(counter));
    let kernel = machine.plain_kernel(COUNT);
    let queue = machine.queue(PacketFormat::Aql);
    machine.submit(&queue, &dispatch(kernel, arguments, 64 * groups, 64, 0));
    (queue, counter)
}

#[test]
fn a_long_kernel_fills_the_device_at_once_and_leaves_it_whole() {
    let mut machine = Machine::with_quantum(10);
    let (long, go, signal) = long_kernel(&mut machine, 200);
    machine.worker.turn(&machine.device);
    assert_eq!(machine.slots.waves(), 64, "two compute units");
    let (short, counter) = counting_kernel(&mut machine, 150);
    machine.run();
    let waits = machine.device.lock().unwrap().idle(short.id);
    assert_eq!((machine.u32(counter), waits), (0, false), "its packet is read, but there is no room");
    machine.device.lock().unwrap().suspend(long.id);
    assert_eq!(machine.slots.waves(), 0);
    machine.run();
    assert_eq!(machine.u32(counter), 150);
    machine.device.lock().unwrap().resume(long.id);
    machine.set_u32(go, 1);
    machine.run();
    assert_eq!((machine.value(signal), machine.slots.waves()), (0, 0));
}

#[test]
fn every_workgroup_runs_once_however_often_its_place_is_taken_away() {
    let mut machine = Machine::with_quantum(3);
    let (queue, counter) = counting_kernel(&mut machine, 500);
    for turn in 0_u32.. {
        let pulse = machine.worker.turn(&machine.device);
        let mut device = machine.device.lock().unwrap();
        if turn % 3 == 0 {
            device.suspend(queue.id);
            assert_eq!(machine.slots.waves(), 0);
            device.resume(queue.id);
        } else if turn % 5 == 0 {
            device.set_cu_mask(queue.id, (turn % 2 == 0).then(|| CuMask::of_dwords(&[turn % 4 / 2 + 1])));
        }
        if pulse == DeviceActivity::Idle && device.idle(queue.id) {
            break;
        }
        assert!(turn < 100_000, "it does not end");
    }
    assert_eq!((machine.u32(counter), machine.slots.waves()), (500, 0));
}

#[test]
fn queues_of_one_priority_share_the_room() {
    let mut machine = Machine::with_quantum(10);
    let (first, ..) = long_kernel(&mut machine, 100);
    let (second, ..) = long_kernel(&mut machine, 100);
    let mut device = machine.device.lock().unwrap();
    device.advance();
    device.fill();
    assert_eq!(machine.slots.waves(), 64);
    device.suspend(first.id);
    assert_eq!(machine.slots.waves(), 32);
    device.destroy_queue(second.id);
    assert_eq!(machine.slots.waves(), 0);
}

#[test]
fn waves_of_a_masked_queue_stay_on_its_compute_units() {
    let mut machine = Machine::with_quantum(2);
    let chip = shared(&mut [&mut machine], 8);
    let (queue, counter) = counting_kernel(&mut machine, 300);
    let mut units = BTreeSet::new();
    assert!(machine.device.lock().unwrap().set_cu_mask(queue.id, Some(CuMask::of_dwords(&[0b0100_0010]))));
    loop {
        let mut device = machine.device.lock().unwrap();
        device.advance();
        let Some(mut work) = device.take() else { break };
        assert!(chip.0.occupancy(0) <= 64);
        units.insert(work.group.place.expect("it is on the device").cu);
        machine.worker.run(&mut work);
        device.put_back(work);
    }
    assert_eq!((machine.u32(counter), units), (300, BTreeSet::from([1, 6])));
    assert_eq!(chip.0.occupancy(0), 0);
}

#[test]
fn a_queue_without_compute_units_waits() {
    let mut machine = Machine::new();
    let (queue, counter) = counting_kernel(&mut machine, 10);
    machine.device.lock().unwrap().set_cu_mask(queue.id, Some(CuMask::of_dwords(&[0; 4])));
    assert_eq!(machine.run(), DeviceActivity::Waiting);
    assert_eq!((machine.u32(counter), machine.slots.waves()), (0, 0));
    machine.device.lock().unwrap().set_cu_mask(queue.id, None);
    machine.run();
    assert_eq!(machine.u32(counter), 10);
    assert!(!machine.device.lock().unwrap().set_cu_mask(super::super::QueueId(99), None));
}

/// Lets machines share a device of `cus` compute units, as processes do.
fn shared(machines: &mut [&mut Machine], cus: u32) -> (Arc<Chip>, Vec<ProcessSlot>) {
    let (mut chip, _file) = Chip::create(Geometry::cdna(cus, 1), 1, 1).expect("shared memory");
    chip.stop_clock();
    let chip = Arc::new(chip);
    let processes = machines.iter_mut().map(|machine| {
        let process = chip.add_process().expect("a free slot");
        let slots = ChipSlots::new(Arc::clone(&chip), process, 0).expect("a gpu");
        let mut device = ProcessDevice::new(CONFIG, machine.log.clone(), Arc::new(slots));
        device.set_space(Arc::clone(&machine.space));
        machine.device = Mutex::new(device);
        process
    });
    let processes = processes.collect();
    (chip, processes)
}

#[test]
fn a_long_kernel_of_one_process_keeps_others_waiting_until_it_is_taken_off() {
    let (mut one, mut two) = (Machine::with_quantum(10), Machine::with_quantum(10));
    let (chip, processes) = shared(&mut [&mut one, &mut two], 2);
    let (long, go, signal) = long_kernel(&mut one, 100);
    one.run();
    assert_eq!((chip.occupancy(0), chip.occupancy_of(processes[0], 0)), (64, 64));
    let (short, counter) = counting_kernel(&mut two, 80);
    let high = HardwareQueueUpdate { ring: short.ring, ring_bytes: RING, priority: 15, percent: 100 };
    two.device.lock().unwrap().update_queue(short.id, &high);
    assert_eq!(
        (two.run(), two.u32(counter)),
        (DeviceActivity::Waiting, 0),
        "priority takes nothing from running queues"
    );
    one.device.lock().unwrap().suspend(long.id);
    assert_eq!(chip.occupancy(0), 0);
    two.run();
    assert_eq!((two.u32(counter), chip.occupancy(0)), (80, 0));
    one.device.lock().unwrap().resume(long.id);
    one.set_u32(go, 1);
    one.run();
    assert_eq!((one.value(signal), chip.occupancy(0)), (0, 0));
}

#[test]
fn the_higher_class_of_another_process_has_what_becomes_free() {
    let (mut one, mut two) = (Machine::new(), Machine::with_quantum(10));
    let (chip, processes) = shared(&mut [&mut one, &mut two], 1);
    let (queue, counter) = counting_kernel(&mut one, 100);
    let (urgent, go, _) = long_kernel(&mut two, 8);
    let high = HardwareQueueUpdate { ring: urgent.ring, ring_bytes: RING, priority: 15, percent: 100 };
    {
        let mut device = one.device.lock().unwrap();
        device.advance();
        device.fill();
    }
    two.device.lock().unwrap().update_queue(urgent.id, &high);
    assert_eq!(two.run(), DeviceActivity::Waiting);
    assert_eq!(chip.occupancy_of(processes[0], 0), 32);
    // One workgroup ends: its place is not taken again by its own process.
    let run_one = |machine: &mut Machine| {
        let mut device = machine.device.lock().unwrap();
        let mut work = device.take().expect("workgroups have places");
        machine.worker.run(&mut work);
        assert_eq!(work.outcome, WorkgroupOutcome::Finished);
        device.put_back(work);
        device.fill();
    };
    run_one(&mut one);
    assert_eq!((chip.occupancy_of(processes[0], 0), chip.occupancy(0)), (31, 31));
    two.device.lock().unwrap().fill();
    assert_eq!((chip.occupancy_of(processes[1], 0), chip.occupancy(0)), (1, 32));
    // A queue that is taken off waits no more.
    two.device.lock().unwrap().suspend(urgent.id);
    run_one(&mut one);
    assert_eq!((chip.occupancy_of(processes[0], 0), chip.occupancy(0)), (32, 32));
    two.set_u32(go, 1);
    two.device.lock().unwrap().resume(urgent.id);
    one.run();
    two.run();
    one.run();
    two.run();
    assert_eq!((one.u32(counter), chip.occupancy(0)), (100, 0));
    assert!(one.device.lock().unwrap().idle(queue.id) && two.device.lock().unwrap().idle(urgent.id));
}
