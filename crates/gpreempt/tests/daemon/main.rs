//! The daemon and its processes, on the virtual gpu where they need one.

// Shared with the tests of the virtual gpu, which use more of them.
#[allow(dead_code)]
#[path = "../vgpu/actor.rs"]
mod actor;
#[allow(dead_code)]
#[path = "../vgpu/scene.rs"]
mod scene;

mod actuate;
mod basic;
mod boundary;
mod breaker;
mod by_hand;
mod deaths;
mod debuggers;
mod guardian;
mod hip;
mod policies;
mod program;
mod restraint;
mod discovery;
mod stage;
mod together;
mod users;
mod wants;

use std::path::PathBuf;

fn executable() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("gpreempt").to_path_buf()
}
