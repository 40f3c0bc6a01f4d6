//! The list of opcodes that a passing test names: `gpreempt vgpu isa` reports it.

use std::collections::BTreeSet;

use vgpu_isa::names;

use crate::FAMILIES;

#[test]
fn the_list_of_tested_opcodes_is_current() {
    let tested: BTreeSet<(&str, u16)> =
        FAMILIES.iter().flat_map(crate::harness::Family::results).filter_map(|r| r.clone().ok()).collect();
    let mut text =
        String::from("# encoding opcode mnemonic: opcodes with a passing test; written by UPDATE_TESTED=1\n");
    for (encoding, opcode, name) in names::all() {
        if tested.contains(&(encoding.name(), opcode)) {
            text += &format!("{} {opcode} {name}\n", encoding.name());
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/opcodes/tested.txt");
    if std::env::var_os("UPDATE_TESTED").is_some() {
        std::fs::write(path, text).expect("the list can be written");
    } else {
        let listed: BTreeSet<&str> = include_str!("../../opcodes/tested.txt").lines().collect();
        let found: BTreeSet<&str> = text.lines().collect();
        let differences: Vec<&&str> = listed.symmetric_difference(&found).collect();
        assert!(differences.is_empty(), "write {path} anew with UPDATE_TESTED=1: {differences:?}");
    }
}
