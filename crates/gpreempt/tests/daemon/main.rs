//! The daemon and its processes, on the virtual gpu where they need one.

mod actuate;
mod actuator_choice;
mod basic;
mod boundary;
mod breaker;
mod by_hand;
mod deaths;
mod debuggers;
mod discovery;
mod guardian;
mod hip;
mod kernels;
mod living_link;
mod policies;
mod restraint;
mod together;
mod users;
mod wants;

use std::path::PathBuf;

fn executable() -> PathBuf {
    env!("CARGO_BIN_EXE_gpreempt").into()
}
