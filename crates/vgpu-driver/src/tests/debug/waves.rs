//! How a debugger wants waves to start and trap, and how that reaches the device.

use super::*;
use crate::WaveControl;

/// What the device is told about the waves of ALICE on each gpu.
fn told(machine: &Machine) -> Vec<WaveControl> {
    let groups = (0..2).flat_map(|gpu| machine.driver.runlist(gpu).groups).flatten();
    groups.filter(|mapped| mapped.process == ALICE).map(|mapped| mapped.waves).collect()
}

#[test]
fn waves_hear_of_a_debugger_once_there_is_a_runtime() {
    let mut machine = Machine::to_debug();
    machine.add_queues(ALICE, &[0, 1, 0]);
    assert_eq!(told(&machine), [WaveControl::default(); 2]);
    machine.enable(BOB, Attached).ok();
    let debugged = WaveControl { is_debugged: true, ..WaveControl::default() };
    assert_eq!(told(&machine), [debugged; 2]);
    let mode = SetWaveLaunchMode { launch_mode: LaunchMode::HALT, pad: 0 };
    machine.trap(BOB, No, mode, &[]).ok();
    assert_eq!(told(&machine), [WaveControl { launch_mode: 1, ..debugged }; 2]);
    // In the packet that maps the process: halted, traps enabled.
    let packets = machine.driver.runlist(0).packets;
    assert_eq!(packets[4 * 14..4 * 15], (1_u32 << 1 | 1 << 3).to_le_bytes());
    machine.trap(BOB, No, Disable {}, &[]).ok();
    assert_eq!(told(&machine), [WaveControl::default(); 2], "nothing is left of it");
}

#[test]
fn launch_modes_are_those_of_the_driver() {
    let mut machine = Machine::debugged();
    for (mode, result) in [(0, Ok(0)), (1, Ok(0)), (2, Err(Errno::EINVAL)), (3, Ok(0)), (0x100, Ok(0))] {
        let args = SetWaveLaunchMode { launch_mode: LaunchMode(mode), pad: 0 };
        let answer = machine.trap(BOB, No, args, &[]);
        assert_eq!(answer.result, result, "{mode}");
        assert_eq!(answer.effects, if result.is_ok() { both(Cause::Debug, Some(0)) } else { Vec::new() });
        if result.is_ok() {
            assert!(told(&machine).iter().all(|waves| waves.launch_mode == mode & 0xFF), "{mode}");
        }
    }
}

#[test]
fn traps_that_a_debugger_asks_for_are_answered_with_those_before_and_those_there_are() {
    let mut machine = Machine::debugged();
    let supported = TrapMask(0xC000_01FF);
    let args = |mode, enable, request| SetWaveLaunchOverride {
        override_mode: mode,
        enable_mask: enable,
        support_request_mask: request,
        ..SetWaveLaunchOverride::ZERO
    };
    let (start, watch) = (TrapMask::TRAP_ON_WAVE_START, TrapMask::DBG_ADDRESS_WATCH);
    for (args, result, previous, traps) in [
        (args(OverrideMode::OR, start | watch, start), Ok(0), TrapMask::EMPTY, start),
        (args(OverrideMode::REPLACE, watch, watch), Ok(0), start, start | watch),
        (args(OverrideMode(2), watch, watch), Err(Errno::EPERM), watch, start | watch),
        (args(OverrideMode::OR, watch, TrapMask(0x200)), Err(Errno::EACCES), watch, start | watch),
        (args(OverrideMode::OR, TrapMask::EMPTY, start), Ok(0), start | watch, watch),
    ] {
        let answer = machine.trap(BOB, No, args, &[]);
        assert_eq!((answer.result, answer.args.support_request_mask), (result, supported), "{args:?}");
        assert_eq!(answer.args.enable_mask, previous, "{args:?}");
        assert!(told(&machine).iter().all(|waves| waves.traps == traps.0), "{args:?}");
    }
    assert!(told(&machine).iter().all(|waves| !waves.replaces_traps && waves.exceptions() == watch.0));
}
