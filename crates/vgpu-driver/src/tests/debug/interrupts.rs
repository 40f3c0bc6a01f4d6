//! Errors that the device reports: to the debugger that wants to hear of them, otherwise to the program.

use kfd_abi::event::MemoryException;
use kfd_abi::exception::ExceptionCode;

use super::*;

const TOLD: DeviceEffect = DeviceEffect::Then(FollowUp::NotifyDebugger { target: ALICE });
const FAULT: VmFault = VmFault { va: 0x1234_5000, not_present: true, read_only: false, no_execute: false };
const VM_FAULT: Interrupt = Interrupt::VmFault { gpu: 1, fault: FAULT };

/// An abort of a wave of queue 2.
fn abort() -> Interrupt {
    Interrupt::QueueError { queue: 2, exception: ExceptionCode::QUEUE_WAVE_ABORT.0 }
}

fn to_runtime() -> DeviceEffect {
    let exceptions = ExceptionMask::QUEUE_WAVE_ABORT;
    DeviceEffect::Then(FollowUp::QueueException { process: ALICE, queue: 2, exceptions })
}

fn subscribe(machine: &mut Machine, exception_mask: ExceptionMask) {
    assert_eq!(machine.trap(BOB, No, SetExceptionsEnabled { exception_mask }, &[]).result, Ok(0));
}

#[test]
fn an_error_of_a_queue_reaches_an_enabled_runtime_and_no_other() {
    let mut machine = Machine::to_debug();
    machine.add_queues(ALICE, &[0, 1, 0]);
    machine.add_queues(BOB, &[0, 0, 0]);
    assert_eq!(machine.driver.interrupt(ALICE, abort(), 7), [to_runtime()]);
    assert_eq!(machine.driver.interrupt(BOB, abort(), 7), [], "its runtime is not enabled");
    assert_eq!(machine.driver.interrupt(CAROL, abort(), 7), [], "it has no queue");
    let unknown = [ExceptionCode::NONE, ExceptionCode::PROCESS_RUNTIME, ExceptionCode(60), ExceptionCode(u32::MAX)];
    for ExceptionCode(exception) in unknown {
        let interrupt = Interrupt::QueueError { queue: 2, exception };
        assert_eq!(machine.driver.interrupt(ALICE, interrupt, 7), [], "{exception} is no error of a queue");
    }
}

#[test]
fn a_debugger_that_subscribed_to_an_error_keeps_it_from_the_runtime() {
    let mut machine = Machine::debugged();
    assert_eq!(machine.driver.interrupt(ALICE, abort(), 7), [to_runtime()], "it did not subscribe");
    subscribe(&mut machine, ExceptionMask::QUEUE_WAVE_ABORT);
    assert_eq!(machine.driver.interrupt(ALICE, abort(), 7), [TOLD]);
    let args = QueryDebugEvent { exception_mask: ExceptionMask::DEFINED, gpu_id: 0, queue_id: 0 };
    let event = machine.trap(BOB, No, args, &[]).ok();
    assert!(event.exception_mask.has(ExceptionMask::QUEUE_WAVE_ABORT) && event.queue_id == 2, "{event:?}");
}

/// A message of a trap handler about a queue's doorbell.
fn message(machine: &Machine, queue: u32, exceptions: ExceptionMask) -> Interrupt {
    let spec = &machine.driver.process(ALICE).unwrap().queues[&queue].spec;
    Interrupt::TrapMessage { gpu: spec.gpu, payload: (exceptions.0 as u32) << 10 | spec.doorbell }
}

#[test]
fn a_message_of_a_trap_handler_names_queue_and_exceptions() {
    let mut machine = Machine::to_debug();
    machine.add_queues(ALICE, &[0, 1, 0]);
    let aborted = message(&machine, 2, ExceptionMask::QUEUE_WAVE_ABORT);
    assert_eq!(machine.driver.interrupt(ALICE, aborted, 7), [to_runtime()]);
    // What names no queue, or no exception, is the number of an event.
    for payload in [0x3FF | 1 << 10, 7] {
        let event = DeviceEffect::Then(FollowUp::EventInterrupt { process: ALICE, event: payload });
        let interrupt = Interrupt::TrapMessage { gpu: 0, payload: payload | 0xFF00_0000 };
        assert_eq!(machine.driver.interrupt(ALICE, interrupt, 7), [event], "{payload:#x}");
    }
}

#[test]
fn a_debugger_hears_of_the_traps_it_subscribed_to() {
    let mut machine = Machine::debugged();
    subscribe(&mut machine, ExceptionMask::QUEUE_WAVE_TRAP);
    let trapped = message(&machine, 2, ExceptionMask::QUEUE_WAVE_TRAP);
    assert_eq!(machine.driver.interrupt(ALICE, trapped, 7), [TOLD]);
    let args = QueryDebugEvent { exception_mask: ExceptionMask::DEFINED, gpu_id: 0, queue_id: 0 };
    let event = machine.trap(BOB, No, args, &[]).ok();
    assert!(event.exception_mask.has(ExceptionMask::QUEUE_WAVE_TRAP) && event.queue_id == 2, "{event:?}");
    let aborted = message(&machine, 2, ExceptionMask::QUEUE_WAVE_ABORT);
    assert_eq!(machine.driver.interrupt(ALICE, aborted, 7), [to_runtime()], "it did not subscribe");
}

#[test]
fn a_failed_memory_access_evicts_the_process_and_signals_its_events() {
    let mut machine = Machine::to_debug();
    machine.add_queues(ALICE, &[0, 1, 0]);
    let evicted = DeviceEffect::Cycle { gpu: 1, cause: Cause::Evict, grace: None };
    let told = DeviceEffect::Then(FollowUp::MemoryException { process: ALICE, gpu: 1, fault: FAULT });
    assert_eq!(machine.driver.interrupt(ALICE, VM_FAULT, 7), [evicted, told.clone()]);
    assert!(machine.driver.runlist(1).groups.is_empty());
    assert!(!machine.driver.runlist(0).groups.is_empty(), "its queues on the other gpu go on");
    assert_eq!(machine.driver.interrupt(ALICE, VM_FAULT, 7), [told], "it is off the gpu already");
    let beyond = Interrupt::VmFault { gpu: 9, fault: FAULT };
    assert_eq!(machine.driver.interrupt(ALICE, beyond, 7), []);
}

#[test]
fn a_debugger_that_subscribed_to_memory_violations_is_told_where_and_passes_them_on() {
    let mut machine = Machine::debugged();
    let (gpu_id, violation) = (machine.gpu_id(1), ExceptionMask::DEVICE_MEMORY_VIOLATION);
    subscribe(&mut machine, violation);
    assert_eq!(machine.driver.interrupt(ALICE, VM_FAULT, 7), [TOLD]);
    let second = VmFault { va: 0x9000, ..FAULT };
    assert_eq!(machine.driver.interrupt(ALICE, Interrupt::VmFault { gpu: 1, fault: second }, 7), [TOLD]);
    assert!(!machine.driver.runlist(1).groups.is_empty(), "the debugger decides");
    let pass_on = SendRuntimeEvent { exception_mask: violation, gpu_id, queue_id: 0 };
    let passed = machine.trap(BOB, No, pass_on, &[]);
    let told = DeviceEffect::Then(FollowUp::MemoryException { process: ALICE, gpu: 1, fault: FAULT });
    assert_eq!(passed.effects.last(), Some(&told));
    let ask = |machine: &mut Machine, clear_exception| {
        let exception_code = ExceptionCode::DEVICE_MEMORY_VIOLATION;
        let info_size = MemoryException::SIZE as u32;
        let args =
            QueryExceptionInfo { info_ptr: 0x1000, info_size, source_id: gpu_id, exception_code, clear_exception };
        let answer = machine.trap(BOB, No, args, &[0; MemoryException::SIZE / 4]);
        answer.result.map(|_| MemoryException::decode(&answer.memory))
    };
    // The first one was kept, until now.
    assert_eq!(ask(&mut machine, 1), Ok(Some(FAULT.record(gpu_id))));
    assert_eq!(ask(&mut machine, 1), Err(Errno::ENODATA));
}
