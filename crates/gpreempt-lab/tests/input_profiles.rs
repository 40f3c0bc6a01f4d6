//! Profiles: what ships is sound, and what is wrong with a file is said precisely.

use std::fs;

use gpreempt_lab::Profile;
use gpreempt_lab::input::InputError;

/// Loads the text as a profile file and returns the messages about it, without snippets.
fn message(text: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("mine.toml");
    fs::write(&file, text).expect("a writable file");
    let file = file.to_str().expect("a UTF-8 path");
    let error = Profile::load(file).expect_err("the profile has a fault");
    let listing = error.to_string().replace(file, "mine.toml");
    let messages: Vec<&str> = listing.lines().filter(|line| line.starts_with("mine.toml")).collect();
    messages.join("\n")
}

/// The built-in profile with one piece of text replaced by another.
fn edited(from: &str, to: &str) -> String {
    let text = Profile::builtins()[0].text;
    assert!(text.contains(from), "the sample has no `{from}`");
    text.replacen(from, to, 1)
}

#[test]
fn every_built_in_profile_loads_under_its_own_name() {
    for builtin in Profile::builtins() {
        let profile = Profile::load(builtin.name).expect("a valid built-in profile");
        assert_eq!(profile.name, builtin.name);
    }
}

#[test]
fn numbers_without_a_published_source_are_listed_as_estimates() {
    let profile = Profile::load("mi300x-spx").expect("a built-in profile");
    let estimates = profile.estimates();
    assert!(estimates.contains(&"cycle.firmware_us"));
    assert!(estimates.contains(&"queues.quantum_us"));
    assert!(!estimates.contains(&"compute.cus"));
    assert!(!estimates.contains(&"cycle.grace_us"));
}

#[test]
fn a_partition_is_an_eighth_of_the_device() {
    let whole = Profile::load("mi300x-spx").expect("a built-in profile");
    let part = Profile::load("mi300x-cpx").expect("a built-in profile");
    assert_eq!(whole.compute.cus.value, 8.0 * part.compute.cus.value);
    assert_eq!(whole.cycle.vram_gb_s.value, 8.0 * part.cycle.vram_gb_s.value);
}

#[test]
fn a_number_out_of_range_is_reported_with_place_key_and_range() {
    let text = edited("value = 304", "value = -3");
    let said = message(&text);
    let (place, rest) = said.split_once(": ").expect("a place and a message");
    assert_eq!(rest, "compute.cus.value: found -3, expected a whole number from 1 to 4096");
    let line = text.lines().position(|line| line.starts_with("cus")).expect("the line of the compute units");
    assert_eq!(place, format!("mine.toml:{}:17", line + 1));
}

#[test]
fn not_a_number_and_infinity_are_refused() {
    for value in ["nan", "inf", "-inf", "1e300"] {
        let said = message(&edited("value = 10000", &format!("value = {value}")));
        let expected = format!("queues.quantum_us.value: found {value}, expected a number from 1 to 10000000");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn all_faults_are_reported_at_once() {
    let text = edited("value = 304", "value = 0").replacen("value = 24", "value = 2.5", 1);
    let said = message(&text);
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.contains("compute.cus.value"));
    assert!(said.contains("queues.hqds.value: found 2.5"));
}

#[test]
fn a_number_without_a_source_is_refused() {
    let said =
        message(&edited("source = \"AMD CDNA 3 white paper: 8 XCDs of 38 active compute units\"", "source = \" \""));
    let expected = "compute.cus.source: found \" \", expected a publication";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn missing_and_unknown_keys_are_named() {
    let said = message(&edited("hqds =", "hdqs ="));
    assert!(said.contains("unknown key `hdqs` in [queues]; did you mean `hqds`?"), "{said}");
    let without: String = Profile::builtins()[0]
        .text
        .lines()
        .filter(|line| !line.starts_with("grace_us"))
        .map(|line| format!("{line}\n"))
        .collect();
    let said = message(&without);
    assert!(said.contains("cycle.grace_us: found nothing, expected { value = NUMBER, source = \"...\" }"), "{said}");
}

#[test]
fn a_number_given_as_text_is_reported_with_its_key() {
    let said = message(&edited("value = 304", "value = \"many\""));
    let expected = ":17: compute.cus.value: found \"many\", expected a whole number from 1 to 4096";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let error = Profile::load("mi999").expect_err("there is no such device");
    assert!(matches!(error, InputError::NotFound { .. }));
    let said = error.to_string();
    assert!(said.contains("`mi999`") && said.contains("mi300x-cpx"), "{said}");
}
