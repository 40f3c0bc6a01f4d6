//! Decodes dwords into [`Inst`].
//!
//! Source: "AMD Instinct MI300 Instruction Set Architecture", chapter "Microcode Formats"; checked against llvm-mc.

use crate::inst::{Encoding, Form, Inst, Op, Target};
use crate::table;

/// Dwords that are no instruction this device executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Illegal {
    /// Encoding, if the bits name one.
    pub encoding: Option<Encoding>,
    /// Opcode in it.
    pub opcode: u16,
    /// The first two dwords.
    pub words: [u32; 2],
}

/// Longest instruction in dwords.
pub const MAX_DWORDS: usize = 3;

const LITERAL: u16 = 255;
const SDWA: u16 = 249;
const DPP: u16 = 250;

/// Returns the encoding of the first dword, its opcode, and the number of dwords without a literal.
fn classify(words: [u32; 2]) -> Option<(Encoding, u16, u8)> {
    let w = words[0];
    let bits = |low: u32, count: u32| ((w >> low) & ((1 << count) - 1)) as u16;
    let found = match w >> 26 {
        op if op < 0x20 => match bits(25, 6) {
            0x3E => (Encoding::Vopc, bits(17, 8), 1),
            0x3F => (Encoding::Vop1, bits(9, 8), 1),
            op => (Encoding::Vop2, op, 1),
        },
        op if op < 0x30 => match (w >> 23) & 0x1FF {
            0x17D => (Encoding::Sop1, bits(8, 8), 1),
            0x17E => (Encoding::Sopc, bits(16, 7), 1),
            0x17F => (Encoding::Sopp, bits(16, 7), 1),
            _ if w >> 28 == 0xB => (Encoding::Sopk, bits(23, 5), 1),
            _ => (Encoding::Sop2, bits(23, 7), 1),
        },
        0x30 => (Encoding::Smem, bits(18, 8), 2),
        0x34 if bits(23, 3) == 7 => (Encoding::Vop3p, bits(16, 7), 2),
        0x34 => (Encoding::Vop3, bits(16, 10), 2),
        0x36 => (Encoding::Ds, bits(17, 8), 2),
        0x37 => match bits(14, 2) {
            0 => (Encoding::Flat, bits(18, 7), 2),
            1 => (Encoding::Scratch, bits(18, 7), 2),
            2 => (Encoding::Global, bits(18, 7), 2),
            _ => return None,
        },
        0x38 => (Encoding::Mubuf, bits(18, 7), 2),
        0x3A => (Encoding::Mtbuf, bits(15, 4), 2),
        0x3C => (Encoding::Mimg, bits(18, 7) | bits(0, 1) << 7, 2),
        _ => return None,
    };
    Some(found)
}

/// Decodes the instruction at the start of `words`. Missing dwords must be zero.
pub fn decode(words: [u32; MAX_DWORDS], target: Target) -> Result<Inst, Illegal> {
    let pair = [words[0], words[1]];
    let illegal = |encoding, opcode| Illegal { encoding, opcode, words: pair };
    let (encoding, opcode, dwords) = classify(pair).ok_or(illegal(None, 0))?;
    let op = table::find(encoding, opcode, target).ok_or(illegal(Some(encoding), opcode))?;
    let mut inst = Inst {
        handler: table::handler(op, true),
        op,
        words: if dwords == 1 { [words[0], 0] } else { pair },
        literal: words[usize::from(dwords)],
        dst: 0,
        sdst: 0,
        src: [0; 3],
        abs: 0,
        neg: 0,
        op_sel: 0,
        op_sel_hi: 0,
        neg_hi: 0,
        omod: 0,
        clamp: false,
        form: Form::Plain,
        plain: true,
        signed: false,
        size: dwords * 4,
    };
    operands(&mut inst, encoding, op);
    if needs_literal(&inst, encoding, op) {
        inst.size += 4;
    } else {
        inst.literal = 0;
    }
    if !extend(&mut inst, encoding) {
        return Err(illegal(Some(encoding), opcode));
    }
    inst.handler = table::handler(op, inst.plain);
    Ok(inst)
}

fn operands(inst: &mut Inst, encoding: Encoding, op: &Op) {
    let [w, x] = inst.words;
    let bits = |word: u32, low: u32, count: u32| ((word >> low) & ((1 << count) - 1)) as u16;
    match encoding {
        Encoding::Sop1 => {
            inst.dst = bits(w, 16, 7);
            inst.src[0] = bits(w, 0, 8);
        }
        Encoding::Sop2 => {
            inst.dst = bits(w, 16, 7);
            inst.src = [bits(w, 0, 8), bits(w, 8, 8), 0];
        }
        Encoding::Sopc => inst.src = [bits(w, 0, 8), bits(w, 8, 8), 0],
        Encoding::Sopk => inst.dst = bits(w, 16, 7),
        Encoding::Sopp
        | Encoding::Smem
        | Encoding::Ds
        | Encoding::Flat
        | Encoding::Global
        | Encoding::Scratch
        | Encoding::Mubuf
        | Encoding::Mtbuf
        | Encoding::Mimg => {}
        Encoding::Vop1 => {
            inst.dst = bits(w, 17, 8);
            inst.src[0] = bits(w, 0, 9);
        }
        Encoding::Vop2 => {
            inst.dst = bits(w, 17, 8);
            inst.sdst = crate::wave::VCC as u16;
            inst.src = [bits(w, 0, 9), 256 + bits(w, 9, 8), crate::wave::VCC as u16];
        }
        Encoding::Vopc => {
            inst.sdst = crate::wave::VCC as u16;
            inst.src = [bits(w, 0, 9), 256 + bits(w, 9, 8), 0];
        }
        Encoding::Vop3 => {
            inst.dst = bits(w, 0, 8);
            inst.src = [bits(x, 0, 9), bits(x, 9, 9), bits(x, 18, 9)];
            inst.omod = bits(x, 27, 2) as u8;
            inst.neg = bits(x, 29, 3) as u8;
            inst.clamp = w & 0x8000 != 0;
            if table::has_scalar_destination(op) {
                inst.sdst = bits(w, 8, 7);
            } else {
                // Comparisons name their scalar destination where others name a vector register.
                inst.sdst = bits(w, 0, 7);
                inst.abs = bits(w, 8, 3) as u8;
                inst.op_sel = bits(w, 11, 4) as u8;
            }
            let (signs, others) = (inst.neg | inst.abs != 0, inst.op_sel | inst.omod != 0 || inst.clamp);
            inst.plain = !signs && !others;
            inst.signed = signs && !others;
        }
        Encoding::Vop3p => {
            inst.dst = bits(w, 0, 8);
            inst.src = [bits(x, 0, 9), bits(x, 9, 9), bits(x, 18, 9)];
            inst.neg_hi = bits(w, 8, 3) as u8;
            inst.op_sel = bits(w, 11, 3) as u8;
            inst.op_sel_hi = (bits(x, 27, 2) | bits(w, 14, 1) << 2) as u8;
            inst.neg = bits(x, 29, 3) as u8;
            inst.clamp = w & 0x8000 != 0;
        }
    }
}

fn needs_literal(inst: &Inst, encoding: Encoding, op: &Op) -> bool {
    match encoding {
        Encoding::Sop1 => inst.src[0] == LITERAL,
        Encoding::Sop2 | Encoding::Sopc => inst.src[0] == LITERAL || inst.src[1] == LITERAL,
        Encoding::Sopk => table::has_literal(op),
        Encoding::Vop2 => matches!(inst.src[0], LITERAL | SDWA | DPP) || table::has_literal(op),
        Encoding::Vop1 | Encoding::Vopc => matches!(inst.src[0], LITERAL | SDWA | DPP),
        _ => false,
    }
}

/// Decodes the DPP or SDWA dword; returns false if the combination does not exist.
fn extend(inst: &mut Inst, encoding: Encoding) -> bool {
    if !matches!(encoding, Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc) {
        return !matches!(encoding, Encoding::Vop3 | Encoding::Vop3p)
            || !inst.src.iter().any(|&s| matches!(s, LITERAL | SDWA | DPP));
    }
    let x = inst.literal;
    let bit = |low: u32| ((x >> low) & 1) as u8;
    match inst.src[0] {
        DPP => {
            inst.form = Form::Dpp;
            inst.src[0] = 256 + (x & 0xFF) as u16;
            inst.neg = bit(20) | bit(22) << 1;
            inst.abs = bit(21) | bit(23) << 1;
            inst.plain = false;
            true
        }
        SDWA => {
            inst.form = Form::Sdwa;
            let vector = |scalar: u8| if scalar == 0 { 256 } else { 0 };
            inst.src[0] = (x & 0xFF) as u16 + vector(bit(23));
            if encoding != Encoding::Vop1 {
                inst.src[1] = (inst.src[1] & 0xFF) + vector(bit(31));
            }
            inst.neg = bit(20) | bit(28) << 1;
            inst.abs = bit(21) | bit(29) << 1;
            inst.plain = false;
            if encoding == Encoding::Vopc {
                if x & 0x8000 != 0 {
                    inst.sdst = ((x >> 8) & 0x7F) as u16;
                }
            } else {
                inst.clamp = x & 0x2000 != 0;
                inst.omod = ((x >> 14) & 3) as u8;
            }
            true
        }
        _ => true,
    }
}
