//! Operands, edge values, and the check that nothing else changed.

use vgpu_isa::wave::{VCC, Wave};

use crate::harness::Machine;

/// Lane masks for EXEC: everything, nothing, and patterns that cross the halves.
pub(crate) const PARTIAL: u64 = 0x8000_F0F0_1234_5679;

/// Numbers at which integer operations change their mind.
const EDGES: [u64; 36] = [
    0,
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0x8001,
    0xFFFF,
    0x1_0000,
    0x7F_FFFF,
    0x80_0000,
    0xFF_FFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0x8000_0001,
    0xFFFF_FFFE,
    0xFFFF_FFFF,
    0x1_0000_0000,
    0x7FFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    0x8000_0000_0000_0001,
    0xFFFF_FFFF_FFFF_FFFE,
    0xFFFF_FFFF_FFFF_FFFF,
    0x0180_7F00_FF80_01FE,
];

/// A number that looks random but is always the same.
pub(crate) fn hash(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// Mostly edges, in changing company.
pub(crate) fn edge(seed: u64) -> u64 {
    let h = hash(seed);
    if h.is_multiple_of(5) { hash(h) } else { EDGES[(h >> 8) as usize % EDGES.len()] }
}

/// A source operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operand {
    /// Vector register, or a pair.
    V(usize),
    /// Scalar register, or a pair.
    S(usize),
    /// VCC or its low half.
    Vcc,
    /// Inline integer.
    Int(i64),
    /// Inline float: its place in `FLOATS`.
    Float(usize),
    /// Literal.
    Literal(u32),
}

/// Inline floats and their patterns in 16, 32 and 64 bits.
const FLOATS: [(&str, u64, u64, u64); 3] = [
    ("1.0", 0x3C00, 0x3F80_0000, 0x3FF0_0000_0000_0000),
    ("-4.0", 0xC400, 0xC080_0000, 0xC010_0000_0000_0000),
    ("0.15915494", 0x3118, 0x3E22_F983, 0x3FC4_5F30_6DC9_C882),
];

/// The low bits of a number.
pub(crate) fn low(value: u64, bits: u32) -> u64 {
    if bits == 64 { value } else { value & ((1 << bits) - 1) }
}

impl Operand {
    /// How the assembler writes it.
    pub(crate) fn text(self, bits: u32) -> String {
        let register = |letter: char, n: usize| {
            if bits == 64 { format!("{letter}[{n}:{}]", n + 1) } else { format!("{letter}{n}") }
        };
        match self {
            Self::V(n) => register('v', n),
            Self::S(n) => register('s', n),
            Self::Vcc => String::from(if bits == 64 { "vcc" } else { "vcc_lo" }),
            Self::Int(n) => n.to_string(),
            Self::Float(2) if bits == 64 => String::from("0.15915494309189532"),
            Self::Float(n) => FLOATS[n].0.to_string(),
            Self::Literal(n) => format!("{n:#x}"),
        }
    }

    /// Its value in a lane, zero-extended.
    pub(crate) fn value(self, machine: &Machine, lane: usize, bits: u32) -> u64 {
        let wave = &machine.wave;
        let pair = |a: u32, b: u32| u64::from(a) + (u64::from(b) << 32);
        let value = match self {
            Self::V(n) => pair(wave.v[n][lane], wave.v[n + 1][lane]),
            Self::S(n) => pair(wave.s[n], wave.s[n + 1]),
            Self::Vcc => pair(wave.s[106], wave.s[107]),
            Self::Int(n) => n as u64,
            Self::Float(n) => match bits {
                16 => FLOATS[n].1,
                32 => FLOATS[n].2,
                _ => FLOATS[n].3,
            },
            Self::Literal(n) => u64::from(n),
        };
        low(value, bits)
    }
}

/// Fills the registers that operands name with edges; `seed` makes them differ from case to case.
pub(crate) fn fill(machine: &mut Machine, operands: &[Operand], seed: u64) {
    for (n, operand) in operands.iter().enumerate() {
        let place = seed.wrapping_mul(4096) + 256 * n as u64;
        match *operand {
            Operand::V(register) => machine.set_v64(register, |lane| edge(place + lane as u64)),
            Operand::S(register) => machine.wave.set_s64(register, edge(place)),
            Operand::Vcc => machine.wave.set_s64(VCC, edge(place)),
            _ => {}
        }
    }
}

/// Writes a result of some bits to the lanes of a register that are on.
pub(crate) fn write(wave: &mut Wave, register: usize, bits: u32, exec: u64, result: impl Fn(usize) -> u64) {
    for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
        let value = result(lane);
        wave.v[register][lane] = value as u32;
        if bits == 64 {
            wave.v[register + 1][lane] = (value >> 32) as u32;
        }
    }
}

/// Fails unless the state after is the state before with the changes.
pub(crate) fn changed(before: &Machine, after: &Machine, change: impl FnOnce(&mut Wave)) -> Result<(), String> {
    let mut want = before.wave.clone();
    change(&mut want);
    let got = &after.wave;
    for (name, got, want) in [("v", &got.v, &want.v), ("a", &got.a, &want.a)] {
        for register in 0..256 {
            for lane in 0..64 {
                let (got, want) = (got[register][lane], want[register][lane]);
                if got != want {
                    return Err(format!("{name}{register} lane {lane}: got {got:#x}, expected {want:#x}"));
                }
            }
        }
    }
    for n in 0..128 {
        if got.s[n] != want.s[n] {
            return Err(format!("s{n}: got {:#x}, expected {:#x}", got.s[n], want.s[n]));
        }
    }
    let rest = |wave: &Wave| (wave.scc, wave.mode(), wave.status, wave.trapsts);
    if rest(got) != rest(&want) {
        return Err(format!("scc, mode, status, trapsts: got {:x?}, expected {:x?}", rest(got), rest(&want)));
    }
    if after.flow != vgpu_isa::inst::Flow::Next || after.stop.is_some() {
        return Err(format!("flow {:?}, stop {:?}", after.flow, after.stop));
    }
    Ok(())
}
