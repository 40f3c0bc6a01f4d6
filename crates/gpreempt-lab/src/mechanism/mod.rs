//! Mechanisms: ways to decide who runs, one file each behind one trait.
//!
//! A mechanism sees the machine and acts on it in hooks. What it costs is what its operations cost: a cycle freezes a gpu,
//! a launch takes host time, a hold is free because the mechanism already owns the submission path.

mod cwsr;
mod levels;
mod none;
mod reef;
mod round_robin;
mod stop_sched;
mod tsg;
pub(crate) mod xsched;

use crate::machine::{CycleDone, Dispatch, Machine};
use crate::profile::Profile;
use crate::workload::Workload;

/// What a mechanism hears, and how the hardware serves queues under it. Hooks are called after the instant's changes are
/// complete, in the order in which they happened.
pub trait Mechanism {
    /// In which order the hardware serves the queues that want slots.
    fn dispatch(&self) -> Dispatch {
        Dispatch::Doorbell
    }

    /// Whether to call [`Mechanism::kernel_done`]: most mechanisms need not hear of every kernel.
    fn wants_kernels(&self) -> bool {
        false
    }

    /// Time zero: nothing has arrived yet.
    fn start(&mut self, _machine: &mut Machine) {}

    /// A task began a request: its doorbells rang for the first time since it was idle, or since its last request. The
    /// rings go on filling without further notice; [`Machine::view`] tells how far they are.
    fn submitted(&mut self, _machine: &mut Machine, _task: usize) {}

    /// A task completed a request and has no other: no unfinished work is left.
    fn drained(&mut self, _machine: &mut Machine, _task: usize) {}

    /// A kernel of a task, repeated or not, is complete on a gpu.
    fn kernel_done(&mut self, _machine: &mut Machine, _task: usize, _gpu: usize) {}

    /// A timer set with [`Machine::set_timer`] is due.
    fn timer(&mut self, _machine: &mut Machine, _token: u64) {}

    /// A cycle is over: one asked for by [`Machine::switch`] and its kin, or a rotation the firmware made.
    fn cycle_done(&mut self, _machine: &mut Machine, _done: CycleDone) {}
}

/// A mechanism by name.
#[derive(Clone, Copy, Debug)]
pub struct MechanismSpec {
    /// As `--mechanism` takes it.
    pub name: &'static str,
    /// One sentence for listings.
    pub about: &'static str,
    /// What decides its row beside the profile: a sentence each, with where the number comes from ("published", "design") or
    /// the word "estimate".
    pub assumes: &'static [&'static str],
    /// Makes one, ready to run the workload on a device of that profile.
    pub build: fn(&Profile, &Workload) -> Box<dyn Mechanism>,
}

/// What wave save and restore through `actuator` takes for granted.
const fn assumed_of_cwsr(actuator: &gpreempt_core::ActuatorKind) -> &'static [&'static str] {
    match actuator {
        gpreempt_core::ActuatorKind::Combined => &[
            "the patched driver stops and resumes any set of queues in one cycle and leaves save areas in VRAM: design",
        ],
        gpreempt_core::ActuatorKind::DebugTrap | gpreempt_core::ActuatorKind::PerQueue => &[
            "the first stop of a task saves to VRAM, later ones to host memory; moving the area itself is free: estimate",
            "each stop and each resume of a task is a cycle of its own: published (source of amdkfd's debug trap)",
        ],
    }
}

/// The yardstick: nobody interferes.
pub(crate) const NONE: MechanismSpec = none::SPEC;

/// Every mechanism, in the order in which tables show them.
const ALL: &[MechanismSpec] = &[
    none::SPEC,
    round_robin::SPEC,
    stop_sched::SPEC,
    reef::SPEC,
    tsg::SPEC,
    xsched::LEVEL_1,
    xsched::LEVEL_2,
    xsched::LEVEL_3,
    cwsr::POLL_5MS,
    cwsr::POLL_1MS,
    cwsr::WATCHED,
    cwsr::NOTIFY,
    cwsr::IOCTL,
    cwsr::KERNEL,
];

/// Every mechanism, in the order in which tables show them.
#[must_use]
pub fn all() -> &'static [MechanismSpec] {
    ALL
}

/// The mechanism of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static MechanismSpec> {
    ALL.iter().find(|entry| entry.name == name)
}
