//! What carrying out a plan costs, as the host's actuator says.

use crate::GpuId;

/// Tenants and queues acted on together on one gpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Tenants (each one process).
    pub tenants: u32,
    /// Their queues.
    pub queues: u32,
}

impl Batch {
    /// Nothing.
    pub const EMPTY: Batch = Batch { tenants: 0, queues: 0 };

    /// This and one more tenant.
    #[must_use]
    pub const fn and(self, queues: u16) -> Batch {
        Batch { tenants: self.tenants.saturating_add(1), queues: self.queues.saturating_add(queues as u32) }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Batch) -> Batch {
        Batch { tenants: self.tenants.saturating_add(other.tenants), queues: self.queues.saturating_add(other.queues) }
    }

    /// This without `other`, which is part of it.
    #[must_use]
    pub const fn without(self, other: Batch) -> Batch {
        Batch { tenants: self.tenants.saturating_sub(other.tenants), queues: self.queues.saturating_sub(other.queues) }
    }

    /// Whether it holds no tenant.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.tenants == 0
    }
}

/// The cost function of an actuator.
pub trait Cost {
    /// Runlist cycles on `gpu` when these tenants are preempted and those resumed by one plan.
    fn cycles(&self, gpu: GpuId, preempt: Batch, resume: Batch) -> u32;
}

/// The actuators known today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActuatorKind {
    /// `DBG_TRAP SUSPEND_QUEUES` and `RESUME_QUEUES` of a stock kernel: one cycle per process and gpu, each way.
    DebugTrap,
    /// A patched driver that applies both sets at once: one cycle.
    Combined,
    /// `UPDATE_QUEUE` from inside the process: one cycle per queue.
    PerQueue,
}

impl Cost for ActuatorKind {
    fn cycles(&self, _gpu: GpuId, preempt: Batch, resume: Batch) -> u32 {
        let all = preempt.plus(resume);
        match self {
            ActuatorKind::DebugTrap => all.tenants,
            ActuatorKind::Combined => u32::from(!all.is_empty()),
            ActuatorKind::PerQueue => all.queues,
        }
    }
}
