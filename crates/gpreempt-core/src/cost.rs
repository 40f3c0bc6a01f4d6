//! The cost of executing a plan, in runlist cycles, for each kind of actuator.

use crate::GpuIndex;

/// Tenants and queues of one gpu on which a plan acts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Number of tenants; each is one process.
    pub tenants: u32,
    /// Number of their queues.
    pub queues: u32,
}

impl Batch {
    /// No tenant and no queue.
    pub const EMPTY: Batch = Batch { tenants: 0, queues: 0 };

    /// Adds one tenant with `queues` queues.
    #[must_use]
    pub const fn and(self, queues: u16) -> Batch {
        Batch { tenants: self.tenants.saturating_add(1), queues: self.queues.saturating_add(queues as u32) }
    }

    /// Adds the tenants and queues of `other`.
    #[must_use]
    pub const fn plus(self, other: Batch) -> Batch {
        Batch { tenants: self.tenants.saturating_add(other.tenants), queues: self.queues.saturating_add(other.queues) }
    }

    /// Subtracts `other`, which is part of `self`.
    #[must_use]
    pub const fn without(self, other: Batch) -> Batch {
        Batch { tenants: self.tenants.saturating_sub(other.tenants), queues: self.queues.saturating_sub(other.queues) }
    }

    /// Returns whether there is no tenant.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.tenants == 0
    }
}

/// The cost function of an actuator. The host passes it to every decision. Plans are charged by it until reports tell
/// the cycles that were spent; one that says too little lets a gpu exceed its budget by what the plans under way cost
/// more.
pub trait Cost {
    /// Returns the runlist cycles on `gpu` of one plan that preempts `preempt` and resumes `resume`.
    fn cycles(&self, gpu: GpuIndex, preempt: Batch, resume: Batch) -> u32;
}

/// Kinds of actuator: the driver interface through which a host stops and resumes queues. Each has its own cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActuatorKind {
    /// `DBG_TRAP SUSPEND_QUEUES` and `RESUME_QUEUES` of a stock kernel: one cycle per process and gpu, each way.
    DebugTrap,
    /// A patched driver that applies all preemptions and resumes of a gpu at once: one cycle per plan.
    Combined,
    /// `UPDATE_QUEUE` from inside the process: one cycle per queue.
    PerQueue,
}

impl Cost for ActuatorKind {
    fn cycles(&self, _gpu: GpuIndex, preempt: Batch, resume: Batch) -> u32 {
        let all = preempt.plus(resume);
        match self {
            ActuatorKind::DebugTrap => all.tenants,
            ActuatorKind::Combined => u32::from(!all.is_empty()),
            ActuatorKind::PerQueue => all.queues,
        }
    }
}
