//! Operations on EXEC that structured control flow is made of.

use super::{Word, shaped};
use crate::inst::{Flow, Inst, Op};
use crate::wave::Wave;

pub(super) static OPS: &[Op] = shaped!(Sop1, save:
    32 "s_and_saveexec_b64" |s, exec| s & exec;
    33 "s_or_saveexec_b64" |s, exec| s | exec;
    34 "s_xor_saveexec_b64" |s, exec| s ^ exec;
    35 "s_andn2_saveexec_b64" |s, exec| s & !exec;
    36 "s_orn2_saveexec_b64" |s, exec| s | !exec;
    37 "s_nand_saveexec_b64" |s, exec| !(s & exec);
    38 "s_nor_saveexec_b64" |s, exec| !(s | exec);
    39 "s_xnor_saveexec_b64" |s, exec| !(s ^ exec);
    51 "s_andn1_saveexec_b64" |s, exec| !s & exec;
    52 "s_orn1_saveexec_b64" |s, exec| !s | exec;
);

pub(super) static WRITE: &[Op] = shaped!(Sop1, write:
    53 "s_andn1_wrexec_b64" |s, exec| !s & exec;
    54 "s_andn2_wrexec_b64" |s, exec| s & !exec;
);

/// The destination gets the old mask, EXEC the new one.
#[inline(always)]
fn save(wave: &mut Wave, inst: &Inst, f: impl Fn(u64, u64) -> u64) -> Flow {
    let old = wave.exec();
    let new = f(u64::read(wave, inst, inst.src[0]), old);
    wave.set_exec(new);
    old.write(wave, inst.dst);
    wave.scc = new != 0;
    Flow::Next
}

/// The destination and EXEC get the new mask.
#[inline(always)]
fn write(wave: &mut Wave, inst: &Inst, f: impl Fn(u64, u64) -> u64) -> Flow {
    let new = f(u64::read(wave, inst, inst.src[0]), wave.exec());
    wave.set_exec(new);
    new.write(wave, inst.dst);
    wave.scc = new != 0;
    Flow::Next
}
