//! The lists of opcodes that a passing test names: `gpreempt vgpu isa` reports them.

use std::collections::BTreeSet;

use vgpu_isa::inst::Target;
use vgpu_isa::names;

use crate::FAMILIES;
use crate::harness::compare;

#[test]
fn the_lists_of_tested_opcodes_are_current() {
    for target in Target::ALL {
        let tested: BTreeSet<(&str, u16)> =
            FAMILIES.iter().flat_map(|family| family.results(target)).filter_map(|r| r.clone().ok()).collect();
        let mut text =
            String::from("# encoding opcode mnemonic: opcodes with a passing test; written by UPDATE_TESTED=1\n");
        for (encoding, opcode, name) in names::all(target) {
            if tested.contains(&(encoding.name(), opcode)) {
                text += &format!("{} {opcode} {name}\n", encoding.name());
            }
        }
        let committed = match target {
            Target::Gfx90a => include_str!("../../opcodes/gfx90a-tested.txt"),
            Target::Gfx942 => include_str!("../../opcodes/gfx942-tested.txt"),
        };
        compare(&format!("opcodes/{}-tested.txt", target.name()), committed, &text, "UPDATE_TESTED");
    }
}
