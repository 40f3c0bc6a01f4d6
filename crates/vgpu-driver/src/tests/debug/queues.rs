//! Stopping queues, letting them go on, and destroying them meanwhile.

use kfd_abi::debug::{GRACE_PERIOD_DEFAULT, QueueStatus};
use kfd_abi::ioctl::Argument;
use kfd_abi::queue::{DestroyQueueArgs, GetQueueWaveStateArgs};

use super::*;

const INVALID: u32 = QueueStatus::INVALID;
const ERROR: u32 = QueueStatus::ERROR;

fn cycle(gpu: u32, cause: Cause, grace: Option<u32>) -> DeviceEffect {
    DeviceEffect::Cycle { gpu, cause, grace }
}

fn listed(machine: &Machine, gpu: u32) -> Vec<u32> {
    machine
        .driver
        .runlist(gpu)
        .groups
        .into_iter()
        .flatten()
        .flat_map(|mapped| mapped.queues)
        .map(|queue| queue.id)
        .collect()
}

#[test]
fn a_new_queue_cannot_be_stopped_until_it_was_seen() {
    let mut machine = Machine::debugged();
    let refused = machine.suspend(&[0, 1, 2, 9]);
    assert_eq!((refused.result, refused.words()), (Ok(0), [0, 1, 2, 9].map(|id| id | INVALID).to_vec()));
    assert!(refused.effects.is_empty());
    machine.see_queues();
    let stopped = machine.suspend(&[0, 1, 2, 9]);
    assert_eq!((stopped.result, stopped.words()), (Ok(3), vec![0, 1, 2, 9 | INVALID]));
    let mut effects = both(Cause::Suspend, Some(7));
    effects.push(FollowUp::CopyWaveStates { process: ALICE }.into());
    assert_eq!(stopped.effects, effects);
    assert!(listed(&machine, 0).is_empty() && listed(&machine, 1).is_empty());
    let resumed = machine.resume(&[2, 9]);
    assert_eq!((resumed.result, resumed.words()), (Ok(1), vec![2, 9 | INVALID]));
    assert_eq!(resumed.effects, [cycle(0, Cause::Resume, None), FollowUp::Wake { process: ALICE }.into()]);
    assert_eq!((listed(&machine, 0), listed(&machine, 1)), (vec![2], vec![]));
}

#[test]
fn the_mask_of_a_stop_clears_too_late_to_help_it() {
    let mut machine = Machine::debugged();
    let stop = |machine: &mut Machine, ids: &[u32]| {
        let args = SuspendQueues {
            exception_mask: ExceptionMask::QUEUE_NEW,
            queue_array_ptr: 0x1000,
            num_queues: ids.len() as u32,
            grace_period: 1,
        };
        machine.trap(BOB, No, args, &bytes(ids)).result
    };
    // A gpu on which nothing was stopped keeps its marks.
    assert_eq!(stop(&mut machine, &[0]), Ok(0));
    assert_eq!(stop(&mut machine, &[0]), Ok(0));
    let query = QueryDebugEvent { exception_mask: ExceptionMask::QUEUE_NEW, ..QueryDebugEvent::ZERO };
    machine.trap(BOB, No, SetExceptionsEnabled { exception_mask: ExceptionMask::QUEUE_NEW }, &[]).ok();
    assert_eq!(machine.trap(BOB, No, query, &[]).ok().queue_id, 2);
    assert_eq!(stop(&mut machine, &[0, 2]), Ok(1));
    assert_eq!(stop(&mut machine, &[0, 2]), Ok(2));
}

#[test]
fn lists_are_checked_in_order_and_may_repeat_themselves() {
    let mut machine = Machine::debugged();
    machine.see_queues();
    let stop = |num_queues, queue_array_ptr| SuspendQueues { queue_array_ptr, num_queues, ..SuspendQueues::ZERO };
    for (args, memory, errno) in [
        (stop(1, 0), 4, Errno::EINVAL),
        (stop(1025, 0x1000), 1025 * 4, Errno::EINVAL),
        (stop(u32::MAX, 0), 0, Errno::EINVAL),
        (stop(2, 0x1000), 4, Errno::EFAULT),
    ] {
        let answer = machine.trap(BOB, No, args, &vec![0; memory]);
        assert_eq!(answer.errno(), Some(errno), "{args:?}");
        let resume = ResumeQueues { queue_array_ptr: args.queue_array_ptr, num_queues: args.num_queues, pad: 0 };
        let expected = if args.queue_array_ptr == 0 { None } else { Some(errno) };
        assert_eq!(machine.trap(BOB, No, resume, &vec![0; memory]).errno(), expected, "{resume:?}");
    }
    assert_eq!(machine.trap(BOB, No, stop(0, 0), &[]).result, Ok(0));
    assert_eq!(machine.trap(BOB, No, stop(0, 1), &[]).result, Ok(0));
    // The longest list that is read.
    let longest = vec![0; 1024];
    assert_eq!(machine.suspend(&longest).result, Ok(1));
    // Only the first of two equal entries is dealt with; a mark of the last answer hides a queue or does not.
    let answer = machine.suspend(&[1, 1, 2 | INVALID, ERROR]);
    assert_eq!((answer.result, answer.words()), (Ok(2), vec![1, 1 | INVALID, 2, ERROR | INVALID]));
}

#[test]
fn repeating_a_call_costs_as_much_as_the_first() {
    let mut machine = Machine::debugged();
    machine.see_queues();
    for _ in 0..2 {
        let args = SuspendQueues { queue_array_ptr: 1, num_queues: 1, grace_period: 256, ..SuspendQueues::ZERO };
        let answer = machine.trap(BOB, No, args, &bytes(&[1]));
        let effects = [cycle(1, Cause::Suspend, Some(256)), FollowUp::CopyWaveStates { process: ALICE }.into()];
        assert_eq!((answer.result, answer.effects), (Ok(1), effects.to_vec()));
    }
    let args =
        SuspendQueues { queue_array_ptr: 1, num_queues: 1, grace_period: GRACE_PERIOD_DEFAULT, ..SuspendQueues::ZERO };
    assert_eq!(machine.trap(BOB, No, args, &bytes(&[1])).effects[0], cycle(1, Cause::Suspend, None));
    for _ in 0..2 {
        let answer = machine.resume(&[1]);
        let effects = [cycle(1, Cause::Resume, None), FollowUp::Wake { process: ALICE }.into()];
        assert_eq!((answer.result, answer.effects), (Ok(1), effects.to_vec()));
    }
    // No list means all queues, stopped or not.
    let all = machine.trap(BOB, No, ResumeQueues { num_queues: 5000, ..ResumeQueues::ZERO }, &[]);
    let effects = [both(Cause::Resume, None), vec![FollowUp::Wake { process: ALICE }.into()]].concat();
    assert_eq!((all.result, all.effects), (Ok(3), effects));
}

#[test]
fn a_stopped_queue_shows_its_waves() {
    let mut machine = Machine::debugged();
    machine.see_queues();
    let state = |machine: &mut Machine| machine.run(ALICE, GetQueueWaveStateArgs::ZERO).errno();
    assert_eq!(state(&mut machine), Some(Errno::EINVAL));
    assert_eq!(machine.suspend(&[0]).result, Ok(1));
    assert_eq!(state(&mut machine), None);
}

fn destroy(machine: &mut Machine, queue_id: u32) -> Answer<DestroyQueueArgs> {
    machine.run(ALICE, DestroyQueueArgs { queue_id, pad: 0 })
}

fn retry<T: Argument>(machine: &mut Machine, mut answer: Answer<T>) -> Answer<T> {
    let result = machine.driver.retry(ALICE, T::COMMAND.nr.into(), &mut answer.call);
    Answer { result, args: answer.call.decode(), call: answer.call }
}

#[test]
fn destroying_a_stopped_queue_waits_until_it_goes_on() {
    let mut machine = Machine::debugged();
    machine.see_queues();
    assert_eq!(machine.suspend(&[0, 2]).result, Ok(2));
    let waiting = destroy(&mut machine, 0);
    assert_eq!(waiting.call.blocked, Some(Blocked::DestroyQueue { id: 0 }));
    assert!(waiting.call.effects.is_empty());
    assert_eq!(destroy(&mut machine, 0).errno(), Some(Errno::EBUSY));
    let waiting = retry(&mut machine, waiting);
    assert_eq!(waiting.call.blocked, Some(Blocked::DestroyQueue { id: 0 }));
    // Once it goes on it cannot be stopped again.
    assert_eq!(machine.resume(&[0]).result, Ok(1));
    assert_eq!(machine.suspend(&[0]).words(), [INVALID]);
    let done = retry(&mut machine, waiting);
    assert_eq!((done.result, done.call.blocked), (Ok(0), None));
    assert_eq!(done.call.effects.device, [cycle(0, Cause::DestroyQueue, None), QueueChange::Destroy { id: 0 }.into()]);
    // A signal leaves the queue as it was.
    let waiting = destroy(&mut machine, 2);
    machine.driver.abandon(ALICE, waiting.call.blocked.unwrap());
    let again = destroy(&mut machine, 2);
    assert_eq!(again.call.blocked, Some(Blocked::DestroyQueue { id: 2 }));
    // The debugger's end lets it go on too.
    machine.disable(BOB).ok();
    let done = retry(&mut machine, again);
    assert_eq!((done.result, done.call.blocked), (Ok(0), None));
    assert_eq!(machine.driver.process(ALICE).unwrap().queues.len(), 1);
}

#[test]
fn a_repeated_call_that_never_waited_is_an_ordinary_one() {
    let mut machine = Machine::debugged();
    let mut call = Call::new(&DestroyQueueArgs { queue_id: 9, pad: 0 });
    call.blocked = Some(Blocked::DestroyQueue { id: 9 });
    let nr = DestroyQueueArgs::COMMAND.nr.into();
    assert_eq!(machine.driver.retry(ALICE, nr, &mut call), Err(Errno::EINVAL));
    assert_eq!(call.blocked, None);
    machine.driver.abandon(ALICE, Blocked::DestroyQueue { id: 9 });
    machine.driver.abandon(ProcessKey::new(1, 1), Blocked::Runtime);
    let mut call = Call::new(&DestroyQueueArgs { queue_id: 1, pad: 0 });
    call.blocked = Some(Blocked::Runtime);
    assert_eq!(machine.driver.retry(ALICE, nr, &mut call), Ok(0));
    assert_eq!(call.blocked, None);
}
