//! All operations, found by encoding and opcode.

use std::sync::OnceLock;

use crate::exec;
use crate::inst::{Encoding, Handler, Op, Target};

struct Table {
    /// Position by encoding and opcode. Numbers are unique per target.
    by_code: Vec<[Vec<Option<&'static Op>>; 2]>,
    all: Vec<&'static Op>,
    wide: bool,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut by_code: Vec<[Vec<Option<&'static Op>>; 2]> =
            Encoding::ALL.iter().map(|_| [vec![None; 1024], vec![None; 1024]]).collect();
        let mut all = Vec::new();
        for op in exec::families().into_iter().flatten() {
            for (encoding, opcode) in [Some((op.encoding, op.opcode)), promoted(op)].into_iter().flatten() {
                for &target in op.targets {
                    by_code[encoding as usize][target as usize][usize::from(opcode)] = Some(op);
                }
            }
            all.push(op);
        }
        Table { by_code, all, wide: cpu_is_wide() }
    })
}

/// The VOP3 form of a VOP1, VOP2 or VOPC operation, which almost all of them have.
fn promoted(op: &Op) -> Option<(Encoding, u16)> {
    // v_readfirstlane_b32, v_swap_b32, v_accvgpr_mov_b32; v_pk_fmac_f16
    let short = match op.encoding {
        Encoding::Vop1 => matches!(op.opcode, 2 | 81 | 82),
        Encoding::Vop2 => op.opcode == 60 || has_literal(op),
        _ => false,
    };
    if short {
        return None;
    }
    match op.encoding {
        Encoding::Vopc => Some((Encoding::Vop3, op.opcode)),
        Encoding::Vop2 => Some((Encoding::Vop3, 0x100 + op.opcode)),
        Encoding::Vop1 => Some((Encoding::Vop3, 0x140 + op.opcode)),
        _ => None,
    }
}

#[cfg(target_arch = "x86_64")]
fn cpu_is_wide() -> bool {
    std::env::var_os("VGPU_PORTABLE").is_none()
        && std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("fma")
        && std::is_x86_feature_detected!("f16c")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("lzcnt")
        && std::is_x86_feature_detected!("popcnt")
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu_is_wide() -> bool {
    false
}

/// Returns whether this CPU can run the handlers for wide vectors.
pub fn is_wide() -> bool {
    table().wide
}

/// Returns the operation of an opcode, if it is implemented.
pub fn find(encoding: Encoding, opcode: u16, target: Target) -> Option<&'static Op> {
    *table().by_code[encoding as usize][target as usize].get(usize::from(opcode))?
}

/// Returns the handler for this CPU, of instructions without modifiers or of those with some.
pub fn handler(op: &Op, is_plain: bool) -> Handler {
    let [portable, wide] = op.modified.filter(|_| !is_plain).unwrap_or([op.portable, op.wide]);
    if table().wide { wide } else { portable }
}

/// All implemented operations; VOP3 forms of VOP1, VOP2 and VOPC operations are not listed again.
pub fn all() -> &'static [&'static Op] {
    &table().all
}

/// Whether a VOP3 operation has the encoding with a second, scalar destination.
pub(crate) fn has_scalar_destination(op: &Op) -> bool {
    const VOP2_CARRY: std::ops::RangeInclusive<u16> = 0x19..=0x1E;
    match op.encoding {
        Encoding::Vop2 => VOP2_CARRY.contains(&op.opcode),
        // v_div_scale_f32, v_div_scale_f64, v_mad_u64_u32, v_mad_i64_i32
        Encoding::Vop3 => matches!(op.opcode, 0x1E0 | 0x1E1 | 0x1E8 | 0x1E9),
        _ => false,
    }
}

/// Whether an operation always carries a literal: the fused and unfused multiply-adds with constant, s_setreg_imm32.
pub(crate) fn has_literal(op: &Op) -> bool {
    match op.encoding {
        Encoding::Vop2 => matches!(op.opcode, 0x17 | 0x18 | 0x24 | 0x25),
        Encoding::Sopk => op.opcode == 20,
        _ => false,
    }
}
