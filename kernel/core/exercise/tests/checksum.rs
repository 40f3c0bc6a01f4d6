//! The exercise in a program. `kernel/guest/scenarios/core.toml` compares it with the same in a kernel.

use std::process::Command;

/// Runs the exercise and returns the answer as text.
fn exercise(decisions: &str, seed: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_gpreempt-core-exercise")).args([decisions, seed]).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the number, or the text, of a field.
fn field<'t>(answer: &'t str, name: &str) -> &'t str {
    let (_, rest) = answer.split_once(&format!("\"{name}\": ")).expect("the field");
    rest.split([',', '}']).next().expect("its value").trim_matches('"')
}

#[test]
fn the_core_decides_as_it_did() {
    let answer = exercise("100000", "1");
    assert_eq!(
        field(&answer, "checksum"),
        "534bcbdacb143a30",
        "the core, or the exercise, decides otherwise than before; if that is intended, this is the place for the new sum"
    );
    for (name, least) in [("decisions", 100_000), ("plans", 10_000), ("preempts", 10_000), ("polls", 20_000)] {
        assert!(field(&answer, name).parse::<u64>().expect("a number") >= least, "{answer}");
    }
}

#[test]
fn the_checksum_depends_on_the_seed_and_on_each_decision() {
    let sum = |decisions: &str, seed: &str| field(&exercise(decisions, seed), "checksum").to_owned();
    assert_eq!(sum("2000", "7"), sum("2000", "7"));
    assert_ne!(sum("2000", "7"), sum("2000", "8"));
    assert_ne!(sum("2000", "7"), sum("2001", "7"));
}

#[test]
fn arguments_that_are_no_numbers_are_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_gpreempt-core-exercise")).arg("many").output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage"));
}
