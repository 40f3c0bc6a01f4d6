//! Packets and kernels that are wrong.

use kfd_abi::aql::{Barrier, Header, KernelDispatch, PacketType, Pm4Ib};
use kfd_abi::exception::ExceptionCode;
use std::mem::offset_of;
use std::sync::Arc;
use vgpu_isa::memory::{Access, Space};

use kfd_abi::hsa::AmdQueue;

use super::super::PacketFormat;
use super::kernels::{ADD, NOTHING, TRAP};
use super::machine::{BASE, Machine, dispatch, halves};

fn kind(number: u16) -> Header {
    Header(number)
}

#[test]
fn a_bad_packet_stops_its_queue_with_the_right_error() {
    let good = |machine: &mut Machine| {
        let kernel = machine.plain_kernel(NOTHING);
        dispatch(kernel, 0, 64, 64, 0)
    };
    type Spoil = fn(&mut KernelDispatch);
    let cases: [(Spoil, ExceptionCode, u64); 13] = [
        (|p| p.grid_size_x = 0, ExceptionCode::QUEUE_PACKET_DISPATCH_DIM_INVALID, 0x2),
        (|p| p.setup = 0, ExceptionCode::QUEUE_PACKET_DISPATCH_DIM_INVALID, 0x2),
        (
            |p| {
                p.setup = 3;
                p.workgroup_size_x = 1;
                (p.grid_size_x, p.grid_size_y, p.grid_size_z) = (u32::MAX, u32::MAX, u32::MAX);
            },
            ExceptionCode::QUEUE_PACKET_DISPATCH_DIM_INVALID,
            0x2,
        ),
        (|p| p.group_segment_size = 65537, ExceptionCode::QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID, 0x4),
        (|p| p.kernel_object = 0, ExceptionCode::QUEUE_PACKET_DISPATCH_CODE_INVALID, 0x8),
        (|p| p.kernel_object += 8, ExceptionCode::QUEUE_PACKET_DISPATCH_CODE_INVALID, 0x8),
        (|p| p.kernel_object = 0xDEAD_0000, ExceptionCode::QUEUE_PACKET_DISPATCH_CODE_INVALID, 0x8),
        (|p| p.workgroup_size_x = 0, ExceptionCode::QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID, 0x40),
        (|p| p.workgroup_size_x = 1025, ExceptionCode::QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID, 0x40),
        (|p| p.private_segment_size = 1 << 30, ExceptionCode::QUEUE_PACKET_UNSUPPORTED, 0x20),
        (|p| p.header = kind(4), ExceptionCode::QUEUE_PACKET_UNSUPPORTED, 0x20),
        (|p| p.header = kind(77), ExceptionCode::QUEUE_PACKET_UNSUPPORTED, 0x20),
        (|p| p.header = kind(0), ExceptionCode::QUEUE_PACKET_VENDOR_UNSUPPORTED, 0x100),
    ];
    for (number, (spoil, code, bits)) in cases.into_iter().enumerate() {
        let mut machine = Machine::new();
        let (queue, other) = (machine.queue(PacketFormat::Aql), machine.queue(PacketFormat::Aql));
        let inactive = machine.signal(0, Some(5));
        machine.set_u64(queue.object + offset_of!(AmdQueue, queue_inactive_signal) as u64, inactive);
        let mut packet = good(&mut machine);
        machine.submit(&other, &packet);
        spoil(&mut packet);
        machine.submit(&queue, &packet);
        let after = good(&mut machine);
        machine.submit(&queue, &after);
        machine.run();
        let errors = machine.log.errors.lock().unwrap().clone();
        assert_eq!(errors.iter().map(|(id, code, _)| (*id, *code)).collect::<Vec<_>>(), [(queue.id, code)], "{number}");
        assert_eq!(machine.value(inactive) as u64, bits, "{number}");
        assert_eq!(*machine.log.events.lock().unwrap(), [5], "{number}");
        assert!(machine.stopped(&queue) && !machine.stopped(&other));
        assert_eq!((machine.u64(queue.read), machine.u64(other.read)), (0, 1), "nothing after it is fetched");
        assert_eq!(machine.slots.waves(), 0);
    }
}

#[test]
fn a_workgroup_that_no_compute_unit_can_hold_is_refused() {
    let mut machine = Machine::new();
    let queue = machine.queue(PacketFormat::Aql);
    let kernel = machine.plain_kernel(NOTHING);
    // 256 registers for each of 16 waves.
    machine.set_u32(kernel + 48, 31);
    machine.submit(&queue, &dispatch(kernel, 0, 1024, 1024, 0));
    machine.run();
    let errors = machine.log.errors.lock().unwrap().clone();
    assert_eq!(errors[0].1, ExceptionCode::QUEUE_PACKET_DISPATCH_REGISTER_INVALID);
}

#[test]
fn what_a_wave_cannot_execute_is_named() {
    let mut machine = Machine::new();
    let queue = machine.queue(PacketFormat::Aql);
    let kernel = machine.plain_kernel(&[0xBF80_0000, 0xFFFF_FFFF, 0x1234_5678]);
    let entry = machine.u64(kernel + 16).wrapping_add(kernel);
    machine.submit(&queue, &dispatch(kernel, 0, 64, 64, 0));
    machine.run();
    let errors = machine.log.errors.lock().unwrap().clone();
    assert_eq!(errors[0].1, ExceptionCode::QUEUE_WAVE_ILLEGAL_INSTRUCTION);
    assert!(errors[0].2.contains(&format!("{:#x}", entry + 4)) && errors[0].2.contains("ffffffff"), "{}", errors[0].2);
}

#[test]
fn debug_traps_are_ignored_and_aborts_reported() {
    let mut machine = Machine::new();
    let queue = machine.queue(PacketFormat::Aql);
    let kernel = machine.plain_kernel(TRAP);
    let entry = machine.u64(kernel + 16).wrapping_add(kernel);
    machine.submit(&queue, &dispatch(kernel, 0, 64, 64, 0));
    machine.run();
    let errors = machine.log.errors.lock().unwrap().clone();
    assert_eq!((errors.len(), errors[0].1), (1, ExceptionCode::QUEUE_WAVE_ABORT));
    assert!(errors[0].2.contains(&format!("{:#x}", entry + 4)), "{}", errors[0].2);
}

#[test]
fn a_failed_access_stops_all_queues_of_the_process() {
    let mut machine = Machine::new();
    let (queue, other) = (machine.queue(PacketFormat::Aql), machine.queue(PacketFormat::Sdma));
    let from = machine.alloc(256);
    let arguments = machine.buffer(&[halves(from), halves(0x6000_0000), [64, 0]].concat());
    let kernel = machine.plain_kernel(ADD);
    let signal = machine.signal(1, None);
    machine.submit(&queue, &dispatch(kernel, arguments, 64, 64, signal));
    machine.run();
    let faults = machine.log.faults.lock().unwrap().clone();
    assert_eq!(faults.len(), 1);
    let (id, fault) = faults[0];
    assert_eq!((id, fault.address, fault.access, fault.mapped), (queue.id, 0x6000_0000, Access::Write, false));
    assert!(machine.stopped(&queue) && machine.stopped(&other));
    assert_eq!((machine.value(signal), machine.slots.waves()), (1, 0));
}

#[test]
fn a_mapping_made_during_the_quantum_is_no_fault() {
    let mut machine = Machine::new();
    let queue = machine.queue(PacketFormat::Aql);
    let (from, to) = (machine.alloc(256), machine.alloc(256));
    let arguments = machine.buffer(&[halves(from), halves(to), [64, 0]].concat());
    let kernel = machine.plain_kernel(ADD);
    machine.submit(&queue, &dispatch(kernel, arguments, 64, 64, 0));
    let mut without: Space = (*machine.space).clone();
    without.remove(to, to + 256);
    {
        let mut device = machine.device.lock().unwrap();
        device.set_space(Arc::new(without));
        device.advance();
        let mut work = device.take().unwrap();
        device.set_space(machine.space.clone());
        machine.worker.run(&mut work);
        device.put_back(work);
    }
    machine.run();
    assert!(machine.log.faults.lock().unwrap().is_empty());
    assert_eq!(machine.words(to, 64), [7; 64]);
}

#[test]
fn pointers_to_nowhere_are_faults() {
    let mut machine = Machine::new();
    let queue = machine.queue(PacketFormat::Aql);
    machine.submit(&queue, &Barrier { header: kind(3), dep_signal: [0xDEAD_0000; 5], ..Barrier::default() });
    machine.run();
    assert_eq!(machine.log.faults.lock().unwrap().len(), 1);

    let mut machine = Machine::new();
    let queue = machine.queue(PacketFormat::Aql);
    let jump = Pm4Ib { ib_jump_cmd: Pm4Ib::jump(0xDEAD_0000, 8), format: 1, ..Pm4Ib::default() };
    machine.submit(&queue, &jump);
    machine.run();
    assert_eq!(machine.log.faults.lock().unwrap().len(), 1);

    let mut machine = Machine::new();
    let queue = machine.queue(PacketFormat::Sdma);
    machine.submit_words(&queue, &[1, 4095, 0, BASE as u32, 0, 0xDEAD_0000, 0]);
    machine.run();
    assert_eq!(machine.log.faults.lock().unwrap().len(), 1);
    assert!(machine.stopped(&queue));
}

#[test]
fn streams_that_make_no_sense_stop_their_queue() {
    let cases: [(PacketFormat, &[u32]); 7] = [
        (PacketFormat::Pm4, &[0x0000_0001]),
        (PacketFormat::Pm4, &[0xC000_FF00, 0]),
        (PacketFormat::Pm4, &[0xC000_1500, 0]),
        (PacketFormat::Pm4, &[0xC003_1500, 1, 1, 1, 5]),
        (PacketFormat::Sdma, &[0xFF]),
        (PacketFormat::Sdma, &[0x101, 0, 0, 0, 0, 0, 0]),
        (PacketFormat::Sdma, &[0x4000_000B, BASE as u32, 0, 0, 0]),
    ];
    for (kind, words) in cases {
        let mut machine = Machine::new();
        let queue = machine.queue(kind);
        machine.submit_words(&queue, words);
        machine.run();
        assert!(machine.stopped(&queue), "{words:x?}");
        assert_eq!(machine.log.errors.lock().unwrap().len(), 1, "{words:x?}");
    }
}

#[test]
fn a_packet_that_is_not_written_yet_is_left_alone() {
    let mut machine = Machine::new();
    let queue = machine.queue(PacketFormat::Aql);
    let header = Header(u16::from(PacketType::INVALID.0));
    machine.submit(&queue, &Barrier { header, ..Barrier::default() });
    machine.run();
    assert_eq!(machine.u64(queue.read), 0, "not fetched");
    assert!(!machine.stopped(&queue));
}
