//! `gpreempt config`, and a daemon that is given a faulty configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn gpreempt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpreempt")).args(arguments).output().expect("the command starts")
}

#[test]
fn what_init_prints_is_valid() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("gpreempt.toml");
    fs::write(&file, gpreempt(&["config", "init"]).stdout).expect("a writable file");
    let name = file.to_str().expect("a UTF-8 path");
    let checked = gpreempt(&["config", "check", name, "--json"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let document: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert_eq!((&document["schema"], &document["file"]), (&1.into(), &name.into()));
}

#[test]
fn what_print_prints_is_valid_and_prints_the_same() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("gpreempt.toml");
    let name = file.to_str().expect("a UTF-8 path");
    fs::write(&file, "[[rule]]\nname = \"all\"\nuser = \"*\"\nlevel = 3\n").expect("a writable file");
    let printed = gpreempt(&["config", "print", name]).stdout;
    assert!(String::from_utf8_lossy(&printed).contains("level = 3"));
    fs::write(&file, &printed).expect("a writable file");
    assert_eq!(gpreempt(&["config", "print", name]).stdout, printed);
}

#[test]
fn a_fault_is_named_with_its_place_and_no_daemon_starts_with_it() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("gpreempt.toml");
    let socket = folder.path().join("control.sock");
    fs::write(&file, "mode = \"enforce\"\nscan_sm = 5\n").expect("a writable file");
    let (name, socket) = (file.to_str().expect("UTF-8"), socket.to_str().expect("UTF-8"));
    for arguments in [["config", "check", name].as_slice(), &["daemon", "--config", name, "--socket", socket]] {
        let output = gpreempt(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(&format!("{name}:2:1: ")) && said.contains("scan_ms"), "{said}");
    }
}

#[test]
fn every_example_and_the_file_to_deploy_are_valid_and_give_no_warning() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = fs::read_dir(root.join("examples")).expect("the examples");
    let examples = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = examples.filter(|path| path.extension() == Some("toml".as_ref())).collect();
    assert!(files.len() >= 3, "{files:?}");
    files.push(root.join("deploy/gpreempt.toml"));
    for file in files {
        let checked = gpreempt(&["config", "check", file.to_str().expect("a UTF-8 path"), "--json"]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let document: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
        assert_eq!(document["warnings"], Value::Array(Vec::new()), "{}", file.display());
    }
}
