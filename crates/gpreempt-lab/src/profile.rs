//! What the machine is made of: one TOML file per device, every number with its source.

use serde::Deserialize;

/// A number and where it comes from. `source` contains the word "estimate" when nobody published it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced {
    /// The number, in the unit its key names.
    pub value: f64,
    /// Publication, driver source, or "estimate: " and the reasoning.
    pub source: String,
}

/// A device.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name used with `--profile`.
    pub name: String,
    /// One sentence.
    pub about: String,
    /// Execution resources of one gpu.
    pub compute: Compute,
    /// Queue hardware of one gpu.
    pub queues: Queues,
    /// Terms of the cost of one runlist cycle.
    pub cycle: Cycle,
    /// Host-side costs.
    pub host: Host,
}

/// Execution resources of one gpu (a partition, in CPX mode).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    /// Compute units.
    pub cus: Sourced,
    /// Waves a compute unit holds.
    pub waves_per_cu: Sourced,
    /// Vector register file of a compute unit, KiB.
    pub vgpr_kib_per_cu: Sourced,
    /// LDS of a compute unit, KiB.
    pub lds_kib_per_cu: Sourced,
    /// Workgroups a compute unit holds.
    pub workgroups_per_cu: Sourced,
}

/// Queue hardware of one gpu.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queues {
    /// Hardware queue slots for user queues.
    pub hqds: Sourced,
    /// Address spaces for user processes.
    pub vmids: Sourced,
    /// How long a process stays mapped when the runlist is over-subscribed, microseconds.
    pub quantum_us: Sourced,
    /// Doorbell to first fetch, microseconds.
    pub fetch_us: Sourced,
}

/// A cycle costs firmware + grace + (bytes of resident waves / bandwidth of where the save area lives), each way.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cycle {
    /// Fixed firmware time of one unmap and map, microseconds.
    pub firmware_us: Sourced,
    /// Grace given to running waves before they are saved, microseconds.
    pub grace_us: Sourced,
    /// Save and restore bandwidth with the save area in VRAM, GB/s.
    pub vram_gb_s: Sourced,
    /// The same after the first debug-trap suspend moved the area to host memory, GB/s.
    pub host_gb_s: Sourced,
    /// State per wave beside vector registers and LDS (scalar and hardware registers), bytes.
    pub wave_overhead_bytes: Sourced,
    /// Reset of the compute units by a reset-and-resubmit scheme, microseconds.
    pub reset_us: Sourced,
}

/// Host-side costs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Enqueueing one kernel from user space, microseconds.
    pub submit_us: Sourced,
    /// One driver call, without the cycle it causes, microseconds.
    pub ioctl_us: Sourced,
    /// Waking a sleeping thread of the scheduler, microseconds.
    pub wakeup_us: Sourced,
}
