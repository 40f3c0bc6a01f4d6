//! The gpus of a profile and the numbers by which programs tell them apart.

use super::Profile;

/// Number of the first render node.
const FIRST_RENDER_MINOR: u32 = 128;

/// One gpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Position in the profile, from 0.
    pub index: u32,
    /// Number of its topology node; node 0 is the processor.
    pub node: u32,
    /// The id by which calls name it. Not zero, 16 bits as in the driver.
    pub gpu_id: u32,
    /// Number of its render node.
    pub render_minor: u32,
    /// PCI bus; device and function are 0.
    pub pci_bus: u32,
    /// `location_id` of the topology: bus and device, and where other devices have a function, the partition.
    pub location_id: u32,
    /// Serial number.
    pub unique_id: u64,
}

impl Profile {
    /// Its gpus, in the order of their nodes.
    #[must_use]
    pub fn gpu_list(&self) -> Vec<Gpu> {
        let mut gpus: Vec<Gpu> = Vec::new();
        for index in 0..self.gpus {
            let pci_bus = if self.partitions { self.pci_bus } else { self.pci_bus + index };
            let partition = if self.partitions { index } else { 0 };
            let location_id = pci_bus << 8 | partition;
            let unique_id = mix(u64::from(self.device_id) << 32 | u64::from(index));
            let mut gpu_id = fold(mix(unique_id ^ u64::from(location_id)));
            while gpu_id == 0 || gpus.iter().any(|gpu| gpu.gpu_id == gpu_id) {
                gpu_id = gpu_id.wrapping_add(1) & 0xFFFF;
            }
            gpus.push(Gpu {
                index,
                node: index + 1,
                gpu_id,
                render_minor: FIRST_RENDER_MINOR + index,
                pci_bus,
                location_id,
                unique_id,
            });
        }
        gpus
    }

    /// PCI address of a gpu, as sysfs writes it.
    #[must_use]
    pub fn pci_address(&self, gpu: &Gpu) -> String {
        format!("{:04x}:{:02x}:00.0", self.pci_domain, gpu.pci_bus)
    }
}

/// A number that looks like a serial number and is the same on every machine (the finaliser of MurmurHash3).
const fn mix(value: u64) -> u64 {
    let mut hash = value ^ 0x9E37_79B9_7F4A_7C15;
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ (hash >> 33)
}

const fn fold(hash: u64) -> u32 {
    ((hash ^ (hash >> 16) ^ (hash >> 32) ^ (hash >> 48)) & 0xFFFF) as u32
}
