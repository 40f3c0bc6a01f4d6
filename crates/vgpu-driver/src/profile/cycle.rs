//! What taking all queues off a gpu and putting them back costs on the product.
//!
//! These times have not been published. The defaults are estimates: times of firmware are guesses, the bandwidth of
//! host memory is what a PCIe 5.0 link of sixteen lanes moves, and the grace period is the reset value of the register
//! in the driver's headers for gfx9.

use serde::{Deserialize, Serialize};

/// The cost of a cycle. All values are estimates unless a profile says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycle {
    /// Firmware's part in taking queues off, in microseconds.
    pub unmap_us: u64,
    /// Firmware's part in putting them back, in microseconds.
    pub map_us: u64,
    /// One more packet for the firmware, in microseconds.
    pub packet_us: u64,
    /// How long waves may go on unless the caller says otherwise, in steps of a thousand clocks, 1 to 255.
    pub grace_steps: u32,
    /// What moves between the gpu and host memory, in MB/s.
    pub host_bandwidth_mbps: u64,
    /// How long a group of queues stays when there are too many for the hardware, in milliseconds.
    pub quantum_ms: u64,
    /// How long a reset of the gpu takes, in milliseconds.
    pub reset_ms: u64,
}

impl Default for Cycle {
    fn default() -> Self {
        Self {
            unmap_us: 20,
            map_us: 20,
            packet_us: 2,
            grace_steps: 64,
            host_bandwidth_mbps: 50_000,
            quantum_ms: 10,
            reset_ms: 500,
        }
    }
}
