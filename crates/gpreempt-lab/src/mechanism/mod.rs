//! Preemption mechanisms, one file each behind one trait.
//!
//! A mechanism observes the machine and acts on it in hooks. Its cost is the cost of its operations: a cycle freezes a
//! gpu, a launch takes host time, a hold is free because the mechanism already owns the submission path.

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

/// The hooks of a mechanism, and the order in which the hardware serves queues under it. The machine calls hooks after
/// all changes of an instant, in the order in which they happened.
pub trait Mechanism {
    /// Returns the order in which the hardware serves the queues that want slots.
    fn dispatch(&self) -> Dispatch {
        Dispatch::Doorbell
    }

    /// Returns whether to call [`Mechanism::kernel_done`]; most mechanisms do not need it.
    fn wants_kernels(&self) -> bool {
        false
    }

    /// Called at time zero, before the first arrival.
    fn start(&mut self, _machine: &mut Machine) {}

    /// Called when a task begins a request: its doorbells ring for the first time since it was idle, or since its last
    /// request. The rings continue to fill without further calls; [`Machine::view`] shows how far they are.
    fn submitted(&mut self, _machine: &mut Machine, _task: usize) {}

    /// Called when a task has completed its request and has no unfinished work left.
    fn drained(&mut self, _machine: &mut Machine, _task: usize) {}

    /// Called when a kernel of a task, repeated or not, is complete on a gpu.
    fn kernel_done(&mut self, _machine: &mut Machine, _task: usize, _gpu: usize) {}

    /// Called when a timer set with [`Machine::set_timer`] is due.
    fn timer(&mut self, _machine: &mut Machine, _token: u64) {}

    /// Called at the end of a cycle: one of [`Machine::switch`] and similar calls, or a rotation of the firmware.
    fn cycle_done(&mut self, _machine: &mut Machine, _done: CycleDone) {}
}

/// Description and constructor of a mechanism.
#[derive(Clone, Copy, Debug)]
pub struct MechanismSpec {
    /// Name, as `--mechanism` takes it.
    pub name: &'static str,
    /// One sentence for listings.
    pub about: &'static str,
    /// Assumptions beside the profile, one sentence each, with the source of the number ("published", "design") or the
    /// word "estimate".
    pub assumes: &'static [&'static str],
    /// Creates the mechanism for a workload on a device of a profile.
    pub build: fn(&Profile, &Workload) -> Box<dyn Mechanism>,
}

/// Returns the assumptions of wave save and restore through `actuator`.
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

/// The baseline: no preemption.
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

/// Returns every mechanism, in the order in which tables show them.
#[must_use]
pub fn all() -> &'static [MechanismSpec] {
    ALL
}

/// Returns the mechanism of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static MechanismSpec> {
    ALL.iter().find(|entry| entry.name == name)
}
