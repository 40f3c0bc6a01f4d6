//! Dispatches by PM4: everything about the kernel stands in registers.

use kfd_abi::exception::ExceptionCode;

use super::aql::{MAX_ITEMS, MAX_LDS, MAX_SCRATCH};
use super::context::Context;
use super::dispatch::Dispatches;
use super::errors::Halt;
use super::kernel::Kernel;
use super::kernel_launch::KernelLaunch;
use super::pm4::{PacketProgress, Pm4, SH_REGISTERS};

/// Registers of a dispatch.
mod register {
    use super::SH_REGISTERS;

    const COMPUTE: u32 = SH_REGISTERS + 0x200;
    pub(super) const START_X: u32 = COMPUTE + 0x04;
    pub(super) const NUM_THREAD_X: u32 = COMPUTE + 0x07;
    pub(super) const PGM_LO: u32 = COMPUTE + 0x0C;
    pub(super) const PGM_HI: u32 = COMPUTE + 0x0D;
    pub(super) const PGM_RSRC1: u32 = COMPUTE + 0x12;
    pub(super) const PGM_RSRC2: u32 = COMPUTE + 0x13;
    pub(super) const TMPRING_SIZE: u32 = COMPUTE + 0x18;
    pub(super) const PGM_RSRC3: u32 = COMPUTE + 0x2D;
    pub(super) const USER_DATA_0: u32 = COMPUTE + 0x40;
    pub(super) const USER_DATA: u32 = 16;
}

/// Bits of COMPUTE_DISPATCH_INITIATOR.
mod initiator {
    pub(super) const ENABLE: u32 = 1 << 0;
    pub(super) const PARTIAL: u32 = 1 << 1;
    pub(super) const START_AT_ZERO: u32 = 1 << 2;
    pub(super) const THREADS: u32 = 1 << 5;
}

impl Pm4 {
    /// DISPATCH_DIRECT.
    pub(super) fn dispatch(
        &mut self,
        dimensions: [u32; 3],
        initiator: u32,
        cx: &mut Context<'_>,
        dispatches: &mut Dispatches,
    ) -> Result<PacketProgress, Halt> {
        if initiator & initiator::ENABLE == 0 {
            return Ok(PacketProgress::Next);
        }
        if dispatches.full() {
            return Ok(PacketProgress::Wait);
        }
        let launch = self.launch(dimensions, initiator, cx)?;
        let workgroups = launch.workgroups().ok_or_else(|| {
            let text = format!("a dispatch of {dimensions:?} has too many workgroups");
            Halt::error(ExceptionCode::QUEUE_PACKET_DISPATCH_DIM_INVALID, text)
        })?;
        if workgroups > 0 {
            dispatches.push(launch, workgroups, None, 0);
            self.launched = true;
        }
        Ok(PacketProgress::Next)
    }

    /// DISPATCH_INDIRECT: dimensions are read from memory.
    pub(super) fn dispatch_indirect(
        &mut self,
        at: u64,
        initiator: u32,
        cx: &mut Context<'_>,
        dispatches: &mut Dispatches,
    ) -> Result<PacketProgress, Halt> {
        let mut dimensions = [0; 3];
        for (n, dimension) in (0..).zip(&mut dimensions) {
            *dimension = cx.memory.read_u32(at.wrapping_add(4 * n))?;
        }
        self.dispatch(dimensions, initiator, cx, dispatches)
    }

    fn launch(&self, dimensions: [u32; 3], initiator: u32, cx: &mut Context<'_>) -> Result<KernelLaunch, Halt> {
        let threads: [u32; 3] = std::array::from_fn(|d| self.register(register::NUM_THREAD_X + d as u32));
        let size = threads.map(|threads| threads & 0xFFFF);
        let items = size.iter().try_fold(1_u32, |items, &d| items.checked_mul(d)).unwrap_or(u32::MAX);
        if items == 0 || items > MAX_ITEMS {
            let text = format!("a workgroup of {size:?} work items");
            return Err(Halt::error(ExceptionCode::QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID, text));
        }
        let in_threads = initiator & initiator::THREADS != 0;
        let partial = initiator & initiator::PARTIAL != 0;
        let from_zero = initiator & initiator::START_AT_ZERO != 0;
        let last = std::array::from_fn(|d| match threads[d] >> 16 {
            _ if in_threads && dimensions[d] > 0 => (dimensions[d] - 1) % size[d] + 1,
            rest if partial && rest > 0 => rest.min(size[d]),
            _ => size[d],
        });
        let kernel = Kernel {
            entry: (u64::from(self.register(register::PGM_HI)) << 32 | u64::from(self.register(register::PGM_LO))) << 8,
            rsrc1: self.register(register::PGM_RSRC1),
            rsrc2: self.register(register::PGM_RSRC2),
            rsrc3: self.register(register::PGM_RSRC3),
            ..Kernel::default()
        };
        let launch = KernelLaunch {
            target: cx.target,
            kernel,
            size,
            last,
            start: std::array::from_fn(|d| if from_zero { 0 } else { self.register(register::START_X + d as u32) }),
            end: std::array::from_fn(|d| if in_threads { dimensions[d].div_ceil(size[d]) } else { dimensions[d] }),
            user: (0..register::USER_DATA).map(|n| self.register(register::USER_DATA_0 + n)).collect(),
            lds: kernel.lds(),
            scratch: if kernel.private_segment() { self.scratch() } else { 0 },
            slot: 0,
        };
        if launch.lds > MAX_LDS {
            let text = format!("{} bytes of LDS", launch.lds);
            return Err(Halt::error(ExceptionCode::QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID, text));
        }
        if !cx.slots.possible(&launch.largest()) {
            let text = format!("no compute unit has room for a workgroup of {items}");
            return Err(Halt::error(ExceptionCode::QUEUE_PACKET_DISPATCH_REGISTER_INVALID, text));
        }
        Ok(launch)
    }

    /// Returns the private memory of a work item in bytes: the register has a wave's share in kilobytes.
    fn scratch(&self) -> u32 {
        let kilobytes = self.register(register::TMPRING_SIZE) >> 12 & 0x1FFF;
        (kilobytes * 1024 / 64).min(MAX_SCRATCH)
    }
}
