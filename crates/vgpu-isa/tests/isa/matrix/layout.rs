//! Where the elements of matrices are, and what their bits mean.

use crate::harness::Machine;
use vgpu_isa::wave::LANES;

/// Element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F32,
    Xf32,
    F16,
    Bf16,
    Fp8,
    Bf8,
    I8,
    F64,
}

impl Element {
    fn parse(text: &str) -> Self {
        match text {
            "f32" => Self::F32,
            "xf32" => Self::Xf32,
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "fp8" => Self::Fp8,
            "bf8" => Self::Bf8,
            "i8" => Self::I8,
            "f64" => Self::F64,
            other => panic!("unknown type {other}"),
        }
    }

    /// The bits of the smallest number that is not denormal.
    pub(super) fn smallest(self) -> u64 {
        1 << self.fields().1
    }

    pub(super) fn bits(self) -> usize {
        match self {
            Self::F64 => 64,
            Self::F32 | Self::Xf32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::Fp8 | Self::Bf8 | Self::I8 => 8,
        }
    }

    /// Bits of exponent and fraction, and bias.
    fn fields(self) -> (u32, u32, i32) {
        match self {
            Self::F64 => (11, 52, 1023),
            Self::F32 | Self::Xf32 => (8, 23, 127),
            Self::F16 => (5, 10, 15),
            Self::Bf16 => (8, 7, 127),
            Self::Fp8 => (4, 3, 8),
            Self::Bf8 => (5, 2, 16),
            Self::I8 => (0, 0, 0),
        }
    }

    /// The value of some bits.
    pub(super) fn decode(self, bits: u64) -> f64 {
        if self == Self::I8 {
            return f64::from(bits as i8);
        }
        let (exponent_bits, fraction_bits, bias) = self.fields();
        let bits = if self == Self::Xf32 { bits & !0x1FFF } else { bits };
        let negative = bits >> (exponent_bits + fraction_bits) & 1 != 0;
        let exponent = (bits >> fraction_bits & ((1 << exponent_bits) - 1)) as i32;
        let fraction = (bits & ((1 << fraction_bits) - 1)) as f64 / 2_f64.powi(fraction_bits as i32);
        let has_infinities = !matches!(self, Self::Fp8 | Self::Bf8);
        if !has_infinities && negative && exponent == 0 && fraction == 0.0 {
            return f64::NAN;
        }
        let magnitude = match exponent {
            e if has_infinities && e == (1 << exponent_bits) - 1 => {
                if fraction == 0.0 {
                    f64::INFINITY
                } else {
                    f64::NAN
                }
            }
            0 => fraction * 2_f64.powi(1 - bias),
            e => (1.0 + fraction) * 2_f64.powi(e - bias),
        };
        if negative { -magnitude } else { magnitude }
    }

    /// The bits of a number that the type holds exactly: found by searching for what decodes to it.
    pub(super) fn encode(self, value: f64) -> u64 {
        match self {
            Self::F64 => value.to_bits(),
            Self::F32 | Self::Xf32 => u64::from((value as f32).to_bits()),
            Self::Bf16 => u64::from((value as f32).to_bits() >> 16),
            Self::F16 => u64::from(half::f16::from_f64(value).to_bits()),
            Self::I8 => u64::from(value as i8 as u8),
            Self::Fp8 | Self::Bf8 => {
                (0..256).find(|&bits| self.decode(bits) == value).expect("the type holds the number")
            }
        }
    }
}

/// A matrix instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    pub(super) name: &'static str,
    pub(super) m: usize,
    pub(super) k: usize,
    pub(super) blocks: usize,
    pub(super) a: Element,
    pub(super) b: Element,
    pub(super) sparse: bool,
    /// An instruction of MI200, which flushes denormals of 16-bit floats.
    pub(super) mi200: bool,
}

impl Instruction {
    /// Reads shape and types out of the mnemonic.
    pub(super) fn parse(name: &'static str) -> Self {
        let parts: Vec<&str> = name.split('_').collect();
        if parts.get(4).is_none_or(|&part| part == "1k") {
            return Self::parse_mi200(name, parts[3]);
        }
        let shape: Vec<usize> = parts[3].split('x').map(|n| n.parse().expect("a number")).collect();
        let blocks = parts[4].strip_suffix('b').and_then(|n| n.parse().ok());
        let types = &parts[if blocks.is_some() { 5 } else { 4 }..];
        Self {
            name,
            m: shape[0],
            k: shape[2],
            blocks: blocks.unwrap_or(1),
            a: Element::parse(types[0]),
            b: Element::parse(types[types.len() - 1]),
            sparse: parts[1] == "smfmac",
            mi200: false,
        }
    }

    /// Names of MI200 end in shape and type (`32x32x4bf16_1k`) and do not tell the number of blocks, which is what
    /// fills the registers: one of them, or two for halves and doubles.
    fn parse_mi200(name: &'static str, shape: &str) -> Self {
        let split = shape.find(|c: char| c.is_ascii_alphabetic() && c != 'x').expect("a type");
        let (shape, kind) = shape.split_at(split);
        let shape: Vec<usize> = shape.split('x').map(|n| n.parse().expect("a number")).collect();
        let element = Element::parse(kind);
        let registers = if element == Element::F16 || element == Element::F64 || name.ends_with("_1k") { 2 } else { 1 };
        let depth = registers * 32 / element.bits();
        let (m, k) = (shape[0], shape[2]);
        Self { name, m, k, blocks: LANES * depth / (m * k), a: element, b: element, sparse: false, mi200: true }
    }

    /// Denormals of inputs, products and sums are zeros.
    pub(super) fn flushes(&self) -> bool {
        self.mi200 && matches!(self.a, Element::F16 | Element::Bf16)
    }

    /// Elements along k in a lane of B.
    pub(super) fn depth(&self) -> usize {
        self.k * self.m * self.blocks / LANES
    }

    /// Registers of A, B and D.
    pub(super) fn registers(&self) -> [usize; 3] {
        let stored = if self.sparse { self.depth() / 2 } else { self.depth() };
        let width = if self.a == Element::F64 { 2 } else { 1 };
        [stored * self.a.bits() / 32, self.depth() * self.b.bits() / 32, self.m * self.m * self.blocks / LANES * width]
    }

    /// Register, bit and lane of an element of A (column `k`) or B (row `k`).
    pub(super) fn input(&self, i: usize, k: usize, block: usize) -> (usize, usize, usize) {
        let bit = k % self.depth() * self.b.bits();
        (bit / 32, bit % 32, self.m * self.blocks * (k / self.depth()) + self.m * block + i)
    }

    /// Register, bit and lane of the stored element of a sparse A that stands for one of four columns from `4 * quad`
    /// on.
    pub(super) fn stored(&self, i: usize, quad: usize, second: bool) -> (usize, usize, usize) {
        let quads = self.depth() / 4;
        let bit = (quad % quads * 2 + usize::from(second)) * self.a.bits();
        (bit / 32, bit % 32, self.m * (quad / quads) + i)
    }

    /// Register and lane of an element of C or D.
    pub(super) fn output(&self, i: usize, j: usize, block: usize) -> (usize, usize) {
        match (self.m, self.a) {
            (16, Element::F64) => (i / 4 * 2, i % 4 * 16 + j),
            (_, Element::F64) => (0, i * 16 + block * 4 + j),
            (32, _) => (16 * block + i / 8 * 4 + i % 4, i / 4 * 32 % 64 + j),
            (16, _) => (4 * block + i % 4, i / 4 * 16 + j),
            _ => (i, 4 * block + j),
        }
    }
}

/// Registers of one file from one on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) accumulation: bool,
    pub(super) first: usize,
}

impl Place {
    pub(super) fn text(self, count: usize) -> String {
        let file = if self.accumulation { 'a' } else { 'v' };
        if count == 1 {
            return format!("{file}{}", self.first);
        }
        format!("{file}[{}:{}]", self.first, self.first + count - 1)
    }

    /// A register of the file.
    pub(super) fn register(self, machine: &Machine, n: usize) -> &[u32; LANES] {
        let file = if self.accumulation { &machine.wave.a } else { &machine.wave.v };
        &file[self.first + n]
    }

    pub(super) fn set(self, machine: &mut Machine, n: usize, lane: usize, value: u32) {
        let file = if self.accumulation { &mut machine.wave.a } else { &mut machine.wave.v };
        file[self.first + n][lane] = value;
    }

    /// Some bits of a lane, over two registers for wide elements.
    pub(super) fn bits(self, machine: &Machine, (register, bit, lane): (usize, usize, usize), count: usize) -> u64 {
        let low = u64::from(self.register(machine, register)[lane]);
        match count {
            64 => low | u64::from(self.register(machine, register + 1)[lane]) << 32,
            32 => low,
            _ => low >> bit & ((1 << count) - 1),
        }
    }
}

#[test]
fn places_are_those_of_the_calculator() {
    let mut seen = 0;
    let lines = include_str!("layout.txt").lines().chain(include_str!("layout-gfx90a.txt").lines());
    for line in lines.filter(|line| !line.starts_with('#')) {
        let words: Vec<&'static str> = line.split(' ').collect();
        let n: Vec<usize> = words[2..].iter().map(|n| n.parse().expect("a number")).collect();
        let instruction = Instruction::parse(words[0]);
        let place = match words[1] {
            "A" if instruction.sparse => instruction.stored(n[0], n[1] / 4, false),
            "A" | "B" => instruction.input(n[0], n[1], n[2]),
            "K" => {
                // Two indices of two bits for each group of four columns.
                let quads = instruction.depth() / 4;
                let quad = n[1] / 4;
                (0, quad % quads * 4, instruction.m * (quad / quads) + n[0])
            }
            _ => {
                let (register, lane) = instruction.output(n[0], n[1], n[2]);
                (register, 0, lane)
            }
        };
        assert_eq!(place, (n[3], n[4], n[5]), "{line}");
        seen += 1;
    }
    assert!(seen > 1400);
}
