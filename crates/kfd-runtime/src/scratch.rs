//! Scratch memory: what waves use as stack. The packet processor hands it out from what the queue provides.

use kfd_abi::hsa::AmdQueue;

use crate::error::{Error, Result};
use crate::memory::GpuAddr;
use crate::node::GpuNode;

/// Lanes of a wave.
const LANES: u64 = 64;
/// Scratch of a wave is counted in these.
const UNIT: u64 = 1024;
/// Largest count of them that fits its field.
const MOST_UNITS: u64 = (1 << 13) - 1;
/// Waves with scratch that run on a compute unit at once. More would be faster and cost memory on every gpu.
const WAVES_PER_CU: u32 = 4;

/// How much scratch a queue has and how it is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScratchSize {
    /// Bytes of a lane.
    pub(crate) lane: u32,
    units: u64,
    waves_per_xcc: u64,
    num_xcc: u64,
}

impl ScratchSize {
    /// What a gpu needs for kernels that use `bytes` a lane.
    pub(crate) fn of(node: &GpuNode, bytes: u32) -> Result<ScratchSize> {
        let units = (u64::from(bytes) * LANES).div_ceil(UNIT);
        if units > MOST_UNITS {
            let limit = MOST_UNITS * UNIT / LANES;
            return Err(Error::TooLarge { what: "scratch for each work-item", asked: bytes.into(), limit });
        }
        let num_xcc = u64::from(node.gpu.xccs.max(1));
        let slots = node.scratch_slots_per_cu.clamp(1, WAVES_PER_CU);
        let waves = u64::from(node.gpu.cus) * u64::from(slots) / num_xcc;
        // Waves are dealt to the shader engines in equal shares.
        let engines = (u64::from(node.engines) / num_xcc).max(1);
        let waves_per_xcc = waves.next_multiple_of(engines).clamp(engines, 0xFFF / engines * engines);
        Ok(ScratchSize { lane: (units * UNIT / LANES) as u32, units, waves_per_xcc, num_xcc })
    }

    /// Bytes of all of it.
    pub(crate) fn total(&self) -> u64 {
        self.units * UNIT * self.waves_per_xcc * self.num_xcc
    }

    /// Tells the packet processor, through the queue's object, that the scratch lies at `base`.
    pub(crate) fn describe(&self, base: GpuAddr, queue: &mut AmdQueue) {
        queue.compute_tmpring_size = (self.waves_per_xcc | self.units << 12) as u32;
        queue.scratch_resource_descriptor = self.resource(base);
        queue.scratch_backing_memory_location = base.0;
        queue.scratch_backing_memory_byte_size = self.total();
        queue.scratch_wave64_lane_byte_size = self.lane;
    }

    /// Buffer descriptor of gfx9: 32-bit elements interleaved for 64 lanes.
    fn resource(&self, base: GpuAddr) -> [u32; 4] {
        const SWIZZLE: u32 = 1 << 31;
        const SELECT_XYZW: u32 = 4 | 5 << 3 | 6 << 6 | 7 << 9;
        const UNSIGNED: u32 = 4 << 12;
        const BITS_32: u32 = 4 << 15;
        const ELEMENT_OF_4: u32 = 1 << 19;
        const STRIDE_OF_64: u32 = 3 << 21;
        const ADD_LANE: u32 = 1 << 23;
        let format = SELECT_XYZW | UNSIGNED | BITS_32 | ELEMENT_OF_4 | STRIDE_OF_64 | ADD_LANE;
        let records = u32::try_from(self.total() / self.num_xcc).unwrap_or(u32::MAX);
        [base.0 as u32, (base.0 >> 32) as u32 & 0xFFFF | SWIZZLE, records, format]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use kfd::topology::Gpu;
    use kfd::{Capability, GfxVersion, GpuId};
    use kfd_abi::cwsr::SaveAreaSize;

    use super::*;

    pub(crate) fn mi300x() -> GpuNode {
        let gpu = Gpu {
            id: GpuId(1),
            node: 1,
            address: String::new(),
            name: String::new(),
            gfx: GfxVersion::GFX942,
            unique_id: 0,
            cus: 304,
            waves_per_cu: 32,
            xccs: 8,
            hardware_queues: 24,
            capability: Capability::EMPTY,
            firmware: 0,
            render_minor: 128,
        };
        GpuNode {
            gpu,
            engines: 32,
            scratch_slots_per_cu: 32,
            local_memory: 65536,
            copy_queues: 16,
            save_area: SaveAreaSize { waves: 0, ctl_stack: 0, cwsr: 0, debug: 0, total: 0 },
        }
    }

    #[test]
    fn an_mi300x_gets_equal_shares_for_its_engines() {
        let size = ScratchSize::of(&mi300x(), 528).unwrap();
        // 528 bytes times 64 lanes are 33 KiB; 38 units of each chip hold 4 waves.
        assert_eq!((size.lane, size.units, size.waves_per_xcc), (528, 33, 152));
        assert_eq!(size.waves_per_xcc % 4, 0);
        assert_eq!(size.total(), 33 * 1024 * 152 * 8);
        let mut queue = AmdQueue::default();
        size.describe(GpuAddr(0x7F01_2345_6000), &mut queue);
        assert_eq!(queue.compute_tmpring_size, 33 << 12 | 152);
        assert_eq!(queue.scratch_resource_descriptor, [0x2345_6000, 0x8000_7F01, 33 * 1024 * 152, 0x00EA_4FAC]);
        assert_eq!(queue.scratch_wave64_lane_byte_size, 528);
    }

    #[test]
    fn small_gpus_still_get_a_wave_for_each_engine() {
        let gpu = Gpu { xccs: 1, cus: 1, ..mi300x().gpu };
        let node = GpuNode { gpu, engines: 4, scratch_slots_per_cu: 1, ..mi300x() };
        let size = ScratchSize::of(&node, 1).unwrap();
        assert_eq!((size.lane, size.waves_per_xcc), (16, 4));
    }

    #[test]
    fn a_stack_that_no_wave_can_have_is_refused() {
        assert!(ScratchSize::of(&mi300x(), 131_056).is_ok());
        assert!(matches!(ScratchSize::of(&mi300x(), 131_057), Err(Error::TooLarge { .. })));
    }
}
