//! From an operation and its oracle to cases in every form and mode.

use std::rc::Rc;

use vgpu_isa::wave::mode;

use super::exact::{F16, F32, F64, Format, NEAREST, Rule};
use crate::harness::{Case, Machine};

/// Type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Float(Format),
    Bits(u32),
}

pub(crate) const H: Kind = Kind::Float(F16);
pub(crate) const S: Kind = Kind::Float(F32);
pub(crate) const D: Kind = Kind::Float(F64);
pub(crate) const B16: Kind = Kind::Bits(16);
pub(crate) const B32: Kind = Kind::Bits(32);
pub(crate) const B64: Kind = Kind::Bits(64);

impl Kind {
    fn width(self) -> u32 {
        match self {
            Self::Float(format) => format.total,
            Self::Bits(bits) => bits,
        }
    }

    fn mask(self) -> u64 {
        !0 >> (64 - self.width())
    }
}

/// What is to be expected of one lane.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// These bits.
    Bits(u64),
    /// A quiet NaN made of one of the sources; which one is the hardware's choice if there are several.
    SourceNan,
    /// Within this many units in the last place; NaN and infinity exactly.
    Near(u64, u64),
}

type Oracle = Rc<dyn Fn([u64; 3], u32) -> Want>;

/// Which encodings an operation has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forms {
    /// VOP1 or VOP2 and VOP3.
    Short,
    /// VOP3 only.
    Long,
}

/// One operation.
#[derive(Clone)]
pub(crate) struct Spec {
    name: &'static str,
    forms: Forms,
    sources: Vec<Kind>,
    result: Kind,
    accumulates: bool,
    keeps_high: bool,
    /// Sign modifiers, clamp and output modifiers exist.
    modifiers: bool,
    oracle: Oracle,
}

/// The rule of a format in a mode.
pub(crate) fn rule(format: Format, register: u32) -> Rule {
    match format.total {
        32 => Rule { round: register & 3, saturate: false },
        64 => Rule { round: register >> 2 & 3, saturate: false },
        _ => Rule { round: register >> 2 & 3, saturate: register & mode::FP16_OVFL != 0 },
    }
}

impl Spec {
    pub(crate) fn new(
        name: &'static str,
        forms: Forms,
        sources: &[Kind],
        result: Kind,
        oracle: impl Fn([u64; 3], u32) -> Want + 'static,
    ) -> Self {
        Self {
            name,
            forms,
            sources: sources.to_vec(),
            result,
            accumulates: false,
            keeps_high: false,
            modifiers: matches!(result, Kind::Float(_)) && sources.iter().all(|s| matches!(s, Kind::Float(_))),
            oracle: Rc::new(oracle),
        }
    }

    /// The last source is the destination.
    pub(crate) fn accumulating(self) -> Self {
        Self { accumulates: true, ..self }
    }

    /// The upper half of the destination stays.
    pub(crate) fn keeping_high(self) -> Self {
        Self { keeps_high: true, ..self }
    }

    /// The assembler knows no modifiers.
    pub(crate) fn without_modifiers(self) -> Self {
        Self { modifiers: false, ..self }
    }

    fn register(kind: Kind, number: usize) -> String {
        if kind.width() == 64 { format!("v[{number}:{}]", number + 1) } else { format!("v{number}") }
    }

    /// Cases in all forms.
    pub(crate) fn cases(&self) -> Vec<Case> {
        let plain = vec![Operand::Vector; self.sources.len()];
        let long = format!("{}{}", self.name, if self.forms == Forms::Short { "_e64" } else { "" });
        let short = format!("{}_e32", self.name);
        let mut cases = Vec::new();
        let mut add = |name: &str, operands: &[Operand], setting: Setting| {
            cases.push(self.case(name, operands, &setting));
        };
        let usual = Setting::default();
        for batch in 0..4 {
            let setting = Setting { batch, ..usual };
            if self.forms == Forms::Short {
                add(&short, &plain, setting);
            }
            add(&long, &plain, setting);
        }
        for exec in [0, 0x8000_0000_0000_0001, 0x0F0F_3333_5555_FF00] {
            let setting = Setting { exec, batch: 4, ..usual };
            add(if self.forms == Forms::Short { &short } else { &long }, &plain, setting);
        }
        add(&long, &plain, Setting { alias: true, ..usual });
        for operand in [Operand::One, Operand::Minus4, Operand::Pi, Operand::Scalar] {
            let mut operands = plain.clone();
            operands[0] = operand;
            if self.forms == Forms::Short {
                add(&short, &operands, usual);
            }
            add(&long, &operands, Setting { batch: 1, ..usual });
        }
        if self.forms == Forms::Short && self.sources[0].width() <= 32 {
            let mut operands = plain.clone();
            operands[0] = Operand::Literal;
            add(&short, &operands, usual);
        }
        let modes = [0xF5, 0xFA, 0xFF, 0xF0 | mode::FP16_OVFL, 0xFA | mode::FP16_OVFL, 0x00, 0x50, 0xA0, 0x0F];
        for (n, bits) in modes.into_iter().enumerate() {
            for ieee in [0, mode::IEEE] {
                let register = bits | mode::DX10_CLAMP | ieee;
                add(&long, &plain, Setting { register, batch: n, ..usual });
            }
        }
        if self.modifiers {
            for (n, (neg, abs)) in [(1, 0), (0, 1), (3, 2), (6, 5)].into_iter().enumerate() {
                add(&long, &plain, Setting { neg, abs, batch: n, ..usual });
                add(&long, &plain, Setting { neg, abs, clamp: true, batch: n + 2, ..usual });
            }
            let no_dx10 = mode::USUAL & !mode::DX10_CLAMP;
            add(&long, &plain, Setting { clamp: true, register: no_dx10, ..usual });
            for omod in 1..4 {
                // Ignored with the IEEE bit, applied without it where denormals are flushed.
                add(&long, &plain, Setting { omod, ..usual });
                let register = mode::DX10_CLAMP;
                add(&long, &plain, Setting { omod, register, ..usual });
                add(&long, &plain, Setting { omod, register, clamp: true, neg: 1, batch: 3, ..usual });
            }
        }
        cases
    }

    fn case(&self, name: &str, operands: &[Operand], setting: &Setting) -> Case {
        let spec = self.clone();
        let given = if self.accumulates { self.sources.len() - 1 } else { self.sources.len() };
        let dst = if setting.alias { FIRST } else { DST };
        let mut asm = format!("{name} {}", Self::register(self.result, dst));
        for n in 0..given {
            let register = Self::register(self.sources[n], FIRST + 4 * n);
            let mut text = operands[n].text(self.sources[n], register);
            if setting.abs >> n & 1 != 0 {
                text = format!("|{text}|");
            }
            if setting.neg >> n & 1 != 0 {
                text = format!("-{text}");
            }
            asm += &format!(", {text}");
        }
        asm += if setting.clamp { " clamp" } else { "" };
        asm += ["", " mul:2", " mul:4", " div:2"][setting.omod];
        let (setting, operands) = (*setting, operands.to_vec());
        let sources = self.sources.clone();
        let setup = move |machine: &mut Machine| {
            for (n, &kind) in sources.iter().enumerate() {
                let at = if n >= given { dst } else { FIRST + 4 * n };
                for lane in 0..64 {
                    let value = sample(kind, n, lane, setting.batch);
                    machine.wave.v[at][lane] = value as u32;
                    if kind.width() == 64 {
                        machine.wave.v[at + 1][lane] = (value >> 32) as u32;
                    }
                }
            }
            machine.wave.set_exec(setting.exec);
            machine.wave.set_mode(setting.register);
        };
        Case::new(asm, setup, move |before, after| spec.check(&operands, &setting, given, dst, before, after))
    }

    fn check(
        &self,
        operands: &[Operand],
        setting: &Setting,
        given: usize,
        dst: usize,
        before: &Machine,
        after: &Machine,
    ) -> Result<(), String> {
        let wide = self.result.width() == 64;
        let read = |machine: &Machine, at: usize, lane: usize, kind: Kind| {
            if kind.width() == 64 { machine.v64(at, lane) } else { u64::from(machine.v(at)[lane]) & kind.mask() }
        };
        for lane in 0..64 {
            let whole = if wide { B64 } else { B32 };
            let (old, got) = (read(before, dst, lane, whole), read(after, dst, lane, whole));
            if setting.exec >> lane & 1 == 0 {
                if got != old {
                    return Err(format!("lane {lane} is off but changed from {old:x} to {got:x}"));
                }
                continue;
            }
            let mut source = [0; 3];
            for (n, &kind) in self.sources.iter().enumerate() {
                let at = if n >= given { dst } else { FIRST + 4 * n };
                let raw = match operands.get(n).filter(|_| n < given) {
                    Some(operand) if *operand != Operand::Vector => operand.value(kind, before),
                    _ => read(before, at, lane, kind),
                };
                let signs = if n < given { *setting } else { Setting { neg: 0, abs: 0, ..*setting } };
                source[n] = signs.modified(raw & kind.mask(), kind, n);
            }
            let expected = (self.oracle)(source, setting.register);
            let width = self.result.width();
            if width == 16 {
                let rest = if self.keeps_high { old & 0xFFFF_0000 } else { 0 };
                if got & 0xFFFF_0000 != rest {
                    return Err(format!("lane {lane}: upper half of {got:x} after {old:x}"));
                }
            }
            let got = got & self.result.mask();
            if !self.agrees(got, expected, setting, source) {
                return Err(format!(
                    "lane {lane}: {source:x?} in mode {:x} gave {got:x}, expected {expected:x?} with {setting:?}",
                    setting.register
                ));
            }
        }
        Ok(())
    }

    fn agrees(&self, got: u64, expected: Want, setting: &Setting, source: [u64; 3]) -> bool {
        let Kind::Float(format) = self.result else {
            return matches!(expected, Want::Bits(want) if want & self.result.mask() == got);
        };
        let clamps_nan = setting.clamp && setting.register & mode::DX10_CLAMP != 0;
        match expected {
            Want::Bits(want) => setting.finished(want, format) == got,
            Want::SourceNan if clamps_nan => got == 0,
            Want::SourceNan => {
                let quiet = |(n, &bits): (usize, &u64)| match self.sources.get(n) {
                    Some(Kind::Float(f)) if f.is_nan(bits) => Some(f.convert(bits, format, NEAREST)),
                    _ => None,
                };
                source.iter().enumerate().filter_map(quiet).any(|nan| nan == got)
            }
            Want::Near(want, units) => {
                let want = setting.finished(want, format);
                let ends = [want, got].map(|bits| format.is_nan(bits) || format.is_infinite(bits) || bits << 1 == 0);
                want == got || !ends.contains(&true) && want.abs_diff(got) <= units
            }
        }
    }
}

const FIRST: usize = 20;
const DST: usize = 10;

/// Where a source comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Vector,
    One,
    Minus4,
    Pi,
    Scalar,
    Literal,
}

const LITERAL: u32 = 0x3F9D_F3B6;

impl Operand {
    fn text(self, kind: Kind, register: String) -> String {
        match self {
            Self::Vector => register,
            Self::One => "1.0".into(),
            Self::Minus4 => "-4".into(),
            Self::Pi if kind == D => "0.15915494309189532".into(),
            Self::Pi => "0.15915494".into(),
            Self::Scalar if kind.width() == 64 => "s[6:7]".into(),
            Self::Scalar => "s6".into(),
            Self::Literal if kind.width() == 16 => format!("{:#x}", LITERAL & 0xFFFF),
            Self::Literal => format!("{LITERAL:#x}"),
        }
    }

    fn value(self, kind: Kind, machine: &Machine) -> u64 {
        match self {
            Self::Vector => 0,
            Self::One => [0x3C00, 0x3F80_0000, 0x3FF0 << 48][kind.width() as usize / 32],
            Self::Minus4 => -4_i64 as u64,
            Self::Pi => [0x3118, 0x3E22_F983, 0x3FC4_5F30_6DC9_C882][kind.width() as usize / 32],
            Self::Scalar => u64::from(machine.wave.s[6]) | u64::from(machine.wave.s[7]) << 32,
            Self::Literal => LITERAL.into(),
        }
    }
}

/// State and modifiers of a case.
#[derive(Clone, Copy, Debug)]
struct Setting {
    exec: u64,
    register: u32,
    batch: usize,
    neg: u32,
    abs: u32,
    omod: usize,
    clamp: bool,
    alias: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self { exec: !0, register: mode::USUAL, batch: 0, neg: 0, abs: 0, omod: 0, clamp: false, alias: false }
    }
}

impl Setting {
    fn denormals(&self, format: Format) -> u32 {
        if format == F32 { self.register >> 4 & 3 } else { self.register >> 6 & 3 }
    }

    fn flushed(bits: u64, format: Format) -> u64 {
        if bits & format.infinity() == 0 { bits & format.sign() } else { bits }
    }

    /// A source after sign modifiers and flushing.
    fn modified(&self, bits: u64, kind: Kind, n: usize) -> u64 {
        let Kind::Float(format) = kind else { return bits };
        let bits = if self.abs >> n & 1 != 0 { bits & !format.sign() } else { bits };
        let bits = if self.neg >> n & 1 != 0 { bits ^ format.sign() } else { bits };
        if self.denormals(format) & 1 == 0 { Self::flushed(bits, format) } else { bits }
    }

    /// A result after flushing, output modifier and clamp.
    fn finished(&self, bits: u64, format: Format) -> u64 {
        let keeps = self.denormals(format) & 2 != 0;
        let mut bits = if keeps { bits } else { Self::flushed(bits, format) };
        let applies = self.omod != 0 && self.register & mode::IEEE == 0 && !keeps;
        if applies && format.is_nan(bits) {
            bits |= format.quiet();
        } else if applies {
            let power = [0, 1, 2, -1][self.omod];
            bits = format.fma(bits, one_of(format), bits & format.sign(), power, rule(format, self.register));
            bits = Self::flushed(bits, format);
            bits = if bits << (65 - format.total) == 0 { 0 } else { bits };
        }
        if !self.clamp {
            return bits;
        }
        if format.is_nan(bits) {
            return if self.register & mode::DX10_CLAMP != 0 { 0 } else { bits };
        }
        if bits & format.sign() != 0 { 0 } else { bits.min(one_of(format)) }
    }
}

fn one_of(format: Format) -> u64 {
    [0x3C00, 0x3F80_0000, 0x3FF0 << 48][format.total as usize / 32]
}

/// A value for a lane: numbers at the edges first, then random ones.
pub(crate) fn sample(kind: Kind, n: usize, lane: usize, batch: usize) -> u64 {
    let mut seed =
        (lane as u64 + 64 * batch as u64 + 1024 * n as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    seed ^= seed >> 29;
    seed = seed.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    seed ^= seed >> 32;
    let Kind::Float(format) = kind else {
        let small = seed >> 8 & 0x7F;
        return match lane % 4 {
            0 => small.wrapping_sub(64),
            1 => [0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF][seed as usize >> 5 & 7],
            _ => seed,
        };
    };
    let (sign, one, infinity) = (format.sign(), one_of(format), format.infinity());
    let edges = [
        0,
        1,
        2,
        format.quiet(),
        (1 << format.fraction) - 1,
        1 << format.fraction,
        (1 << format.fraction) + 1,
        one - 1,
        one,
        one + 1,
        one + format.quiet(),
        infinity - 1,
        infinity,
        infinity | 1,
        infinity | format.quiet() | 5,
        one - (1 << format.fraction),
        one + (2 << format.fraction) - 1,
        infinity - (1 << format.fraction),
    ];
    let signed = |bits: u64| if seed >> 40 & 1 != 0 { bits | sign } else { bits };
    match (lane + n) % 3 {
        // Every pair of edges comes up: the sources walk at different speeds.
        0 => signed(edges[(lane / 3 + batch * 7 + n * (lane / 6 + batch)) % edges.len()]),
        // Near one, so that sums and products are interesting.
        1 => {
            let near = (seed >> 20) % 20;
            let exponent = (one >> format.fraction) + near - 10;
            signed(exponent << format.fraction | seed & ((1 << format.fraction) - 1))
        }
        _ => seed & kind.mask(),
    }
}
