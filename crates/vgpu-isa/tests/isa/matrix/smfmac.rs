//! Sparse matrix instructions: two of four elements of A are stored.

use super::form::{SOME, noise};
use super::layout::{Element, Instruction, Place};
use super::mfma::{Fill, compare, fill, untouched};
use crate::harness::{Case, Machine};
use vgpu_isa::wave::mode;

const ALL: &[&str] = &[
    "v_smfmac_f32_16x16x32_f16",
    "v_smfmac_f32_32x32x16_f16",
    "v_smfmac_f32_16x16x32_bf16",
    "v_smfmac_f32_32x32x16_bf16",
    "v_smfmac_i32_16x16x64_i8",
    "v_smfmac_i32_32x32x32_i8",
    "v_smfmac_f32_16x16x64_bf8_bf8",
    "v_smfmac_f32_16x16x64_bf8_fp8",
    "v_smfmac_f32_16x16x64_fp8_bf8",
    "v_smfmac_f32_16x16x64_fp8_fp8",
    "v_smfmac_f32_32x32x32_bf8_bf8",
    "v_smfmac_f32_32x32x32_bf8_fp8",
    "v_smfmac_f32_32x32x32_fp8_bf8",
    "v_smfmac_f32_32x32x32_fp8_fp8",
];

const INDEX: usize = 40;

#[derive(Clone, Copy)]
struct Run {
    instruction: Instruction,
    fill: Fill,
    a: Place,
    b: Place,
    d: Place,
    exec: u64,
    mode: u32,
    cbsz: u32,
    abid: u32,
}

/// Two different positions of four, ascending, for each of the eight pairs in a register.
fn index(lane: usize) -> u32 {
    const PAIRS: [u32; 6] = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110];
    (0..8).fold(0, |word, n| word | PAIRS[noise(n + 300, lane) as usize % 6] << (4 * n))
}

impl Run {
    fn new(name: &'static str) -> Self {
        let place = |first| Place { accumulation: false, first };
        Self {
            instruction: Instruction::parse(name),
            fill: Fill::Integers,
            a: place(8),
            b: place(16),
            d: place(128),
            exec: !0,
            mode: mode::USUAL,
            cbsz: 0,
            abid: 0,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn sum(&self) -> Element {
        if self.instruction.a == Element::I8 { Element::I8 } else { Element::F32 }
    }

    fn asm(&self) -> String {
        let [a, b, d] = self.instruction.registers();
        let (a, b, d) = (self.a.text(a), self.b.text(b), self.d.text(d));
        let mut text = format!("{} {d}, {a}, {b}, v{INDEX}", self.instruction.name);
        if self.cbsz != 0 {
            text += &format!(" cbsz:{}", self.cbsz);
        }
        if self.abid != 0 {
            text += &format!(" abid:{}", self.abid);
        }
        text
    }

    fn setup(&self, machine: &mut Machine) {
        let [a, b, d] = self.instruction.registers();
        fill(machine, self.a, a, self.instruction.a, |n, lane| self.fill.element(self.instruction.a, true, n, lane));
        let of_b = |n, lane| self.fill.element(self.instruction.b, false, n + 40, lane);
        fill(machine, self.b, b, self.instruction.b, of_b);
        fill(machine, self.d, d, Element::F32, |n, lane| self.fill.addend(self.sum(), n, lane));
        machine.set_v(INDEX, index);
        machine.wave.set_exec(self.exec);
        machine.wave.set_mode(self.mode);
    }

    /// The whole row of A, zeros included.
    fn row(&self, before: &Machine, i: usize) -> Vec<f64> {
        let instruction = self.instruction;
        let mut row = vec![0.0; instruction.k];
        let quads = instruction.depth() / 4;
        // Bits of a set of indices: four for each pair of a lane.
        let set = if self.cbsz == 0 { self.abid } else { 0 } * 4 * quads as u32;
        for quad in 0..instruction.k / 4 {
            for second in [false, true] {
                let (register, bit, lane) = instruction.stored(i, quad, second);
                let value = instruction.a.decode(self.a.bits(before, (register, bit, lane), instruction.a.bits()));
                let at = before.v(INDEX)[lane] >> (set + (quad % quads * 4) as u32 + 2 * u32::from(second)) & 3;
                row[4 * quad + at as usize] = value;
            }
        }
        row
    }

    fn check(&self, before: &Machine, after: &Machine) -> Result<(), String> {
        let m = self.instruction.m;
        let b_bits = self.instruction.b.bits();
        let of_b = |k, j| self.instruction.b.decode(self.b.bits(before, self.instruction.input(j, k, 0), b_bits));
        let columns: Vec<Vec<f64>> = (0..m).map(|j| (0..self.instruction.k).map(|k| of_b(k, j)).collect()).collect();
        for i in 0..m {
            let row = self.row(before, i);
            for j in 0..m {
                // A zero that is not stored is not multiplied: no NaN comes of it.
                let pairs = row.iter().zip(&columns[j]).filter(|(a, _)| **a != 0.0);
                let products: Vec<f64> = pairs.map(|(a, b)| a * b).collect();
                let (register, lane) = self.instruction.output(i, j, 0);
                let old = self.d.bits(before, (register, 0, lane), 32);
                let addend = match self.sum() {
                    Element::I8 => f64::from(old as u32 as i32),
                    sum => sum.decode(old),
                };
                let got = self.d.bits(after, (register, 0, lane), 32);
                compare(self.sum(), addend, &products, got, self.mode & mode::FP16_OVFL != 0)
                    .map_err(|wrong| format!("row {i} column {j}: {wrong}"))?;
            }
        }
        untouched(self.d, self.instruction.registers()[2], before, after)
    }

    fn case(self) -> Case {
        Case::new(self.asm(), move |machine| self.setup(machine), move |before, after| self.check(before, after))
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut runs = Vec::new();
    for &name in ALL {
        let run = || Run::new(name);
        for fill in [Fill::Integers, Fill::Numbers, Fill::Denormals, Fill::Overflow] {
            runs.push(run().with(|r| r.fill = fill));
            runs.push(run().with(|r| (r.fill, r.mode) = (fill, mode::USUAL | mode::FP16_OVFL)));
        }
        runs.push(run().with(|r| r.exec = 0));
        runs.push(run().with(|r| r.exec = SOME));
        runs.push(run().with(|r| (r.fill, r.mode) = (Fill::Denormals, mode::USUAL & !0xF0)));
        for accumulation in 1..8 {
            runs.push(run().with(|r| {
                r.a.accumulation = accumulation & 1 != 0;
                r.b.accumulation = accumulation & 2 != 0;
                r.d.accumulation = accumulation & 4 != 0;
            }));
        }
        let sets = if run().instruction.a.bits() == 16 { 4 } else { 2 };
        runs.extend((1..sets).map(|abid| run().with(|r| r.abid = abid)));
        runs.push(run().with(|r| (r.cbsz, r.abid) = (1, 1)));
    }
    runs.into_iter().map(Run::case).collect()
}
