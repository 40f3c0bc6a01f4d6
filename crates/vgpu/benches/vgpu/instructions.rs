//! Nanoseconds of single instructions: a wave runs the same one over and over.

use std::hint::black_box;

use vgpu_isa::code::Code;
use vgpu_isa::inst::{Env, Target};
use vgpu_isa::memory::{Mapping, Port, Space};
use vgpu_isa::run::{self, RunEnd};
use vgpu_isa::table;
use vgpu_isa::wave::{LANES, Lanes, Wave};

use crate::cases::{AccessPattern, CASES, Case, FMA};
use crate::measure::{by_turns, fastest};
use crate::report::{Aim, Report};

/// Where the program lies, and the data behind it.
const CODE: u64 = 0x10_0000;
const DATA: u64 = 0x20_0000;
const BYTES: usize = 1 << 16;
/// Copies of the instruction in the loop, and instructions of a round.
const COPIES: usize = 60;
const STEPS: u64 = 6100;

/// A wave in front of an endless loop of one instruction.
struct Loop {
    wave: Box<Wave>,
    space: Space,
    code: Code,
    lds: Vec<u8>,
    /// Behind `space`.
    _memory: (Vec<u32>, Vec<u8>),
}

impl Loop {
    fn new(case: &Case) -> Self {
        let mut words = case.words.repeat(COPIES);
        // Back to the first: the distance counts dwords from the instruction after the branch.
        let back = 0x1_0000 - (words.len() as u32 + 1);
        words.push(0xBF82_0000 | back);
        let mut data = vec![1_u8; BYTES];
        let mut space = Space::new();
        let code = Mapping {
            start: CODE,
            end: CODE + 4 * words.len() as u64,
            host: words.as_mut_ptr().cast(),
            writable: false,
            executable: true,
            guarded: false,
        };
        let memory = Mapping {
            start: DATA,
            end: DATA + BYTES as u64,
            host: data.as_mut_ptr(),
            writable: true,
            executable: false,
            guarded: false,
        };
        // SAFETY: both vectors live in the structure beside the space.
        unsafe {
            space.insert(code);
            space.insert(memory);
        }
        let mut wave = Wave::new();
        wave.pc = CODE;
        wave.set_exec(case.exec);
        wave.set_s64(2, DATA);
        wave.set_s64(4, DATA);
        for lane in 0..LANES {
            let offset = match case.pattern {
                AccessPattern::Stride(bytes) => bytes * lane as u32,
                AccessPattern::Scattered => 4 * 33 * (lane * 37 % LANES) as u32,
            };
            wave.v[0][lane] = offset;
            wave.v[10][lane] = DATA as u32 + offset;
            wave.v[11][lane] = 0;
            for register in 1..4 {
                wave.v[register][lane] = (1.0 + lane as f32 / 64.0).to_bits();
            }
        }
        let code = Code::new(Target::Gfx942);
        Self { wave, space, code, lds: vec![0; BYTES], _memory: (words, data) }
    }

    /// Runs for a round.
    fn run(&mut self) {
        let Self { wave, space, code, lds, .. } = self;
        let mut env = Env { memory: Port::new(space), lds, clock: || 0, stop: None };
        let outcome = run::run(wave, code, &mut env, &mut { STEPS });
        assert_eq!(outcome, RunEnd::Budget, "the loop does not run");
    }
}

/// The cost of each instruction in nanoseconds by its name.
fn costs() -> Vec<(&'static str, f64)> {
    CASES
        .iter()
        .map(|case| {
            let mut endless = Loop::new(case);
            (case.name, fastest(|| endless.run()) * 1e9 / STEPS as f64)
        })
        .collect()
}

/// Measures and reports.
pub(crate) fn run(report: &mut Report) -> Vec<(&'static str, f64)> {
    report.section("instructions, one wave");
    let mut fma = Loop::new(FMA);
    let [a, b, c] = [1, 2, 3].map(|register| fma.wave.v[register].map(f32::from_bits));
    let mut out = [0.0; LANES];
    let (virtual_gpu, loops) = by_turns(|| fma.run(), || multiply_add(&a, &b, &c, &mut out));
    let expected: Lanes = out.map(f32::to_bits);
    assert_eq!(fma.wave.v[4], expected, "v_fma_f32 and the loop disagree");
    if table::is_wide() {
        let name = "v_fma_f32, all lanes on, against an AVX2 loop over the arrays";
        report.aimed(name, virtual_gpu / loops, "x", Aim::AtMost(4.0));
    } else {
        report.skip("v_fma_f32 against an AVX2 loop", "this CPU has no AVX2, or VGPU_PORTABLE is set");
    }
    let costs = costs();
    for (name, cost) in &costs {
        report.row(name, *cost, "ns");
    }
    costs
}

/// The loop that v_fma_f32 stands for, as often as a round executes it. The arrays come from memory and go there, as
/// registers do.
fn multiply_add(a: &[f32; LANES], b: &[f32; LANES], c: &[f32; LANES], out: &mut [f32; LANES]) {
    if table::is_wide() {
        // SAFETY: `is_wide` says that the CPU has AVX2 and FMA.
        unsafe { multiply_add_wide(a, b, c, out) };
    } else {
        multiply_add_lanes(a, b, c, out);
    }
}

#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
unsafe fn multiply_add_wide(a: &[f32; LANES], b: &[f32; LANES], c: &[f32; LANES], out: &mut [f32; LANES]) {
    multiply_add_lanes(a, b, c, out);
}

#[inline(always)]
fn multiply_add_lanes(a: &[f32; LANES], b: &[f32; LANES], c: &[f32; LANES], out: &mut [f32; LANES]) {
    for _ in 0..STEPS {
        let (a, b, c, out) = (black_box(a), black_box(b), black_box(c), black_box(&mut *out));
        for lane in 0..LANES {
            out[lane] = a[lane].mul_add(b[lane], c[lane]);
        }
    }
}
