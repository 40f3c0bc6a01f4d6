//! What only gfx90a has: matrix instructions of other names, shapes and numbers, multiply-add with two roundings, and
//! the opcodes of its caches.

use vgpu_isa::decode::decode;
use vgpu_isa::inst::{Flow, Target};
use vgpu_isa::wave::LANES;

use crate::access::whole;
use crate::harness::{Case, Machine};
use crate::matrix;

/// The constant of the encodings with a literal.
const PI: u32 = 0x4049_0FDB;

const VALUES: [u32; 12] = [
    0,
    1,
    0x8000_0000,
    0x3F80_0000,
    0xBF80_0001,
    0x3F7F_FFFF,
    0x0080_0001,
    0x7F7F_FFFF,
    0x7F80_0000,
    0x3EAA_AAAB,
    0x0000_1234,
    0x4B00_0001,
];

fn is_denormal(bits: u32) -> bool {
    bits & 0x7F80_0000 == 0
}

/// Two roundings and no denormals, computed in double precision, where a product of two singles is exact.
fn mad(a: u32, b: u32, c: u32) -> u32 {
    let flush = |bits: u32| if is_denormal(bits) { bits & 1 << 31 } else { bits };
    let wide = |bits: u32| f64::from(f32::from_bits(flush(bits)));
    let product = flush(((wide(a) * wide(b)) as f32).to_bits());
    flush(((wide(product) + wide(c)) as f32).to_bits())
}

/// Zero times anything is zero.
fn legacy(a: u32, b: u32, c: u32) -> u32 {
    if is_denormal(a) || is_denormal(b) { mad(0, 0, c) } else { mad(a, b, c) }
}

/// What v1 becomes, given v1, v2, v3 and v4.
type Want = fn([u32; 4]) -> u32;

/// All triples of values, in as many waves as they need.
fn multiply_add(asm: &'static str, want: Want) -> Vec<Case> {
    let waves = VALUES.len().pow(3) / LANES;
    let case = |wave: usize| {
        let lane_values = move |lane: usize| {
            let n = wave * LANES + lane;
            let [a, b, c] = [n, n / 12, n / 144].map(|n| VALUES[n % 12]);
            [c, a, b, c ^ 0x8000_0000]
        };
        let setup = move |machine: &mut Machine| {
            for register in 0..4 {
                machine.set_v(register + 1, |lane| lane_values(lane)[register]);
            }
        };
        Case::new(asm, setup, move |_, after| {
            for lane in 0..LANES {
                let (got, want) = (after.v(1)[lane], want(lane_values(lane)));
                let both_nan = f32::from_bits(got).is_nan() && f32::from_bits(want).is_nan();
                if got != want && !both_nan || after.flow != Flow::Next {
                    return Err(format!("{:x?} gave {got:x}, expected {want:x}", lane_values(lane)));
                }
            }
            Ok(())
        })
    };
    (0..waves).map(case).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = matrix::cases_of_mi200();
    let unfused: [(&str, Want); 7] = [
        ("v_mac_f32_e32 v1, v2, v3", |[d, a, b, _]| mad(a, b, d)),
        ("v_mac_f32_e64 v1, v2, v3", |[d, a, b, _]| mad(a, b, d)),
        ("v_mac_f32_e32 v1, 0x40490fdb, v3", |[d, _, b, _]| mad(PI, b, d)),
        ("v_madmk_f32 v1, v2, 0x40490fdb, v3", |[_, a, b, _]| mad(a, PI, b)),
        ("v_madak_f32 v1, v2, v3, 0x40490fdb", |[_, a, b, _]| mad(a, b, PI)),
        ("v_mad_f32 v1, v2, v3, v4", |[_, a, b, c]| mad(a, b, c)),
        ("v_mad_legacy_f32 v1, v2, v3, v4", |[_, a, b, c]| legacy(a, b, c)),
    ];
    cases.extend(unfused.into_iter().flat_map(|(asm, want)| multiply_add(asm, want)));
    cases.extend(["buffer_wbl2", "buffer_invl2"].map(|asm| whole(asm, |_| {}, |_| {})));
    cases
}

#[test]
fn numbers_mean_the_fused_operations_on_mi300() {
    let name = |words, target| decode(words, target).map(|inst| inst.op.name);
    assert_eq!(name([0x2E02_0702, PI, 0], Target::Gfx942), Ok("v_fmamk_f32"));
    assert_eq!(name([0x2E02_0702, PI, 0], Target::Gfx90a), Ok("v_madmk_f32"));
    assert!(name([0x2C02_0702, 0, 0], Target::Gfx942).is_err());
}
