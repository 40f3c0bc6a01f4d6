//! What an object contains, as far as a kernel cares.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use object::{File, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionKind};

use crate::run::command;

/// What an object contains.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Bytes of code.
    pub(super) text_bytes: u64,
    /// Bytes of everything else that is loaded.
    pub(super) data_bytes: u64,
    /// Symbols that it uses and does not define.
    pub(super) undefined: BTreeSet<String>,
    /// Symbols that others can use.
    pub(super) exported: BTreeSet<String>,
    /// Types of relocations, and how many there are.
    pub(super) relocations: BTreeMap<u32, usize>,
    /// Sections that are loaded and writable.
    pub(super) writable: BTreeSet<String>,
    /// Functions and the bytes of stack that each takes.
    pub(super) frames: Vec<(String, u64)>,
    /// Instructions on registers of the floating point and vector units.
    pub(super) floating: Vec<String>,
    /// Returns and indirect jumps that are no calls of the kernel's thunks.
    pub(super) unguarded: Vec<String>,
}

impl Facts {
    /// Reads an object, and the sizes of stack frames out of `with_frames`, which has the same functions.
    pub(super) fn read(object: &Path, with_frames: &Path) -> Result<Facts> {
        let mut facts = Facts::default();
        let content = read(object)?;
        let file = File::parse(&*content).with_context(|| format!("{} is no object", object.display()))?;
        for symbol in file.symbols() {
            let Ok(name) = symbol.name() else { continue };
            if symbol.is_undefined() && !name.is_empty() {
                facts.undefined.insert(name.to_owned());
            } else if symbol.is_global() && symbol.is_definition() {
                facts.exported.insert(name.to_owned());
            }
        }
        for section in file.sections() {
            match section.kind() {
                SectionKind::Text => facts.text_bytes += section.size(),
                SectionKind::Data | SectionKind::UninitializedData => {
                    facts.data_bytes += section.size();
                    if section.size() > 0 {
                        facts.writable.insert(section.name().unwrap_or("?").to_owned());
                    }
                }
                SectionKind::ReadOnlyData | SectionKind::ReadOnlyString | SectionKind::ReadOnlyDataWithRel => {
                    facts.data_bytes += section.size();
                }
                _ => {}
            }
            for (_, relocation) in section.relocations() {
                let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
                *facts.relocations.entry(r_type.0).or_default() += 1;
            }
        }
        facts.frames = frames(with_frames)?;
        facts.read_instructions(&disassemble(object)?);
        Ok(facts)
    }

    /// Reads the output of `objdump --disassemble --no-show-raw-insn`: an address, a tab and an instruction in a line.
    pub(super) fn read_instructions(&mut self, text: &str) {
        for line in text.lines() {
            let Some((_, instruction)) = line.split_once(":\t") else { continue };
            let instruction = instruction.split(['#', '<']).next().unwrap_or_default().trim();
            let (mnemonic, operands) = instruction.split_once(char::is_whitespace).unwrap_or((instruction, ""));
            if names_vector_register(operands) || is_floating(mnemonic) {
                self.floating.push(instruction.to_owned());
            }
            let is_return = ["ret", "retq", "lret", "iret"].iter().any(|name| mnemonic.starts_with(name));
            let is_indirect = ["call", "jmp"].iter().any(|name| mnemonic.starts_with(name));
            // The disassembler marks the operand of an indirect jump.
            if is_return || is_indirect && operands.trim_start().starts_with('*') {
                self.unguarded.push(instruction.to_owned());
            }
        }
    }
}

/// Returns whether a text in the syntax of AT&T names a register of the floating point or vector units.
fn names_vector_register(operands: &str) -> bool {
    operands.split('%').skip(1).any(|rest| {
        let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
        ["xmm", "ymm", "zmm", "tmm", "mm", "st", "k"].iter().any(|kind| {
            // `%st` alone is the top of the stack.
            name.strip_prefix(kind).is_some_and(|number| number.parse::<u8>().is_ok()) || name == "st"
        })
    })
}

/// Returns whether an instruction without operands is one of the floating point unit: all of them begin with an f.
fn is_floating(mnemonic: &str) -> bool {
    mnemonic.starts_with('f') || matches!(mnemonic, "emms" | "vzeroupper" | "vzeroall" | "ldmxcsr" | "stmxcsr")
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn disassemble(object: &Path) -> Result<String> {
    let mut objdump = command("objdump");
    objdump.args(["--disassemble", "--no-show-raw-insn", "--wide"]).arg(object).env("LC_ALL", "C");
    let output = objdump.output().context("cannot start objdump; install the package binutils")?;
    ensure!(output.status.success(), "objdump cannot read {}", object.display());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the symbols that relocations name.
fn used_symbols<'d>(file: &File<'d>) -> BTreeSet<&'d str> {
    let relocations = file.sections().flat_map(|section| section.relocations());
    let symbols = relocations.filter_map(|(_, relocation)| match relocation.target() {
        RelocationTarget::Symbol(index) => file.symbol_by_index(index).ok(),
        _ => None,
    });
    symbols.filter_map(|symbol| symbol.name().ok()).collect()
}

/// Returns the names of undefined symbols that no relocation of an object uses.
pub(super) fn unused_symbols(object: &Path) -> Result<Vec<String>> {
    let content = read(object)?;
    let file = File::parse(&*content).with_context(|| format!("{} is no object", object.display()))?;
    let used = used_symbols(&file);
    let undefined = file.symbols().filter(ObjectSymbol::is_undefined).filter_map(|symbol| symbol.name().ok());
    Ok(undefined.filter(|name| !name.is_empty() && !used.contains(name)).map(str::to_owned).collect())
}

/// Reads the functions of an object and the bytes of stack that each takes, as the compiler noted them.
fn frames(object: &Path) -> Result<Vec<(String, u64)>> {
    let content = read(object)?;
    let file = File::parse(&*content).with_context(|| format!("{} is no object", object.display()))?;
    let mut names = BTreeMap::new();
    for symbol in file.symbols().filter(ObjectSymbol::is_definition) {
        if let (Some(section), Ok(name)) = (symbol.section_index(), symbol.name()) {
            names.insert((section.0, symbol.address()), name.to_owned());
        }
    }
    let mut frames = Vec::new();
    for section in file.sections().filter(|section| section.name() == Ok(".stack_sizes")) {
        let data = section.data()?;
        // A record is the address of a function, which a relocation fills in, and a number in LEB128.
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
            let symbol = file.symbol_by_index(symbol)?;
            let address = symbol.address().wrapping_add_signed(relocation.addend());
            let name = symbol.section_index().and_then(|home| names.get(&(home.0, address)));
            // An address takes eight bytes.
            let start = usize::try_from(offset)? + 8;
            let bytes = leb128(data.get(start..).unwrap_or_default());
            frames.push((name.cloned().unwrap_or_else(|| format!("{address:#x}")), bytes));
        }
    }
    Ok(frames)
}

/// Reads a number in LEB128 from the start of `bytes`.
fn leb128(bytes: &[u8]) -> u64 {
    let length = bytes.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    bytes.iter().take(length).rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7F))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_leb128_are_read() {
        assert_eq!((leb128(&[0x00]), leb128(&[0x7F, 9]), leb128(&[0xC8, 0x0C, 1])), (0, 127, 1608));
    }

    #[test]
    fn registers_and_jumps_are_found_in_a_disassembly() {
        let mut facts = Facts::default();
        facts.read_instructions(
            "0000000000000000 <f>:\n   0:\tendbr64\n   4:\tmov    %rsp,%rbp\n   7:\tcall   c <xmm0_is_a_name>\n\
             \u{20}  c:\tjmp    11 <__x86_return_thunk>\n  11:\tmovabs $0x4,%rax   # ret\n",
        );
        assert!(facts.floating.is_empty() && facts.unguarded.is_empty(), "{facts:?}");
        facts.read_instructions(
            "   0:\taddps  %xmm1,%xmm0\n   3:\tvmovdqa (%rax),%ymm15\n   7:\tfld1\n   9:\tfaddp  %st,%st(1)\n\
             \u{20}  b:\tret\n   c:\tjmp    *%rax\n   e:\tcall   *0x8(%rdi)\n  11:\tkmovw  %k1,%eax\n",
        );
        assert_eq!(facts.floating.len(), 5, "{facts:?}");
        assert_eq!(facts.unguarded.len(), 3, "{facts:?}");
    }
}
