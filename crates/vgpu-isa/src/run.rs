//! Running a wave, one instruction after the other.

use crate::code::{Code, NoCode};
use crate::inst::{Encoding, Env, Flow, Inst, Stop};
use crate::names;
use crate::wave::{Wave, mode, status};

/// Why [`run`] came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The instructions granted are used up.
    Budget,
    /// The wave ended.
    End,
    /// The wave reached a barrier; it continues after it.
    Barrier,
    /// The wave gives way for a moment: it sleeps, is halted, or asks for an interrupt ([`Wave::take_interrupt`]).
    Sleep,
    /// The wave cannot go on; its program counter is at the instruction that stopped it.
    Stopped(Stop),
}

/// Runs a wave for at most `budget` instructions; takes what it used from `budget`.
///
/// Between two instructions the whole state is in `wave` (and LDS): a wave may be stopped, moved and continued anywhere.
pub fn run(wave: &mut Wave, code: &mut Code, env: &mut Env<'_>, budget: &mut u64) -> Outcome {
    if wave.status & (status::HALT | status::PRIV) == status::HALT {
        return Outcome::Sleep;
    }
    while *budget > 0 {
        let index = match code.find(wave.pc, &mut env.memory) {
            Ok(index) => index,
            Err(no_code) => return Outcome::Stopped(no_code.into()),
        };
        let run = code.run(index);
        let mut flow = Flow::Next;
        let mut done = 0;
        let mut pc = wave.pc;
        let skipping = wave.mode() & mode::VSKIP != 0;
        for inst in run.insts.iter().take(usize::try_from(*budget).unwrap_or(usize::MAX)) {
            pc = wave.pc;
            wave.pc = pc.wrapping_add(u64::from(inst.size));
            done += 1;
            if skipping && is_vector(inst) {
                continue;
            }
            // SAFETY: the handler came from `table::handler`, which chose it for this CPU.
            flow = unsafe { (inst.handler)(wave, inst, env) };
            if flow != Flow::Next {
                break;
            }
        }
        *budget -= done;
        match flow {
            Flow::Next | Flow::Jump => {}
            Flow::End => return Outcome::End,
            Flow::Barrier => return Outcome::Barrier,
            Flow::Sleep => return Outcome::Sleep,
            Flow::Invalidate => code.invalidate(),
            Flow::Stop => {
                wave.pc = pc;
                let why = env.stop.take().unwrap_or(Stop::Trap(0));
                return Outcome::Stopped(why);
            }
        }
    }
    Outcome::Budget
}

/// Whether the instruction does nothing while MODE.VSKIP is set.
fn is_vector(inst: &Inst) -> bool {
    !matches!(
        inst.op.encoding,
        Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopc | Encoding::Sopk | Encoding::Sopp | Encoding::Smem
    )
}

impl From<NoCode> for Stop {
    fn from(no_code: NoCode) -> Self {
        match no_code {
            NoCode::Fault(fault) => Stop::Memory(fault),
            NoCode::Illegal(illegal) => Stop::Illegal {
                mnemonic: illegal.encoding.and_then(|encoding| names::mnemonic(encoding, illegal.opcode)),
                words: illegal.words,
            },
        }
    }
}
