//! Dense matrix instructions.
//!
//! Small integers are exact in every format and order; other values are compared within the error that any order of
//! additions can have.

use super::form::{SOME, noise};
use super::layout::{Element, Instruction, Place};
use super::mi200::paired;
use crate::harness::{Case, Machine};
use vgpu_isa::wave::{LANES, mode};

/// Mnemonics; those that broadcast A; those that permute B.
const ALL: &[(&str, bool, bool)] = &[
    ("v_mfma_f32_16x16x8_xf32", false, false),
    ("v_mfma_f32_32x32x4_xf32", false, false),
    ("v_mfma_f32_32x32x1_2b_f32", true, true),
    ("v_mfma_f32_16x16x1_4b_f32", true, true),
    ("v_mfma_f32_4x4x1_16b_f32", true, true),
    ("v_mfma_f32_32x32x2_f32", false, true),
    ("v_mfma_f32_16x16x4_f32", false, true),
    ("v_mfma_f32_32x32x4_2b_f16", true, true),
    ("v_mfma_f32_16x16x4_4b_f16", true, true),
    ("v_mfma_f32_4x4x4_16b_f16", true, true),
    ("v_mfma_f32_32x32x8_f16", false, false),
    ("v_mfma_f32_16x16x16_f16", false, false),
    ("v_mfma_i32_32x32x4_2b_i8", true, true),
    ("v_mfma_i32_16x16x4_4b_i8", true, true),
    ("v_mfma_i32_4x4x4_16b_i8", true, true),
    ("v_mfma_i32_32x32x16_i8", false, false),
    ("v_mfma_i32_16x16x32_i8", false, false),
    ("v_mfma_f32_32x32x4_2b_bf16", true, true),
    ("v_mfma_f32_16x16x4_4b_bf16", true, true),
    ("v_mfma_f32_4x4x4_16b_bf16", true, true),
    ("v_mfma_f32_32x32x8_bf16", false, false),
    ("v_mfma_f32_16x16x16_bf16", false, false),
    ("v_mfma_f64_16x16x4_f64", false, false),
    ("v_mfma_f64_4x4x4_4b_f64", false, false),
    ("v_mfma_f32_16x16x32_bf8_bf8", false, false),
    ("v_mfma_f32_16x16x32_bf8_fp8", false, false),
    ("v_mfma_f32_16x16x32_fp8_bf8", false, false),
    ("v_mfma_f32_16x16x32_fp8_fp8", false, false),
    ("v_mfma_f32_32x32x16_bf8_bf8", false, false),
    ("v_mfma_f32_32x32x16_bf8_fp8", false, false),
    ("v_mfma_f32_32x32x16_fp8_bf8", false, false),
    ("v_mfma_f32_32x32x16_fp8_fp8", false, false),
];

/// What the matrices are filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// Small integers; any bytes and any sums for integer types.
    Integers,
    /// Any numbers of moderate size.
    Numbers,
    /// Zeros, infinities and NaNs among small integers.
    Specials,
    /// The smallest denormals in A, ones in B, nothing in C.
    Denormals,
    /// The smallest normal numbers in A, halves in B, denormals in C.
    Vanishing,
    /// Products or sums that overflow.
    Overflow,
}

impl Fill {
    /// The bits of an element of A or B.
    pub(super) fn element(self, element: Element, is_a: bool, n: usize, lane: usize) -> u64 {
        let (x, y) = (noise(n, lane), noise(n + 100, lane));
        const SMALL: [f64; 9] = [0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0];
        match self {
            _ if element == Element::I8 && self != Self::Overflow => u64::from(x & 0xFF),
            Self::Integers => element.encode(SMALL[x as usize % 9]),
            Self::Specials => match (y % 37, element) {
                (0, Element::Fp8 | Element::Bf8) => 0x80,
                (0, _) => element.encode(f64::NAN),
                (1, Element::Fp8 | Element::Bf8) => 0,
                (1, _) => element.encode(f64::INFINITY),
                _ => element.encode(SMALL[x as usize % 9]),
            },
            Self::Numbers => match element {
                Element::Fp8 | Element::Bf8 => u64::from(if x & 0xFF == 0x80 { 0x41 } else { x & 0xFF }),
                Element::F16 => u64::from(x & 0xBFFF | 0x2000),
                Element::Bf16 => u64::from(x & 0x83FF | 0x3C00),
                Element::F64 => u64::from(x & 0x83FF_FFFF | 0x3C00_0000) << 32 | u64::from(y),
                _ => u64::from(x & 0x83FF_FFFF | 0x3C00_0000),
            },
            // The lowest bit that xf32 has.
            Self::Denormals if is_a && element == Element::Xf32 => 0x2000,
            Self::Denormals if is_a => 1,
            Self::Denormals => element.encode(1.0),
            Self::Vanishing if is_a => element.smallest(),
            Self::Vanishing => element.encode(0.5),
            Self::Overflow => match element {
                Element::I8 => 1,
                Element::F32 | Element::Xf32 | Element::Bf16 => element.encode(2_f64.powi(100)),
                _ => element.encode(1.0),
            },
        }
    }

    /// The bits of an element of C.
    pub(super) fn addend(self, sum: Element, n: usize, lane: usize) -> u64 {
        let x = noise(n + 200, lane);
        match self {
            Self::Denormals => 0,
            Self::Vanishing if sum != Element::I8 => u64::from(x & 0xFFFF),
            Self::Overflow if sum == Element::I8 => i32::MAX as u64,
            Self::Overflow => sum.encode(1.0),
            _ if sum == Element::I8 => u64::from(x),
            _ => sum.encode(f64::from(x as i32 % 1000)),
        }
    }
}

/// One instruction with its modifiers.
#[derive(Clone, Copy)]
pub(super) struct Run {
    instruction: Instruction,
    fill: Fill,
    a: Place,
    b: Place,
    c: Place,
    d: Place,
    constant: Option<(&'static str, f64)>,
    exec: u64,
    mode: u32,
    cbsz: usize,
    abid: usize,
    blgp: usize,
}

impl Run {
    fn new(name: &'static str) -> Self {
        let place = |first| Place { accumulation: false, first };
        Self {
            instruction: Instruction::parse(name),
            fill: Fill::Integers,
            a: place(8),
            b: place(16),
            c: place(64),
            d: place(128),
            constant: None,
            exec: !0,
            mode: mode::USUAL,
            cbsz: 0,
            abid: 0,
            blgp: 0,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Type of C and D, where `I8` stands for 32-bit integers.
    fn sum(&self) -> Element {
        match self.instruction.a {
            Element::I8 => Element::I8,
            Element::F64 => Element::F64,
            _ => Element::F32,
        }
    }

    fn asm(&self) -> String {
        let [a, b, d] = self.instruction.registers();
        let c = self.constant.map_or(self.c.text(d), |(text, _)| text.to_string());
        let mut text =
            format!("{} {}, {}, {}, {c}", self.instruction.name, self.d.text(d), self.a.text(a), self.b.text(b));
        if self.cbsz != 0 {
            text += &format!(" cbsz:{}", self.cbsz);
        }
        if self.abid != 0 {
            text += &format!(" abid:{}", self.abid);
        }
        if self.blgp != 0 && self.sum() == Element::F64 {
            text += &format!(" neg:[{},{},{}]", self.blgp & 1, self.blgp >> 1 & 1, self.blgp >> 2);
        } else if self.blgp != 0 {
            text += &format!(" blgp:{}", self.blgp);
        }
        text
    }

    fn setup(&self, machine: &mut Machine) {
        let [a, b, d] = self.instruction.registers();
        fill(machine, self.a, a, self.instruction.a, |n, lane| self.fill.element(self.instruction.a, true, n, lane));
        let of_b = |n, lane| self.fill.element(self.instruction.b, false, n + 40, lane);
        fill(machine, self.b, b, self.instruction.b, of_b);
        let wide = if self.sum() == Element::F64 { Element::F64 } else { Element::F32 };
        fill(machine, self.c, d, wide, |n, lane| self.fill.addend(self.sum(), n, lane));
        machine.wave.set_exec(self.exec);
        machine.wave.set_mode(self.mode);
    }

    /// An element of A, in whose place another block may be used.
    fn element_a(&self, before: &Machine, i: usize, k: usize, block: usize) -> f64 {
        let size = 1 << self.cbsz;
        let block = block / size * size + self.abid;
        let bits = self.a.bits(before, self.instruction.input(i, k, block), self.instruction.a.bits());
        let value = self.flushed(self.instruction.a.decode(bits));
        if self.sum() == Element::F64 && self.blgp & 1 != 0 { -value } else { value }
    }

    /// An element of B, which may come from another lane.
    fn element_b(&self, before: &Machine, k: usize, j: usize, block: usize) -> f64 {
        let (register, bit, lane) = self.instruction.input(j, k, block);
        let lane = match self.blgp {
            _ if self.sum() == Element::F64 => lane,
            1 => lane % 32,
            2 => lane % 32 + 32,
            3 => (lane + 16) % 64,
            4 => lane % 16,
            5 => lane % 16 + 16,
            6 => lane % 16 + 32,
            7 => lane % 16 + 48,
            _ => lane,
        };
        let value = self.flushed(self.instruction.b.decode(self.b.bits(
            before,
            (register, bit, lane),
            self.instruction.b.bits(),
        )));
        if self.sum() == Element::F64 && self.blgp & 2 != 0 { -value } else { value }
    }

    /// Single precision inputs obey the denormal mode; MI200 flushes halves in every mode.
    fn flushed(&self, value: f64) -> f64 {
        if self.instruction.flushes() {
            let smallest = self.instruction.a.decode(self.instruction.a.smallest());
            return if value.abs() < smallest { 0.0 } else { value };
        }
        let flushes = self.instruction.a == Element::F32 && self.mode & mode::DENORM_32_SOURCES == 0;
        if flushes && value.abs() < 2_f64.powi(-126) { 0.0 } else { value }
    }

    fn check(&self, before: &Machine, after: &Machine) -> Result<(), String> {
        let (m, k) = (self.instruction.m, self.instruction.k);
        let saturates = self.mode & mode::FP16_OVFL != 0;
        for block in 0..self.instruction.blocks {
            let row = |i| (0..k).map(|k| self.element_a(before, i, k, block)).collect::<Vec<f64>>();
            let column = |j| (0..k).map(|k| self.element_b(before, k, j, block)).collect::<Vec<f64>>();
            let (rows, columns): (Vec<_>, Vec<_>) = ((0..m).map(row).collect(), (0..m).map(column).collect());
            for (i, j) in (0..m).flat_map(|i| (0..m).map(move |j| (i, j))) {
                let (register, lane) = self.instruction.output(i, j, block);
                let bits = if self.sum() == Element::F64 { 64 } else { 32 };
                let old = self.c.bits(before, (register, 0, lane), bits);
                let got = self.d.bits(after, (register, 0, lane), bits);
                let products: Vec<f64> = rows[i].iter().zip(&columns[j]).map(|(a, b)| a * b).collect();
                let addend = match (self.constant, self.sum()) {
                    (Some((_, value)), _) => value,
                    (None, Element::I8) => f64::from(old as u32 as i32),
                    (None, sum) => sum.decode(old),
                };
                let addend = if self.sum() == Element::F64 && self.blgp & 4 != 0 { -addend } else { addend };
                let result = if self.instruction.flushes() {
                    let want = paired(addend, &products, self.instruction.depth(), saturates);
                    let value = f64::from(f32::from_bits(got as u32));
                    let fine = value == want || value.is_nan() && want.is_nan();
                    if fine { Ok(()) } else { Err(format!("got {value:e} ({got:x}), expected {want:e}")) }
                } else {
                    compare(self.sum(), addend, &products, got, saturates)
                };
                result.map_err(|wrong| format!("block {block} row {i} column {j}: {wrong}"))?;
            }
        }
        let [.., d] = self.instruction.registers();
        untouched(self.d, d, before, after)
    }

    pub(super) fn case(self) -> Case {
        Case::new(self.asm(), move |machine| self.setup(machine), move |before, after| self.check(before, after))
    }
}

/// Fills registers with elements; `value` gets the number of the element in the lane.
pub(super) fn fill(
    machine: &mut Machine,
    place: Place,
    registers: usize,
    element: Element,
    value: impl Fn(usize, usize) -> u64,
) {
    for lane in 0..LANES {
        if element == Element::F64 {
            for n in 0..registers / 2 {
                let bits = value(n, lane);
                place.set(machine, 2 * n, lane, bits as u32);
                place.set(machine, 2 * n + 1, lane, (bits >> 32) as u32);
            }
            continue;
        }
        let count = 32 / element.bits();
        for n in 0..registers {
            let word = (0..count).fold(0, |word, at| word | value(n * count + at, lane) << (at * element.bits()));
            place.set(machine, n, lane, word as u32);
        }
    }
}

/// Compares an element of D with C plus the products.
pub(super) fn compare(sum: Element, addend: f64, products: &[f64], got: u64, saturates: bool) -> Result<(), String> {
    if sum == Element::I8 {
        let exact = addend as i64 + products.iter().map(|&p| p as i64).sum::<i64>();
        let want = if saturates { exact.clamp(i32::MIN.into(), i32::MAX.into()) } else { exact } as u32;
        return crate::harness::same("sum", got as u32, want);
    }
    let exact = products.iter().fold(addend, |sum, product| sum + product);
    let value = sum.decode(got);
    let (unit, largest) =
        if sum == Element::F64 { (2_f64.powi(-52), f64::MAX) } else { (2_f64.powi(-23), f64::from(f32::MAX)) };
    let size = products.iter().fold(addend.abs(), |size, product| size + product.abs());
    let fine = if exact.is_nan() {
        value.is_nan()
    } else if exact.is_infinite() {
        value == exact
    } else if exact.abs() > largest {
        value == if saturates { largest.copysign(exact) } else { f64::INFINITY.copysign(exact) }
    } else if size < 2_f64.powi(24) && size.fract() == 0.0 && products.iter().all(|p| p.fract() == 0.0) {
        value == exact
    } else {
        (value - exact).abs() <= size * unit * products.len() as f64
    };
    if fine { Ok(()) } else { Err(format!("got {value:e} ({got:x}), expected {exact:e}")) }
}

/// Registers beside the destination keep what they had.
pub(super) fn untouched(d: Place, count: usize, before: &Machine, after: &Machine) -> Result<(), String> {
    let inside =
        |accumulation: bool, n: usize| accumulation == d.accumulation && (d.first..d.first + count).contains(&n);
    for n in 0..256 {
        if !inside(false, n) && before.wave.v[n] != after.wave.v[n]
            || !inside(true, n) && before.wave.a[n] != after.wave.a[n]
        {
            return Err(format!("register {n} changed"));
        }
    }
    Ok(())
}

pub(super) fn cases() -> Vec<Case> {
    ALL.iter().flat_map(|&(name, broadcasts, permutes)| runs(name, broadcasts, permutes)).map(Run::case).collect()
}

/// The forms and modes of one instruction.
pub(super) fn runs(name: &'static str, broadcasts: bool, permutes: bool) -> Vec<Run> {
    let mut runs = Vec::new();
    let run = || Run::new(name);
    let sum = run().sum();
    let fills = [Fill::Integers, Fill::Numbers, Fill::Specials, Fill::Denormals, Fill::Vanishing, Fill::Overflow];
    for fill in fills {
        runs.push(run().with(|r| r.fill = fill));
        runs.push(run().with(|r| (r.fill, r.mode) = (fill, mode::USUAL | mode::FP16_OVFL)));
    }
    runs.push(run().with(|r| r.exec = 0));
    runs.push(run().with(|r| r.exec = SOME));
    runs.push(run().with(|r| r.d = r.c));
    // Only results of four registers may overlap C partly.
    if run().instruction.registers()[2] <= 4 {
        runs.push(run().with(|r| r.d.first = r.c.first + 2));
        runs.push(run().with(|r| r.d.first = r.c.first - 2));
    }
    runs.push(run().with(|r| r.d.first = r.a.first));
    for accumulation in 1..8 {
        runs.push(run().with(|r| {
            r.a.accumulation = accumulation & 1 != 0;
            r.b.accumulation = accumulation & 2 != 0;
            (r.c.accumulation, r.d.accumulation) = (accumulation & 4 != 0, accumulation & 4 != 0);
        }));
    }
    let constants: &[(&str, f64)] = match sum {
        Element::I8 => &[("0", 0.0), ("-16", -16.0), ("64", 64.0)],
        _ => &[("0", 0.0), ("1.0", 1.0), ("-4.0", -4.0)],
    };
    runs.extend(constants.iter().map(|&c| run().with(|r| r.constant = Some(c))));
    let flushing = mode::USUAL & !0xF0;
    runs.push(run().with(|r| (r.fill, r.mode) = (Fill::Denormals, flushing)));
    runs.push(run().with(|r| (r.fill, r.mode) = (Fill::Numbers, mode::USUAL | 0xF)));
    if sum == Element::F64 && !run().instruction.mi200 {
        runs.extend((1..8).map(|blgp| run().with(|r| r.blgp = blgp)));
    }
    if permutes {
        runs.extend((1..8).map(|blgp| run().with(|r| r.blgp = blgp)));
    }
    if broadcasts {
        for cbsz in 1..=run().instruction.blocks.ilog2() as usize {
            runs.push(run().with(|r| r.cbsz = cbsz));
            runs.push(run().with(|r| (r.cbsz, r.abid) = (cbsz, (1 << cbsz) - 1)));
            runs.push(run().with(|r| (r.cbsz, r.abid, r.blgp) = (cbsz, 1, 3)));
        }
    }
    runs
}
