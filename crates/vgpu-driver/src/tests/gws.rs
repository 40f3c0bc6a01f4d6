//! Global wave sync, by `kfd_ioctl_alloc_queue_gws` and `pqm_set_gws`.

use kfd_abi::mqd;
use kfd_abi::queue::{AllocQueueGwsArgs, DestroyQueueArgs, SetCuMaskArgs, UpdateQueueArgs};

use super::hardware::words;
use super::queues::{RING, cycled, prepare};
use super::*;

fn allocate(machine: &mut Machine, process: ProcessKey, queue_id: u32, num_gws: u32) -> Answer<AllocQueueGwsArgs> {
    machine.run(process, AllocQueueGwsArgs { queue_id, num_gws, first_gws: 7, ..AllocQueueGwsArgs::ZERO })
}

#[test]
fn one_queue_of_a_process_has_global_wave_sync() {
    for profile in ["mi300x", "mi210"] {
        let mut machine = Machine::new(profile);
        let args = prepare(&mut machine, ALICE);
        machine.run(ALICE, args).ok();
        machine.run(ALICE, args).ok();
        assert_eq!(allocate(&mut machine, ALICE, 9, 1).errno(), Some(Errno::EINVAL));
        assert_eq!(allocate(&mut machine, ALICE, 0, 0).errno(), Some(Errno::EINVAL), "none to give back");
        let first = allocate(&mut machine, ALICE, 0, 1);
        assert_eq!((first.result, first.args.first_gws), (Ok(0), 0));
        let effect = |id, count| DeviceEffect::from(QueueChange::AllocateGws { id, count });
        assert_eq!(first.call.effects.device, [effect(0, 64), cycled(0, Cause::UpdateQueue)]);
        for queue in [0, 1] {
            assert_eq!(allocate(&mut machine, ALICE, queue, 1).errno(), Some(Errno::EBUSY));
        }
        let back = allocate(&mut machine, ALICE, 0, 0);
        assert_eq!(back.call.effects.device, [effect(0, 0), cycled(0, Cause::UpdateQueue)]);
        // The end of a queue gives it back as well.
        allocate(&mut machine, ALICE, 1, 1).ok();
        let end = machine.run(ALICE, DestroyQueueArgs { queue_id: 1, pad: 0 });
        assert!(end.call.effects.device.contains(&effect(1, 0)), "{end:?}");
        allocate(&mut machine, ALICE, 0, 64).ok();
    }
}

#[test]
fn the_topology_shows_it_on_every_gpu() {
    for (profile, gpus) in [("mi300x", 1), ("mi308x", 1), ("mi300x-cpx", 2), ("mi210", 1)] {
        let machine = Machine::new(profile);
        for node in 1..=gpus {
            let path = format!("/sys/class/kfd/kfd/topology/nodes/{node}/properties");
            let Some(sysfs::Node::File(text)) = machine.driver.sysfs(&path) else { panic!("{path}") };
            assert!(text.lines().any(|line| line == "num_gws 64"), "{profile}: {text}");
        }
    }
}

#[test]
fn queues_with_global_wave_sync_take_turns() {
    let mut machine = Machine::new("mi300x");
    for process in [ALICE, BOB] {
        let args = prepare(&mut machine, process);
        machine.run(process, args).ok();
    }
    allocate(&mut machine, ALICE, 0, 1).ok();
    let shape = |machine: &Machine| {
        let runlist = machine.driver.runlist(0);
        (runlist.groups.iter().map(Vec::len).collect::<Vec<_>>(), runlist.over_subscribed)
    };
    assert_eq!(shape(&machine), (vec![2], false));
    allocate(&mut machine, BOB, 0, 1).ok();
    assert_eq!(shape(&machine), (vec![1, 1], true));
    // One that is off does not count.
    let off = UpdateQueueArgs { ring_base_address: RING, ring_size: 0x10000, ..UpdateQueueArgs::ZERO };
    machine.run(BOB, off).ok();
    assert_eq!(shape(&machine), (vec![1], false));
}

/// The words of the packets and of the descriptor that have to do with it: resources of the process, the mark of its
/// queue, and whether waves are forced onto SIMDs in turn.
fn marks(machine: &Machine) -> (u32, u32, u32) {
    let packets = machine.driver.runlist(0).packets;
    let word = |at: usize| u32::from_le_bytes(packets[4 * at..4 * at + 4].try_into().unwrap());
    let descriptor = words(machine, 0, 0);
    (word(13) & 0x7F, word(21 + 1) >> 12 & 1, descriptor[mqd::RESOURCE_LIMITS / 4])
}

#[test]
fn packets_and_descriptor_say_so() {
    let mut machine = Machine::new("mi300x");
    let args = prepare(&mut machine, ALICE);
    machine.run(ALICE, args).ok();
    assert_eq!(marks(&machine), (0, 0, 0));
    allocate(&mut machine, ALICE, 0, 1).ok();
    assert_eq!(marks(&machine), (64, 1, 1 << 23));
    machine.run_with(ALICE, SetCuMaskArgs { queue_id: 0, num_cu_mask: 32, cu_mask_ptr: 1 }, &[0xFF]);
    assert_eq!(marks(&machine), (64, 1, 0), "a mask of compute units forgets it");
    allocate(&mut machine, ALICE, 0, 0).ok();
    assert_eq!(marks(&machine), (0, 0, 0));
}
