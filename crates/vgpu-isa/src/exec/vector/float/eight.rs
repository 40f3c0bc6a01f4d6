//! The 8-bit formats of MI300: no infinities, no minus zero, and NaN where minus zero would be.
//!
//! FP8 has four exponent and three fraction bits with bias 8, BF8 five and two with bias 16. Numbers too large become
//! NaN, or the largest number with FP16_OVFL.

use super::define::{lane, wide};
use crate::inst::Encoding::{Vop1, Vop3};
use crate::inst::{Env, Flow, GFX942, Inst, Op};
use crate::lanes::{lane, wide};
use crate::wave::{Wave, mode};

/// What tells the formats apart: fraction bits and bias.
struct Format {
    fraction: u32,
    bias: u32,
}

const FP8: Format = Format { fraction: 3, bias: 8 };
const BF8: Format = Format { fraction: 2, bias: 16 };

const NAN: u32 = 0x80;

impl Format {
    /// Bits of a single precision fraction that the format has no room for.
    const fn dropped(&self) -> u32 {
        23 - self.fraction
    }

    /// Power of two as single precision bits.
    const fn power(exponent: i32) -> f32 {
        f32::from_bits(((127 + exponent) as u32) << 23)
    }

    /// Exponent of the last bit of denormals.
    const fn last(&self) -> i32 {
        1 - self.bias as i32 - self.fraction as i32
    }

    #[inline(always)]
    fn decode(&self, byte: u32) -> u32 {
        // With the fields in place the exponent is off by the difference of the biases, for denormals too.
        let body = f32::from_bits((byte & 0x7F) << self.dropped()) * Self::power(127 - self.bias as i32);
        let number = body.to_bits() | (byte & 0x80) << 24;
        if byte & 0xFF == NAN { 0x7FC0_0000 } else { number }
    }

    /// The code without sign, nearest even; more than 0x7F is too large.
    #[inline(always)]
    fn nearest(&self, body: u32) -> u32 {
        let based = body.wrapping_sub((127 - self.bias) << 23);
        let half = (1 << (self.dropped() - 1)) - 1;
        let normal = based.wrapping_add(half).wrapping_add(based >> self.dropped() & 1) >> self.dropped();
        // The last bit of this power of two is the unit of the format's denormals.
        let magic = Self::power(self.last() + 23);
        let small = (f32::from_bits(body) + magic).to_bits().wrapping_sub(magic.to_bits());
        if body < (128 - self.bias) << 23 { small } else { normal }
    }

    /// The code without sign, rounded up if the random number says so: its top bits are added below the last bit.
    #[inline(always)]
    fn stochastic(&self, body: u32, random: u32) -> u32 {
        let smallest_normal = (128 - self.bias) << 23;
        let based = body.wrapping_sub((127 - self.bias) << 23);
        let unit = Self::power(self.dropped() as i32 - self.last());
        let fixed = (f32::from_bits(body.min(smallest_normal)) * unit) as i32 as u32;
        let exact = if body < smallest_normal { fixed } else { based };
        exact.wrapping_add(random >> (32 - self.dropped())) >> self.dropped()
    }

    /// Sign, NaN and overflow around a code.
    #[inline(always)]
    fn finish(bits: u32, code: u32, saturate: bool) -> u32 {
        let body = bits & 0x7FFF_FFFF;
        let sign = bits >> 24 & 0x80;
        let too_large = if saturate { 0x7F | sign } else { NAN };
        let number = if code == 0 { 0 } else { code | sign };
        let finite = if code > 0x7F { too_large } else { number };
        if body >= 0x7F80_0000 { NAN } else { finite }
    }

    #[inline(always)]
    fn encode(&self, bits: u32, saturate: bool) -> u32 {
        Self::finish(bits, self.nearest(bits & 0x7FFF_FFFF), saturate)
    }

    #[inline(always)]
    fn encode_stochastic(&self, bits: u32, random: u32, saturate: bool) -> u32 {
        Self::finish(bits, self.stochastic(bits & 0x7FFF_FFFF, random), saturate)
    }
}

#[inline(always)]
fn saturates(register: u32) -> bool {
    register & mode::FP16_OVFL != 0
}

lane!(CvtF32Fp8: B32 => F32, |[a, _, _]: [u32; 3]| FP8.decode(a));
lane!(CvtF32Bf8: B32 => F32, |[a, _, _]: [u32; 3]| BF8.decode(a));
wide!(CvtPkF32Fp8: B32 => B64,
    |[a, _, _]: [u64; 3]| u64::from(FP8.decode(a as u32)) | u64::from(FP8.decode(a as u32 >> 8)) << 32);
wide!(CvtPkF32Bf8: B32 => B64,
    |[a, _, _]: [u64; 3]| u64::from(BF8.decode(a as u32)) | u64::from(BF8.decode(a as u32 >> 8)) << 32);

/// Two numbers in half a register; op_sel chooses the half and the other one stays.
macro_rules! packed {
    ($name:ident, $format:ident) => {
        lane!($name: F32, F32 => B16,
            |[a, b, _]: [u32; 3]| $format.encode(a, false) | $format.encode(b, false) << 8,
            in_mode |[a, b, _]: [u32; 3], register: u32| {
                let saturate = saturates(register);
                $format.encode(a, saturate) | $format.encode(b, saturate) << 8
            };
            KEEPS_HIGH);
    };
}

packed!(CvtPkFp8F32, FP8);
packed!(CvtPkBf8F32, BF8);

/// One number in one byte of the register.
macro_rules! stochastic {
    ($format:ident: $($name:ident $shift:literal)+) => {
        $(lane!($name: F32, B32, B32 => B32,
            |[a, b, old]: [u32; 3]| old & !(0xFF << $shift) | $format.encode_stochastic(a, b, false) << $shift,
            in_mode |[a, b, old]: [u32; 3], register: u32| {
                old & !(0xFF << $shift) | $format.encode_stochastic(a, b, saturates(register)) << $shift
            };
            ACCUMULATES);)+
    };
}

stochastic!(FP8: SrFp8Byte0 0 SrFp8Byte1 8 SrFp8Byte2 16 SrFp8Byte3 24);
stochastic!(BF8: SrBf8Byte0 0 SrBf8Byte1 8 SrBf8Byte2 16 SrBf8Byte3 24);

const SR_FP8: &str = "v_cvt_sr_fp8_f32";
const SR_BF8: &str = "v_cvt_sr_bf8_f32";

/// One operation for each byte of the destination.
static FP8_BYTES: [Op; 4] = [
    lane::<SrFp8Byte0>(Vop3, 676, SR_FP8),
    lane::<SrFp8Byte1>(Vop3, 676, SR_FP8),
    lane::<SrFp8Byte2>(Vop3, 676, SR_FP8),
    lane::<SrFp8Byte3>(Vop3, 676, SR_FP8),
];
static BF8_BYTES: [Op; 4] = [
    lane::<SrBf8Byte0>(Vop3, 677, SR_BF8),
    lane::<SrBf8Byte1>(Vop3, 677, SR_BF8),
    lane::<SrBf8Byte2>(Vop3, 677, SR_BF8),
    lane::<SrBf8Byte3>(Vop3, 677, SR_BF8),
];

/// The byte that op_sel chooses, and the instruction without that choice.
fn by_byte(inst: &Inst) -> (usize, Inst) {
    let plain = inst.neg | inst.abs | inst.omod == 0 && !inst.clamp;
    (usize::from(inst.op_sel >> 2 & 3), Inst { op_sel: 0, plain, ..*inst })
}

macro_rules! byte_handlers {
    ($($name:ident $table:ident $which:ident)+) => {
        $(/// # Safety
        /// As the handlers of the table.
        unsafe fn $name(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
            let (byte, inst) = by_byte(inst);
            // SAFETY: the table hands out both for the same CPUs.
            unsafe { ($table[byte].$which)(wave, &inst, env) }
        })+
    };
}

byte_handlers!(sr_fp8_portable FP8_BYTES portable sr_fp8_wide FP8_BYTES wide
    sr_bf8_portable BF8_BYTES portable sr_bf8_wide BF8_BYTES wide);

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    lane::<CvtF32Fp8>(Vop1, 84, "v_cvt_f32_fp8").on(GFX942),
    lane::<CvtF32Bf8>(Vop1, 85, "v_cvt_f32_bf8").on(GFX942),
    wide::<CvtPkF32Fp8>(Vop1, 86, "v_cvt_pk_f32_fp8").on(GFX942),
    wide::<CvtPkF32Bf8>(Vop1, 87, "v_cvt_pk_f32_bf8").on(GFX942),
    lane::<CvtPkFp8F32>(Vop3, 674, "v_cvt_pk_fp8_f32").on(GFX942),
    lane::<CvtPkBf8F32>(Vop3, 675, "v_cvt_pk_bf8_f32").on(GFX942),
    Op { portable: sr_fp8_portable, wide: sr_fp8_wide, ..Op::new(Vop3, 676, SR_FP8, sr_fp8_portable) }.on(GFX942),
    Op { portable: sr_bf8_portable, wide: sr_bf8_wide, ..Op::new(Vop3, 677, SR_BF8, sr_bf8_portable) }.on(GFX942),
];
