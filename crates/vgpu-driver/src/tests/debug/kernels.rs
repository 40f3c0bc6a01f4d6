//! Where the drivers of kernels differ for a debugger.

use kfd_abi::debug::{DeviceSnapshotEntry, GetDeviceSnapshot, LaterDeviceSnapshotEntry};
use kfd_abi::queue::DestroyQueueArgs;

use super::*;

/// What each kernel answers, in the order of [`KernelProfile::ALL`].
fn each<T>(ask: impl FnMut(KernelProfile) -> T) -> Vec<T> {
    KernelProfile::ALL.into_iter().map(ask).collect()
}

#[test]
fn entries_of_gpus_are_as_long_as_the_kernel_has_them_or_the_caller() {
    let sizes = |entry_size: u32| {
        each(|kernel| {
            let mut machine = Machine::debugged_on(kernel);
            let args =
                GetDeviceSnapshot { snapshot_buf_ptr: 0x1000, num_devices: 2, entry_size, ..GetDeviceSnapshot::ZERO };
            let answer = machine.trap(BOB, Attached, args, &vec![0xCC; 2 * entry_size as usize]);
            assert_eq!(answer.result, Ok(0));
            let stride = entry_size as usize;
            let second = DeviceSnapshotEntry::decode(&answer.memory[stride..]).map(|entry| entry.gpu_id);
            assert_eq!(second, Some(machine.gpu_id(1)), "{kernel:?}");
            answer.args.entry_size
        })
    };
    let (old, new) = (DeviceSnapshotEntry::SIZE as u32, LaterDeviceSnapshotEntry::SIZE as u32);
    assert_eq!((old, new), (120, 128));
    assert_eq!(sizes(old), [old; 4]);
    assert_eq!(sizes(200), [old, old, new, old]);
}

#[test]
fn a_queue_whose_destruction_was_interrupted_can_be_stopped_again_or_not() {
    let stopped = each(|kernel| {
        let mut machine = Machine::debugged_on(kernel);
        machine.see_queues_traced();
        let stop = |machine: &mut Machine| {
            let args = SuspendQueues { queue_array_ptr: 0x1000, num_queues: 1, ..SuspendQueues::ZERO };
            machine.trap(BOB, Attached, args, &bytes(&[0])).result
        };
        assert_eq!(stop(&mut machine), Ok(1));
        let waits = machine.run(ALICE, DestroyQueueArgs { queue_id: 0, pad: 0 });
        assert!(waits.call.blocked.is_some());
        let second = machine.run(ALICE, DestroyQueueArgs { queue_id: 0, pad: 0 });
        let second = (second.result, second.call.blocked.is_some());
        machine.driver.abandon(ALICE, waits.call.blocked.unwrap());
        machine.trap(BOB, Attached, ResumeQueues::ZERO, &[]);
        (second, stop(&mut machine))
    });
    let once = ((Err(Errno::EBUSY), false), Ok(1));
    let twice = ((Ok(0), true), Ok(0));
    assert_eq!(stopped, [twice, once, once, once]);
}

#[test]
fn an_enable_without_room_for_its_answer_is_undone_or_not() {
    let left = each(|kernel| {
        let mut machine = Machine::to_debug_on(kernel);
        let nowhere = Enable { rinfo_ptr: 0, rinfo_size: 16, ..Enable::ZERO };
        assert_eq!(machine.trap(BOB, Attached, nowhere, &[]).errno(), Some(Errno::EFAULT));
        machine.enable(BOB, Attached).errno()
    });
    assert_eq!(left, [Some(Errno::EALREADY), None, None, None]);
}

#[test]
fn queues_end_before_sessions_or_after_them() {
    let causes = |effects: Vec<DeviceEffect>| -> Vec<Cause> {
        let cycle = |effect| match effect {
            DeviceEffect::Cycle { gpu: 0, cause, .. } => Some(cause),
            _ => None,
        };
        effects.into_iter().filter_map(cycle).collect()
    };
    let refreshes = [Cause::Debug; 3];
    let (resume, end) = ([Cause::Resume], [Cause::ProcessEnd]);
    let target = each(|kernel| causes(Machine::debugged_on(kernel).driver.close(ALICE).device));
    let later = [&resume[..], &refreshes, &end].concat();
    // Nothing is left to resume.
    let first = [&end[..], &refreshes].concat();
    assert_eq!(target, [later.clone(), later.clone(), first, later.clone()]);
    let debugger = each(|kernel| causes(Machine::debugged_on(kernel).driver.close(BOB).device));
    let first = [&end[..], &resume, &refreshes].concat();
    assert_eq!(debugger, [later.clone(), later.clone(), first, later]);
}

#[test]
fn a_process_that_samples_cannot_be_resumed_until_it_stops() {
    let mut machine = Machine::debugged_on(KernelProfile::Dkms);
    machine.driver.set_sampling_after_stop(1_000_000);
    machine.see_queues_traced();
    let at = |machine: &mut Machine, now: u64, args: DbgTrapArgs| {
        let mut call = Call::new(&args);
        (call.fd, call.traces_target) = (Some(FdKind::Other), true);
        (call.clocks.monotonic_raw_ns, call.buffers) = (now, vec![bytes(&[0])]);
        machine.driver.ioctl(BOB, NR, &mut call)
    };
    let stop = SuspendQueues { queue_array_ptr: 0x1000, num_queues: 1, ..SuspendQueues::ZERO };
    assert_eq!(at(&mut machine, 5_000_000, DbgTrapArgs::new(ALICE.pid, stop)), Ok(1));
    let resume = DbgTrapArgs::new(ALICE.pid, ResumeQueues::ZERO);
    assert_eq!(at(&mut machine, 5_999_999, resume), Err(Errno::EBUSY));
    assert_eq!(at(&mut machine, 5_999_999, DbgTrapArgs::new(ALICE.pid, Disable {})), Err(Errno::EBUSY));
    assert_eq!(at(&mut machine, 6_000_000, resume), Ok(3));
    // Its end is no call.
    assert_eq!(at(&mut machine, 7_000_000, DbgTrapArgs::new(ALICE.pid, stop)), Ok(1));
    machine.driver.close(BOB);
    assert!(machine.suspended(ALICE).is_empty());
}

impl Machine {
    /// Bob, who traces, has seen all queues that there are.
    fn see_queues_traced(&mut self) {
        let args = GetQueueSnapshot {
            exception_mask: ExceptionMask::QUEUE_NEW,
            snapshot_buf_ptr: 0x1000,
            num_queues: 1024,
            entry_size: QueueSnapshotEntry::SIZE as u32,
        };
        self.trap(BOB, Attached, args, &[]).ok();
    }
}
