//! The keys of every JSON document are those `docs/lab-json.md` promises: none is missing there, and none is made up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

/// The section with the keys that compare, run and timeline have in common.
const COMMON: &str = "lab compare, lab run, lab timeline";

/// The tables of the file: section, key, unit.
fn documented() -> BTreeMap<String, BTreeMap<String, String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab-json.md");
    let text = std::fs::read_to_string(path).expect("the file is readable");
    let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.to_string();
        }
        let Some(row) = line.strip_prefix("| `") else {
            continue;
        };
        let (key, rest) = row.split_once("` | ").expect("a key in backquotes");
        let (unit, _) = rest.split_once(" | ").expect("a unit and a meaning");
        let before = sections.entry(section.clone()).or_default().insert(key.to_string(), unit.to_string());
        assert_eq!(before, None, "{section}: `{key}` twice");
    }
    sections
}

/// The paths of all keys, as the file writes them.
fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                keys(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(list) => {
            for value in list {
                keys(value, &format!("{path}[]"), found);
            }
        }
        _ => {}
    }
}

/// Compares what a command prints with these sections.
fn check(arguments: &[&str], sections: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpreempt"));
    let output = command.arg("lab").args(arguments).arg("--json").output().expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("valid JSON");
    let mut printed = BTreeSet::new();
    keys(&document, "", &mut printed);
    let documented = documented();
    let promised: BTreeSet<String> =
        sections.iter().flat_map(|section| documented[*section].keys()).map(ToString::to_string).collect();
    let undocumented: Vec<_> = printed.difference(&promised).collect();
    let absent: Vec<_> = promised.difference(&printed).collect();
    assert!(
        undocumented.is_empty() && absent.is_empty(),
        "docs/lab-json.md lacks {undocumented:?} and has {absent:?}, which {arguments:?} does not print"
    );
}

/// Also that these options are common to the four experiments, as the README says.
const OPTIONS: [&str; 4] = ["--seed", "3", "--profile", "gv100"];

#[test]
fn compare_prints_the_documented_keys() {
    check(&[["compare", "--seconds", "0.1"].as_slice(), &OPTIONS].concat(), &[COMMON, "lab compare"]);
}

#[test]
fn run_prints_the_documented_keys() {
    check(&[["run", "quick", "--seconds", "0.1"].as_slice(), &OPTIONS].concat(), &[COMMON, "lab run"]);
}

#[test]
fn timeline_prints_the_documented_keys() {
    for mechanism in ["none", "cwsr-watch"] {
        check(&[["timeline", "--mechanism", mechanism].as_slice(), &OPTIONS].concat(), &[COMMON, "lab timeline"]);
    }
}

#[test]
fn plausibility_prints_the_documented_keys() {
    check(&[["plausibility"].as_slice(), &OPTIONS].concat(), &["lab plausibility"]);
}

#[test]
fn list_prints_the_documented_keys() {
    check(&["list"], &["lab list"]);
}

#[test]
fn units_in_names_are_the_units_in_the_tables() {
    for (section, keys) in documented() {
        for (key, unit) in keys {
            assert_eq!(key.ends_with("_us"), unit == "us", "{section}: `{key}` in {unit}");
            assert_eq!(key.ends_with("_percent"), unit == "%", "{section}: `{key}` in {unit}");
            assert_eq!(key.ends_with("_per_second"), unit == "1/s", "{section}: `{key}` in {unit}");
        }
    }
}
