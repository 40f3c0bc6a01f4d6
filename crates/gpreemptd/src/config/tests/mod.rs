//! What files mean, what is said about bad ones, and what processes can make of them.

mod assigning;
mod bad;
mod documents;
mod random;
mod warning;

use super::{Config, INIT};
use crate::identity::Identity;

/// A configuration that must be good.
fn parse(text: &str) -> Config {
    Config::parse("gpreempt.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

/// A process of a user.
fn process(uid: u32) -> Identity {
    Identity {
        pid: 4711,
        uid,
        gid: uid,
        cgroup: "/system.slice/a.service".to_string(),
        executable: "/usr/bin/python3.13".to_string(),
        command: vec!["python3".to_string(), "train.py".to_string()],
        ..Identity::default()
    }
}

/// The same with a variable in its environment.
fn asking(uid: u32, name: &str, value: &str) -> Identity {
    let mut process = process(uid);
    process.environment.insert(name.to_string(), value.to_string());
    process
}

#[test]
fn the_file_to_start_from_means_the_defaults_and_gives_no_warning() {
    let config = parse(INIT);
    assert_eq!(config, Config::default());
    assert_eq!(parse(""), config);
    assert_eq!(config.warnings(), Vec::<String>::new());
}

#[test]
fn the_examples_in_the_file_to_start_from_are_good_when_uncommented() {
    let examples = INIT.lines().skip_while(|line| !line.starts_with("# [[rule]]"));
    let uncommented: String = examples
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| line.starts_with("[[") || line.contains(" = "))
        .map(|line| format!("{line}\n"))
        .collect();
    let config = parse(&uncommented);
    assert_eq!(config.rules.len(), 4);
    // The gpu settings it shows are said to be the defaults.
    assert_eq!(config.gpus[0].params, gpreempt_core::GpuParams::default());
    assert_eq!(config.warnings().len(), 1, "only that nothing is stopped yet: {:?}", config.warnings());
}
