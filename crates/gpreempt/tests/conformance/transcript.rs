//! The virtual driver answers the calls of the suite as amdkfd does: a transcript of amdkfd is kept and compared.

use std::collections::BTreeMap;

use super::{gpreempt, on_vgpu};

/// The transcript of amdkfd, recorded in a virtual machine.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kfd-conformance/transcripts/amdkfd-6.12.txt");
/// How it is recorded.
const HOW: &str = "cargo xtask kernel test --scenario conformance && mkdir -p crates/kfd-conformance/transcripts && \
                   cp target/kernel/logs/conformance.transcript crates/kfd-conformance/transcripts/amdkfd-6.12.txt";

/// Rules whose calls differ, each with the reason. A rule that no longer differs has to leave the list.
const KNOWN: &[(&str, &str)] = &[];

/// Sorts lines by the rule that they begin with.
fn by_rule(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut rules: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines() {
        rules.entry(line.split(' ').next().unwrap_or_default()).or_default().push(line);
    }
    rules
}

/// Returns the first lines in which the parts of a rule differ: amdkfd's and the virtual driver's.
fn difference<'t>(amdkfd: &[&'t str], vgpu: &[&'t str]) -> Option<(Option<&'t str>, Option<&'t str>)> {
    let at = (0..amdkfd.len().max(vgpu.len())).find(|at| amdkfd.get(*at) != vgpu.get(*at))?;
    Some((amdkfd.get(at).copied(), vgpu.get(at).copied()))
}

/// Returns in words where two transcripts differ, rule by rule, except as is known.
fn differences(amdkfd: &str, vgpu: &str, known: &[(&str, &str)]) -> Vec<String> {
    let (amdkfd, vgpu) = (by_rule(amdkfd), by_rule(vgpu));
    let mut found = Vec::new();
    for (rule, lines) in &vgpu {
        let is_known = known.iter().any(|(known, _)| known == rule);
        match difference(amdkfd.get(rule).map_or(&[][..], |lines| lines), lines) {
            Some((real, ours)) if !is_known => {
                let [real, ours] = [real, ours].map(|line| line.unwrap_or("nothing more"));
                found.push(format!("{rule}: amdkfd: {real}; virtual driver: {ours}"));
            }
            None if is_known => found.push(format!("{rule}: no longer differs, though it is listed")),
            _ => {}
        }
    }
    let missing = amdkfd.keys().filter(|rule| !vgpu.contains_key(*rule));
    found.extend(missing.map(|rule| format!("{rule}: not in the virtual driver's transcript")));
    found
}

fn transcript() -> String {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("transcript");
    let output = on_vgpu(&[], &["--transcript", &path.to_string_lossy()]);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text.lines().count() > 1000, "{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn the_virtual_driver_answers_call_by_call_as_amdkfd_did() {
    let recorded =
        std::fs::read_to_string(RECORDED).unwrap_or_else(|error| panic!("{RECORDED}: {error}; record it with\n{HOW}"));
    let found = differences(&recorded, &transcript(), KNOWN);
    assert!(found.is_empty(), "{} rules differ:\n{}", found.len(), found.join("\n"));
}

#[test]
#[ignore = "it takes half a minute; `cargo xtask test` runs it"]
fn two_runs_have_the_same_transcript() {
    assert_eq!(differences(&transcript(), &transcript(), &[]), Vec::<String>::new());
}

#[test]
fn a_different_answer_is_named_with_its_rule_and_a_known_one_must_still_be_there() {
    let (real, ours) = ("a 1: X -> EPERM\na 1: Y -> EIO\nb 1: Z -> done\n", "a 1: X -> EINVAL\na 1: Y -> EIO\n");
    let named = "a: amdkfd: a 1: X -> EPERM; virtual driver: a 1: X -> EINVAL";
    assert_eq!(differences(real, ours, &[]), [named, "b: not in the virtual driver's transcript"]);
    assert_eq!(differences(ours, ours, &[("a", "it is so")]), ["a: no longer differs, though it is listed"]);
    assert!(differences(real, &format!("{ours}b 1: Z -> done\n"), &[("a", "it is so")]).is_empty());
}

#[test]
fn a_transcript_that_cannot_be_written_fails_before_the_run() {
    let output = gpreempt(&["conformance", "--transcript", "/no/such/directory/file"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/directory/file"));
}
