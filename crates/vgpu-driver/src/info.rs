//! Version, clocks, apertures, address spaces, and the settings of a process that are one number each.

use kfd_abi::memory::{APERTURES_MAX, DeviceApertures, GetProcessAperturesArgs, GetProcessAperturesNewArgs};
use kfd_abi::process::{
    AcquireVmArgs, CachePolicy, GetClockCountersArgs, GetTileConfigArgs, GetVersionArgs, SetMemoryPolicyArgs,
    SetScratchBackingVaArgs, SetTrapHandlerArgs, SetXnackModeArgs, VERSION_MAJOR,
};

use super::call::{MACRO_TILE_MODES, TILE_MODES, encode};
use super::gem::Node;
use super::{Call, Driver, Errno, FdKind, ProcessEffect, ProcessKey};
use crate::profile::Gfx;

const LDS_BASE: u64 = 1 << 48;
const SCRATCH_BASE: u64 = 2 << 48;
/// Both apertures have 4 GiB.
const APERTURE_MASK: u64 = 0xFFFF_FFFF;
/// The driver keeps the first 64 KiB for itself.
const GPUVM_BASE: u64 = 0x1_0000;
/// From this limit on a runtime places buffers with plain `mmap`.
const GPUVM_LIMIT: u64 = (1 << 47) - 1;
/// The driver counts in nanoseconds.
const SYSTEM_CLOCK_HZ: u64 = 1_000_000_000;

impl Gfx {
    /// Register of the address layout, as the driver sets it up.
    pub(super) const fn gb_addr_config(self) -> u32 {
        match self {
            Gfx::Gfx942 => 0x2A11_4042,
            Gfx::Gfx90a => 0x2201_4042,
        }
    }
}

impl Driver {
    pub(super) fn get_version(&mut self, _: ProcessKey, args: &mut GetVersionArgs, _: &mut Call) -> Result<i64, Errno> {
        *args = GetVersionArgs { major_version: VERSION_MAJOR, minor_version: self.kernel.minor_version };
        Ok(0)
    }

    pub(super) fn get_clock_counters(
        &mut self,
        _: ProcessKey,
        args: &mut GetClockCountersArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let now = call.clocks;
        // A node without a gpu has no counter, and asking for it is no error.
        args.gpu_clock_counter =
            if self.gpu(args.gpu_id).is_ok() { self.profile.gpu_clock(now.monotonic_raw_ns) } else { 0 };
        args.cpu_clock_counter = now.monotonic_raw_ns;
        args.system_clock_counter = now.boottime_ns;
        args.system_clock_freq = SYSTEM_CLOCK_HZ;
        Ok(0)
    }

    pub(super) fn apertures(&self) -> Vec<DeviceApertures> {
        self.gpus
            .iter()
            .map(|state| DeviceApertures {
                lds_base: LDS_BASE,
                lds_limit: LDS_BASE | APERTURE_MASK,
                scratch_base: SCRATCH_BASE,
                scratch_limit: SCRATCH_BASE | APERTURE_MASK,
                gpuvm_base: GPUVM_BASE,
                gpuvm_limit: GPUVM_LIMIT,
                gpu_id: state.gpu.gpu_id,
                pad: 0,
            })
            .collect()
    }

    pub(super) fn get_process_apertures(
        &mut self,
        _: ProcessKey,
        args: &mut GetProcessAperturesArgs,
        _: &mut Call,
    ) -> Result<i64, Errno> {
        let apertures = self.apertures();
        args.process_apertures.iter_mut().zip(&apertures).for_each(|(room, aperture)| *room = *aperture);
        args.num_of_nodes = apertures.len().min(APERTURES_MAX) as u32;
        Ok(0)
    }

    pub(super) fn get_process_apertures_new(
        &mut self,
        _: ProcessKey,
        args: &mut GetProcessAperturesNewArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let apertures = self.apertures();
        if args.num_of_nodes == 0 {
            args.num_of_nodes = apertures.len() as u32;
            return Ok(0);
        }
        // More than there are nodes, the processor's included.
        if args.num_of_nodes as usize > apertures.len() + 1 {
            return Err(Errno::EINVAL);
        }
        let count = apertures.len().min(args.num_of_nodes as usize);
        args.num_of_nodes = count as u32;
        call.answer(0, apertures[..count].iter().flat_map(encode).collect())?;
        Ok(0)
    }

    /// Takes the address space of an opened render node. The real driver does not see that the node is another gpu's
    /// and goes wrong later; here it is refused.
    pub(super) fn acquire_vm(
        &mut self,
        caller: ProcessKey,
        args: &mut AcquireVmArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let fd = call.fd.ok_or(Errno::EINVAL)?;
        let gpu = self.gpu(args.gpu_id)?;
        let render_minor = self.gpus[gpu].gpu.render_minor;
        let on_gpu = self.process_mut(caller)?.on(gpu)?;
        let file = match fd {
            FdKind::Render { minor, file } if minor == render_minor => Some(file),
            _ => None,
        };
        if on_gpu.vm.is_some() {
            return if on_gpu.vm == file { Ok(0) } else { Err(Errno::EBUSY) };
        }
        let file = file.ok_or(Errno::EINVAL)?;
        on_gpu.vm = Some(file);
        self.adopt(Node { caller, gpu, file }, &mut call.effects.process)?;
        Ok(0)
    }

    pub(super) fn set_memory_policy(
        &mut self,
        caller: ProcessKey,
        args: &mut SetMemoryPolicyArgs,
        _: &mut Call,
    ) -> Result<i64, Errno> {
        let known = |policy| CachePolicy::DEFINED.contains(&policy);
        if !known(args.default_policy) || !known(args.alternate_policy) {
            return Err(Errno::EINVAL);
        }
        // There are no caches whose policy it could be: memory is always coherent here.
        self.bound_gpu(caller, args.gpu_id, Errno::ESRCH)?;
        Ok(0)
    }

    pub(super) fn set_scratch_backing_va(
        &mut self,
        caller: ProcessKey,
        args: &mut SetScratchBackingVaArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let gpu = self.bound_gpu(caller, args.gpu_id, Errno::ENODEV)? as u32;
        call.effects.process.push(ProcessEffect::SetScratchBacking { gpu, va: args.va_addr });
        Ok(0)
    }

    pub(super) fn set_trap_handler(
        &mut self,
        caller: ProcessKey,
        args: &mut SetTrapHandlerArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let gpu = self.bound_gpu(caller, args.gpu_id, Errno::ESRCH)? as u32;
        call.effects.process.push(ProcessEffect::SetTrapHandler { gpu, tba: args.tba_addr, tma: args.tma_addr });
        Ok(0)
    }

    pub(super) fn get_tile_config(
        &mut self,
        _: ProcessKey,
        args: &mut GetTileConfigArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        self.gpu(args.gpu_id)?;
        args.gb_addr_config = self.profile.gfx.gb_addr_config();
        // Neither these two nor the modes themselves are set up from gfx9 on.
        args.num_banks = 0;
        args.num_ranks = 0;
        args.num_tile_configs = args.num_tile_configs.min(TILE_MODES);
        args.num_macro_tile_configs = args.num_macro_tile_configs.min(MACRO_TILE_MODES);
        call.answer(0, vec![0; args.num_tile_configs as usize * 4])?;
        call.answer(1, vec![0; args.num_macro_tile_configs as usize * 4])?;
        Ok(0)
    }

    pub(super) fn set_xnack_mode(
        &mut self,
        caller: ProcessKey,
        args: &mut SetXnackModeArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let process = self.process_mut(caller)?;
        if args.xnack_enabled < 0 {
            args.xnack_enabled = process.xnack.into();
            return Ok(0);
        }
        if !process.queues.is_empty() {
            return Err(Errno::EBUSY);
        }
        let enabled = args.xnack_enabled > 0;
        if process.xnack != enabled {
            process.xnack = enabled;
            call.effects.process.push(ProcessEffect::XnackMode { enabled });
        }
        Ok(0)
    }
}
