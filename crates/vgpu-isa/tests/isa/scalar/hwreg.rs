//! s_getreg and s_setreg of every hardware register.

use vgpu_isa::inst::Flow;
use vgpu_isa::wave::{VCC, Wave, mode, status};

use super::only_next;
use crate::harness::{Case, same};

/// A wave with something to read in every register.
fn prepare(wave: &mut Wave) {
    wave.set_mode(0xE784_F3A5);
    wave.status = status::VALID | status::IN_TG | 1 << 20;
    wave.scc = true;
    wave.set_s64(VCC, 0);
    wave.trapsts = 0x8000_0155;
    wave.hw_id = 0x1234_5678;
    wave.xcc_id = 5;
    wave.vgprs = 84;
    wave.agprs = 36;
    wave.sgprs = 96;
    wave.lds_size = 0x3000;
}

/// What the registers hold then, by the manuals' fields.
const VALUES: &[(u32, u32)] = &[
    (1, 0xE784_F3A5),
    // COND_DBG_USER, VALID, IN_TG, VCCZ, SCC; EXEC is not zero.
    (2, 1 << 20 | 1 << 16 | 1 << 11 | 1 << 10 | 1),
    (3, 0x8000_0155),
    (4, 0x1234_5678),
    // 120 vector registers are fifteen blocks of eight, 84 are twenty-one of four, 96 scalar ones six of sixteen.
    (5, 14 << 6 | 20 << 12 | 5 << 24),
    // 0x3000 bytes are forty-eight times 256.
    (6, 48 << 12),
    (7, 0),
    // Private memory at 2 << 48, LDS at 1 << 48.
    (15, 0x0001_0002),
    (16, 0),
    (17, 0),
    (18, 0),
    (19, 0),
    (20, 5),
    (21, 0),
    (22, 0),
    (23, 0),
    (24, 0),
    (63, 0),
];

fn reads() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(id, value) in VALUES {
        for (offset, size) in [(0_u32, 32_u32), (0, 1), (16, 16), (8, 9), (31, 1), (31, 32), (12, 20)] {
            cases.push(Case::new(
                format!("s_getreg_b32 s7, hwreg({id}, {offset}, {size})"),
                |m| prepare(&mut m.wave),
                move |before, after| {
                    let want = (u64::from(value) / (1 << offset)) % (1 << size);
                    only_next(before, after, &[(7, want as u32)], true)
                },
            ));
        }
    }
    cases.push(Case::new(
        "s_getreg_b32 s7, hwreg(2, 0, 32)",
        |m| m.wave.set_exec(0),
        |before, after| only_next(before, after, &[(7, status::VALID | status::EXECZ)], false),
    ));
    cases
}

/// A write of `value` to the field, and the bits of the register that a program may change.
fn write(id: u32, (offset, size): (u32, u32), value: u32, writable: u32, privileged: bool) -> [Case; 2] {
    let expected = move |old: u32| {
        let mut new = old;
        for n in 0..size.min(32 - offset) {
            let bit = 1 << (offset + n);
            if writable & bit != 0 {
                new = new & !bit | if value >> n & 1 == 1 { bit } else { 0 };
            }
        }
        new
    };
    let case = |asm: String| {
        Case::new(
            asm,
            move |m| {
                prepare(&mut m.wave);
                m.wave.s[7] = value;
                if privileged {
                    m.wave.status |= status::PRIV;
                }
            },
            move |before, after| {
                let old = &before.wave;
                let changed = |register: u32, old: u32| if register == id { expected(old) } else { old };
                let new_mode = changed(1, old.mode());
                same("mode", after.wave.mode(), new_mode)?;
                same("status", after.wave.status_register(), changed(2, old.status_register()))?;
                same("trapsts", after.wave.trapsts, changed(3, old.trapsts))?;
                same("hw_id", after.wave.hw_id, old.hw_id)?;
                same("registers", after.wave.s, old.s)?;
                // Instructions that follow are skipped, or executed one by one, from the next on.
                let is_read_again = (new_mode ^ old.mode()) & (mode::VSKIP | mode::DEBUG_EN) != 0;
                same("flow", after.flow, if is_read_again { Flow::Jump } else { Flow::Next })
            },
        )
    };
    [
        case(format!("s_setreg_b32 hwreg({id}, {offset}, {size}), s7")),
        case(format!("s_setreg_imm32_b32 hwreg({id}, {offset}, {size}), {value:#x}")),
    ]
}

fn writes() -> Vec<Case> {
    const MODE: u32 = 0xFF9F_FFFF;
    const NOT_STATUS: u32 = status::EXECZ | status::VCCZ | status::PRIV | status::VALID;
    let mut cases = Vec::new();
    for field in [(0, 32), (0, 4), (4, 4), (9, 1), (27, 1), (28, 1), (29, 3), (20, 32)] {
        for value in [0_u32, 0xFFFF_FFFF, 0xA5C3_0F96] {
            cases.extend(write(1, field, value, MODE, false));
            cases.extend(write(2, field, value, 0, false));
            cases.extend(write(2, field, value, !NOT_STATUS, true));
            cases.extend(write(3, field, value, 0x7F, false));
            cases.extend(write(3, field, value, !0, true));
            for id in [4, 5, 6, 7, 15, 16, 20, 63] {
                cases.extend(write(id, field, value, 0, false));
            }
        }
    }
    cases
}

/// The float mode decides how vector operations work: setting it must reach them.
fn mode_reaches_vector_operations() -> Case {
    Case::new(
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0xf",
        |_| {},
        |_, after| {
            same("mode", after.wave.mode(), mode::USUAL | 0xF)?;
            same("unusual", after.wave.unusual(), vgpu_isa::wave::unusual::FLOAT)
        },
    )
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = reads();
    cases.extend(writes());
    cases.push(mode_reaches_vector_operations());
    cases
}
