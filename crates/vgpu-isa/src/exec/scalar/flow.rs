//! Branches, calls, forks, and the return from trap handlers.

use super::{Word, ops, shaped, simm16, sources};
use crate::inst::{Env, Flow, Inst, Op, Stop};
use crate::wave::{Wave, mode, status};

pub(super) static OPS: &[Op] = shaped!(Sopp, branch_if:
    2 "s_branch" |_| true;
    4 "s_cbranch_scc0" |wave| !wave.scc;
    5 "s_cbranch_scc1" |wave| wave.scc;
    6 "s_cbranch_vccz" |wave| wave.vcc() == 0;
    7 "s_cbranch_vccnz" |wave| wave.vcc() != 0;
    8 "s_cbranch_execz" |wave| wave.exec() == 0;
    9 "s_cbranch_execnz" |wave| wave.exec() != 0;
    23 "s_cbranch_cdbgsys" |wave| wave.status & status::COND_DBG_SYS != 0;
    24 "s_cbranch_cdbguser" |wave| wave.status & status::COND_DBG_USER != 0;
    25 "s_cbranch_cdbgsys_or_user" |wave| wave.status & DEBUG != 0;
    26 "s_cbranch_cdbgsys_and_user" |wave| wave.status & DEBUG == DEBUG;
);

const DEBUG: u32 = status::COND_DBG_SYS | status::COND_DBG_USER;

pub(super) static CALLS: &[Op] = ops!(Sop1:
    28 "s_getpc_b64" |wave, inst, _| {
        wave.pc.write(wave, inst.dst);
        Flow::Next
    };
    29 "s_setpc_b64" |wave, inst, _| jump(wave, u64::read(wave, inst, inst.src[0]));
    30 "s_swappc_b64" |wave, inst, _| {
        let target = u64::read(wave, inst, inst.src[0]);
        wave.pc.write(wave, inst.dst);
        jump(wave, target)
    };
    31 "s_rfe_b64" |wave, inst, env| {
        let target = u64::read(wave, inst, inst.src[0]);
        return_from_trap(wave, inst, env, target)
    };
    46 "s_cbranch_join" |wave, inst, _| {
        let saved = u32::read(wave, inst, inst.src[0]);
        if stack_depth(wave) == saved {
            return Flow::Next;
        }
        // The first side of the fork is done: the other side runs now.
        set_stack_depth(wave, stack_depth(wave).wrapping_sub(1));
        let at = stack_register(wave);
        wave.set_exec(wave.s64(at));
        jump(wave, wave.s64(at + 2))
    };
);

pub(super) static FORK: &[Op] = ops!(Sop2:
    41 "s_cbranch_g_fork" |wave, inst, _| {
        let (mask, target) = sources(wave, inst);
        fork(wave, mask, target)
    };
    43 "s_rfe_restore_b64" |wave, inst, env| {
        let (target, translation): (u64, u32) = sources(wave, inst);
        let flow = return_from_trap(wave, inst, env, target);
        if flow != Flow::Stop {
            let bit = if translation & 1 != 0 { status::INST_ATC } else { 0 };
            wave.status = wave.status & !status::INST_ATC | bit;
        }
        flow
    };
);

pub(super) static RELATIVE: &[Op] = ops!(Sopk:
    16 "s_cbranch_i_fork" |wave, inst, _| {
        let mask = u64::read(wave, inst, inst.dst);
        fork(wave, mask, target(wave, inst))
    };
    21 "s_call_b64" |wave, inst, _| {
        let to = target(wave, inst);
        wave.pc.write(wave, inst.dst);
        jump(wave, to)
    };
);

/// Where a relative branch leads. The program counter is at the next instruction already.
#[inline(always)]
fn target(wave: &Wave, inst: &Inst) -> u64 {
    wave.pc.wrapping_add_signed(i64::from(simm16(inst)) * 4)
}

#[inline(always)]
fn branch_if(wave: &mut Wave, inst: &Inst, condition: impl Fn(&Wave) -> bool) -> Flow {
    if condition(wave) {
        wave.pc = target(wave, inst);
        return Flow::Jump;
    }
    Flow::Next
}

/// Continues at an address, of which the hardware keeps bits 2 to 47.
#[inline(always)]
fn jump(wave: &mut Wave, address: u64) -> Flow {
    wave.pc = ((address << 16) as i64 >> 16) as u64 & !3;
    Flow::Jump
}

fn stack_depth(wave: &Wave) -> u32 {
    (wave.mode() & mode::CSP) >> mode::CSP.trailing_zeros()
}

fn set_stack_depth(wave: &mut Wave, depth: u32) {
    let field = depth << mode::CSP.trailing_zeros();
    wave.set_mode(wave.mode() & !mode::CSP | field);
}

/// First of the four registers on top of the stack of forks: the mask of the waiting side, then its address.
fn stack_register(wave: &Wave) -> usize {
    4 * stack_depth(wave) as usize
}

/// Lanes in `mask` go to `target`, the others go on. If there are lanes of both kinds, the smaller side runs first.
fn fork(wave: &mut Wave, mask: u64, target: u64) -> Flow {
    let exec = wave.exec();
    let (pass, fail) = (mask & exec, !mask & exec);
    if pass == exec {
        return jump(wave, target);
    }
    if fail == exec {
        return Flow::Next;
    }
    let fail_first = fail.count_ones() < pass.count_ones();
    let (now, later, address) = if fail_first { (fail, pass, target) } else { (pass, fail, wave.pc) };
    let at = stack_register(wave);
    wave.set_s64(at, later);
    wave.set_s64(at + 2, address);
    set_stack_depth(wave, stack_depth(wave) + 1);
    wave.set_exec(now);
    if fail_first { Flow::Next } else { jump(wave, target) }
}

/// Only a trap handler may return from one.
fn return_from_trap(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>, target: u64) -> Flow {
    if !wave.is_privileged() {
        return env.stopped(Stop::Illegal { mnemonic: Some(inst.op.name), words: inst.words });
    }
    wave.status &= !status::PRIV;
    jump(wave, target);
    // The device looks at the wave first: the handler may have halted it, or left another exception.
    Flow::Sleep
}
