//! Fused multiply and add of singles and halves mixed.
//!
//! Each source is a single, or one half of a register (op_sel_hi asks for that, op_sel says which half). The neg_hi
//! field is the absolute value here.

use super::float::{Rules, clamp_half, clamp_single, from_half, to_half};
use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::lanes::handlers;
use crate::modify::relative;
use crate::operand::Type;
use crate::wave::{LANES, Lanes, Wave, mode, unusual};

/// Which part of the destination is written.
trait Destination: 'static {
    /// Half precision in the half that starts at this bit; `None` is a single.
    const HALF: Option<u32>;
}

struct Single;
struct Low;
struct High;

impl Destination for Single {
    const HALF: Option<u32> = None;
}

impl Destination for Low {
    const HALF: Option<u32> = Some(0);
}

impl Destination for High {
    const HALF: Option<u32> = Some(16);
}

/// A source as singles.
#[inline(always)]
fn mixed(wave: &Wave, inst: &Inst, n: usize, flushes: bool) -> Lanes {
    let code = inst.src[n];
    let half = inst.op_sel_hi >> n & 1 != 0;
    let kind = if half { Type::F16 } else { Type::F32 };
    let mut out = if code < 256 { [wave.scalar(code, inst, kind); LANES] } else { *wave.vector(code) };
    let (singles, halves) = (Rules::single(wave.mode()), Rules::half(wave.mode()));
    if half {
        let shift = u32::from(inst.op_sel >> n & 1) * 16;
        for lane in &mut out {
            let bits = *lane >> shift & 0xFFFF;
            *lane = from_half(if flushes { halves.half_source(bits) } else { bits }).to_bits();
        }
    } else if flushes {
        out.iter_mut().for_each(|lane| *lane = singles.single_source(*lane));
    }
    let keep = if inst.neg_hi >> n & 1 != 0 { 0x7FFF_FFFF } else { !0 };
    let flip = u32::from(inst.neg >> n & 1) << 31;
    out.iter_mut().for_each(|lane| *lane = *lane & keep ^ flip);
    out
}

#[inline(always)]
fn mix_body<D: Destination>(wave: &mut Wave, inst: &Inst) -> Flow {
    let inst = if wave.unusual() & unusual::INDEXED != 0 { &relative(wave, inst) } else { inst };
    let unusual_mode = wave.unusual() & unusual::FLOAT != 0;
    let (a, b, c) =
        (mixed(wave, inst, 0, unusual_mode), mixed(wave, inst, 1, unusual_mode), mixed(wave, inst, 2, unusual_mode));
    let mut out = [0; LANES];
    if unusual_mode {
        let (singles, halves) = (Rules::single(wave.mode()), Rules::half(wave.mode()));
        for lane in 0..LANES {
            let [x, y, z] = [a[lane], b[lane], c[lane]].map(|bits| f64::from(f32::from_bits(bits)));
            let single = singles.single_result(singles.sum(x * y, z));
            out[lane] = match D::HALF {
                None => single,
                Some(_) => halves.half_result(f64::from(f32::from_bits(single))),
            };
        }
    } else {
        for lane in 0..LANES {
            let [x, y, z] = [a[lane], b[lane], c[lane]].map(f32::from_bits);
            let single = x.mul_add(y, z);
            // The result is a single first: it is rounded twice.
            out[lane] = if D::HALF.is_none() { single.to_bits() } else { to_half(single) };
        }
    }
    finish::<D>(wave, inst, &mut out);
    wave.write(inst.dst, &out);
    Flow::Next
}

#[inline(always)]
fn finish<D: Destination>(wave: &Wave, inst: &Inst, out: &mut Lanes) {
    let nan_is_zero = wave.mode() & mode::DX10_CLAMP != 0;
    let Some(shift) = D::HALF else {
        if inst.clamp {
            out.iter_mut().for_each(|bits| *bits = clamp_single(*bits, nan_is_zero));
        }
        return;
    };
    if inst.clamp {
        out.iter_mut().for_each(|half| *half = clamp_half(*half, nan_is_zero));
    }
    let old = &wave.v[usize::from(inst.dst & 0xFF)];
    for lane in 0..LANES {
        out[lane] = old[lane] & !(0xFFFF << shift) | out[lane] << shift;
    }
}

handlers!(mix_portable, mix_wide, mix_body, Destination);

const fn mix<D: Destination>(opcode: u16, name: &'static str) -> Op {
    Op { wide: mix_wide::<D>, ..Op::new(Encoding::Vop3p, opcode, name, mix_portable::<D>) }
}

pub(super) static OPS: &[Op] =
    &[mix::<Single>(32, "v_fma_mix_f32"), mix::<Low>(33, "v_fma_mixlo_f16"), mix::<High>(34, "v_fma_mixhi_f16")];
