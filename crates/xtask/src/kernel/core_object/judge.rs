//! Whether an object is fit for a kernel.

use std::collections::BTreeSet;
use std::fmt;

use object::elf;
use serde::Serialize;

use super::facts::Facts;

/// Most bytes of stack that a function may take: a kernel has 16 KiB for all of a call.
const LARGEST_FRAME: u64 = 1024;
/// Functions that the kernel has for compilers.
const PROVIDED: &[&str] = &["memcpy", "memset", "memmove", "memcmp", "bcmp", "__x86_return_thunk"];
const INDIRECT_THUNK: &str = "__x86_indirect_thunk_";
/// Relocations that the loader of modules knows.
const KNOWN: &[(u32, &str)] = &[
    (elf::R_X86_64_64.0, "64"),
    (elf::R_X86_64_32S.0, "32S"),
    (elf::R_X86_64_32.0, "32"),
    (elf::R_X86_64_PC32.0, "PC32"),
    (elf::R_X86_64_PLT32.0, "PLT32"),
];
/// Findings that a line repeats.
const MOST_FINDINGS: usize = 5;

/// One property.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) what: &'static str,
    pub(super) passed: bool,
    /// What was counted, or what is wrong.
    pub(super) found: String,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6} {}: {}", if self.passed { "ok" } else { "FAILED" }, self.what, self.found)
    }
}

/// Passes if nothing is wrong, and says what was counted then.
fn check(what: &'static str, wrong: &[String], counted: String) -> Check {
    let passed = wrong.is_empty();
    let mut found =
        if passed { counted } else { wrong.iter().take(MOST_FINDINGS).cloned().collect::<Vec<_>>().join(", ") };
    if wrong.len() > MOST_FINDINGS {
        found += &format!(" and {} more", wrong.len() - MOST_FINDINGS);
    }
    Check { what, passed, found }
}

/// Judges an object that is to export these functions.
pub(super) fn judge(facts: &Facts, functions: &[String]) -> Vec<Check> {
    let unknown: Vec<String> = facts.undefined.iter().filter(|name| !is_provided(name)).cloned().collect();
    let known = |kind: &u32| KNOWN.iter().any(|(known, _)| known == kind);
    let strange: Vec<String> =
        facts.relocations.keys().filter(|kind| !known(kind)).map(|kind| format!("type {kind}")).collect();
    let relocations: Vec<String> = KNOWN
        .iter()
        .filter_map(|(kind, name)| facts.relocations.get(kind).map(|count| format!("{count} of {name}")))
        .collect();
    let wanted: BTreeSet<String> = functions.iter().cloned().collect();
    let too_many = facts.exported.difference(&wanted).map(|name| format!("{name} is not in the header"));
    let too_few = wanted.difference(&facts.exported).map(|name| format!("{name} is missing"));
    let exports: Vec<String> = too_many.chain(too_few).collect();
    let mut large: Vec<String> = facts
        .frames
        .iter()
        .filter(|(_, bytes)| *bytes > LARGEST_FRAME)
        .map(|(name, bytes)| format!("{name} takes {bytes}"))
        .collect();
    if facts.frames.is_empty() {
        large.push("no frame is known".to_owned());
    }
    let largest = facts.frames.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    let writable: Vec<String> = facts.writable.iter().cloned().collect();
    vec![
        check("no floating point and vector registers", &facts.floating, "none".to_owned()),
        check("returns and indirect jumps by the kernel's thunks", &facts.unguarded, "all".to_owned()),
        check(
            "uses only what the kernel has",
            &unknown,
            facts.undefined.iter().cloned().collect::<Vec<_>>().join(", "),
        ),
        check("relocations that the module loader knows", &strange, relocations.join(", ")),
        check("exports what its header declares", &exports, format!("{} functions", facts.exported.len())),
        check("no writable data", &writable, "none".to_owned()),
        check("frames of at most 1 KiB", &large, format!("{} functions, {largest} bytes at most", facts.frames.len())),
    ]
}

fn is_provided(name: &str) -> bool {
    PROVIDED.contains(&name) || name.starts_with(INDIRECT_THUNK)
}

/// Returns the names of the functions that a header declares.
pub(super) fn functions(header: &str) -> Vec<String> {
    let mut code = String::new();
    for (index, part) in header.split("/*").enumerate() {
        code += if index == 0 { part } else { part.split_once("*/").map_or("", |(_, rest)| rest) };
    }
    let calls = code.match_indices('(').filter_map(|(at, _)| {
        let before = &code[..at];
        let start =
            before.rfind(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').map_or(0, |at| at + 1);
        let name = &before[start..];
        ["gpc_", "gpcx_"].iter().any(|prefix| name.starts_with(prefix)).then(|| name.to_owned())
    });
    let mut names: Vec<String> = calls.collect();
    names.sort();
    names
}
