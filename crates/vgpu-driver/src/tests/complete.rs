//! What the outcome of a call's device effects makes of its answer.

use kfd_abi::debug::{DbgTrapArgs, QueueStatus, SuspendQueues};
use kfd_abi::ioctl;
use kfd_abi::queue::{DestroyQueueArgs, GetQueueWaveStateArgs};

use super::queues::{SAVE, prepare};
use super::*;

const HUNG: Errno = Errno::ETIME;

/// The outcome of a call one of whose cycles failed.
fn failed(gpu: u32) -> Outcome {
    Outcome { failed_cycles: vec![(gpu, HUNG)], ..Outcome::default() }
}

#[test]
fn a_queue_whose_first_cycle_fails_does_not_exist() {
    let mut machine = Machine::new("mi300x");
    let args = prepare(&mut machine, ALICE);
    let mut create = machine.run(ALICE, args);
    create.call.effects = Effects::default();
    let nr = ioctl::CREATE_QUEUE.nr.into();
    let result = machine.driver.complete(ALICE, nr, &mut create.call, create.result, &failed(0));
    assert_eq!(result, Err(HUNG));
    // Its doorbell and its descriptor are given back, without another cycle on a gpu that does not answer.
    assert_eq!(create.call.effects.device, [QueueChange::Destroy { id: 0 }.into()]);
    assert_eq!(machine.driver.gpus[0].queues, 0);
    assert_eq!(machine.run(ALICE, args).ok().queue_id, 0);
}

#[test]
fn other_calls_keep_what_they_changed_and_return_the_error() {
    let mut machine = Machine::new("mi300x");
    let args = prepare(&mut machine, ALICE);
    machine.run(ALICE, args).ok();
    let mut destroy = machine.run(ALICE, DestroyQueueArgs { queue_id: 0, pad: 0 });
    destroy.call.effects = Effects::default();
    let nr = ioctl::DESTROY_QUEUE.nr.into();
    let result = machine.driver.complete(ALICE, nr, &mut destroy.call, destroy.result, &failed(0));
    assert_eq!((result, machine.driver.gpus[0].queues), (Err(HUNG), 0));
    assert!(destroy.call.effects.is_empty());
}

#[test]
fn queues_of_a_gpu_that_hangs_are_marked_and_not_counted() {
    let mut machine = Machine::new("mi300x");
    let args = prepare(&mut machine, ALICE);
    machine.run(ALICE, args).ok();
    let suspend = SuspendQueues { num_queues: 1, queue_array_ptr: 1, ..SuspendQueues::ZERO };
    let trap = DbgTrapArgs::new(ALICE.pid, suspend);
    let list = |entry: u32| vec![entry.to_le_bytes().to_vec()];
    let nr = ioctl::DBG_TRAP.nr.into();
    for (entry, gpu, result, marked) in
        [(0, 0, Ok(0), QueueStatus::ERROR), (0, 1, Ok(1), 0), (QueueStatus::INVALID, 0, Ok(1), QueueStatus::INVALID)]
    {
        let mut call = Call { buffers: list(entry), target: Some(ALICE), ..Call::new(&trap) };
        assert_eq!(machine.driver.complete(BOB, nr, &mut call, Ok(1), &failed(gpu)), result);
        assert_eq!(call.buffers, list(marked));
    }
    let mut call = Call { buffers: list(0), target: Some(ALICE), ..Call::new(&trap) };
    assert_eq!(machine.driver.complete(BOB, nr, &mut call, Err(Errno::ESRCH), &failed(0)), Err(Errno::ESRCH));
}

#[test]
fn the_sizes_of_a_save_area_are_in_the_answer_and_an_executors_error_is_the_result() {
    let mut machine = Machine::new("mi300x");
    let args = GetQueueWaveStateArgs { ctl_stack_address: SAVE, ..GetQueueWaveStateArgs::ZERO };
    let saved = SaveExtent { waves: 3, bytes: 4096, control_stack: 0x80, wave_state: 0x3000 };
    let nr = ioctl::GET_QUEUE_WAVE_STATE.nr.into();
    let mut call = Call::new(&args);
    let outcome = Outcome { wave_state: Some(saved), ..Outcome::default() };
    assert_eq!(machine.driver.complete(ALICE, nr, &mut call, Ok(0), &outcome), Ok(0));
    let answer: GetQueueWaveStateArgs = call.decode();
    assert_eq!((answer.ctl_stack_used_size, answer.save_area_used_size), (0x80, 0x3000));
    let outcome = Outcome { error: Some(Errno::ENODEV), ..Outcome::default() };
    assert_eq!(machine.driver.complete(ALICE, nr, &mut call, Ok(0), &outcome), Err(Errno::ENODEV));
}
