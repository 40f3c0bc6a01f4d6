//! `gpreempt selftest` where there is no gpu, and its mistakes.

use std::path::Path;
use std::process::{Command, Output};

fn selftest(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpreempt"));
    command.arg("selftest").args(arguments).output().expect("the command starts")
}

#[test]
fn without_a_driver_it_names_the_device_and_the_remedies() {
    if Path::new("/dev/kfd").exists() {
        return;
    }
    for arguments in [[].as_slice(), &["--json"], &["--gpu", "0", "--kernel", "vadd"]] {
        let output = selftest(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(output.stdout.is_empty(), "a result without a gpu");
        assert!(said.starts_with("error: cannot open /dev/kfd: "), "{said}");
        for remedy in ["modprobe amdgpu", "render", "gpreempt vgpu run -- gpreempt selftest"] {
            assert!(said.contains(remedy), "{said}");
        }
    }
}

#[test]
fn an_unknown_kernel_lists_the_known_ones() {
    let output = selftest(&["--kernel", "magic"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("magic") && said.contains("mfma_f32") && said.contains("exactly_once"), "{said}");
}

#[test]
fn it_explains_itself() {
    let output = selftest(&["--help"]);
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Usage: gpreempt selftest") && text.contains("--gpu"), "{text}");
}
