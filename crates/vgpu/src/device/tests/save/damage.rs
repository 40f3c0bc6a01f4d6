//! Save areas that are missing, too small, or not as they were left.

use kfd_abi::exception::ExceptionCode;
use proptest::prelude::*;

use super::super::kernels::{COUNT, REVERSE};
use super::super::machine::{BASE, dispatch, halves};
use super::{CONTROL_STACK, Case, Run, machine};
use crate::device::{PacketFormat, SaveArea, SaveError};

const REVERSING: Case = Case { code: REVERSE, lds: 4096, scratch: 0, items: 1024, group: 1024, input: false };
const ROOM: u32 = 128 << 10;

/// Asserts that the queue stopped with a preemption error and leaves nothing behind.
fn assert_stopped(run: &Run) {
    assert!(run.machine.stopped(&run.queue));
    let errors = run.machine.log.errors.lock().unwrap();
    let [(id, code, _)] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!((*id, *code), (run.queue.id, ExceptionCode::QUEUE_PREEMPTION_ERROR));
    drop(errors);
    assert!(run.machine.device.lock().unwrap().destroy_queue(run.queue.id));
    assert_eq!((run.machine.slots.waves(), run.machine.slots.lds()), (0, 0));
}

#[test]
fn only_a_queue_off_the_device_can_be_saved() {
    let mut run = Run::new(&REVERSING, ROOM);
    run.turns(3);
    let id = run.queue.id;
    let mut device = run.machine.device.lock().unwrap();
    assert_eq!(device.save(id), Err(SaveError::OnDevice));
    let held = device.take().unwrap();
    device.suspend(id);
    assert!(!device.is_off_device(id));
    assert_eq!(device.save(id), Err(SaveError::OnDevice));
    device.put_back(held);
    assert!(device.is_off_device(id));
    assert_eq!(device.save(id).map(|extent| extent.waves), Ok(16));
    device.restore(id).unwrap();
    device.destroy_queue(id);
    assert_eq!(device.save(id), Err(SaveError::NoQueue));
    assert_eq!(device.restore(id), Err(SaveError::NoQueue));
}

#[test]
fn an_area_that_cannot_hold_the_waves_stops_the_queue() {
    let sixteen_waves = 16 * (8 * 256 + 48 * 4 + 128 + 64) + 4096;
    for (change, expected) in [
        (None, SaveError::NoArea),
        (Some((BASE - (1 << 16), 0)), SaveError::Memory(BASE - (1 << 16) + u64::from(CONTROL_STACK))),
        (Some((0, ROOM - sixteen_waves + 1)), SaveError::TooSmall),
    ] {
        let mut run = Run::new(&REVERSING, ROOM);
        run.turns(3);
        let id = run.queue.id;
        let mut device = run.machine.device.lock().unwrap();
        let area = change.map(|(address, less): (u64, u32)| SaveArea {
            address: if address == 0 { run.area.address } else { address },
            size: run.area.size - less,
            ..run.area
        });
        device.queues.get_mut(&id).unwrap().spec.save_area = area;
        device.suspend(id);
        let said = device.save(id).unwrap_err();
        // Waves are written from the top: an area that is missing faults at one of them.
        match (said, expected) {
            (SaveError::Memory(at), SaveError::Memory(lowest)) => assert!(at >= lowest && at < BASE, "{at:#x}"),
            _ => assert_eq!(said, expected),
        }
        drop(device);
        assert_stopped(&run);
    }
}

#[test]
fn a_queue_without_waves_needs_no_area() {
    let (mut machine, area) = machine(1000, 4096);
    let with = machine.queue(PacketFormat::Aql);
    machine.save_area = None;
    let without = machine.queue(PacketFormat::Sdma);
    let mut device = machine.device.lock().unwrap();
    for queue in [&with, &without] {
        device.suspend(queue.id);
        assert_eq!(device.save(queue.id).map(|extent| (extent.waves, extent.bytes)), Ok((0, 0)));
    }
    drop(device);
    assert_eq!(machine.words(area.address, 4), [CONTROL_STACK, 0, CONTROL_STACK, 0]);
    assert!(machine.device.lock().unwrap().resume(with.id));
    let counter = machine.alloc(8);
    let arguments = machine.buffer(&halves(counter));
    let kernel = machine.plain_kernel(COUNT);
    machine.submit(&with, &dispatch(kernel, arguments, 128, 64, 0));
    machine.run();
    assert_eq!(machine.u32(counter), 2);
}

#[test]
fn a_list_that_was_changed_stops_the_queue() {
    // A header word or a word of the list, from the end, and what is put there.
    let list_end = u64::from(CONTROL_STACK);
    for (at, value) in [
        (0, CONTROL_STACK),
        (0, 8),
        (4, 4 * 17),
        (8, u32::MAX),
        (12, 64),
        (list_end - 4, 0),
        (list_end - 4, 1 << 30),
        (list_end - 4 * 16, 1 << 31),
        (list_end - 4 * 17, 1 << 31 | 0x3F),
        (list_end - 4 * 17, 0),
    ] {
        let mut run = Run::new(&REVERSING, ROOM);
        run.turns(4);
        assert_eq!(run.save(), 16);
        run.machine.set_u32(run.area.address + at, value);
        let said = run.machine.device.lock().unwrap().restore(run.queue.id).unwrap_err();
        assert!(matches!(said, SaveError::Damaged { xcc: 0, .. }), "{at} {value:#x}: {said}");
        assert_stopped(&run);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Registers are data: whatever the application puts there, the device comes back.
    #[test]
    fn garbage_in_the_area_does_not_harm_the_device(
        turns in 1_usize..12,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..200),
    ) {
        let mut run = Run::new(&REVERSING, ROOM);
        run.turns(turns);
        run.save();
        for (at, value) in &changes {
            // The list is the business of another test.
            let at = run.area.address + u64::from(CONTROL_STACK) + at.index(11_000) as u64 * 4;
            run.machine.set_u32(at, *value);
        }
        run.restore();
        run.machine.worker.set_quantum(100);
        run.turns(200);
        run.machine.device.lock().unwrap().destroy_queue(run.queue.id);
        prop_assert_eq!((run.machine.slots.waves(), run.machine.slots.lds()), (0, 0));
    }
}
