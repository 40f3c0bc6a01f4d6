//! Running a wave, one instruction after the other.

use crate::code::{Code, NoCode};
use crate::inst::{Encoding, Env, Flow, Inst, Stop, Target};
use crate::names;
use crate::wave::{Wave, mode, trapsts};

/// Why [`run`] returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The budget of instructions is used up.
    Budget,
    /// The wave ended.
    End,
    /// The wave reached a barrier; it continues after it.
    Barrier,
    /// The wave yields: it sleeps, is halted, or asks for an interrupt ([`Wave::take_interrupt`]).
    Sleep,
    /// An exception in TRAPSTS makes the wave enter its trap handler; the program counter is where it continues
    /// afterwards.
    Exception,
    /// The wave cannot continue; its program counter is at the instruction that stopped it.
    Stopped(Stop),
}

/// Runs a wave for at most `budget` instructions; subtracts those it executed from `budget`.
///
/// Between two instructions the whole state is in `wave` (and LDS): a wave may be stopped, moved and continued
/// anywhere.
pub fn run(wave: &mut Wave, code: &mut Code, env: &mut Env<'_>, budget: &mut u64) -> RunEnd {
    if wave.is_halted() {
        return RunEnd::Sleep;
    }
    if wave.is_trapped() {
        return RunEnd::Exception;
    }
    while *budget > 0 {
        let index = match code.find(wave.pc, &mut env.memory) {
            Ok(index) => index,
            Err(no_code) => return RunEnd::Stopped(stop(no_code, code.target())),
        };
        let is_stepped = wave.mode() & mode::DEBUG_EN != 0 && !wave.is_privileged();
        let granted = if is_stepped { 1 } else { *budget };
        let (flow, done, pc) = straight(wave, &code.run(index).insts, env, granted);
        *budget -= done;
        if is_stepped && !matches!(flow, Flow::End | Flow::Stop) {
            wave.trapsts |= trapsts::TRAP_AFTER_INST;
        }
        match flow {
            Flow::Next | Flow::Jump => {}
            Flow::End if wave.mode() & mode::TRAP_ON_END != 0 => {
                // Once: otherwise the wave could never end.
                wave.set_mode(wave.mode() & !mode::TRAP_ON_END);
                wave.trapsts |= trapsts::WAVE_END;
                wave.pc = pc;
                return RunEnd::Exception;
            }
            Flow::End => return RunEnd::End,
            Flow::Barrier => return RunEnd::Barrier,
            Flow::Sleep => return RunEnd::Sleep,
            Flow::Invalidate => code.invalidate(),
            Flow::Stop => {
                wave.pc = pc;
                let why = env.stop.take().unwrap_or(Stop::Trap(0));
                return RunEnd::Stopped(why);
            }
        }
        if is_stepped {
            return RunEnd::Exception;
        }
    }
    RunEnd::Budget
}

/// Runs consecutive instructions, at most `granted`. Returns the flow of the last one, their number, and the address of
/// the last one.
#[inline(always)]
fn straight(wave: &mut Wave, insts: &[Inst], env: &mut Env<'_>, granted: u64) -> (Flow, u64, u64) {
    let skipping = wave.mode() & mode::VSKIP != 0;
    let mut done = 0;
    let mut pc = wave.pc;
    for inst in insts.iter().take(usize::try_from(granted).unwrap_or(usize::MAX)) {
        pc = wave.pc;
        wave.pc = pc.wrapping_add(u64::from(inst.size));
        done += 1;
        if skipping && is_vector(inst) {
            continue;
        }
        // SAFETY: the handler came from `table::handler`, which chose it for this CPU.
        let flow = unsafe { (inst.handler)(wave, inst, env) };
        if flow != Flow::Next {
            return (flow, done, pc);
        }
    }
    (Flow::Next, done, pc)
}

/// Returns whether the instruction does nothing while MODE.VSKIP is set.
fn is_vector(inst: &Inst) -> bool {
    !matches!(
        inst.op.encoding,
        Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopc | Encoding::Sopk | Encoding::Sopp | Encoding::Smem
    )
}

fn stop(no_code: NoCode, target: Target) -> Stop {
    match no_code {
        NoCode::Fault(fault) => Stop::Memory(fault),
        NoCode::Illegal(illegal) => Stop::Illegal {
            mnemonic: illegal.encoding.and_then(|encoding| names::mnemonic(encoding, illegal.opcode, target)),
            words: illegal.words,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode;
    use crate::inst::Op;
    use crate::memory::{Port, Space};

    /// Where s_movk_i32 s1, 7 leaves its traces if it passes for an instruction of another encoding.
    fn executed(encoding: Encoding, mode_bits: u32) -> bool {
        let scalar = decode([0xB001_0007, 0, 0], Target::Gfx942).expect("s_movk_i32");
        let op: &'static Op = Box::leak(Box::new(Op { encoding, ..*scalar.op }));
        let mut wave = Wave::new();
        wave.set_mode(wave.mode() | mode_bits);
        let space = Space::new();
        let mut env = Env { memory: Port::new(&space), lds: &mut [], clock: || 0, stop: None };
        let (flow, done, pc) = straight(&mut wave, &[Inst { op, ..scalar }], &mut env, 10);
        assert_eq!((flow, done, pc, wave.pc), (Flow::Next, 1, 0, 4));
        wave.s[1] == 7
    }

    #[test]
    fn vector_instructions_are_skipped_on_demand() {
        for encoding in [Encoding::Sop1, Encoding::Sopk, Encoding::Sopp, Encoding::Smem] {
            assert!(executed(encoding, mode::VSKIP), "{encoding:?}");
        }
        for encoding in [Encoding::Vop1, Encoding::Vop3p, Encoding::Vopc, Encoding::Ds, Encoding::Flat, Encoding::Mubuf]
        {
            assert!(executed(encoding, 0), "{encoding:?}");
            assert!(!executed(encoding, mode::VSKIP), "{encoding:?}");
        }
    }
}
