//! Conversions: formats, integers, normalised integers, packed results, 8-bit formats.

use vgpu_isa::wave::mode;

use super::exact::{Exact, F16, F32, F64, Format, NEAREST};
use super::spec::{B16, B32, B64, D, Forms, H, Kind, S, Spec, Want, rule, sample};
use crate::harness::{Case, same};

/// A number to an integer within limits: toward zero, NaN to zero.
fn truncated(value: f64, low: i64, high: i64) -> u64 {
    if value.is_nan() { 0 } else { value.trunc().clamp(low as f64, high as f64) as i64 as u64 }
}

fn to_integer(name: &'static str, format: Format, result: Kind, low: i64, high: i64) -> Spec {
    Spec::new(name, Forms::Short, &[Kind::Float(format)], result, move |[a, _, _], _| {
        Want::Bits(truncated(format.value(a), low, high))
    })
}

fn from_integer(name: &'static str, source: Kind, format: Format, f: fn(u64) -> i64) -> Spec {
    Spec::new(name, Forms::Short, &[source], Kind::Float(format), move |[a, _, _], mode| {
        let value = f(a);
        Want::Bits(format.round(&Exact::new(value < 0, value.unsigned_abs().into(), 0), rule(format, mode)))
    })
}

/// The nearest integer, ties to even, from integer arithmetic on the mantissa.
fn scaled(format: Format, bits: u64, scale: u128, lowest: f64) -> u64 {
    let value = format.value(bits);
    if value.is_nan() {
        return 0;
    }
    if value <= lowest || value >= 1.0 {
        let end = if value >= 1.0 { 1 } else { lowest as i128 };
        return (end * scale as i128) as u64;
    }
    let (mantissa, exponent) = format.parts(bits);
    let product = u128::from(mantissa) * scale;
    let drop = (-exponent as u32).min(120);
    let (whole, rest, half) = (product >> drop, product & ((1 << drop) - 1), 1_u128 << (drop - 1));
    let nearest = (whole + u128::from(rest > half || rest == half && whole & 1 != 0)) as u64;
    if bits & format.sign() != 0 { nearest.wrapping_neg() } else { nearest }
}

fn normalised(specs: &mut Vec<Spec>) {
    let signed = |f: Format, bits: u64| scaled(f, bits, 32767, -1.0) & 0xFFFF;
    let unsigned = |f: Format, bits: u64| scaled(f, bits, 65535, 0.0) & 0xFFFF;
    specs.push(Spec::new("v_cvt_norm_i16_f16", Forms::Short, &[H], B16, move |[a, ..], _| Want::Bits(signed(F16, a))));
    specs
        .push(Spec::new("v_cvt_norm_u16_f16", Forms::Short, &[H], B16, move |[a, ..], _| Want::Bits(unsigned(F16, a))));
    for (name, format) in [("v_cvt_pknorm_i16_f32", F32), ("v_cvt_pknorm_i16_f16", F16)] {
        let kind = Kind::Float(format);
        specs.push(Spec::new(name, Forms::Long, &[kind, kind], B32, move |[a, b, _], _| {
            Want::Bits(signed(format, a) | signed(format, b) << 16)
        }));
    }
    for (name, format) in [("v_cvt_pknorm_u16_f32", F32), ("v_cvt_pknorm_u16_f16", F16)] {
        let kind = Kind::Float(format);
        specs.push(Spec::new(name, Forms::Long, &[kind, kind], B32, move |[a, b, _], _| {
            Want::Bits(unsigned(format, a) | unsigned(format, b) << 16)
        }));
    }
}

/// A number as a byte, rounded by the mode.
fn byte(bits: u64, mode: u32) -> u64 {
    let value = F32.value(bits);
    if value.is_nan() {
        return 0;
    }
    let whole = match mode & 3 {
        0 => value.round_ties_even(),
        1 => value.ceil(),
        2 => value.floor(),
        _ => value.trunc(),
    };
    whole.clamp(0.0, 255.0) as u64
}

fn packed(specs: &mut Vec<Spec>) {
    let insert = |[a, b, c]: [u64; 3], mode: u32| {
        let mut bytes = (c as u32).to_le_bytes();
        bytes[b as usize % 4] = byte(a, mode) as u8;
        Want::Bits(u32::from_le_bytes(bytes).into())
    };
    specs.push(Spec::new("v_cvt_pk_u8_f32", Forms::Long, &[S, B32, B32], B32, insert));
    specs.push(Spec::new("v_cvt_pkaccum_u8_f32", Forms::Long, &[S, B32, B32], B32, insert).accumulating());
    specs.push(Spec::new("v_cvt_pkrtz_f16_f32", Forms::Long, &[S, S], B32, |[a, b, _], register| {
        let half = |bits| {
            let toward_zero = super::exact::Rule { round: 3, saturate: false };
            let half = F32.convert(bits, F16, toward_zero);
            let flushed = register & 0x80 == 0 && half & 0x7C00 == 0;
            if flushed { half & 0x8000 } else { half }
        };
        Want::Bits(half(a) | half(b) << 16)
    }));
    specs.push(Spec::new("v_pack_b32_f16", Forms::Long, &[H, H], B32, |[a, b, _], _| Want::Bits(a | b << 16)));
}

/// All values of an 8-bit format in the order of their codes; NaN is 0x80.
fn eight_value(code: u64, fraction: u32, bias: i32) -> f64 {
    let (field, part) = ((code & 0x7F) >> fraction, code & ((1 << fraction) - 1));
    let unit = 2_f64.powi(1 - bias - fraction as i32);
    let size = if field == 0 {
        part as f64 * unit
    } else {
        ((part + (1 << fraction)) as f64) * unit * 2_f64.powi(field as i32 - 1)
    };
    if code == 0x80 {
        f64::NAN
    } else if code & 0x80 != 0 {
        -size
    } else {
        size
    }
}

/// The code nearest to a number, found by looking at all of them.
fn eight_code(bits: u64, fraction: u32, bias: i32, saturate: bool) -> u64 {
    let value = F32.value(bits);
    if !value.is_finite() {
        return 0x80;
    }
    let size = value.abs();
    let largest = eight_value(0x7F, fraction, bias);
    let step = largest - eight_value(0x7E, fraction, bias);
    let sign = if value < 0.0 { 0x80 } else { 0 };
    // Half a step beyond the largest rounds up to a number that does not exist.
    if size >= largest + step / 2.0 {
        return if saturate { 0x7F | sign } else { 0x80 };
    }
    let distance = |code: u64| (eight_value(code, fraction, bias) - size).abs();
    let best = (0..0x80_u64).min_by(|&x, &y| distance(x).total_cmp(&distance(y)).then((x & 1).cmp(&(y & 1))));
    let code = best.expect("there are codes");
    if code == 0 { 0 } else { code | sign }
}

const EIGHT: [(&str, u32, i32); 2] = [("fp8", 3, 8), ("bf8", 2, 16)];

fn eight(specs: &mut Vec<Spec>) {
    for (name, fraction, bias) in EIGHT {
        let decode = move |byte: u64| {
            let value = eight_value(byte & 0xFF, fraction, bias);
            if value.is_nan() { 0x7FC0_0000 } else { u64::from((value as f32).to_bits()) }
        };
        let name_of = |text: &'static str, other: &'static str| if name == "fp8" { text } else { other };
        specs.push(
            Spec::new(name_of("v_cvt_f32_fp8", "v_cvt_f32_bf8"), Forms::Short, &[B32], S, move |[a, ..], _| {
                Want::Bits(decode(a))
            })
            .without_modifiers(),
        );
        specs.push(
            Spec::new(name_of("v_cvt_pk_f32_fp8", "v_cvt_pk_f32_bf8"), Forms::Short, &[B32], B64, move |[a, ..], _| {
                Want::Bits(decode(a) | decode(a >> 8) << 32)
            })
            .without_modifiers(),
        );
        specs.push(
            Spec::new(
                name_of("v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32"),
                Forms::Long,
                &[S, S],
                B16,
                move |[a, b, _], m| {
                    let saturate = m & mode::FP16_OVFL != 0;
                    let code = |bits| eight_code(bits, fraction, bias, saturate);
                    Want::Bits(code(a) | code(b) << 8)
                },
            )
            .keeping_high(),
        );
        specs.push(
            Spec::new(
                name_of("v_cvt_sr_fp8_f32", "v_cvt_sr_bf8_f32"),
                Forms::Long,
                &[S, B32, B32],
                B32,
                move |[a, b, c], m| {
                    let code = stochastic(a, b, fraction, bias, m & mode::FP16_OVFL != 0);
                    Want::Bits(c & 0xFFFF_FF00 | code)
                },
            )
            .accumulating(),
        );
    }
}

/// Rounded up with the probability of the part that is dropped: the random number is a fraction that is added to it.
fn stochastic(bits: u64, random: u64, fraction: u32, bias: i32, saturate: bool) -> u64 {
    let value = F32.value(bits);
    if !value.is_finite() {
        return 0x80;
    }
    let dropped = 23 - fraction;
    let (size, sign) = (value.abs(), if value < 0.0 { 0x80 } else { 0 });
    let exponent = if size == 0.0 { -200 } else { size.log2().floor() as i32 }.max(1 - bias);
    let exponent = if 2_f64.powi(exponent) > size && exponent > 1 - bias { exponent - 1 } else { exponent };
    // Multiples of a fraction of the last place; what is smaller than that is cut off.
    let steps = (size / 2_f64.powi(exponent - fraction as i32 - dropped as i32)).floor() as u128;
    let codes = (steps + u128::from(random as u32 >> (32 - dropped))) >> dropped;
    let result = codes as f64 * 2_f64.powi(exponent - fraction as i32);
    if result > eight_value(0x7F, fraction, bias) {
        return if saturate { 0x7F | sign } else { 0x80 };
    }
    let code = eight_code(u64::from((result as f32).to_bits()), fraction, bias, false);
    if code == 0 { 0 } else { code | sign }
}

/// Forms that choose a part of a register.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, fraction, bias) in EIGHT {
        for part in 0..4 {
            let asm = format!("v_cvt_f32_{name}_sdwa v10, v20 src0_sel:BYTE_{part}");
            cases.push(Case::new(
                asm,
                |m| m.set_v(20, |lane| sample(B32, 0, lane, 3) as u32),
                move |before, after| {
                    (0..64).try_for_each(|lane| {
                        let value = eight_value(u64::from(before.v(20)[lane].to_le_bytes()[part]), fraction, bias);
                        let want = if value.is_nan() { 0x7FC0_0000 } else { (value as f32).to_bits() };
                        same("lane", after.v(10)[lane], want)
                    })
                },
            ));
            let select = [part & 1, part >> 1];
            let asm = format!("v_cvt_sr_{name}_f32 v10, v20, v21 op_sel:[0,0,{},{}]", select[0], select[1]);
            cases.push(Case::new(
                asm,
                |m| {
                    m.set_v(20, |lane| sample(S, 0, lane, 3) as u32);
                    m.set_v(21, |lane| sample(B32, 1, lane, 3) as u32);
                },
                move |before, after| {
                    (0..64).try_for_each(|lane| {
                        let mut want = before.v(10)[lane].to_le_bytes();
                        let (a, b) = (before.v(20)[lane], before.v(21)[lane]);
                        want[part] = stochastic(a.into(), b.into(), fraction, bias, false) as u8;
                        same("lane", after.v(10)[lane], u32::from_le_bytes(want))
                    })
                },
            ));
        }
        let asm = format!("v_cvt_pk_f32_{name}_sdwa v[10:11], v20 src0_sel:WORD_1");
        cases.push(Case::new(
            asm,
            |m| m.set_v(20, |lane| sample(B32, 0, lane, 4) as u32),
            move |before, after| {
                (0..64).try_for_each(|lane| {
                    let value = |byte: u32| eight_value(u64::from(byte & 0xFF), fraction, bias);
                    let bits = |x: f64| if x.is_nan() { 0x7FC0_0000 } else { (x as f32).to_bits() };
                    let source = before.v(20)[lane];
                    same("low", after.v(10)[lane], bits(value(source >> 16)))?;
                    same("high", after.v(11)[lane], bits(value(source >> 24)))
                })
            },
        ));
        let asm = format!("v_cvt_pk_{name}_f32 v10, v20, v21 op_sel:[0,0,1]");
        cases.push(Case::new(
            asm,
            |m| {
                m.set_v(20, |lane| sample(S, 0, lane, 3) as u32);
                m.set_v(21, |lane| sample(S, 1, lane, 3) as u32);
            },
            move |before, after| {
                (0..64).try_for_each(|lane| {
                    let code =
                        |register: usize| eight_code(before.v(register)[lane].into(), fraction, bias, false) as u32;
                    let want = before.v(10)[lane] & 0xFFFF | code(20) << 16 | code(21) << 24;
                    same("lane", after.v(10)[lane], want)
                })
            },
        ));
    }
    let asm = "v_pack_b32_f16 v10, v20, v21 op_sel:[1,0,0]";
    cases.push(Case::new(
        asm,
        |_| {},
        |before, after| {
            (0..64).try_for_each(|lane| {
                same("lane", after.v(10)[lane], before.v(20)[lane] >> 16 | before.v(21)[lane] << 16)
            })
        },
    ));
    cases
}

pub(super) fn specs() -> Vec<Spec> {
    let mut specs = vec![
        to_integer("v_cvt_i32_f64", F64, B32, i32::MIN.into(), i32::MAX.into()),
        to_integer("v_cvt_u32_f64", F64, B32, 0, u32::MAX.into()),
        to_integer("v_cvt_i32_f32", F32, B32, i32::MIN.into(), i32::MAX.into()),
        to_integer("v_cvt_u32_f32", F32, B32, 0, u32::MAX.into()),
        to_integer("v_cvt_i16_f16", F16, B16, i16::MIN.into(), i16::MAX.into()),
        to_integer("v_cvt_u16_f16", F16, B16, 0, u16::MAX.into()),
        from_integer("v_cvt_f64_i32", B32, F64, |a| i64::from(a as i32)),
        from_integer("v_cvt_f64_u32", B32, F64, |a| i64::from(a as u32)),
        from_integer("v_cvt_f32_i32", B32, F32, |a| i64::from(a as i32)),
        from_integer("v_cvt_f32_u32", B32, F32, |a| i64::from(a as u32)),
        from_integer("v_cvt_f16_i16", B16, F16, |a| i64::from(a as i16)),
        from_integer("v_cvt_f16_u16", B16, F16, |a| i64::from(a as u16)),
        from_integer("v_cvt_f32_ubyte0", B32, F32, |a| i64::from(a as u8)),
        from_integer("v_cvt_f32_ubyte1", B32, F32, |a| i64::from((a >> 8) as u8)),
        from_integer("v_cvt_f32_ubyte2", B32, F32, |a| i64::from((a >> 16) as u8)),
        from_integer("v_cvt_f32_ubyte3", B32, F32, |a| i64::from((a >> 24) as u8)),
        Spec::new("v_cvt_rpi_i32_f32", Forms::Short, &[S], B32, |[a, ..], _| {
            let half = F32.add(a, 0x3F00_0000, NEAREST);
            let nan = F32.is_nan(a);
            Want::Bits(if nan { 0 } else { truncated(F32.value(half).floor(), i32::MIN.into(), i32::MAX.into()) })
        }),
        Spec::new("v_cvt_flr_i32_f32", Forms::Short, &[S], B32, |[a, ..], _| {
            Want::Bits(truncated(F32.value(a).floor(), i32::MIN.into(), i32::MAX.into()))
        }),
        Spec::new("v_cvt_off_f32_i4", Forms::Short, &[B32], S, |[a, ..], _| {
            const TABLE: [f32; 16] = [
                0.0, 0.0625, 0.125, 0.1875, 0.25, 0.3125, 0.375, 0.4375, -0.5, -0.4375, -0.375, -0.3125, -0.25,
                -0.1875, -0.125, -0.0625,
            ];
            Want::Bits(TABLE[a as usize & 15].to_bits().into())
        }),
        Spec::new("v_cvt_f16_f32", Forms::Short, &[S], H, |[a, ..], m| Want::Bits(F32.convert(a, F16, rule(F16, m)))),
        Spec::new("v_cvt_f32_f16", Forms::Short, &[H], S, |[a, ..], m| Want::Bits(F16.convert(a, F32, rule(F32, m)))),
        Spec::new("v_cvt_f32_f64", Forms::Short, &[D], S, |[a, ..], m| Want::Bits(F64.convert(a, F32, rule(F32, m)))),
        Spec::new("v_cvt_f64_f32", Forms::Short, &[S], D, |[a, ..], m| Want::Bits(F32.convert(a, F64, rule(F64, m)))),
    ];
    normalised(&mut specs);
    packed(&mut specs);
    eight(&mut specs);
    specs
}
