//! The mnemonics of all opcodes, implemented or not, and which of them have a test.
//!
//! The lists are what llvm-mc 19 knows: every opcode of every encoding is disassembled for `-mcpu=gfx942` and
//! `-mcpu=gfx90a` (`tests/isa/opcodes.rs`, which also writes them).

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use crate::inst::{Encoding, Target};

/// Every opcode, and those with a test.
fn lists(target: Target) -> (&'static str, &'static str) {
    match target {
        Target::Gfx90a => (include_str!("../opcodes/gfx90a.txt"), include_str!("../opcodes/gfx90a-tested.txt")),
        Target::Gfx942 => (include_str!("../opcodes/gfx942.txt"), include_str!("../opcodes/gfx942-tested.txt")),
    }
}

fn entries(list: &'static str) -> impl Iterator<Item = (Encoding, u16, &'static str)> {
    list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let encoding = Encoding::ALL.into_iter().find(|e| e.name() == name)?;
        Some((encoding, words.next()?.parse().ok()?, words.next()?))
    })
}

/// Every (encoding, opcode, mnemonic) of a target.
pub fn all(target: Target) -> impl Iterator<Item = (Encoding, u16, &'static str)> {
    entries(lists(target).0)
}

/// The mnemonic of an opcode.
pub fn mnemonic(encoding: Encoding, opcode: u16, target: Target) -> Option<&'static str> {
    static NAMES: [OnceLock<HashMap<(Encoding, u16), &'static str>>; 2] = [const { OnceLock::new() }; 2];
    let names = NAMES[target as usize].get_or_init(|| all(target).map(|(e, o, n)| ((e, o), n)).collect());
    names.get(&(encoding, opcode)).copied()
}

/// Whether a passing test names the opcode. The lists are written, and checked, by those tests.
pub fn is_tested(encoding: Encoding, opcode: u16, target: Target) -> bool {
    static SETS: [OnceLock<HashSet<(Encoding, u16)>>; 2] = [const { OnceLock::new() }; 2];
    let set = SETS[target as usize].get_or_init(|| entries(lists(target).1).map(|(e, o, _)| (e, o)).collect());
    set.contains(&(encoding, opcode))
}
