//! Memory calls of `/dev/kfd`: allocate, map, unmap, free; what is left.
//!
//! Order of checks and errors: `kfd_chardev.c` and `amdgpu_amdkfd_gpuvm.c` of Linux 6.12. Where the kernel's limits
//! come from the machine's memory, the profile's sizes stand in, and nothing is kept back for page tables.
//!
//! Stricter than the kernel: exactly one kind of memory has to be named (the kernel takes the first it knows of
//! several), memory of the process has to start at a page, and no buffer is mapped twice in a row as rings of gfx8 want
//! it. Whether memory of the process is there is for the client side to see.

use std::collections::{BTreeMap, BTreeSet};

use kfd_abi::PAGE_SIZE;
use kfd_abi::memory::{
    AllocFlags, AllocMemoryArgs, AvailableMemoryArgs, FreeMemoryArgs, MapMemoryArgs, MmapKind, MmapOffset,
    UnmapMemoryArgs, handle, handle_parts,
};
use kfd_abi::queue::DOORBELL_SLICE;

use super::buffers::{AVAILABLE_ALIGN, Held};
use super::process::{Process, is_page_aligned, is_user_address, whole_pages};
use super::{Backing, Call, Driver, Effects, Errno, Mutant, ProcessEffect, ProcessKey, layout};

/// First address that no gpu can reach.
pub(super) const VA_END: u64 = 1 << 48;

/// What a handle names: a buffer at an address.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) buffer: u64,
    pub(super) va: u64,
    /// Kind and properties, among them what a gpu may do with it.
    pub(super) flags: AllocFlags,
    /// Indices of the gpus that see it.
    pub(super) mapped: BTreeSet<usize>,
    /// Bytes it counts for in the process's video memory.
    pub(super) vram_usage: u64,
}

/// What made a mapping: it is undone by the same means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MappingOf {
    /// A handle of `/dev/kfd`.
    Kfd { handle: u64 },
    /// A buffer of the render node, from an offset on.
    Gem { buffer: u64, offset: u64, accessible: bool, flags: AllocFlags },
}

impl MappingOf {
    /// The handle for `/dev/kfd`, or 0.
    pub(super) fn handle(self) -> u64 {
        match self {
            MappingOf::Kfd { handle } => handle,
            MappingOf::Gem { .. } => 0,
        }
    }
}

/// A buffer in the address space of a gpu.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) size: u64,
    pub(super) of: MappingOf,
    /// Queues that cannot do without it.
    pub(super) queue_users: u32,
}

impl Driver {
    pub(super) fn alloc_memory(
        &mut self,
        caller: ProcessKey,
        args: &mut AllocMemoryArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        if args.size == 0 {
            return Err(Errno::EINVAL);
        }
        let is_userptr = args.flags.has(AllocFlags::USERPTR);
        if is_userptr && caller.is_secondary() {
            return Err(Errno::EOPNOTSUPP);
        }
        let svm = &self.process(caller)?.svm;
        // Video memory without an address is only ever exported.
        let has_va = args.va_addr != 0 || !args.flags.has(AllocFlags::VRAM);
        if has_va && svm.overlaps(args.va_addr, args.size) || is_userptr && svm.overlaps(args.mmap_offset, args.size) {
            return Err(Errno::EADDRINUSE);
        }
        let gpu = self.bound_gpu(caller, args.gpu_id, Errno::ENODEV)?;
        // Rings of gfx7 and gfx8 are mapped twice; these gpus have no such rings.
        if args.flags.has(AllocFlags::AQL_QUEUE_MEM) {
            return Err(Errno::EINVAL);
        }
        let backing = match args.flags.both(AllocFlags::KINDS) {
            AllocFlags::VRAM | AllocFlags::GTT => None,
            AllocFlags::USERPTR => {
                let address = args.mmap_offset;
                if address == 0 || !is_page_aligned(address) || !is_user_address(address) {
                    return Err(Errno::EINVAL);
                }
                Some(Backing::UserPtr { address })
            }
            AllocFlags::DOORBELL if args.size == u64::from(DOORBELL_SLICE) => {
                Some(Backing::Doorbell { offset: layout::doorbells(gpu as u32) })
            }
            AllocFlags::MMIO_REMAP if args.size == layout::MMIO_SIZE => {
                Some(Backing::MmioRemap { offset: layout::mmio(gpu as u32) })
            }
            _ => return Err(Errno::EINVAL),
        };
        // Rounding such a size to pages leaves nothing.
        args.size.checked_next_multiple_of(PAGE_SIZE.into()).ok_or(Errno::EINVAL)?;
        let size = whole_pages(args.size).ok_or(Errno::ENOMEM)?;
        let buffer = self.add_buffer(caller, gpu, args.flags, size, backing)?;
        let vram_usage = if args.flags.has(AllocFlags::VRAM) { size } else { 0 };
        let mapped = BTreeSet::new();
        let handle = Handle { buffer, va: args.va_addr, flags: args.flags, mapped, vram_usage };
        let (name, held) = self.add_handle(caller, gpu, handle, &mut call.effects)?;
        args.handle = name;
        args.mmap_offset = match held.backing {
            Backing::Vram { offset } | Backing::Gtt { offset } | Backing::Doorbell { offset } => offset,
            // Mapped through /dev/kfd.
            Backing::MmioRemap { .. } => MmapOffset::new(MmapKind::MMIO, args.gpu_id).0,
            Backing::UserPtr { address } => address,
        };
        Ok(0)
    }

    pub(super) fn free_memory(
        &mut self,
        caller: ProcessKey,
        args: &mut FreeMemoryArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let (gpu_id, id) = handle_parts(args.handle);
        let gpu = self.gpu(gpu_id)?;
        let frees = self.has(Mutant::FreeMapped);
        let process = self.process_mut(caller)?;
        // The event page goes with the process.
        if process.events.page_handle() == Some(args.handle) {
            return Err(Errno::EPERM);
        }
        let entry = process.handle(gpu, id).ok_or(Errno::EINVAL)?;
        if !entry.mapped.is_empty() && !frees {
            return Err(Errno::EBUSY);
        }
        let on_gpu = process.on(gpu)?;
        if let Some(entry) = on_gpu.handles.remove(&id) {
            on_gpu.handle_ids.put(id);
            on_gpu.vram_usage -= entry.vram_usage;
            self.unhold(caller, entry.buffer, args.handle, &mut call.effects);
        }
        Ok(0)
    }

    pub(super) fn map_memory(
        &mut self,
        caller: ProcessKey,
        args: &mut MapMemoryArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let ids = device_ids(call, args.n_devices, args.n_success)?;
        self.bound_gpu(caller, handle_parts(args.handle).0, Errno::ENODEV)?;
        let owner = self.memory_of(caller, args.handle)?;
        for gpu_id in ids.into_iter().skip(args.n_success as usize) {
            let gpu = self.bound_gpu(caller, gpu_id, Errno::ENODEV)?;
            self.process_mut(caller)?.map(args.handle, owner, gpu, &mut call.effects.process)?;
            args.n_success += 1;
        }
        Ok(0)
    }

    pub(super) fn unmap_memory(
        &mut self,
        caller: ProcessKey,
        args: &mut UnmapMemoryArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let ids = device_ids(call, args.n_devices, args.n_success)?;
        let owner = self.memory_of(caller, args.handle)?;
        for gpu_id in ids.into_iter().skip(args.n_success as usize) {
            let gpu = self.gpu(gpu_id)?;
            self.process_mut(caller)?.unmap(args.handle, owner, gpu, &mut call.effects.process)?;
            args.n_success += 1;
        }
        Ok(0)
    }

    pub(super) fn available_memory(
        &mut self,
        _: ProcessKey,
        args: &mut AvailableMemoryArgs,
        _: &mut Call,
    ) -> Result<i64, Errno> {
        let gpu = self.gpu(args.gpu_id)?;
        let left = self.profile.vram_bytes().saturating_sub(self.gpus[gpu].vram_reserved);
        args.available = left / AVAILABLE_ALIGN * AVAILABLE_ALIGN;
        Ok(0)
    }

    /// Index of the gpu a handle belongs to. `EINVAL` if there is no such gpu, `ENOMEM` if there is no such buffer.
    fn memory_of(&self, caller: ProcessKey, handle: u64) -> Result<usize, Errno> {
        let (gpu_id, id) = handle_parts(handle);
        let gpu = self.gpu(gpu_id)?;
        self.process(caller)?.handle(gpu, id).map(|_| gpu).ok_or(Errno::ENOMEM)
    }

    /// Names a buffer. Answers the handle, and where the process sees the bytes.
    pub(super) fn add_handle(
        &mut self,
        caller: ProcessKey,
        gpu: usize,
        handle: Handle,
        effects: &mut Effects,
    ) -> Result<(u64, Held), Errno> {
        let gpu_id = self.gpus[gpu].gpu.gpu_id;
        // There are four thousand million of them.
        let id = self.process_mut(caller)?.on(gpu)?.handle_ids.take().ok_or(Errno::ENOMEM)?;
        let held = match self.hold(caller, handle.buffer, effects) {
            Ok(held) => held,
            Err(errno) => {
                self.process_mut(caller)?.on(gpu)?.handle_ids.put(id);
                return Err(errno);
            }
        };
        let on_gpu = self.process_mut(caller)?.on(gpu)?;
        on_gpu.vram_usage += handle.vram_usage;
        on_gpu.handles.insert(id, handle);
        Ok((kfd_abi::memory::handle(gpu_id, id), held))
    }

    /// Everything of a process that is no longer among the processes.
    pub(super) fn release_memory(&mut self, key: ProcessKey, process: &mut Process, effects: &mut Effects) {
        let mut handles = BTreeMap::new();
        for (gpu, on_gpu) in process.gpus.iter_mut().enumerate() {
            for (va, Mapping { size, of, .. }) in std::mem::take(&mut on_gpu.mappings) {
                let (gpu, handle) = (gpu as u32, of.handle());
                effects.process.push(ProcessEffect::UnmapMemory { gpu, handle, va, size });
            }
            let gpu_id = self.gpus[gpu].gpu.gpu_id;
            handles.extend(on_gpu.handles.iter().map(|(id, entry)| (entry.buffer, handle(gpu_id, *id))));
        }
        self.release_held(key, process, &handles, effects);
    }
}

fn device_ids(call: &Call, count: u32, done: u32) -> Result<Vec<u32>, Errno> {
    if count == 0 || done > count {
        return Err(Errno::EINVAL);
    }
    call.list(0, count)
}

impl Process {
    fn map(&mut self, name: u64, owner: usize, gpu: usize, effects: &mut Vec<ProcessEffect>) -> Result<(), Errno> {
        let (_, id) = handle_parts(name);
        let entry = self.handle(owner, id).ok_or(Errno::ENOMEM)?;
        if entry.mapped.contains(&gpu) {
            return Ok(());
        }
        let held = self.held.get(&entry.buffer).ok_or(Errno::ENOMEM)?;
        let (va, size, backing, flags) = (entry.va, held.size, held.backing, entry.flags);
        let in_reach = va.checked_add(size).is_some_and(|end| end <= VA_END);
        if va == 0 || !is_page_aligned(va) || !in_reach {
            return Err(Errno::EINVAL);
        }
        let on_gpu = self.on(gpu)?;
        if on_gpu.overlaps(va, size) {
            return Err(Errno::EINVAL);
        }
        on_gpu.mappings.insert(va, Mapping { size, of: MappingOf::Kfd { handle: name }, queue_users: 0 });
        if let Some(entry) = self.on(owner)?.handles.get_mut(&id) {
            entry.mapped.insert(gpu);
        }
        effects.push(ProcessEffect::MapMemory { gpu: gpu as u32, handle: name, va, size, backing, flags });
        Ok(())
    }

    fn unmap(&mut self, name: u64, owner: usize, gpu: usize, effects: &mut Vec<ProcessEffect>) -> Result<(), Errno> {
        let (_, id) = handle_parts(name);
        let entry = self.handle(owner, id).ok_or(Errno::ENOMEM)?;
        let va = entry.va;
        if !entry.mapped.contains(&gpu) {
            return Err(Errno::EINVAL);
        }
        let on_gpu = self.on(gpu)?;
        let mapping = on_gpu.mappings.get(&va).ok_or(Errno::EINVAL)?;
        if mapping.queue_users > 0 {
            return Err(Errno::EBUSY);
        }
        let size = mapping.size;
        on_gpu.mappings.remove(&va);
        if let Some(entry) = self.on(owner)?.handles.get_mut(&id) {
            entry.mapped.remove(&gpu);
        }
        effects.push(ProcessEffect::UnmapMemory { gpu: gpu as u32, handle: name, va, size });
        Ok(())
    }
}
