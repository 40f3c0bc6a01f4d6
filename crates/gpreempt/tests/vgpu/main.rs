//! Programs on the virtual gpu, started as a user starts them.

mod contention;
mod cost;
mod deaths;
mod debug;
mod endings;
mod executors;
mod faults;
mod files;
mod grace;
mod hang;
mod hooks;
mod life;
mod load;
mod loading;
mod names;
mod observe;
mod owner;
mod reports;
mod shared;
mod stopped;
mod stress;
mod symbols;
mod users;
mod wave_state;

use std::path::PathBuf;
use std::process::Command;

fn executable() -> PathBuf {
    env!("CARGO_BIN_EXE_gpreempt").into()
}

/// `gpreempt vgpu run -- WORDS`.
fn on_vgpu(words: &[&str]) -> Command {
    let mut command = Command::new(executable());
    command.args(["vgpu", "run", "--"]).args(words);
    command
}

/// Runs a shell script on the virtual gpu; what it printed.
fn shell(script: &str) -> String {
    let output = on_vgpu(&["sh", "-c", script]).output().expect("can be started");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
