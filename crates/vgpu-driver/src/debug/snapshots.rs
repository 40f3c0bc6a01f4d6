//! Lists of what a process has, for its debugger.

use kfd_abi::Abi;
use kfd_abi::debug::{
    DeviceSnapshotEntry, GetDeviceSnapshot, GetQueueSnapshot, LaterDeviceSnapshotEntry, QueueSnapshotEntry,
};
use kfd_abi::exception::ExceptionMask;
use kfd_abi::memory::DeviceApertures;

use super::super::call::encode;
use super::super::{Call, Driver, Errno, GpuState, Mutant, ProcessKey};
use super::{Memory, room};
use crate::sysfs;

/// Puts entries of this size at their stride into the caller's memory. Entries longer than the caller's are cut; what
/// lies between shorter ones stays as it was.
fn fill<T: Abi>(entries: &[T], (stride, size): (usize, usize), address: u64, memory: Memory) -> Result<Vec<u8>, Errno> {
    let copied = stride.min(size);
    let len = if entries.is_empty() { 0 } else { (entries.len() - 1).saturating_mul(stride).saturating_add(copied) };
    let mut bytes = room(memory, address, len)?;
    for (at, entry) in entries.iter().enumerate() {
        if let Some(place) = bytes.get_mut(at * stride..at * stride + copied) {
            place.copy_from_slice(&encode(entry)[..copied]);
        }
    }
    Ok(bytes)
}

impl Driver {
    pub(super) fn queue_snapshot(
        &mut self,
        target: ProcessKey,
        args: &mut GetQueueSnapshot,
        memory: Memory,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let most = std::mem::take(&mut args.num_queues) as usize;
        let stride = args.entry_size as usize;
        if stride == 0 && !self.has(Mutant::SnapshotSizeZero) {
            return Err(Errno::EINVAL);
        }
        args.entry_size = stride.min(QueueSnapshotEntry::SIZE) as u32;
        let gpu_ids: Vec<u32> = self.gpus.iter().map(|state| state.gpu.gpu_id).collect();
        let oldest_first = self.has(Mutant::SnapshotOldestFirst);
        let cleared = if self.has(Mutant::SnapshotClearsNothing) { ExceptionMask::EMPTY } else { args.exception_mask };
        let process = self.process_mut(target)?;
        let mut entries = Vec::new();
        let mut order = process.newest_first();
        if oldest_first {
            order.reverse();
        }
        for id in order.into_iter().take(most) {
            let Some(queue) = process.queues.get_mut(&id) else { continue };
            let (spec, settings) = (&queue.spec, &queue.spec.settings);
            entries.push(QueueSnapshotEntry {
                exception_status: queue.exceptions,
                ring_base_address: settings.ring,
                write_pointer_address: spec.wptr,
                read_pointer_address: spec.rptr,
                ctx_save_restore_address: spec.ctx_save,
                queue_id: id,
                gpu_id: gpu_ids.get(spec.gpu as usize).copied().unwrap_or_default(),
                // Rings are made with 32 bits of size.
                ring_size: settings.ring_size as u32,
                queue_type: queue.queue_type,
                ctx_save_restore_area_size: spec.ctx_save_size,
                reserved: 0,
            });
            queue.exceptions = queue.exceptions.without(cleared);
        }
        let total = process.queues.len() as u32;
        let size = (stride, QueueSnapshotEntry::SIZE);
        let bytes = fill(&entries, size, args.snapshot_buf_ptr, memory)?;
        call.answer(0, bytes)?;
        args.num_queues = total;
        Ok(0)
    }

    pub(super) fn device_snapshot(
        &mut self,
        target: ProcessKey,
        args: &mut GetDeviceSnapshot,
        memory: Memory,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        if args.snapshot_buf_ptr == 0 {
            return Err(Errno::EINVAL);
        }
        let stride = args.entry_size as usize;
        let most = args.num_devices as usize;
        args.num_devices = self.gpus.len() as u32;
        let size = self.kernel.device_entry_bytes;
        args.entry_size = stride.min(size) as u32;
        let known = self.gpus.iter().zip(self.apertures()).take(most);
        let mut entries: Vec<_> = known.map(|(state, apertures)| self.later_entry(state, &apertures)).collect();
        let process = self.process_mut(target)?;
        for (entry, gpu) in entries.iter_mut().zip(&mut process.gpus) {
            entry.entry.exception_status = gpu.exceptions;
            gpu.exceptions = gpu.exceptions.without(args.exception_mask);
        }
        let bytes = fill(&entries, (stride, size), args.snapshot_buf_ptr, memory)?;
        call.answer(0, bytes)?;
        Ok(0)
    }

    /// A gpu as its topology node has it.
    /// An entry as large as any kernel has it; no gpu here has one of the capabilities that came later.
    fn later_entry(&self, state: &GpuState, apertures: &DeviceApertures) -> LaterDeviceSnapshotEntry {
        LaterDeviceSnapshotEntry { entry: self.device_entry(state, apertures), ..LaterDeviceSnapshotEntry::ZERO }
    }

    fn device_entry(&self, state: &GpuState, apertures: &DeviceApertures) -> DeviceSnapshotEntry {
        let profile = &self.profile;
        let geometry = profile.geometry();
        DeviceSnapshotEntry {
            lds_base: apertures.lds_base,
            lds_limit: apertures.lds_limit,
            scratch_base: apertures.scratch_base,
            scratch_limit: apertures.scratch_limit,
            gpuvm_base: apertures.gpuvm_base,
            gpuvm_limit: apertures.gpuvm_limit,
            gpu_id: state.gpu.gpu_id,
            location_id: state.gpu.location_id,
            vendor_id: sysfs::AMD_VENDOR_ID,
            device_id: profile.device_id,
            revision_id: profile.revision_id,
            subsystem_vendor_id: sysfs::AMD_VENDOR_ID,
            subsystem_device_id: profile.device_id,
            fw_version: profile.gfx.mec_firmware(),
            gfx_target_version: profile.gfx.version(),
            simd_count: profile.simd_count(),
            max_waves_per_simd: profile.waves_per_simd,
            // Of one XCC: only sysfs multiplies.
            array_count: geometry.array_count
                / if self.has(Mutant::DevicesCountAllArrays) { 1 } else { profile.xcc.max(1) },
            simd_arrays_per_engine: geometry.simd_arrays_per_engine,
            num_xcc: profile.xcc,
            capability: sysfs::capability(profile.gfx),
            // The real driver cuts its 64 bits as well.
            debug_prop: sysfs::debug_properties(profile.gfx) as u32,
            ..DeviceSnapshotEntry::ZERO
        }
    }
}
