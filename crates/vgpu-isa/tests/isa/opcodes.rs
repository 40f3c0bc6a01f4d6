//! The opcode tables of the targets: what llvm-mc disassembles, and what the interpreter makes of it.

use std::collections::{BTreeMap, BTreeSet};

use vgpu_isa::inst::{Encoding, Target};
use vgpu_isa::{names, table};

use crate::harness::compare;
use crate::llvm_mc;

/// Opcodes that an encoding has room for. Higher ones belong to the encodings beside it.
fn room(encoding: Encoding) -> u32 {
    match encoding {
        Encoding::Sop2 => 0x60,
        Encoding::Sopk => 0x1D,
        Encoding::Vop2 => 0x3E,
        Encoding::Vop3 => 0x380,
        Encoding::Mtbuf => 16,
        Encoding::Sop1 | Encoding::Smem | Encoding::Vop1 | Encoding::Vopc | Encoding::Ds | Encoding::Mimg => 256,
        _ => 128,
    }
}

/// Instructions with an opcode, one of which exists if the opcode does: operands that must be even, zero, scalar,
/// vector, absent, and flags without which some opcodes have no meaning.
fn candidates(encoding: Encoding, op: u32) -> Vec<Vec<u32>> {
    match encoding {
        Encoding::Sop1 => vec![vec![0xBE84_0008 | op << 8], vec![0xBE80_0000 | op << 8], vec![0xBE84_0080 | op << 8]],
        Encoding::Sop2 => vec![vec![0x8004_0C08 | op << 23]],
        Encoding::Sopc => vec![vec![0xBF00_0C08 | op << 16]],
        Encoding::Sopk => with_literal(0xB004_0801 | op << 23),
        Encoding::Sopp => vec![vec![0xBF80_0000 | op << 16], vec![0xBF80_0001 | op << 16]],
        Encoding::Smem => [(2, 8, 0), (2, 0, 0), (0, 8, 0), (2, 8, 16), (0, 0, 0)]
            .map(|(immediate, data, offset)| vec![0xC000_0002 | op << 18 | immediate << 16 | data << 6, offset])
            .to_vec(),
        Encoding::Vop1 => [0x0004_0104, 0x0004_0008, 0].map(|fields| vec![0x7E00_0000 | op << 9 | fields]).to_vec(),
        Encoding::Vop2 => with_literal(0x0004_0D04 | op << 25),
        Encoding::Vopc => vec![vec![0x7C00_0D04 | op << 17]],
        Encoding::Vop3 => vop3(0xD000_0000 | op << 16),
        Encoding::Vop3p => [(0, 0x0422_0D04), (0x4000, 0x1C22_0D04), (0x4000, 0x1802_0D04), (0x4000, 0x1800_0104)]
            .map(|(high, sources)| vec![0xD380_0040 | op << 16 | high, sources])
            .to_vec(),
        Encoding::Ds => [0, 1 << 16]
            .iter()
            .flat_map(|gds| [0x0804_0206, 0x0800_0206, 0x0000_0206, 0x0800_0006, 0].map(|registers| (gds, registers)))
            .map(|(gds, registers)| vec![0xD800_0000 | op << 17 | gds, registers])
            .collect(),
        Encoding::Flat => flat(0xDC00_0000 | op << 18, 0),
        Encoding::Scratch => flat(0xDC00_4000 | op << 18, 0x7F),
        Encoding::Global => flat(0xDC00_8000 | op << 18, 0x7F),
        Encoding::Mubuf => [(0, 0x8002_0400), (1, 0x8002_0400), (1, 0x8002_0000), (0, 0)]
            .map(|(lds, fields)| vec![0xE000_0000 | op << 18 | lds << 16, fields])
            .to_vec(),
        Encoding::Mtbuf => vec![vec![0xE808_0000 | op << 15, 0x8002_0400]],
        Encoding::Mimg => vec![vec![0xF000_0F00 | (op & 0x7F) << 18 | op >> 7, 0x0002_0406]],
    }
}

fn with_literal(word: u32) -> Vec<Vec<u32>> {
    vec![vec![word], vec![word, 0x1234]]
}

fn vop3(word: u32) -> Vec<Vec<u32>> {
    const V: [u32; 3] = [0x104, 0x106, 0x108];
    let sources = [V, [V[0], V[1], 0], [V[0], 0, 0], [V[0], V[1], 4], [0; 3], [4, V[1], 0], [V[0], 4, 0], [4, 6, 0]];
    let scalar = [0, 4 << 8];
    scalar
        .iter()
        .flat_map(|scalar| sources.map(|s| vec![word | scalar | 2, s[0] | s[1] << 9 | s[2] << 18]))
        .chain([vec![word, 0]])
        .collect()
}

fn flat(word: u32, scalar: u32) -> Vec<Vec<u32>> {
    let flags = [0, 1 << 16, 1 << 13];
    let registers = [0x0800_0406, 0x0800_0006, 0x0000_0406, 0x0800_0000, 0x0000_0400, 0];
    flags.iter().flat_map(|flags| registers.map(|r| vec![word | flags, r | scalar << 16])).collect()
}

/// Every opcode that llvm-mc knows.
fn known(target: Target) -> BTreeMap<(&'static str, u32), String> {
    let mut keys = Vec::new();
    let mut pieces = Vec::new();
    for encoding in Encoding::ALL {
        for op in 0..room(encoding) {
            for piece in candidates(encoding, op) {
                keys.push((encoding.name(), op));
                pieces.push(piece);
            }
        }
    }
    let mut known = BTreeMap::new();
    for (key, name) in keys.into_iter().zip(llvm_mc::disassemble(&pieces, target)) {
        if let Some(name) = name {
            let plain = name.trim_end_matches("_e32").trim_end_matches("_e64").to_owned();
            known.entry(key).or_insert(plain);
        }
    }
    known
}

#[test]
#[ignore = "needs llvm-mc-19"]
fn the_opcodes_of_a_target_are_those_of_llvm_mc() {
    for target in Target::ALL {
        let mut text = format!(
            "# encoding opcode mnemonic: every opcode of {0}, from disassembling all of them with llvm-mc 19\n",
            target.name()
        );
        for ((encoding, op), name) in known(target) {
            text += &format!("{encoding} {op} {name}\n");
        }
        let committed = match target {
            Target::Gfx90a => include_str!("../../opcodes/gfx90a.txt"),
            Target::Gfx942 => include_str!("../../opcodes/gfx942.txt"),
        };
        compare(&format!("opcodes/{}.txt", target.name()), committed, &text, "UPDATE_OPCODES");
    }
}

/// What is not executed: images, which gfx90a has and compute kernels do not use.
fn is_left_out(encoding: Encoding) -> bool {
    encoding == Encoding::Mimg
}

#[test]
fn the_interpreter_has_the_opcodes_of_the_target_and_no_others() {
    for target in Target::ALL {
        let listed: BTreeSet<(Encoding, u16, &str)> = names::all(target).collect();
        let executed: BTreeSet<(Encoding, u16, &str)> = Encoding::ALL
            .into_iter()
            .flat_map(|encoding| (0..1024).map(move |op| (encoding, op)))
            .filter_map(|(encoding, op)| Some((encoding, op, table::find(encoding, op, target)?.name)))
            .collect();
        let excess: Vec<_> = executed.difference(&listed).collect();
        assert!(excess.is_empty(), "{} has no such opcodes: {excess:?}", target.name());
        let lacking: Vec<_> = listed.difference(&executed).filter(|(e, ..)| !is_left_out(*e)).collect();
        assert!(lacking.is_empty(), "{} has more opcodes: {lacking:?}", target.name());
    }
}
