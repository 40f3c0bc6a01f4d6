//! The suite on the drivers of all kernels.

use serde_json::Value;
use vgpu::launch::KernelProfile;

use super::{document, on_vgpu};

/// Returns the ids of rules with a result.
fn with<'d>(seen: &'d Value, result: &str) -> Vec<&'d str> {
    let rules = seen["rules"].as_array().expect("a list").iter();
    rules.filter(|rule| rule["result"] == result).filter_map(|rule| rule["id"].as_str()).collect()
}

/// Runs the suite. Rules that are broken are tested once more by themselves: some have limits of time, which a busy
/// machine exceeds.
fn broken_twice(kernel: &[&str]) -> (Value, Value) {
    let first = document(&on_vgpu(kernel, &["--json"]));
    let broken = with(&first, "broken");
    if broken.is_empty() {
        return (first, Value::Null);
    }
    let again: Vec<&str> = broken.iter().flat_map(|rule| ["--rule", rule]).chain(["--json"]).collect();
    let again = document(&on_vgpu(kernel, &again));
    (first, again)
}

#[test]
#[ignore = "it takes a minute; `cargo xtask test` runs it"]
fn each_kernel_keeps_the_rules_that_are_its_own() {
    for (kernel, others) in [
        (KernelProfile::Linux6_12_107, &["enable-bad-room", "destroy-twice", "destroy-interrupted"][..]),
        (KernelProfile::Linux6_12_115, &[]),
        (KernelProfile::Linux7_2, &[]),
        (
            KernelProfile::Dkms,
            &["ladder-not-traced", "ladder-any-thread-later", "ladder-detached-later", "destroy-interrupted"],
        ),
    ] {
        let (seen, again) = broken_twice(&["--kernel", kernel.name()]);
        assert!(again.is_null() || again["broken"] == 0, "{}: {again:#}", kernel.name());
        let rules = seen["rules"].as_array().expect("a list");
        // What needs root is unchecked, too, where the tests have it not.
        let exempt: Vec<&str> = rules
            .iter()
            .filter(|rule| rule["reason"].as_str().is_some_and(|reason| reason.ends_with("keeps another rule")))
            .filter_map(|rule| rule["id"].as_str())
            .collect();
        assert_eq!(exempt, others, "{}", kernel.name());
        assert!(rules.len() > 200, "{}", rules.len());
    }
}

#[test]
fn a_rule_that_a_kernel_does_not_keep_is_broken_where_it_is_asked_for_by_another() {
    // The driver of 6.12.107 behind the name of 6.12.115: a mutant that does the same.
    let output = on_vgpu(&["--mutant", "DestroyTwice"], &["--rule", "destroy-twice", "--json"]);
    assert_eq!(document(&output)["broken"], 1);
    let output = on_vgpu(&["--kernel", "6.12.107"], &["--rule", "destroy-twice", "--json"]);
    let seen = document(&output);
    assert_eq!(seen["unchecked"], 1, "{seen:#}");
    assert!(output.status.success());
}
