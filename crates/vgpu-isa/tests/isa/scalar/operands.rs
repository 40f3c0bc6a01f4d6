//! The kinds of scalar sources.

use super::{get, reg, set, vcc};
use crate::harness::Machine;

/// A source that is not a plain register.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Register(usize),
    Vcc,
    Exec,
    M0,
    Scc,
    ExecIsZero,
    VccIsZero,
    Integer(i64),
    Literal(u32),
    Half,
    MinusFour,
}

/// What stands in VCC, EXEC and M0 when they are sources.
const VCC_VALUE: u64 = 0xF0F0_1234_0000_00F1;
const EXEC_VALUE: u64 = 0x0000_FFFF_8000_0013;
const M0_VALUE: u64 = 0x0001_8025;

impl Source {
    /// Those every instruction is tried with.
    pub(super) const SPECIAL: [Self; 10] = [
        Self::Vcc,
        Self::Exec,
        Self::M0,
        Self::Scc,
        Self::ExecIsZero,
        Self::VccIsZero,
        Self::Integer(-16),
        Self::Integer(64),
        Self::Literal(0x8765_4321),
        Self::Half,
    ];

    /// Some 64-bit sources do not exist.
    pub(super) fn exists(self, bits: u32) -> bool {
        bits == 32 || !matches!(self, Self::M0)
    }

    pub(super) fn text(self, bits: u32) -> String {
        match self {
            Self::Register(first) => reg(first, bits),
            Self::Vcc => vcc(bits).into(),
            Self::Exec if bits == 64 => "exec".into(),
            Self::Exec => "exec_lo".into(),
            Self::M0 => "m0".into(),
            Self::Scc => "src_scc".into(),
            Self::ExecIsZero => "src_execz".into(),
            Self::VccIsZero => "src_vccz".into(),
            Self::Integer(n) => n.to_string(),
            Self::Literal(n) => format!("{n:#x}"),
            Self::Half => "0.5".into(),
            Self::MinusFour => "-4.0".into(),
        }
    }

    pub(super) fn prepare(self, m: &mut Machine) {
        match self {
            Self::Vcc => set(m, 106, 64, VCC_VALUE),
            Self::Exec => set(m, 126, 64, EXEC_VALUE),
            Self::M0 => set(m, 124, 32, M0_VALUE),
            Self::VccIsZero => set(m, 106, 64, 0),
            _ => {}
        }
    }

    /// What the source is worth on a machine that [`Source::prepare`] prepared.
    pub(super) fn value(self, m: &Machine, bits: u32) -> u64 {
        let low = |value: u64| if bits == 64 { value } else { value % (1 << 32) };
        match self {
            Self::Register(first) => get(m, first, bits),
            Self::Vcc => low(VCC_VALUE),
            Self::Exec => low(EXEC_VALUE),
            Self::M0 => M0_VALUE,
            Self::Scc => u64::from(m.wave.scc),
            Self::ExecIsZero => 0,
            Self::VccIsZero => 1,
            Self::Integer(n) => low(i128::from(n).rem_euclid(1 << 64) as u64),
            Self::Literal(n) => u64::from(n),
            Self::Half if bits == 64 => 0.5_f64.to_bits(),
            Self::Half => u64::from(0.5_f32.to_bits()),
            Self::MinusFour if bits == 64 => (-4.0_f64).to_bits(),
            Self::MinusFour => u64::from((-4.0_f32).to_bits()),
        }
    }
}
