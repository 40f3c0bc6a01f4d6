//! The mnemonics of all opcodes, implemented or not, and which of them have a test.
//!
//! The list was made by disassembling every opcode of every encoding with llvm-mc 19 (`-mcpu=gfx942`).

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use crate::inst::Encoding;

static LIST: &str = include_str!("../opcodes/gfx942.txt");
static TESTED: &str = include_str!("../opcodes/tested.txt");

fn entries(list: &'static str) -> impl Iterator<Item = (Encoding, u16, &'static str)> {
    list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let encoding = Encoding::ALL.into_iter().find(|e| e.name() == name)?;
        Some((encoding, words.next()?.parse().ok()?, words.next()?))
    })
}

/// Every (encoding, opcode, mnemonic) of gfx942.
pub fn all() -> impl Iterator<Item = (Encoding, u16, &'static str)> {
    entries(LIST)
}

/// The mnemonic of an opcode.
pub fn mnemonic(encoding: Encoding, opcode: u16) -> Option<&'static str> {
    static NAMES: OnceLock<HashMap<(Encoding, u16), &'static str>> = OnceLock::new();
    NAMES.get_or_init(|| all().map(|(e, o, n)| ((e, o), n)).collect()).get(&(encoding, opcode)).copied()
}

/// Whether a passing test names the opcode. The list is written, and checked, by those tests.
pub fn is_tested(encoding: Encoding, opcode: u16) -> bool {
    static SET: OnceLock<HashSet<(Encoding, u16)>> = OnceLock::new();
    SET.get_or_init(|| entries(TESTED).map(|(e, o, _)| (e, o)).collect()).contains(&(encoding, opcode))
}
