//! Trials of gpreempt with real processes: demonstrations, measurements, and endurance and fault tests.
//!
//! * [`demo`] shows what gpreempt is worth, [`mod@bench`] measures what it costs, [`soak`] kills and halts processes.
//! * [`storm`] and [`stress`] are trials of the virtual gpu alone.
//! * [`load`] holds the programs that `demo`, `bench` and `soak` run.
//! * [`environment`] is what trials have in common: a gpu, programs on it, and a daemon beside them.
//!
//! Programs and daemons are started from the current executable, which therefore has to be the `gpreempt` command.
#![forbid(unsafe_code)]

pub mod bench;
pub mod demo;
pub mod environment;
pub mod load;
pub mod soak;
pub mod storm;
pub mod stress;

#[cfg(test)]
mod document;
mod random;

use gpreempt_output as output;
