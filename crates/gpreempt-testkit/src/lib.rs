//! The kit of the end-to-end tests: several real processes on one virtual gpu.
//!
//! * [`scene`]: a test runs again inside a virtual gpu as the *director*, which starts and commands *actors*.
//! * [`actor`]: what an actor can be told, one line each.
//! * [`daemon`]: the daemon under test, with assertions about what it reports.
//! * [`program`]: programs that print one JSON document per line, such as `gpreempt load`.
//!
//! The tests themselves are in `crates/gpreempt/tests`, because Cargo builds the command only for tests of its own
//! package. For tests alone: everything here panics instead of returning errors.

pub mod actor;
pub mod daemon;
pub mod program;
pub mod scene;

pub use scene::{Actor, Scene, ThisTest, play, play_each_kernel, play_each_read_index, until};
