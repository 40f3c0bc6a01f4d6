//! Lists of queues and gpus.

use kfd_abi::debug::{DeviceSnapshotEntry, GetDeviceSnapshot};
use kfd_abi::queue::QueueType;
use kfd_abi::topology::Capability;

use super::super::queues::{RING, SAVE};
use super::*;

const ENTRY: usize = QueueSnapshotEntry::SIZE;

fn of_queues(num_queues: u32, entry_size: u32) -> GetQueueSnapshot {
    GetQueueSnapshot { exception_mask: ExceptionMask::EMPTY, snapshot_buf_ptr: 0x1000, num_queues, entry_size }
}

fn ids(memory: &[u8], stride: usize) -> Vec<u32> {
    memory.chunks(stride).map(|entry| QueueSnapshotEntry::decode(entry).unwrap().queue_id).collect()
}

#[test]
fn queues_are_listed_newest_first() {
    let mut machine = Machine::debugged();
    let all = machine.trap(BOB, No, of_queues(8, ENTRY as u32), &[]);
    assert_eq!((all.result, all.args.num_queues, all.memory.len()), (Ok(0), 3, 3 * ENTRY));
    assert_eq!(ids(&all.memory, ENTRY), [2, 1, 0]);
    let middle = QueueSnapshotEntry::decode(&all.memory[ENTRY..]).unwrap();
    assert_eq!((middle.gpu_id, middle.queue_type), (machine.gpu_id(1), QueueType::COMPUTE_AQL));
    assert_eq!((middle.ring_base_address, middle.ring_size), (RING, 0x10000));
    assert_eq!((middle.ctx_save_restore_address, middle.exception_status), (SAVE, ExceptionMask::QUEUE_NEW));
    let area = machine.driver.profile().save_area().unwrap();
    assert_eq!(middle.ctx_save_restore_area_size, area.cwsr);
    assert_eq!(middle.write_pointer_address + 0x48, middle.read_pointer_address);
    // Asking how many there are needs no memory, but a size.
    let none = machine.trap(BOB, No, GetQueueSnapshot { snapshot_buf_ptr: 0, ..of_queues(0, 1) }, &[]);
    assert_eq!((none.result, none.args.num_queues, none.args.entry_size), (Ok(0), 3, 1));
    let sizeless = machine.trap(BOB, No, of_queues(8, 0), &[]);
    assert_eq!((sizeless.errno(), sizeless.args.num_queues), (Some(Errno::EINVAL), 0));
    let nowhere = machine.trap(BOB, No, GetQueueSnapshot { snapshot_buf_ptr: 0, ..of_queues(1, 64) }, &[]);
    assert_eq!(nowhere.errno(), Some(Errno::EFAULT));
}

#[test]
fn only_what_is_listed_is_cleared() {
    let mut machine = Machine::debugged();
    let clear = GetQueueSnapshot { exception_mask: ExceptionMask::QUEUE_NEW, ..of_queues(2, ENTRY as u32) };
    let some = machine.trap(BOB, No, clear, &[]);
    assert_eq!((some.args.num_queues, ids(&some.memory, ENTRY)), (3, vec![2, 1]));
    assert_eq!(machine.suspend(&[0, 1, 2]).result, Ok(2));
}

#[test]
fn entries_keep_the_callers_stride() {
    let mut machine = Machine::debugged();
    let short = machine.trap(BOB, No, of_queues(8, 44), &[]);
    assert_eq!((short.args.entry_size, short.memory.len()), (44, 3 * 44));
    let memory = vec![0xCC; 8 * 80];
    let long = machine.trap(BOB, No, of_queues(8, 80), &memory);
    assert_eq!((long.args.entry_size, long.memory.len()), (ENTRY as u32, 2 * 80 + ENTRY));
    assert_eq!(ids(&long.memory, 80), [2, 1, 0]);
    assert!(long.memory[ENTRY..80].iter().all(|byte| *byte == 0xCC));
    // No caller has entries of megabytes.
    let call = Call::new(&DbgTrapArgs::new(ALICE.pid, of_queues(1024, 4096)));
    assert_eq!(buffers(NR, &call.args), Err(Errno::EINVAL));
}

#[test]
fn gpus_are_described_as_in_their_topology() {
    let mut machine = Machine::debugged();
    machine.run(ALICE, kfd_abi::queue::DestroyQueueArgs { queue_id: 1, pad: 0 }).ok();
    let size = DeviceSnapshotEntry::SIZE;
    let args = GetDeviceSnapshot {
        exception_mask: ExceptionMask::DEFINED,
        snapshot_buf_ptr: 0x1000,
        num_devices: 9,
        entry_size: 1000,
    };
    let answer = machine.trap(BOB, No, args, &vec![0; 9000]);
    assert_eq!((answer.result, answer.args.num_devices, answer.args.entry_size), (Ok(0), 2, size as u32));
    let second = DeviceSnapshotEntry::decode(&answer.memory[1000..]).unwrap();
    assert_eq!((second.gpu_id, second.exception_status), (machine.gpu_id(1), ExceptionMask::DEVICE_QUEUE_DELETE));
    assert_eq!((second.vendor_id, second.num_xcc, second.gfx_target_version.0), (0x1002, 1, 90402));
    assert!(second.capability.has(Capability::TRAP_DEBUG_SUPPORT));
    let profile = machine.driver.profile();
    assert_eq!((second.simd_count, second.device_id), (profile.simd_count(), profile.device_id));
    assert!(second.lds_base < second.lds_limit && second.gpuvm_base < second.gpuvm_limit);
    // It was cleared by being told.
    let again = machine.trap(BOB, No, GetDeviceSnapshot { num_devices: 2, entry_size: 8, ..args }, &[]);
    assert_eq!(again.memory, [0; 16]);
    let nowhere = GetDeviceSnapshot { snapshot_buf_ptr: 0, ..args };
    assert_eq!(machine.trap(BOB, No, nowhere, &[]).errno(), Some(Errno::EINVAL));
    let none = machine.trap(BOB, No, GetDeviceSnapshot { num_devices: 0, ..args }, &[]);
    assert_eq!((none.result, none.args.num_devices, none.memory.len()), (Ok(0), 2, 0));
}
