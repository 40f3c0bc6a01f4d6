//! What happened, in the order in which a debugger is told.

use kfd_abi::exception::ExceptionCode;
use kfd_abi::queue::DestroyQueueArgs;

use super::super::queues::args;
use super::*;

const TOLD: DeviceEffect = DeviceEffect::Then(FollowUp::NotifyDebugger { target: ALICE });
const ALL: ExceptionMask = ExceptionMask::DEFINED;

fn subscribe(machine: &mut Machine, exception_mask: ExceptionMask) -> Vec<DeviceEffect> {
    let answer = machine.trap(BOB, No, SetExceptionsEnabled { exception_mask }, &[]);
    assert_eq!(answer.result, Ok(0));
    answer.effects
}

fn query(machine: &mut Machine, exception_mask: ExceptionMask) -> Result<(ExceptionMask, u32, u32), Errno> {
    let args = QueryDebugEvent { exception_mask, gpu_id: 9, queue_id: 9 };
    let answer = machine.trap(BOB, No, args, &[]);
    let found = (answer.args.exception_mask, answer.args.gpu_id, answer.args.queue_id);
    if answer.result.is_err() {
        assert_eq!(found, (ExceptionMask::EMPTY, 0, 0));
    }
    answer.result.map(|_| found)
}

fn destroy(machine: &mut Machine, queue_id: u32) -> Vec<DeviceEffect> {
    let answer = machine.run(ALICE, DestroyQueueArgs { queue_id, pad: 0 });
    assert_eq!(answer.result, Ok(0));
    answer.call.effects.device
}

#[test]
fn queues_come_first_then_gpus_then_the_process() {
    let mut machine = Machine::debugged();
    assert_eq!(query(&mut machine, ALL), Err(Errno::EAGAIN));
    // What was there before is told once, when it is asked for.
    assert_eq!(subscribe(&mut machine, ALL), [TOLD]);
    assert_eq!(subscribe(&mut machine, ExceptionMask::PROCESS_RUNTIME), Vec::<DeviceEffect>::new());
    assert_eq!(query(&mut machine, ALL), Err(Errno::EAGAIN));
    assert_eq!(subscribe(&mut machine, ExceptionMask::DEVICE), Vec::<DeviceEffect>::new());
    assert_eq!(destroy(&mut machine, 1)[1], TOLD);
    subscribe(&mut machine, ALL);
    // A queue with an id that was used before is the newest all the same.
    machine.add_queue_again(1);
    let (first, second) = (machine.gpu_id(0), machine.gpu_id(1));
    let new = ExceptionMask::QUEUE_NEW;
    // Nothing is cleared that is not asked for.
    assert_eq!(query(&mut machine, ExceptionMask::EMPTY), Ok((new, second, 1)));
    for (gpu_id, queue_id) in [(second, 1), (first, 2), (first, 0)] {
        assert_eq!(query(&mut machine, ALL), Ok((new, gpu_id, queue_id)));
    }
    let runtime = machine.runtime(ALICE, RuntimeMode::EMPTY);
    assert_eq!(runtime.call.effects.device.last(), Some(&TOLD));
    assert_eq!(query(&mut machine, ALL), Ok((ExceptionMask::DEVICE_QUEUE_DELETE, second, 0)));
    assert_eq!(query(&mut machine, ALL), Ok((ExceptionMask::PROCESS_RUNTIME, 0, 0)));
    assert_eq!(query(&mut machine, ALL), Err(Errno::EAGAIN));
}

impl Machine {
    /// Alice makes another queue, on this gpu.
    fn add_queue_again(&mut self, gpu: usize) {
        let args = CreateQueueArgs { gpu_id: self.gpu_id(gpu), ..args(self) };
        let answer = self.run(ALICE, args);
        assert_eq!(
            answer.call.effects.device[1..],
            [DeviceEffect::Cycle { gpu: gpu as u32, cause: Cause::CreateQueue, grace: None }, TOLD]
        );
        answer.ok();
    }
}

#[test]
fn without_a_debugger_or_a_subscription_no_event_is_sent() {
    let mut machine = Machine::debugged();
    assert_eq!(destroy(&mut machine, 0).len(), 2);
    machine.disable(BOB).ok();
    assert_eq!(destroy(&mut machine, 1).len(), 2);
    // What happens while no debugger is attached is not kept, except that a queue is new.
    machine.enable(BOB, Attached).ok();
    assert_eq!(subscribe(&mut machine, ALL), Vec::<DeviceEffect>::new());
    assert_eq!(query(&mut machine, ALL), Err(Errno::EAGAIN));
}

#[test]
fn an_exception_can_be_asked_for_by_name() {
    let mut machine = Machine::debugged();
    destroy(&mut machine, 0);
    let gpu_id = machine.gpu_id(0);
    let ask = |machine: &mut Machine, exception_code, source_id, clear_exception| {
        let args = QueryExceptionInfo { info_ptr: 0x1000, info_size: 7, source_id, exception_code, clear_exception };
        let answer = machine.trap(BOB, No, args, &[]);
        assert!(answer.memory.is_empty());
        answer.result.map(|_| answer.args.info_size)
    };
    let new = ExceptionCode::QUEUE_NEW;
    assert_eq!(ask(&mut machine, new, 0, 0), Err(Errno::EINVAL));
    assert_eq!(ask(&mut machine, new, 1, 0), Ok(0));
    assert_eq!(ask(&mut machine, new, 1, 1), Ok(0));
    assert_eq!(ask(&mut machine, new, 1, 1), Err(Errno::ENODATA));
    let deleted = ExceptionCode::DEVICE_QUEUE_DELETE;
    assert_eq!(ask(&mut machine, deleted, 1, 1), Err(Errno::EINVAL));
    assert_eq!(ask(&mut machine, deleted, gpu_id, 1), Ok(0));
    assert_eq!(ask(&mut machine, deleted, gpu_id, 1), Err(Errno::ENODATA));
    assert_eq!(ask(&mut machine, ExceptionCode::PROCESS_RUNTIME, 0, 1), Err(Errno::ENODATA));
    for none in [ExceptionCode::NONE, ExceptionCode(60), ExceptionCode(u32::MAX)] {
        assert_eq!(ask(&mut machine, none, 1, 1), Err(Errno::EINVAL), "{none:?}");
    }
    // The place comes before everything else.
    let nowhere = QueryExceptionInfo { exception_code: new, source_id: 9, ..QueryExceptionInfo::ZERO };
    assert_eq!(machine.trap(BOB, No, nowhere, &[]).errno(), Some(Errno::EINVAL));
}

#[test]
fn what_the_debugger_passes_on_reaches_the_runtime() {
    let mut machine = Machine::debugged();
    let gpu_id = machine.gpu_id(1);
    let send = |machine: &mut Machine, exception_mask, gpu_id, queue_id| {
        let answer = machine.trap(BOB, No, SendRuntimeEvent { exception_mask, gpu_id, queue_id }, &[]);
        answer.result.map(|_| answer.effects)
    };
    let trap = ExceptionMask::QUEUE_WAVE_TRAP;
    let passed = DeviceEffect::Then(FollowUp::QueueException { process: ALICE, queue: 2, exceptions: trap });
    assert_eq!(send(&mut machine, trap, 0, 2), Ok(vec![passed.clone()]));
    assert_eq!(send(&mut machine, trap, 0, 9), Ok(Vec::new()));
    assert_eq!(send(&mut machine, ExceptionMask::EMPTY, 0, 2), Ok(Vec::new()));
    // Memory violations take the process off the gpu for good.
    let violation = ExceptionMask::DEVICE_MEMORY_VIOLATION;
    assert_eq!(send(&mut machine, violation | ExceptionMask::PROCESS_RUNTIME, 1, 2), Err(Errno::ENODEV));
    let told = DeviceEffect::Then(FollowUp::MemoryException { process: ALICE, gpu: 1, fault: VmFault::default() });
    let evicted = DeviceEffect::Cycle { gpu: 1, cause: Cause::Evict, grace: None };
    assert_eq!(send(&mut machine, violation, gpu_id, 0), Ok(vec![evicted, told.clone()]));
    assert!(machine.driver.runlist(1).groups.is_empty());
    let woken = DeviceEffect::Then(FollowUp::Wake { process: ALICE });
    let all = violation | ExceptionMask::PROCESS_RUNTIME | trap;
    assert_eq!(send(&mut machine, all, gpu_id, 2), Ok(vec![told, woken, passed]));
}
