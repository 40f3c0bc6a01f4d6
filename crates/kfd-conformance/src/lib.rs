//! The rules of amdkfd that gpreempt relies on, and their tests.
//!
//! A rule has an id, a sentence, its source in the kernel, the layer that keeps it, and a test. Tests use the public
//! interface only: ioctls, mmap, sysfs, debugfs, /proc. The processes that they need are *actors*: children of the same
//! executable, which make the calls that the suite asks for, one at a time. So every call is made by a process that the
//! suite started and may kill, and no test touches a process of anyone else.
//!
//! Tests of the driver's rules execute nothing on the gpu: they hold on a gpu that only keeps time, too.
#![cfg(target_os = "linux")]

mod actor;
mod bench;
mod cycles;
mod driver_kind;
mod interrupt;
mod measure;
mod queue;
mod rule;
mod rules;
mod run;
mod serve;
mod session;
mod sys;
mod transcript;
mod verdict;
mod wire;
mod work;

pub use driver_kind::DriverKind;
pub use measure::Measurement;
pub use rule::{DriverRule, Layer, all, find};
pub use run::{Checked, Conformance, ConformanceError, ConformanceOptions, Standing, TestedGpu, run};
pub use serve::actor_main;
