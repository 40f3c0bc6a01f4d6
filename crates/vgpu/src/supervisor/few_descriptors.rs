//! Tests of what happens when the supervisor has no descriptor left: in a process of their own, because limit and
//! descriptors are those of all threads.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;

const PART: &str = "GPREEMPT_TEST_FEW_DESCRIPTORS";

/// Runs `body` in a process that may have 256 descriptors. `test` is the part of the test's name by which that process
/// finds it.
pub(super) fn with_few_descriptors(test: &str, body: fn()) {
    if std::env::var_os(PART).is_some() {
        return body();
    }
    let own = std::env::current_exe().expect("this test is a program");
    let script = format!("ulimit -n 256; exec {} {test} --nocapture", own.display());
    let output = Command::new("sh").args(["-c", &script]).env(PART, "1").output().expect("a shell");
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Takes every descriptor that this process can still have.
pub(super) fn take_all() -> Vec<OwnedFd> {
    std::iter::from_fn(|| io::stdin().as_fd().try_clone_to_owned().ok()).collect()
}
