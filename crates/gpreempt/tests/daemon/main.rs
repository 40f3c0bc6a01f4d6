//! The daemon and its processes, on the virtual gpu where they need one.

#[path = "../vgpu/actor.rs"]
mod actor;
mod actuate;
mod guardian;
#[allow(dead_code, reason = "not every test program uses everything of it")]
#[path = "../vgpu/scene.rs"]
mod scene;

use std::path::PathBuf;

fn executable() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("gpreempt").to_path_buf()
}
