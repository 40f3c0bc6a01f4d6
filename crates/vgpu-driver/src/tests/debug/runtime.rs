//! The runtime offers itself, withdraws, and waits for the debugger's word.

use kfd_abi::ioctl::Argument;

use super::*;

const SUBSCRIBED: Enable = Enable {
    exception_mask: ExceptionMask::PROCESS_RUNTIME,
    rinfo_ptr: 0x1000,
    rinfo_size: RuntimeInfo::SIZE as u32,
    dbg_fd: 3,
};

fn mode(enabled: bool) -> ProcessEffect {
    ProcessEffect::RuntimeMode { enabled, ttmp_setup: false, r_debug: if enabled { 0x77 } else { 0 } }
}

fn retry(machine: &mut Machine, waiting: &mut Answer<RuntimeEnableArgs>) -> Option<Blocked> {
    assert_eq!(machine.driver.retry(ALICE, RuntimeEnableArgs::COMMAND.nr.into(), &mut waiting.call), Ok(0));
    waiting.call.blocked
}

fn permit(machine: &mut Machine) -> Vec<DeviceEffect> {
    let args = SendRuntimeEvent { exception_mask: ExceptionMask::PROCESS_RUNTIME, ..SendRuntimeEvent::ZERO };
    let answer = machine.trap(BOB, No, args, &[]);
    assert_eq!(answer.result, Ok(0));
    answer.effects
}

fn info(machine: &mut Machine) -> Result<RuntimeInfo, Errno> {
    let args = QueryExceptionInfo {
        info_ptr: 0x1000,
        info_size: 64,
        exception_code: kfd_abi::exception::ExceptionCode::PROCESS_RUNTIME,
        ..QueryExceptionInfo::ZERO
    };
    let answer = machine.trap(BOB, No, args, &[]);
    answer.result?;
    assert_eq!(answer.args.info_size, 16);
    Ok(RuntimeInfo::decode(&answer.memory).unwrap())
}

#[test]
fn it_enables_itself_before_it_has_queues() {
    let mut machine = Machine::debugged();
    machine.disable(BOB).ok();
    let answer = machine.runtime(ALICE, RuntimeMode::ENABLE);
    assert_eq!((answer.errno(), answer.args.capabilities_mask), (Some(Errno::EBUSY), 5));
    let off = machine.runtime(ALICE, RuntimeMode::EMPTY);
    assert_eq!(
        off.call.effects,
        Effects { device: both(Cause::Debug, Some(0)), process: vec![mode(false)], ..Effects::default() }
    );
    assert_eq!(machine.runtime(ALICE, RuntimeMode::ENABLE).errno(), Some(Errno::EEXIST));
    // There is nothing to disable, and that is fine.
    let off = machine.runtime(ALICE, RuntimeMode::TTMP_SAVE);
    assert_eq!(
        off.call.effects,
        Effects { device: both(Cause::Debug, Some(0)), process: Vec::new(), ..Effects::default() }
    );
    off.ok();
    let on = machine.runtime(BOB, RuntimeMode::ENABLE | RuntimeMode::TTMP_SAVE);
    let mode = ProcessEffect::RuntimeMode { enabled: true, ttmp_setup: true, r_debug: 0x77 };
    assert_eq!(on.call.effects, Effects { device: Vec::new(), process: vec![mode], ..Effects::default() });
}

#[test]
fn with_a_debugger_it_waits_for_its_word() {
    let mut machine = Machine::to_debug();
    machine.runtime(ALICE, RuntimeMode::EMPTY).ok();
    machine.trap(BOB, Attached, SUBSCRIBED, &[]).ok();
    assert_eq!(info(&mut machine), Err(Errno::ENODATA));
    let mut waiting = machine.runtime(ALICE, RuntimeMode::ENABLE);
    assert_eq!(waiting.call.blocked, Some(Blocked::Runtime));
    let told = DeviceEffect::Then(FollowUp::NotifyDebugger { target: ALICE });
    let device = [both(Cause::Debug, Some(0)), vec![told.clone()]].concat();
    assert_eq!(waiting.call.effects, Effects { device, process: vec![mode(true)], ..Effects::default() });
    assert_eq!(info(&mut machine).map(|info| (info.r_debug, info.runtime_state)), Ok((0x77, RuntimeState::ENABLED)));
    assert_eq!(retry(&mut machine, &mut waiting), Some(Blocked::Runtime));
    // Other exceptions are no word, and the debugger's end is none either.
    let other = SendRuntimeEvent { exception_mask: ExceptionMask::PROCESS_DEVICE_REMOVE, ..SendRuntimeEvent::ZERO };
    assert!(machine.trap(BOB, No, other, &[]).effects.is_empty());
    machine.disable(BOB).ok();
    assert_eq!(retry(&mut machine, &mut waiting), Some(Blocked::Runtime));
    machine.trap(BOB, Attached, SUBSCRIBED, &[]).ok();
    assert_eq!(permit(&mut machine), [FollowUp::Wake { process: ALICE }.into()]);
    assert_eq!(retry(&mut machine, &mut waiting), None);
    assert!(waiting.call.effects.is_empty());
    // Its end waits in the same way, and undoes what the debugger did first.
    machine.add_queues(ALICE, &[0]);
    machine.see_queues();
    assert_eq!(machine.suspend(&[0]).result, Ok(1));
    let mut waiting = machine.runtime(ALICE, RuntimeMode::EMPTY);
    assert_eq!(waiting.call.blocked, Some(Blocked::Runtime));
    assert_eq!(waiting.call.effects.process, [mode(false)]);
    assert_eq!(waiting.call.effects.device.last(), Some(&told));
    assert!(machine.suspended(ALICE).is_empty());
    permit(&mut machine);
    assert_eq!(retry(&mut machine, &mut waiting), None);
    assert_eq!(
        waiting.call.effects,
        Effects { device: both(Cause::Debug, Some(0)), process: Vec::new(), ..Effects::default() }
    );
    assert_eq!(machine.suspend(&[0]).errno(), Some(Errno::EPERM));
}

#[test]
fn a_word_said_early_counts_once() {
    let mut machine = Machine::debugged();
    permit(&mut machine);
    let off = machine.runtime(ALICE, RuntimeMode::EMPTY);
    assert_eq!((off.result, off.call.blocked), (Ok(0), None));
    let off = machine.runtime(ALICE, RuntimeMode::EMPTY);
    assert_eq!(off.call.blocked, Some(Blocked::Runtime));
}

#[test]
fn after_a_signal_the_call_only_waits_on() {
    let mut machine = Machine::to_debug();
    machine.runtime(ALICE, RuntimeMode::EMPTY).ok();
    machine.trap(BOB, Attached, SUBSCRIBED, &[]).ok();
    let waiting = machine.runtime(ALICE, RuntimeMode::ENABLE);
    machine.driver.abandon(ALICE, waiting.call.blocked.unwrap());
    let mut again = machine.runtime(ALICE, RuntimeMode::ENABLE);
    assert_eq!((again.call.blocked, again.call.effects.is_empty()), (Some(Blocked::Runtime), true));
    permit(&mut machine);
    assert_eq!(retry(&mut machine, &mut again), None);
    assert_eq!(machine.runtime(ALICE, RuntimeMode::ENABLE).errno(), Some(Errno::EBUSY));
    // Nor does a repeated end tell the debugger twice.
    let waiting = machine.runtime(ALICE, RuntimeMode::EMPTY);
    machine.driver.abandon(ALICE, waiting.call.blocked.unwrap());
    let again = machine.runtime(ALICE, RuntimeMode::EMPTY);
    assert_eq!((again.call.blocked, again.call.effects.is_empty()), (Some(Blocked::Runtime), true));
    // Without a debugger the real driver takes the next call for the one that waited.
    machine.driver.abandon(ALICE, again.call.blocked.unwrap());
    machine.disable(BOB).ok();
    assert_eq!(machine.runtime(ALICE, RuntimeMode::ENABLE).ok().capabilities_mask, 5);
    assert_eq!(machine.driver.process(ALICE).unwrap().runtime.state, RuntimeState::DISABLED);
}
