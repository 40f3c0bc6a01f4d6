//! End, barrier, sleep, halt, priority, messages, traps.

use vgpu_isa::inst::{Flow, Stop};
use vgpu_isa::wave::{mode, status};

use super::only;
use crate::harness::{Case, Machine, same};

/// An instruction that only says what happens next.
fn says(asm: &str, flow: Flow) -> Case {
    Case::new(
        asm,
        |m| m.wave.scc = true,
        move |before, after| {
            same("flow", after.flow, flow)?;
            same("interrupt", interrupt(after), None)?;
            only(before, after, &[], true)
        },
    )
}

/// The interrupt the wave asked for, if any.
fn interrupt(m: &Machine) -> Option<u32> {
    m.wave.clone().take_interrupt()
}

fn status_change(asm: &str, set: u32, want: u32, flow: Flow) -> Case {
    Case::new(
        asm,
        move |m| m.wave.status = set,
        move |before, after| {
            same("flow", after.flow, flow)?;
            same("status", after.wave.status, want)?;
            same("registers", after.wave.s, before.wave.s)
        },
    )
}

fn message(asm: &str, flow: Flow, payload: Option<u32>, halts: bool) -> Case {
    Case::new(
        asm,
        |m| m.wave.s[124] = 0x8000_0123,
        move |before, after| {
            same("flow", after.flow, flow)?;
            same("interrupt", interrupt(after), payload)?;
            same("status", after.wave.status, before.wave.status | if halts { status::HALT } else { 0 })?;
            same("registers", after.wave.s, before.wave.s)
        },
    )
}

/// The number arrives in EXEC with bit 31 clear, for which trap handlers wait.
fn doorbell(number: u32) -> Case {
    Case::new(
        "s_sendmsg sendmsg(MSG_GET_DOORBELL)",
        move |m| (m.wave.doorbell, m.wave.s[126]) = (number, 0x8000_0000),
        move |before, after| {
            same("flow", after.flow, Flow::Next)?;
            same("interrupt", interrupt(after), None)?;
            same("exec_lo", after.wave.s[126], number % 0x8000_0000)?;
            same("exec_hi", after.wave.s[127], before.wave.s[127])?;
            same("registers", &after.wave.s[..126], &before.wave.s[..126])
        },
    )
}

fn trap(id: u8) -> Case {
    Case::new(
        format!("s_trap {id}"),
        |_| {},
        move |before, after| {
            same("flow", after.flow, Flow::Stop)?;
            same("stop", after.stop.clone(), Some(Stop::Trap(id)))?;
            same("registers", after.wave.s, before.wave.s)
        },
    )
}

/// Bit `bit` of `bits` decides whether vector instructions are skipped.
fn skip(bits: u32, bit: u32, before_mode: u32) -> Case {
    let want = (bits / 2_u32.pow(bit % 32)) % 2 == 1;
    Case::new(
        "s_setvskip s3, s4",
        move |m| {
            (m.wave.s[3], m.wave.s[4]) = (bits, bit);
            m.wave.set_mode(before_mode);
        },
        move |before, after| {
            let skips = if want { mode::VSKIP } else { 0 };
            same("mode", after.wave.mode(), mode::USUAL | skips)?;
            same("flow", after.flow, Flow::Jump)?;
            same("pc", after.wave.pc, before.wave.pc + 4)?;
            same("registers", after.wave.s, before.wave.s)
        },
    )
}

pub(super) fn cases() -> Vec<Case> {
    let base = status::VALID;
    let (halted, privileged) = (base | status::HALT, base | status::PRIV);
    let mut cases = vec![
        says("s_nop 0", Flow::Next),
        says("s_nop 15", Flow::Next),
        says("s_endpgm", Flow::End),
        says("s_endpgm_saved", Flow::End),
        says("s_endpgm_ordered_ps_done", Flow::End),
        says("s_barrier", Flow::Barrier),
        says("s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)", Flow::Next),
        says("s_setkill 0", Flow::Next),
        says("s_setkill 1", Flow::End),
        says("s_wakeup", Flow::Next),
        says("s_sleep 0", Flow::Next),
        says("s_sleep 1", Flow::Sleep),
        says("s_sleep 127", Flow::Sleep),
        says("s_icache_inv", Flow::Invalidate),
        says("s_incperflevel 1", Flow::Next),
        says("s_decperflevel 1", Flow::Next),
        says("s_ttracedata", Flow::Next),
        status_change("s_sethalt 1", base, halted, Flow::Sleep),
        status_change("s_sethalt 0", halted, base, Flow::Next),
        status_change("s_sethalt 1", privileged, privileged | status::HALT, Flow::Next),
        status_change("s_setprio 3", base, base | 3 << 3, Flow::Next),
        status_change("s_setprio 1", base | 2 << 3, base | 1 << 3, Flow::Next),
        status_change("s_setprio 0", base | 3 << 3, base, Flow::Next),
        message("s_sendmsg sendmsg(MSG_INTERRUPT)", Flow::Sleep, Some(0x8000_0123), false),
        message("s_sendmsg sendmsg(MSG_SAVEWAVE)", Flow::Next, None, false),
        doorbell(0x2A7),
        doorbell(0x8000_0001),
        message("s_sendmsghalt sendmsg(MSG_INTERRUPT)", Flow::Sleep, Some(0x8000_0123), true),
        message("s_sendmsghalt sendmsg(MSG_SAVEWAVE)", Flow::Sleep, None, true),
    ];
    cases.extend([0, 1, 2, 3, 255].map(trap));
    for before_mode in [mode::USUAL, mode::USUAL | mode::VSKIP] {
        cases.extend([
            skip(1, 0, before_mode),
            skip(0xFFFF_FFFE, 0, before_mode),
            skip(1 << 31, 31, before_mode),
            skip(2, 33, before_mode),
            skip(0, 5, before_mode),
        ]);
    }
    cases
}
