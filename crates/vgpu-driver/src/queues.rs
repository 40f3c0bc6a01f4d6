//! User-mode queues.
//!
//! Order of checks and errors: `kfd_chardev.c`, `kfd_queue.c`, `kfd_process_queue_manager.c` and
//! `kfd_device_queue_manager.c` of Linux 6.12.

mod slots;

use kfd_abi::PAGE_SIZE;
use kfd_abi::cwsr::eop_buffer_size;
use kfd_abi::exception::ExceptionMask;
use kfd_abi::memory::{MmapKind, MmapOffset};
use kfd_abi::queue::{
    CreateQueueArgs, DestroyQueueArgs, GetQueueWaveStateArgs, MAX_CU_MASK_BITS, MAX_PERCENTAGE, MAX_PRIORITY,
    MAX_QUEUES_PER_GPU, MAX_QUEUES_PER_GPU_GFX942, MIN_RING_SIZE, QueueType, SetCuMaskArgs, UpdateQueueArgs,
};

use super::debug::Source;
use super::hardware::Hardware;
use super::process::{Process, is_user_address, whole_pages};
use super::{
    Blocked, Call, Cause, DeviceEffect, Driver, Errno, FollowUp, Mutant, ProcessKey, QueueChange, QueueKind,
    QueueSettings, QueueSpec, layout,
};
use crate::profile::Gfx;
use slots::SdmaSlot;
pub(super) use slots::{DoorbellSlots, SdmaSlots};

/// Queues of all processes on one gpu: the default of the module parameter `max_num_of_queues_per_device`.
const MAX_QUEUES_PER_DEVICE: u32 = 4096;

/// A queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) spec: QueueSpec,
    pub(super) queue_type: QueueType,
    sdma: Option<SdmaSlot>,
    /// Start of the ring's mapping; it changes with the ring.
    ring_mapping: u64,
    /// Bytes of metadata behind the ring.
    metadata: u64,
    /// Starts of the other mappings on its gpu that it cannot do without.
    mappings: Vec<u64>,
    /// Later queues of the machine have higher numbers; ids do not tell, they are used again.
    pub(super) serial: u64,
    /// Whether a debugger stopped it.
    pub(super) suspended: bool,
    /// Whether a call waits to destroy it.
    pub(super) being_destroyed: bool,
    /// Whether its process has global wave sync through it.
    pub(super) gws: bool,
    /// The hardware's side of it.
    pub(super) hardware: Hardware,
    /// Exceptions for a debugger.
    pub(super) exceptions: ExceptionMask,
}

/// Starts of the mappings that a queue cannot do without.
struct QueueBuffers {
    ring: u64,
    /// Bytes of metadata behind the ring, in the same mapping.
    metadata: u64,
    others: Vec<u64>,
}

/// What a new queue takes of the slots of its process and gpu.
struct QueueSlots {
    kind: QueueKind,
    sdma: Option<SdmaSlot>,
    doorbell: u32,
}

impl Queue {
    /// Whether it belongs into the runlist, as far as it is its own doing.
    pub(super) fn is_active(&self) -> bool {
        self.spec.settings.active && !self.suspended
    }

    /// Engine and slot of a copy queue.
    pub(super) fn sdma_slot(&self) -> Option<(u32, u32)> {
        self.sdma.map(|slot| (slot.engine, slot.queue))
    }
}

/// Percentage in the low byte, target XCC in the next. Rings smaller than the smallest are made larger, also those of
/// size 0, and the caller is told the new size.
fn settings(ring: u64, ring_size: &mut u32, percentage: u32, priority: u32) -> Result<QueueSettings, Errno> {
    let percent = percentage & 0xFF;
    if percent > MAX_PERCENTAGE || priority > MAX_PRIORITY {
        return Err(Errno::EINVAL);
    }
    if ring != 0 && !is_user_address(ring) {
        return Err(Errno::EFAULT);
    }
    if *ring_size != 0 && !ring_size.is_power_of_two() {
        return Err(Errno::EINVAL);
    }
    *ring_size = (*ring_size).max(MIN_RING_SIZE);
    let ring_size = (*ring_size).into();
    let target_xcc = percentage >> 8 & 0xFF;
    Ok(QueueSettings { ring, ring_size, percent, priority, target_xcc, active: ring != 0 && percent > 0 })
}

/// Checks the arguments of CREATE_QUEUE that need no state; returns the settings that they ask for.
fn checked_settings(args: &mut CreateQueueArgs) -> Result<QueueSettings, Errno> {
    let settings = settings(args.ring_base_address, &mut args.ring_size, args.queue_percentage, args.queue_priority)?;
    if !is_user_address(args.read_pointer_address) || !is_user_address(args.write_pointer_address) {
        return Err(Errno::EFAULT);
    }
    if !is_user_address(args.eop_buffer_address) || !is_user_address(args.ctx_save_restore_address) {
        return Err(Errno::EFAULT);
    }
    if !QueueType::DEFINED.contains(&args.queue_type) {
        return Err(Errno::ENOTSUPP);
    }
    Ok(settings)
}

/// Describes a new queue.
fn queue_spec(args: &CreateQueueArgs, gpu: u32, id: u32, settings: QueueSettings, slots: &QueueSlots) -> QueueSpec {
    let is_compute = args.queue_type.is_compute();
    QueueSpec {
        id,
        kind: slots.kind,
        gpu,
        settings,
        rptr: args.read_pointer_address,
        wptr: args.write_pointer_address,
        doorbell: slots.doorbell,
        doorbell_offset: layout::doorbells(gpu) + slots::position(slots.doorbell),
        eop: if is_compute { args.eop_buffer_address } else { 0 },
        eop_size: if is_compute { args.eop_buffer_size } else { 0 },
        ctx_save: if is_compute { args.ctx_save_restore_address } else { 0 },
        ctx_save_size: if is_compute { args.ctx_save_restore_size } else { 0 },
        ctl_stack_size: if is_compute { args.ctl_stack_size } else { 0 },
    }
}

impl Driver {
    pub(super) fn create_queue(
        &mut self,
        caller: ProcessKey,
        args: &mut CreateQueueArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let settings = checked_settings(args).map_err(|errno| match errno {
            Errno::ENOTSUPP if self.has(Mutant::UnknownTypeInvalid) => Errno::EINVAL,
            other => other,
        })?;
        if self.kernel.metadata_ring && args.pad != 0 && !args.pad.is_power_of_two() {
            return Err(Errno::EINVAL);
        }
        let gpu = self.bound_gpu(caller, args.gpu_id, Errno::ESRCH)?;
        let engines = self.profile.sdma_engines + self.profile.sdma_xgmi_engines;
        if args.queue_type == QueueType::SDMA_BY_ENG_ID && args.sdma_engine_id >= engines {
            return Err(Errno::EINVAL);
        }
        let buffers = self.find_buffers(caller, gpu, args, &settings)?;
        let (id, slots) = self.take_id_and_slots(caller, gpu, args)?;
        let spec = queue_spec(args, gpu as u32, id, settings, &slots);
        args.queue_id = id;
        let MmapOffset(slice) = MmapOffset::new(MmapKind::DOORBELL, args.gpu_id);
        args.doorbell_offset = slice | slots::position(slots.doorbell);
        if self.has(Mutant::PlainDoorbellOffset) {
            args.doorbell_offset = spec.doorbell_offset;
        }
        call.effects.device.push(QueueChange::Create(spec.clone()).into());
        self.add_queue(caller, args.queue_type, spec, slots.sdma, buffers, call)
    }

    /// Adds a queue that was accepted to the process and the gpu.
    fn add_queue(
        &mut self,
        caller: ProcessKey,
        requested: QueueType,
        spec: QueueSpec,
        sdma: Option<SdmaSlot>,
        buffers: QueueBuffers,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let (id, gpu) = (spec.id, spec.gpu as usize);
        self.gpus[gpu].queues += 1;
        self.queue_serial += 1;
        let serial = self.queue_serial;
        let hardware = match sdma {
            Some(slot) => self.gpus[gpu].descriptors.sdma(slot.engine, slot.queue),
            None => self.gpus[gpu].descriptors.compute(spec.ctl_stack_size),
        };
        // From here on a queue on a chosen engine is one of the engine's kind.
        let queue_type = match (requested, sdma) {
            (QueueType::SDMA_BY_ENG_ID, Some(slot)) if slot.engine < self.profile.sdma_engines => QueueType::SDMA,
            (QueueType::SDMA_BY_ENG_ID, _) => QueueType::SDMA_XGMI,
            (other, _) => other,
        };
        let process = self.process_mut(caller)?;
        let on_gpu = process.on(gpu)?;
        on_gpu.queues += 1;
        if on_gpu.queues == 1 {
            on_gpu.scheduling.registered = serial;
        }
        let QueueBuffers { ring: ring_mapping, others: mappings, metadata } = buffers;
        for va in mappings.iter().chain([&ring_mapping]) {
            if let Some(mapping) = on_gpu.mappings.get_mut(va) {
                mapping.queue_users += 1;
            }
        }
        // Every queue is new until a debugger has seen it, whether or not there is one.
        let exceptions = ExceptionMask::QUEUE_NEW;
        let queue = Queue {
            spec,
            queue_type,
            sdma,
            ring_mapping,
            metadata,
            mappings,
            serial,
            suspended: false,
            being_destroyed: false,
            gws: false,
            exceptions,
            hardware,
        };
        if process.is_active(&queue) {
            call.effects.device.push(DeviceEffect::Cycle { gpu: gpu as u32, cause: Cause::CreateQueue, grace: None });
        }
        process.queues.insert(id, queue);
        process.raise(caller, Source::Queue(id), exceptions, &mut call.effects.device);
        Ok(0)
    }

    /// Takes an id for a new queue, and the slots that it needs; nothing if one of them is missing.
    fn take_id_and_slots(
        &mut self,
        caller: ProcessKey,
        gpu: usize,
        args: &CreateQueueArgs,
    ) -> Result<(u32, QueueSlots), Errno> {
        let most = if self.profile.gfx == Gfx::Gfx942 { MAX_QUEUES_PER_GPU_GFX942 } else { MAX_QUEUES_PER_GPU };
        if self.process_mut(caller)?.on(gpu)?.queues >= most {
            return Err(Errno::ENOSPC);
        }
        let id = self.process_mut(caller)?.queue_ids.take().ok_or(Errno::ENOMEM)?;
        match self.take_slots(caller, gpu, args) {
            Ok(slots) => Ok((id, slots)),
            Err(errno) => {
                self.process_mut(caller)?.queue_ids.put(id);
                Err(errno)
            }
        }
    }

    /// The buffers that a queue cannot do without (`kfd_queue_acquire_buffers`): the ring's, and the others.
    fn find_buffers(
        &self,
        caller: ProcessKey,
        gpu: usize,
        args: &CreateQueueArgs,
        settings: &QueueSettings,
    ) -> Result<QueueBuffers, Errno> {
        let process = self.process(caller)?;
        let page = u64::from(PAGE_SIZE);
        let mut mappings = vec![
            process.exact_mapping(gpu, args.write_pointer_address, page)?,
            process.exact_mapping(gpu, args.read_pointer_address, page)?,
        ];
        let is_aql = args.queue_type == QueueType::COMPUTE_AQL;
        let metadata = if self.kernel.metadata_ring && is_aql { u64::from(args.pad) } else { 0 };
        let mut ring_bytes = settings.ring_size + metadata;
        if self.kernel.exact_small_ring {
            ring_bytes = whole_pages(ring_bytes).ok_or(Errno::EINVAL)?;
        }
        let ring = process.exact_mapping(gpu, settings.ring, ring_bytes)?;
        if !args.queue_type.is_compute() {
            return Ok(QueueBuffers { ring, metadata, others: mappings });
        }
        if args.eop_buffer_address != 0 {
            // The driver keeps 32 bits of the size.
            let size = args.eop_buffer_size & u64::from(u32::MAX);
            if size < u64::from(eop_buffer_size(self.profile.gfx.version())) {
                return Err(Errno::EINVAL);
            }
            let size = whole_pages(size).ok_or(Errno::EINVAL)?;
            mappings.push(process.exact_mapping(gpu, args.eop_buffer_address, size)?);
        }
        let size = self.profile.save_area().ok_or(Errno::EINVAL)?;
        let stack_fits = args.ctl_stack_size == size.ctl_stack || self.has(Mutant::ControlStackAny);
        if !stack_fits || args.ctx_save_restore_size < size.cwsr {
            return Err(Errno::EINVAL);
        }
        let total = (u64::from(args.ctx_save_restore_size) + u64::from(size.debug)) * u64::from(self.profile.xcc);
        let total = whole_pages(total).ok_or(Errno::EINVAL)?;
        match process.exact_mapping(gpu, args.ctx_save_restore_address, total) {
            Ok(mapping) => mappings.push(mapping),
            // Runtimes place the area in ordinary memory that stays mapped.
            Err(errno) if !process.svm.always_mapped(gpu, args.ctx_save_restore_address, total) => return Err(errno),
            Err(_) => {}
        }
        Ok(QueueBuffers { ring, metadata, others: mappings })
    }

    fn take_slots(&mut self, caller: ProcessKey, gpu: usize, args: &CreateQueueArgs) -> Result<QueueSlots, Errno> {
        if self.gpus[gpu].queues >= MAX_QUEUES_PER_DEVICE {
            return Err(Errno::EPERM);
        }
        if args.queue_type.is_compute() {
            let doorbell = self.process_mut(caller)?.on(gpu)?.doorbells.take().ok_or(Errno::EBUSY)?;
            let kind = if args.queue_type == QueueType::COMPUTE_AQL { QueueKind::Aql } else { QueueKind::Pm4 };
            return Ok(QueueSlots { kind, sdma: None, doorbell });
        }
        let sdma = &mut self.gpus[gpu].sdma;
        let slot = match args.queue_type {
            QueueType::SDMA_XGMI => sdma.take_xgmi(),
            QueueType::SDMA_BY_ENG_ID => sdma.take_on(args.sdma_engine_id),
            _ => sdma.take(),
        };
        let slot = slot.ok_or(Errno::ENOMEM)?;
        // No two queues of a gpu have the same slot, so the doorbell that goes with it is free.
        Ok(QueueSlots { kind: QueueKind::Sdma { engine: slot.engine }, doorbell: slot.doorbell(), sdma: Some(slot) })
    }

    pub(super) fn destroy_queue(
        &mut self,
        caller: ProcessKey,
        args: &mut DestroyQueueArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let id = args.queue_id;
        let waited = call.blocked.take() == Some(Blocked::DestroyQueue { id });
        let waits = !self.has(Mutant::DestroyNeverWaits);
        let twice = self.has(Mutant::DestroyTwice) || !self.kernel.destroys_once;
        let process = self.process_mut(caller)?;
        let queue = process.queues.get_mut(&id).ok_or(Errno::EINVAL)?;
        if queue.being_destroyed && !waited && !twice {
            return Err(Errno::EBUSY);
        }
        queue.being_destroyed = true;
        // Whether the process is debugged counts only when the wait begins.
        if queue.suspended && waits && (waited || process.debug.enabled) {
            call.blocked = Some(Blocked::DestroyQueue { id });
            return Ok(0);
        }
        let queue = process.queues.remove(&id).ok_or(Errno::EINVAL)?;
        process.queue_ids.put(id);
        let gpu = queue.spec.gpu as usize;
        if process.is_active(&queue) {
            call.effects.device.push(DeviceEffect::Cycle {
                gpu: queue.spec.gpu,
                cause: Cause::DestroyQueue,
                grace: None,
            });
        }
        let on_gpu = process.on(gpu)?;
        on_gpu.queues -= 1;
        if queue.gws {
            on_gpu.num_gws = 0;
            call.effects.device.push(QueueChange::AllocateGws { id, count: 0 }.into());
        }
        for va in queue.mappings.iter().chain([&queue.ring_mapping]) {
            if let Some(mapping) = on_gpu.mappings.get_mut(va) {
                // The render node may have mapped something else there.
                mapping.queue_users = mapping.queue_users.saturating_sub(1);
            }
        }
        if queue.sdma.is_none() {
            on_gpu.doorbells.put(queue.spec.doorbell);
        }
        process.raise(caller, Source::Gpu(gpu), ExceptionMask::DEVICE_QUEUE_DELETE, &mut call.effects.device);
        self.release_slots(&queue);
        call.effects.device.push(QueueChange::Destroy { id }.into());
        Ok(0)
    }

    /// Releases what a queue has of the slots that all processes share.
    pub(super) fn release_slots(&mut self, queue: &Queue) {
        if let Some(state) = self.gpus.get_mut(queue.spec.gpu as usize) {
            state.queues -= 1;
            if let Some(slot) = queue.sdma {
                state.sdma.put(slot);
            }
            state.descriptors.put(&queue.hardware);
        }
    }

    pub(super) fn update_queue(
        &mut self,
        caller: ProcessKey,
        args: &mut UpdateQueueArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let settings =
            settings(args.ring_base_address, &mut args.ring_size, args.queue_percentage, args.queue_priority)?;
        let (resumes, free) = (self.has(Mutant::UpdateResumes), self.has(Mutant::UpdateFree));
        let process = self.process_mut(caller)?;
        let queue = process.queues.get(&args.queue_id).ok_or(Errno::EFAULT)?;
        // No ring at all turns the queue off, and the ring it had stays in use.
        if settings.ring != 0 {
            let (gpu, old, bytes) = (queue.spec.gpu as usize, queue.ring_mapping, settings.ring_size + queue.metadata);
            let new = process.exact_mapping(gpu, settings.ring, bytes).map_err(|_| Errno::EFAULT)?;
            let mappings = &mut process.on(gpu)?.mappings;
            for (va, more) in [(new, true), (old, false)] {
                if let Some(mapping) = mappings.get_mut(&va) {
                    mapping.queue_users =
                        if more { mapping.queue_users + 1 } else { mapping.queue_users.saturating_sub(1) };
                }
            }
            if let Some(queue) = process.queues.get_mut(&args.queue_id) {
                queue.ring_mapping = new;
            }
        }
        let queue = process.queues.get_mut(&args.queue_id).ok_or(Errno::EFAULT)?;
        queue.spec.settings = settings;
        queue.suspended &= !resumes;
        call.effects.device.push(QueueChange::Update { id: args.queue_id, settings }.into());
        let cycle = DeviceEffect::Cycle { gpu: queue.spec.gpu, cause: Cause::UpdateQueue, grace: None };
        call.effects.device.extend((!free).then_some(cycle));
        Ok(0)
    }

    pub(super) fn set_cu_mask(
        &mut self,
        caller: ProcessKey,
        args: &mut SetCuMaskArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        if args.num_cu_mask == 0 || !args.num_cu_mask.is_multiple_of(32) {
            return Err(Errno::EINVAL);
        }
        let mask: Vec<u32> = call.list(0, args.num_cu_mask.min(MAX_CU_MASK_BITS) / 32)?;
        let queue = self.process_mut(caller)?.queues.get_mut(&args.queue_id).ok_or(Errno::EFAULT)?;
        queue.hardware.cu_mask = Some(mask.clone());
        // The update of the descriptor says nothing of global wave sync (`update_mqd`).
        queue.hardware.force_simd_dist = false;
        let gpu = queue.spec.gpu;
        call.effects.device.push(QueueChange::SetCuMask { id: args.queue_id, mask }.into());
        call.effects.device.push(DeviceEffect::Cycle { gpu, cause: Cause::CuMask, grace: None });
        Ok(0)
    }

    pub(super) fn get_queue_wave_state(
        &mut self,
        caller: ProcessKey,
        args: &mut GetQueueWaveStateArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let process = self.process(caller)?;
        let queue = process.queues.get(&args.queue_id).ok_or(Errno::EFAULT)?;
        if !queue.queue_type.is_compute() || process.is_active(queue) {
            return Err(Errno::EINVAL);
        }
        call.effects.device.push(FollowUp::ReadWaveState { id: args.queue_id, address: args.ctl_stack_address }.into());
        Ok(0)
    }
}

impl Process {
    /// Start of the mapping that begins in the page of `address` and is exactly as large as said. Less than a page
    /// means that its size does not matter.
    fn exact_mapping(&self, gpu: usize, address: u64, size: u64) -> Result<u64, Errno> {
        let page = u64::from(PAGE_SIZE);
        let start = address / page * page;
        let size = size / page * page;
        let found = self.gpus.get(gpu).and_then(|gpu| gpu.mapping_at(start)).ok_or(Errno::EINVAL)?;
        let (va, mapping) = found;
        if va == start && (size == 0 || mapping.size == size) { Ok(va) } else { Err(Errno::EINVAL) }
    }
}
