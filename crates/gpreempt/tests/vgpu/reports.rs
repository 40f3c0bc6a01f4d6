//! What `vgpu isa` and `vgpu profiles` say.

use std::process::Command;

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = Command::new(super::executable()).args(arguments).output().expect("can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn an_opcode_counts_only_if_a_test_names_it() {
    let report = json(&["vgpu", "isa", "--json"]);
    let group = |name: &str| {
        let count = &report[name];
        let missing = count["missing"].as_array().expect("a list").len() as u64;
        assert_eq!(count["total"].as_u64(), count["tested"].as_u64().map(|tested| tested + missing), "{name}");
        count["total"].as_u64().expect("a number")
    };
    assert!(group("matrix") > 40 && group("non_matrix") > 1300);
    assert_eq!(report["tested_share_non_matrix"].as_f64(), Some(1.0), "{}", report["non_matrix"]["missing"]);
    // Images of gfx90a have no handler: the report must say so.
    let old = json(&["vgpu", "isa", "--target", "gfx90a", "--json"]);
    let missing = old["encodings"]["MIMG"]["missing"].to_string();
    assert!(missing.contains("image_load"), "{missing}");
}

#[test]
fn every_matrix_instruction_of_both_targets_has_a_test() {
    for (arguments, target) in
        [(&["vgpu", "isa", "--json"][..], "gfx942"), (&["vgpu", "isa", "--target", "gfx90a", "--json"], "gfx90a")]
    {
        let report = json(arguments);
        assert_eq!(report["target"], target);
        assert_eq!(report["tested_share_matrix"].as_f64(), Some(1.0), "{}", report["matrix"]["missing"]);
        let text = Command::new(super::executable()).args(&arguments[..arguments.len() - 1]).output().expect("runs");
        assert!(String::from_utf8_lossy(&text.stdout).contains(target), "{target}");
    }
    let unknown =
        Command::new(super::executable()).args(["vgpu", "isa", "--target", "gfx1100"]).output().expect("runs");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("gfx90a"));
}

#[test]
fn every_profile_is_described_and_printed_as_a_file_that_works() {
    let report = json(&["vgpu", "profiles", "--json"]);
    let names: Vec<&str> =
        report["profiles"].as_array().expect("a list").iter().filter_map(|profile| profile["name"].as_str()).collect();
    assert!(["mi300x", "mi300x-cpx", "mi308x"].iter().all(|name| names.contains(name)), "{names:?}");
    for name in names {
        let text = Command::new(super::executable()).args(["vgpu", "profiles", name]).output().expect("can be started");
        let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
        std::fs::write(file.path(), &text.stdout).expect("can be written");
        let path = file.path().to_str().expect("a path of text");
        let status = Command::new(super::executable())
            .args(["vgpu", "run", "--profile", path, "--", "test", "-e", "/dev/kfd"])
            .status()
            .expect("can be started");
        assert!(status.success(), "{name}");
    }
}
