//! Opcodes that mean something else on MI200, or exist only there. Encodings are llvm-mc's for `-mcpu=gfx90a`.

use vgpu_isa::decode::decode;
use vgpu_isa::inst::{Env, Flow, Target};
use vgpu_isa::memory::{Port, Space};
use vgpu_isa::wave::Wave;

/// The constant of the encodings with a literal.
const PI: u32 = 0x4049_0FDB;

/// Runs one instruction on v1 (destination), v2, v3, v4.
fn run(words: [u32; 3], registers: [u32; 4]) -> (&'static str, u32) {
    let inst = decode(words, Target::Gfx90a).expect("an instruction of gfx90a");
    let space = Space::new();
    let mut results = Vec::new();
    for handler in [Some(inst.op.portable), vgpu_isa::table::is_wide().then_some(inst.op.wide)].into_iter().flatten() {
        let mut wave = Wave::new();
        for (register, value) in registers.into_iter().enumerate() {
            wave.v[register + 1] = [value; 64];
        }
        let mut env = Env { memory: Port::new(&space), lds: &mut [], clock: || 0, stop: None };
        // SAFETY: wide handlers are run only where the table says that this CPU has what they need.
        let flow = unsafe { handler(&mut wave, &inst, &mut env) };
        assert_eq!(flow, Flow::Next);
        results.push(wave.v[1][17]);
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{}: {results:x?}", inst.op.name);
    (inst.op.name, results[0])
}

fn is_denormal(bits: u32) -> bool {
    bits & 0x7F80_0000 == 0
}

/// Two roundings and no denormals, computed in double precision, where a product of two singles is exact.
fn expected(a: u32, b: u32, c: u32) -> u32 {
    let flush = |bits: u32| if is_denormal(bits) { bits & 1 << 31 } else { bits };
    let wide = |bits: u32| f64::from(f32::from_bits(flush(bits)));
    let product = flush(((wide(a) * wide(b)) as f32).to_bits());
    flush(((wide(product) + wide(c)) as f32).to_bits())
}

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

fn check(name: &str, words: [u32; 3], want: impl Fn([u32; 4]) -> u32) {
    for a in VALUES {
        for b in VALUES {
            for c in VALUES {
                let registers = [c, a, b, c ^ 0x8000_0000];
                let (executed, got) = run(words, registers);
                assert_eq!(executed, name);
                let want = want(registers);
                let both_nan = f32::from_bits(got).is_nan() && f32::from_bits(want).is_nan();
                assert!(got == want || both_nan, "{name} {registers:x?}: got {got:x}, expected {want:x}");
            }
        }
    }
}

#[test]
fn multiply_add_rounds_twice_and_knows_no_denormals() {
    check("v_mac_f32", [0x2C02_0702, 0, 0], |[d, a, b, _]| expected(a, b, d));
    check("v_mac_f32", [0xD116_0001, 0x0002_0702, 0], |[d, a, b, _]| expected(a, b, d));
    check("v_mac_f32", [0x2C02_06FF, PI, 0], |[d, _, b, _]| expected(PI, b, d));
    check("v_madmk_f32", [0x2E02_0702, PI, 0], |[_, a, b, _]| expected(a, PI, b));
    check("v_madak_f32", [0x3002_0702, PI, 0], |[_, a, b, _]| expected(a, b, PI));
    check("v_mad_f32", [0xD1C1_0001, 0x0412_0702, 0], |[_, a, b, c]| expected(a, b, c));
}

#[test]
fn legacy_multiply_add_takes_zero_times_anything_as_zero() {
    check("v_mad_legacy_f32", [0xD1C0_0001, 0x0412_0702, 0], |[_, a, b, c]| {
        if is_denormal(a) || is_denormal(b) { expected(0, 0, c) } else { expected(a, b, c) }
    });
}

#[test]
fn the_numbers_mean_the_fused_operations_on_mi300() {
    let name = |words, target| decode(words, target).map(|inst| inst.op.name);
    assert_eq!(name([0x2E02_0702, PI, 0], Target::Gfx942), Ok("v_fmamk_f32"));
    assert_eq!(name([0x2E02_0702, PI, 0], Target::Gfx90a), Ok("v_madmk_f32"));
    assert!(name([0x2C02_0702, 0, 0], Target::Gfx942).is_err());
}
