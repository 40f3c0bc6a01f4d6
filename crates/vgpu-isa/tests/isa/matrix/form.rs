//! VOP3P instructions in assembler text, with the meaning of their modifiers.

use vgpu_isa::wave::LANES;

use crate::harness::{Case, Machine};

/// A source operand.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// Vector registers from this one on.
    V(usize),
    /// Scalar registers from this one on.
    S(usize),
    /// A constant: its text and the 64 bits the operation sees.
    Constant(&'static str, u64),
}

/// One instruction.
#[derive(Clone)]
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) sources: Vec<Source>,
    /// Registers of a source, and of the destination.
    pub(super) width: usize,
    pub(super) destination: usize,
    pub(super) op_sel: u8,
    pub(super) op_sel_hi: u8,
    pub(super) neg_lo: u8,
    pub(super) neg_hi: u8,
    pub(super) clamp: bool,
    pub(super) exec: u64,
    pub(super) mode: u32,
    /// The whole text: packed operations and mixed ones write modifiers differently.
    pub(super) text: fn(&Form) -> String,
}

pub(super) const ALL: u64 = !0;
pub(super) const SOME: u64 = 0x8000_F0F0_1234_5671;

impl Form {
    /// A packed instruction with registers v10, v20 and v30 as sources and v40 as destination.
    pub(super) fn new(name: &'static str, sources: usize, width: usize) -> Self {
        Self {
            name,
            sources: (1..=sources).map(|n| Source::V(10 * n)).collect(),
            width,
            destination: 40,
            op_sel: 0,
            op_sel_hi: 7,
            neg_lo: 0,
            neg_hi: 0,
            clamp: false,
            exec: ALL,
            mode: vgpu_isa::wave::mode::USUAL,
            text: packed_text,
        }
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn list(&self, field: &str, bits: u8) -> String {
        let bits: Vec<String> = (0..self.sources.len()).map(|n| (bits >> n & 1).to_string()).collect();
        format!(" {field}:[{}]", bits.join(","))
    }

    pub(super) fn operand(&self, source: Source) -> String {
        let range = |file: char, n: usize| match self.width {
            1 => format!("{file}{n}"),
            width => format!("{file}[{n}:{}]", n + width - 1),
        };
        match source {
            Source::V(n) => range('v', n),
            Source::S(n) => range('s', n),
            Source::Constant(text, _) => text.to_string(),
        }
    }

    /// Mnemonic and operands without modifiers.
    pub(super) fn bare(&self) -> String {
        let mut text = format!("{} {}", self.name, self.operand(Source::V(self.destination)));
        for &source in &self.sources {
            text += &format!(", {}", self.operand(source));
        }
        text
    }

    /// The bits of a source in a lane, both registers of a pair.
    pub(super) fn raw(&self, machine: &Machine, n: usize, lane: usize) -> u64 {
        match self.sources[n] {
            Source::V(register) => machine.v64(register, lane),
            Source::S(register) => machine.wave.s64(register),
            Source::Constant(_, bits) => bits,
        }
    }

    /// A case whose result `expected` computes for a lane, from the machine before, register by register.
    pub(super) fn case(
        self,
        values: fn(usize, usize) -> u32,
        check: impl Fn(&Self, &Machine, usize, &[u32]) -> Result<(), String> + 'static,
    ) -> Case {
        let asm = (self.text)(&self);
        let (exec, mode) = (self.exec, self.mode);
        Case::new(
            asm,
            move |machine| {
                for (n, register) in [10, 11, 20, 21, 30, 31].into_iter().enumerate() {
                    machine.set_v(register, |lane| values(n, lane));
                }
                machine.wave.s[4] = values(6, 1);
                machine.wave.s[5] = values(6, 2);
                machine.wave.set_exec(exec);
                machine.wave.set_mode(mode);
            },
            move |before, after| {
                for lane in 0..LANES {
                    let got: Vec<u32> = (0..self.width).map(|n| after.v(self.destination + n)[lane]).collect();
                    if self.exec >> lane & 1 == 0 {
                        let old: Vec<u32> = (0..self.width).map(|n| before.v(self.destination + n)[lane]).collect();
                        crate::harness::same(&format!("lane {lane} is off"), got, old)?;
                    } else {
                        check(&self, before, lane, &got).map_err(|wrong| format!("lane {lane}: {wrong}"))?;
                    }
                }
                Ok(())
            },
        )
    }
}

pub(super) fn packed_text(form: &Form) -> String {
    let all = (1 << form.sources.len()) - 1;
    let mut text = form.bare();
    if form.op_sel != 0 {
        text += &form.list("op_sel", form.op_sel);
    }
    if form.op_sel_hi & all != all {
        text += &form.list("op_sel_hi", form.op_sel_hi);
    }
    if form.neg_lo != 0 {
        text += &form.list("neg_lo", form.neg_lo);
    }
    if form.neg_hi != 0 {
        text += &form.list("neg_hi", form.neg_hi);
    }
    if form.clamp {
        text += " clamp";
    }
    text
}

/// A number that looks random, different for every pair.
pub(super) fn noise(n: usize, lane: usize) -> u32 {
    let mut x = (n as u64 * 64 + lane as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (x >> 32) as u32
}

/// Every second lane some edge value of half precision or of 16-bit integers in each half, otherwise anything.
pub(super) fn edges_16(n: usize, lane: usize) -> u32 {
    const EDGES: [u32; 24] = [
        0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x83FF, 0x3C00, 0xBC00, 0x3C01, 0x3BFF, 0x7BFF, 0xFBFF, 0x7C00,
        0xFC00, 0x7E01, 0x7D01, 0xFD01, 0x3555, 0x1400, 0x0010, 0x7FFF, 0xFFFF, 0x6400,
    ];
    let (x, y) = (noise(n, lane), noise(n + 50, lane));
    if x & 1 == 0 {
        return y;
    }
    EDGES[y as usize % 24] | EDGES[(y >> 8) as usize % 24] << 16
}

/// Edge values of single precision in every second lane; the others are near each other in magnitude.
pub(super) fn edges_32(n: usize, lane: usize) -> u32 {
    const EDGES: [u32; 18] = [
        0,
        0x8000_0000,
        1,
        0x8000_0001,
        0x007F_FFFF,
        0x0080_0000,
        0x3F80_0000,
        0xBF80_0000,
        0x3F80_0001,
        0x7F7F_FFFF,
        0xFF7F_FFFF,
        0x7F80_0000,
        0xFF80_0000,
        0x7FC0_0001,
        0x7F80_0001,
        0x3380_0000,
        0x2000_0000,
        0x5F80_0000,
    ];
    let (x, y) = (noise(n, lane), noise(n + 50, lane));
    match x & 3 {
        0 | 1 => EDGES[y as usize % 18],
        2 => y,
        _ => y & 0x83FF_FFFF | 0x3C00_0000,
    }
}
