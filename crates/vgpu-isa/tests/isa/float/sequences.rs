//! The sequences that compilers make of division and square root, against the host's.

use vgpu_isa::decode::decode;
use vgpu_isa::inst::{Env, Inst, Target};
use vgpu_isa::memory::{Port, Space};
use vgpu_isa::wave::Wave;

use crate::harness::Case;

/// Single precision v0 / v1 with denormals, as LLVM writes it.
const DIVIDE_32: &[&str] = &[
    "v_div_scale_f32 v2, s[0:1], v1, v1, v0",
    "v_rcp_f32_e32 v3, v2",
    "v_div_scale_f32 v4, vcc, v0, v1, v0",
    "v_fma_f32 v5, -v2, v3, 1.0",
    "v_fmac_f32_e32 v3, v5, v3",
    "v_mul_f32_e32 v5, v4, v3",
    "v_fma_f32 v6, -v2, v5, v4",
    "v_fmac_f32_e32 v5, v6, v3",
    "v_fma_f32 v2, -v2, v5, v4",
    "v_div_fmas_f32 v2, v2, v3, v5",
    "v_div_fixup_f32 v0, v2, v1, v0",
];

/// Double precision v[0:1] / v[2:3].
const DIVIDE_64: &[&str] = &[
    "v_div_scale_f64 v[4:5], s[0:1], v[2:3], v[2:3], v[0:1]",
    "v_rcp_f64_e32 v[6:7], v[4:5]",
    "v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0",
    "v_fmac_f64_e32 v[6:7], v[6:7], v[8:9]",
    "v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0",
    "v_fmac_f64_e32 v[6:7], v[6:7], v[8:9]",
    "v_div_scale_f64 v[8:9], vcc, v[0:1], v[2:3], v[0:1]",
    "v_mul_f64 v[10:11], v[8:9], v[6:7]",
    "v_fma_f64 v[4:5], -v[4:5], v[10:11], v[8:9]",
    "v_div_fmas_f64 v[4:5], v[4:5], v[6:7], v[10:11]",
    "v_div_fixup_f64 v[0:1], v[4:5], v[2:3], v[0:1]",
];

/// Double precision root of v[0:1], without the scaling of tiny sources.
const ROOT_64: &[&str] = &[
    "v_rsq_f64_e32 v[2:3], v[0:1]",
    "v_mul_f64 v[4:5], v[0:1], v[2:3]",
    "v_mul_f64 v[2:3], v[2:3], 0.5",
    "v_fma_f64 v[6:7], -v[2:3], v[4:5], 0.5",
    "v_fmac_f64_e32 v[4:5], v[4:5], v[6:7]",
    "v_fmac_f64_e32 v[2:3], v[2:3], v[6:7]",
    "v_fma_f64 v[6:7], -v[4:5], v[4:5], v[0:1]",
    "v_fmac_f64_e32 v[4:5], v[6:7], v[2:3]",
    "v_fma_f64 v[6:7], -v[4:5], v[4:5], v[0:1]",
    "v_fmac_f64_e32 v[4:5], v[6:7], v[2:3]",
];

/// Half precision division: in single precision, then fixed up.
const DIVIDE_16: &[&str] = &[
    "v_cvt_f32_f16_e32 v2, v1",
    "v_cvt_f32_f16_e32 v3, v0",
    "v_rcp_f32_e32 v2, v2",
    "v_mul_f32_e32 v2, v3, v2",
    "v_cvt_f16_f32_e32 v2, v2",
    "v_div_fixup_f16 v0, v2, v1, v0",
];

/// Their encodings are listed with those of the other cases.
pub(super) fn cases() -> Vec<Case> {
    let all = [DIVIDE_32, DIVIDE_64, ROOT_64, DIVIDE_16].concat();
    all.into_iter().map(|asm| Case::new(asm, |_| {}, |_, _| Ok(()))).collect()
}

/// The instructions with the encodings that stand in the list.
pub(super) fn assembled(lines: &[&str]) -> Vec<Inst> {
    let list = include_str!("../encodings/float.txt");
    let encoding = |asm: &&str| {
        let line = list.lines().find_map(|line| line.split_once(' ').filter(|(_, text)| text == asm));
        let (hex, _) = line.unwrap_or_else(|| panic!("{asm} has an encoding"));
        let mut words = [0; 3];
        for (word, text) in words.iter_mut().zip(hex.split(',')) {
            *word = u32::from_str_radix(text, 16).expect("hexadecimal");
        }
        decode(words, Target::Gfx942).expect("an instruction")
    };
    lines.iter().map(encoding).collect()
}

/// Runs instructions one after the other.
pub(super) fn execute(program: &[Inst], wave: &mut Wave) {
    let space = Space::new();
    let mut env = Env { memory: Port::new(&space), lds: &mut [], clock: || 0, stop: None };
    for inst in program {
        // SAFETY: the handler came from the decoder, which chose it for this CPU.
        unsafe { (inst.handler)(wave, inst, &mut env) };
    }
}

/// A generator of numbers that like the edges of the exponent range.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = self.0 ^ self.0 >> 33;
        mixed.wrapping_mul(0xFF51_AFD7_ED55_8CCD) ^ mixed >> 29
    }

    /// Random fraction; the exponent random, or close to an end, or close to one; sometimes few fraction bits.
    fn number(&mut self, fraction: u32, exponents: u64) -> u64 {
        let (bits, choice) = (self.next(), self.next());
        let near = choice >> 8 & 31;
        let exponent = match choice & 7 {
            0 => near,
            1 => exponents - 1 - near,
            2 => exponents / 2 + near - 16,
            _ => bits >> 8 & exponents,
        };
        let part = bits >> 20 & ((1 << fraction) - 1);
        let part = match choice >> 3 & 7 {
            0 => part & !0 << (fraction - 3),
            1 => part | ((1 << fraction) - 1) >> 3,
            2 => 0,
            _ => part,
        };
        (bits >> 63) << (fraction + exponents.count_ones()) | exponent.min(exponents) << fraction | part
    }
}

fn waves() -> usize {
    // Unoptimised builds do fewer.
    if cfg!(debug_assertions) { 2_000 } else { 100_000 }
}

#[test]
fn single_precision_division_is_correctly_rounded() {
    let program = assembled(DIVIDE_32);
    let mut wave = Wave::new();
    let mut numbers = Numbers(1);
    for _ in 0..waves() {
        let sources: Vec<(f32, f32)> = (0..64)
            .map(|_| {
                let mut next = || f32::from_bits(numbers.number(23, 0xFF) as u32);
                (next(), next())
            })
            .collect();
        for (lane, (n, d)) in sources.iter().enumerate() {
            wave.v[0][lane] = n.to_bits();
            wave.v[1][lane] = d.to_bits();
        }
        execute(&program, &mut wave);
        for (lane, (n, d)) in sources.iter().enumerate() {
            let (got, want) = (f32::from_bits(wave.v[0][lane]), n / d);
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{n:e} / {d:e} gave {got:e}, not {want:e}"
            );
        }
    }
}

#[test]
fn double_precision_division_is_correctly_rounded() {
    let program = assembled(DIVIDE_64);
    let mut wave = Wave::new();
    let mut numbers = Numbers(2);
    for _ in 0..waves() / 4 {
        let sources: Vec<(f64, f64)> = (0..64)
            .map(|_| {
                let mut next = || f64::from_bits(numbers.number(52, 0x7FF));
                (next(), next())
            })
            .collect();
        for (lane, (n, d)) in sources.iter().enumerate() {
            for (at, bits) in [(0, n.to_bits()), (2, d.to_bits())] {
                wave.v[at][lane] = bits as u32;
                wave.v[at + 1][lane] = (bits >> 32) as u32;
            }
        }
        execute(&program, &mut wave);
        for (lane, (n, d)) in sources.iter().enumerate() {
            let got = f64::from_bits(u64::from(wave.v[0][lane]) | u64::from(wave.v[1][lane]) << 32);
            let want = n / d;
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{n:e} / {d:e} gave {got:e}, not {want:e}"
            );
        }
    }
}

#[test]
fn double_precision_root_is_correctly_rounded() {
    let program = assembled(ROOT_64);
    let mut wave = Wave::new();
    let mut numbers = Numbers(3);
    for _ in 0..waves() / 4 {
        let sources: Vec<f64> = (0..64)
            .map(|_| f64::from_bits((numbers.next() >> 12) | (1023 - 700 + numbers.next() % 1400) << 52))
            .collect();
        for (lane, x) in sources.iter().enumerate() {
            wave.v[0][lane] = x.to_bits() as u32;
            wave.v[1][lane] = (x.to_bits() >> 32) as u32;
        }
        execute(&program, &mut wave);
        for (lane, x) in sources.iter().enumerate() {
            let got = f64::from_bits(u64::from(wave.v[4][lane]) | u64::from(wave.v[5][lane]) << 32);
            assert_eq!(got.to_bits(), x.sqrt().to_bits(), "root of {x:e}");
        }
    }
}

/// The compiler's half precision division is good to one unit in the last place.
#[test]
fn half_precision_division_is_close() {
    let program = assembled(DIVIDE_16);
    let mut wave = Wave::new();
    for numerator in (0..=0xFFFF_u32).step_by(257) {
        for first in (0..=0xFFFF_u32).step_by(64 * 7) {
            for lane in 0..64 {
                wave.v[0][lane] = numerator;
                wave.v[1][lane] = (first + lane as u32) & 0xFFFF;
            }
            execute(&program, &mut wave);
            for lane in 0..64 {
                let denominator = (first + lane as u32) & 0xFFFF;
                let value = |bits: u32| half::f16::from_bits(bits as u16).to_f64();
                let want = half::f16::from_f64(value(numerator) / value(denominator));
                let got = half::f16::from_bits(wave.v[0][lane] as u16);
                let close = got.to_bits().abs_diff(want.to_bits()) <= 1 || got.is_nan() && want.is_nan();
                assert!(close, "{numerator:x} / {denominator:x} gave {got}, not {want}");
            }
        }
    }
}
