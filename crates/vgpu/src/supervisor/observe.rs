//! State of the running device that files of sysfs and debugfs show.

use std::os::unix::fs::FileExt;

use super::Supervisor;
use crate::driver::{Observed, ProcessKey};

impl Observed for Supervisor {
    fn read(&self, process: ProcessKey, address: u64) -> Option<u64> {
        let memory = std::fs::File::open(format!("/proc/{}/mem", process.pid)).ok()?;
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn waves(&self, process: ProcessKey, gpu: u32) -> u32 {
        let (Some(device), Some(member)) = (self.device.get(), self.member(process)) else { return 0 };
        device.chip.occupancy_of(member.channel.slot, gpu)
    }

    fn sdma_us(&self, process: ProcessKey, gpu: u32) -> u64 {
        self.member(process).map_or(0, |member| member.channel.control.copied_us(gpu as usize))
    }
}
