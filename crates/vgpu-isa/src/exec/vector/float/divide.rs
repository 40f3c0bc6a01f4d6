//! The three steps around a division: scale, multiply-add with scaling back, fix up.
//!
//! A compiler divides by scaling numerator and denominator so that nothing on the way over- or underflows, refining an
//! approximate reciprocal, scaling the quotient back in the last multiply-add, and putting in the special cases.

use super::define::{lane, wide};
use super::soft::{DOUBLE, Rule, SINGLE};
use super::{double, single};
use crate::inst::Encoding::Vop3;
use crate::inst::{Env, Flow, Inst, Op};
use crate::lanes::{Compare, compare, lane, wide};
use crate::operand::{LaneBuffer, Type, source};
use crate::wave::{LANES, Wave, unusual};

/// What v_div_scale does to a source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scaling {
    /// Zero is divided, or divides.
    Nan,
    Nothing,
    Both(i32),
    /// One of them, and v_div_fmas scales back.
    Denominator(i32),
    Numerator(i32),
}

/// The format's numbers: bits, float, fraction bits, exponent mask, distance from which quotients may overflow,
/// exponent below which a numerator is tiny, scale.
macro_rules! scaling {
    ($plan:ident, $scaled:ident, $bits:ty, $float:ty, $fraction:literal, $mask:literal, $far:literal, $tiny:literal,
     $scale:literal, $format:ident) => {
        #[inline(always)]
        fn $plan(denominator: $bits, numerator: $bits) -> Scaling {
            let exponent = |bits: $bits| (bits >> $fraction & $mask) as i32;
            let (d, n) = (<$float>::from_bits(denominator), <$float>::from_bits(numerator));
            let denormal = |x: $float| x.is_subnormal();
            let reciprocal_denormal = denormal(1.0 / d);
            // Too small for a normal number; it may round to zero.
            let quotient_denormal = (n / d).abs() < <$float>::MIN_POSITIVE;
            if n == 0.0 || d == 0.0 {
                Scaling::Nan
            } else if exponent(numerator) - exponent(denominator) >= $far {
                Scaling::Denominator($scale)
            } else if denormal(d) {
                Scaling::Both($scale)
            } else if reciprocal_denormal && quotient_denormal {
                // Down, or a denominator this large would overflow.
                Scaling::Denominator(-$scale)
            } else if reciprocal_denormal {
                Scaling::Both(-$scale)
            } else if quotient_denormal {
                Scaling::Numerator($scale)
            } else if exponent(numerator) <= $tiny {
                Scaling::Both($scale)
            } else {
                Scaling::Nothing
            }
        }

        /// The source that is asked for, which is the numerator or the denominator.
        #[inline(always)]
        fn $scaled([source, denominator, numerator]: [$bits; 3], rule: Rule) -> $bits {
            let value = <$float>::from_bits(source);
            let by = match $plan(denominator, numerator) {
                Scaling::Nan => return $format.nan() as $bits,
                Scaling::Both(by) => by,
                Scaling::Denominator(by) if value == <$float>::from_bits(denominator) => by,
                Scaling::Numerator(by) if value == <$float>::from_bits(numerator) => by,
                _ => 0,
            };
            $format.scale(source.into(), by, rule) as $bits
        }
    };
}

scaling!(plan_32, scaled_32, u32, f32, 23, 0xFF, 96, 23, 64, SINGLE);
scaling!(plan_64, scaled_64, u64, f64, 52, 0x7FF, 768, 53, 128, DOUBLE);

lane!(DivScaleF32: F32, F32, F32 => F32,
    |source: [u32; 3]| scaled_32(source, Rule::USUAL),
    in_mode |source: [u32; 3], mode: u32| scaled_32(source, Rule::single(mode)));
wide!(DivScaleF64: F64, F64, F64 => F64,
    |source: [u64; 3]| scaled_64(source, Rule::USUAL),
    in_mode |source: [u64; 3], mode: u32| scaled_64(source, Rule::double(mode)));

/// Whether v_div_fmas has to scale back.
struct ScalesBack32;

impl Compare for ScalesBack32 {
    const SOURCES: [Type; 2] = [Type::F32, Type::F32];

    #[inline(always)]
    fn lane(denominator: u64, numerator: u64) -> bool {
        matches!(plan_32(denominator as u32, numerator as u32), Scaling::Denominator(_) | Scaling::Numerator(_))
    }
}

/// The same in double precision.
struct ScalesBack64;

impl Compare for ScalesBack64 {
    const SOURCES: [Type; 2] = [Type::F64, Type::F64];

    #[inline(always)]
    fn lane(denominator: u64, numerator: u64) -> bool {
        matches!(plan_64(denominator, numerator), Scaling::Denominator(_) | Scaling::Numerator(_))
    }
}

static SCALE_32: (Op, Op) = (lane::<DivScaleF32>(Vop3, 480, "v_div_scale_f32"), compare::<ScalesBack32>(0, ""));
static SCALE_64: (Op, Op) = (wide::<DivScaleF64>(Vop3, 481, "v_div_scale_f64"), compare::<ScalesBack64>(0, ""));

/// The comparison of denominator and numerator that gives the second destination.
fn flags(inst: &Inst) -> Inst {
    Inst { src: [inst.src[1], inst.src[2], 0], neg: inst.neg >> 1, abs: 0, ..*inst }
}

macro_rules! scale_handlers {
    ($($name:ident $ops:ident $which:ident $quick:ident)+) => {
        $(/// # Safety
        /// As the handlers of the two parts.
        unsafe fn $name(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
            let at = usize::from(inst.sdst);
            if $quick(wave, inst) {
                wave.set_s64(at, 0);
                return Flow::Next;
            }
            // Both results are made from the registers as they were, so the first one is put aside.
            let old = wave.s64(at);
            // SAFETY: the table hands out all of them for the same CPUs.
            unsafe { ($ops.1.$which)(wave, &flags(inst), env) };
            let mask = wave.s64(at);
            wave.set_s64(at, old);
            // SAFETY: of the same table, so for the same CPUs.
            let flow = unsafe { ($ops.0.$which)(wave, inst, env) };
            wave.set_s64(at, mask);
            flow
        })+
    };
}

scale_handlers!(scale_32_portable SCALE_32 portable pass_32 scale_32_wide SCALE_32 wide pass_32
    scale_64_portable SCALE_64 portable never scale_64_wide SCALE_64 wide never);

/// Passes the source on if no lane that is on needs scaling, which is the usual case; whether it did. Numbers that far
/// from the ends of the exponents are not changed by any mode either.
fn pass_32(wave: &mut Wave, inst: &Inst) -> bool {
    if !inst.plain || wave.unusual() & unusual::INDEXED != 0 {
        return false;
    }
    let mut buffers: [LaneBuffer; 3] = [const { LaneBuffer::uninit() }; 3];
    let [buffer_a, buffer_b, buffer_c] = &mut buffers;
    let value = source(wave, inst, inst.src[0], Type::F32, buffer_a);
    let denominator = source(wave, inst, inst.src[1], Type::F32, buffer_b);
    let numerator = source(wave, inst, inst.src[2], Type::F32, buffer_c);
    let exec = wave.exec();
    let mut odd = 0;
    for lane in 0..LANES {
        let exponent = |bits: u32| bits >> 23 & 0xFF;
        let (v, d, n) = (exponent(value[lane]), exponent(denominator[lane]), exponent(numerator[lane]));
        // One comparison for each range: v from 1 to 254, d from 1 to 250, n from 24 to 254, n - d from -120 to 95.
        let near = (v.wrapping_sub(1) < 254)
            & (d.wrapping_sub(1) < 250)
            & (n.wrapping_sub(24) < 231)
            & (n.wrapping_sub(d).wrapping_add(120) < 216);
        odd |= u32::from(!near) & (exec >> lane) as u32;
    }
    if odd & 1 != 0 {
        return false;
    }
    let value = *value;
    wave.write(inst.dst, &value);
    true
}

/// Double precision has no such shortcut.
fn never(_wave: &mut Wave, _inst: &Inst) -> bool {
    false
}

/// The quotient scaled back, rounded once: up if it came from a scaled denominator, down if from a scaled numerator.
#[inline(always)]
fn fmas_32([a, b, c]: [u32; 3], rule: Rule) -> u32 {
    let by = if c >> 23 & 0xFF > 127 { 64 } else { -64 };
    SINGLE.fma(a.into(), b.into(), c.into(), by, rule) as u32
}

#[inline(always)]
fn fmas_64([a, b, c]: [u64; 3], rule: Rule) -> u64 {
    let by = if c >> 52 & 0x7FF > 1023 { 128 } else { -128 };
    DOUBLE.fma(a, b, c, by, rule)
}

lane!(Fma32: F32, F32, F32 => F32, single::fma, in_mode single::fma_in_mode);
lane!(Fmas32: F32, F32, F32 => F32,
    |source: [u32; 3]| fmas_32(source, Rule::USUAL),
    in_mode |source: [u32; 3], mode: u32| fmas_32(source, Rule::single(mode)));
wide!(Fma64: F64, F64, F64 => F64, double::fma, in_mode double::fma_in_mode);
wide!(Fmas64: F64, F64, F64 => F64,
    |source: [u64; 3]| fmas_64(source, Rule::USUAL),
    in_mode |source: [u64; 3], mode: u32| fmas_64(source, Rule::double(mode)));

const FMAS_32: &str = "v_div_fmas_f32";
const FMAS_64: &str = "v_div_fmas_f64";

/// Without and with scaling.
static FMAS_OPS_32: (Op, Op) = (lane::<Fma32>(Vop3, 482, FMAS_32), lane::<Fmas32>(Vop3, 482, FMAS_32));
static FMAS_OPS_64: (Op, Op) = (wide::<Fma64>(Vop3, 483, FMAS_64), wide::<Fmas64>(Vop3, 483, FMAS_64));

macro_rules! fmas_handlers {
    ($($name:ident $ops:ident $which:ident)+) => {
        $(/// # Safety
        /// As the handlers of the two parts.
        unsafe fn $name(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
            // Lanes do not see each other, so those that scale can be done after those that do not.
            let (exec, vcc) = (wave.exec(), wave.vcc());
            for (mask, op) in [(exec & !vcc, &$ops.0), (exec & vcc, &$ops.1)] {
                if mask != 0 {
                    wave.set_exec(mask);
                    // SAFETY: the table hands out all of them for the same CPUs.
                    unsafe { (op.$which)(wave, inst, env) };
                }
            }
            wave.set_exec(exec);
            Flow::Next
        })+
    };
}

fmas_handlers!(fmas_32_portable FMAS_OPS_32 portable fmas_32_wide FMAS_OPS_32 wide
    fmas_64_portable FMAS_OPS_64 portable fmas_64_wide FMAS_OPS_64 wide);

/// Puts in what the steps before cannot get right. Sources are quotient, denominator, numerator.
macro_rules! fixup {
    ($name:ident, $bits:ty, $sign:expr, $infinity:expr, $quiet:expr) => {
        #[inline(always)]
        fn $name([_, denominator, numerator]: [$bits; 3], ordinary: $bits) -> $bits {
            let sign = (denominator ^ numerator) & $sign;
            let (d, n) = (denominator & ($sign - 1), numerator & ($sign - 1));
            let invalid = $sign | $infinity | $quiet;
            let result = if (d == $infinity) | (n == 0) { sign } else { ordinary };
            let result = if (d == 0) | (n == $infinity) { sign | $infinity } else { result };
            let result = if (d | n == 0) | ((d == $infinity) & (n == $infinity)) { invalid } else { result };
            let result = if d > $infinity { denominator | $quiet } else { result };
            if n > $infinity { numerator | $quiet } else { result }
        }
    };
}

fixup!(special_32, u32, 1 << 31, 0x7F80_0000, 0x0040_0000);
fixup!(special_64, u64, 1 << 63, 0x7FF << 52, 1 << 51);
fixup!(special_16, u32, 0x8000, 0x7C00, 0x0200);

/// The quotient of ordinary numbers. Where it is below half of the smallest number the steps have no bits for it, and
/// where it is too large they end in infinity or NaN, which has the same exponent.
macro_rules! ordinary {
    ($usual:ident, $name:ident, $bits:ty, $sign:expr, $fraction:literal, $mask:literal, $under:literal,
     $format:ident) => {
        /// In the usual mode what is too small is zero and what is too large infinity: no branches.
        #[inline(always)]
        fn $usual([quotient, denominator, numerator]: [$bits; 3]) -> $bits {
            let exponent = |bits: $bits| (bits >> $fraction & $mask) as i32;
            let result = quotient & ($sign - 1);
            let result = if exponent(quotient) == $mask { $mask << $fraction } else { result };
            let result = if exponent(numerator) - exponent(denominator) < $under { 0 } else { result };
            result | (denominator ^ numerator) & $sign
        }

        #[inline(always)]
        fn $name([quotient, denominator, numerator]: [$bits; 3], rule: Rule) -> $bits {
            let exponent = |bits: $bits| (bits >> $fraction & $mask) as i32;
            let negative = (denominator ^ numerator) & $sign != 0;
            if exponent(numerator) - exponent(denominator) < $under {
                $format.underflow(negative, rule) as $bits
            } else if exponent(quotient) == $mask {
                $format.overflow(negative, rule) as $bits
            } else {
                quotient & ($sign - 1) | (denominator ^ numerator) & $sign
            }
        }
    };
}

ordinary!(usual_quotient_32, quotient_32, u32, 1 << 31, 23, 0xFF, -150, SINGLE);
ordinary!(usual_quotient_64, quotient_64, u64, 1 << 63, 52, 0x7FF, -1075, DOUBLE);

/// Half precision quotients come from single precision and are never out of range before.
#[inline(always)]
fn fixup_16(source: [u32; 3]) -> u32 {
    let [quotient, denominator, numerator] = source;
    special_16(source, quotient & 0x7FFF | (denominator ^ numerator) & 0x8000)
}

lane!(DivFixupF32: F32, F32, F32 => F32,
    |source: [u32; 3]| special_32(source, usual_quotient_32(source)),
    in_mode |source: [u32; 3], mode: u32| special_32(source, quotient_32(source, Rule::single(mode))));
wide!(DivFixupF64: F64, F64, F64 => F64,
    |source: [u64; 3]| special_64(source, usual_quotient_64(source)),
    in_mode |source: [u64; 3], mode: u32| special_64(source, quotient_64(source, Rule::double(mode))));
lane!(DivFixupLegacyF16: F16, F16, F16 => F16, fixup_16);
lane!(DivFixupF16: F16, F16, F16 => F16, fixup_16; KEEPS_HIGH);

const fn by_hand(opcode: u16, name: &'static str, portable: crate::inst::Handler, wide: crate::inst::Handler) -> Op {
    Op { portable, wide, ..Op::new(Vop3, opcode, name, portable) }
}

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    lane::<DivFixupF32>(Vop3, 478, "v_div_fixup_f32"),
    wide::<DivFixupF64>(Vop3, 479, "v_div_fixup_f64"),
    by_hand(480, "v_div_scale_f32", scale_32_portable, scale_32_wide),
    by_hand(481, "v_div_scale_f64", scale_64_portable, scale_64_wide),
    by_hand(482, FMAS_32, fmas_32_portable, fmas_32_wide),
    by_hand(483, FMAS_64, fmas_64_portable, fmas_64_wide),
    lane::<DivFixupLegacyF16>(Vop3, 495, "v_div_fixup_legacy_f16"),
    lane::<DivFixupF16>(Vop3, 519, "v_div_fixup_f16"),
];
