//! Moves between architectural and accumulation registers.

use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::operand::{Type, write_masked};
use crate::wave::{LANES, Lanes, Wave};

fn source(wave: &Wave, inst: &Inst) -> Lanes {
    let code = inst.src[0];
    if code < 256 { [wave.scalar(code, inst, Type::B32); LANES] } else { *wave.vector(code) }
}

fn read(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Flow {
    let value = wave.a[usize::from(inst.src[0] & 0xFF)];
    wave.write(inst.dst, &value);
    Flow::Next
}

fn write(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Flow {
    let (value, exec) = (source(wave, inst), wave.exec());
    write_masked(&mut wave.a[usize::from(inst.dst & 0xFF)], &value, exec);
    Flow::Next
}

fn copy(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Flow {
    let (value, exec) = (wave.a[usize::from(inst.src[0] & 0xFF)], wave.exec());
    write_masked(&mut wave.a[usize::from(inst.dst & 0xFF)], &value, exec);
    Flow::Next
}

pub(super) static OPS: &[Op] = &[
    Op::new(Encoding::Vop3p, 88, "v_accvgpr_read_b32", read),
    Op::new(Encoding::Vop3p, 89, "v_accvgpr_write_b32", write),
    Op::new(Encoding::Vop1, 82, "v_accvgpr_mov_b32", copy),
];
