//! Buffers: memory with its bytes, and what holds it.
//!
//! A buffer belongs to the machine: handles of any process and DMA buffers hold it, and it is gone with the last of
//! them, whatever became of the process that allocated it. Its bytes lie in the render file of that process, its
//! *home*. Another process that gets a handle sees it at an offset of its own render file: a *window*, behind which its
//! client side puts the bytes.

use std::collections::btree_map::Entry;

use kfd_abi::memory::AllocFlags;

use super::process::Process;
use super::{Backing, Driver, Effects, Errno, ProcessEffect, ProcessKey, ShareEffect};

/// Memory with its bytes.
#[derive(Debug)]
pub(super) struct Buffer {
    /// Where its bytes are, as its home sees them.
    pub(super) backing: Backing,
    pub(super) size: u64,
    pub(super) flags: AllocFlags,
    /// Index of the gpu it was allocated on.
    pub(super) gpu: usize,
    /// The process in whose files its bytes are, until it ends.
    pub(super) home: Option<ProcessKey>,
    /// Handles and DMA buffers that hold it.
    pub(super) holders: u32,
    /// Whether it has been a DMA buffer. The supervisor has its file then, and gives its bytes back.
    pub(super) exported: bool,
    /// Whether no process may map it (`AMDGPU_GEM_CREATE_NO_CPU_ACCESS`).
    pub(super) hidden: bool,
    /// What programs attached to it.
    pub(super) metadata: Metadata,
}

/// What programs attach to a buffer for those that they share it with.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub(super) flags: u64,
    pub(super) tiling: u64,
    pub(super) data: Vec<u8>,
}

/// A buffer that a process has handles of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Where its bytes are, as this process sees them.
    pub(super) backing: Backing,
    pub(super) size: u64,
    /// Handles of this process.
    handles: u32,
}

impl Driver {
    /// Allocates a buffer in the files of a process; `backing` if it lies nowhere in the render file. Nothing holds it
    /// yet. Answers its id.
    pub(super) fn add_buffer(
        &mut self,
        home: ProcessKey,
        gpu: usize,
        flags: AllocFlags,
        size: u64,
        backing: Option<Backing>,
    ) -> Result<u64, Errno> {
        self.charge(flags, gpu, size)?;
        let backing = match backing {
            Some(backing) => Some(backing),
            None => self.process_mut(home).ok().and_then(|process| process.offsets.take(size)).map(|offset| {
                if flags.has(AllocFlags::VRAM) { Backing::Vram { offset } } else { Backing::Gtt { offset } }
            }),
        };
        let Some(backing) = backing else {
            // Does not happen before 64 TiB.
            self.uncharge(flags, gpu, size);
            return Err(Errno::ENOMEM);
        };
        let id = self.next_buffer;
        self.next_buffer += 1;
        let buffer = Buffer {
            backing,
            size,
            flags,
            gpu,
            home: Some(home),
            holders: 0,
            exported: false,
            hidden: false,
            metadata: Metadata::default(),
        };
        self.buffers.insert(id, buffer);
        Ok(id)
    }

    /// A process gets one handle more of a buffer. Answers where it sees the bytes.
    pub(super) fn hold(&mut self, caller: ProcessKey, id: u64, effects: &mut Effects) -> Result<Held, Errno> {
        let buffer = self.buffers.get_mut(&id).ok_or(Errno::EINVAL)?;
        let process = self.processes.get_mut(&caller).ok_or(Errno::EBADF)?;
        let held = match process.held.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let (size, handles) = (buffer.size, 0);
                let backing = if buffer.home == Some(caller) {
                    buffer.backing
                } else {
                    let from = buffer.backing.render_offset().ok_or(Errno::EINVAL)?;
                    let offset = process.offsets.take(size).ok_or(Errno::ENOMEM)?;
                    let backing = buffer.backing.moved_to(offset);
                    effects.share.push(ShareEffect::PassBuffer { buffer: id });
                    effects.process.push(ProcessEffect::ImportMemory { backing, from, size });
                    backing
                };
                new.insert(Held { backing, size, handles })
            }
        };
        held.handles += 1;
        buffer.holders += 1;
        Ok(*held)
    }

    /// A process has one handle less of a buffer. `handle` is its name for `/dev/kfd`, or 0.
    pub(super) fn unhold(&mut self, caller: ProcessKey, id: u64, handle: u64, effects: &mut Effects) {
        let Some(process) = self.processes.get_mut(&caller) else { return };
        let Some(held) = process.held.get_mut(&id) else { return };
        held.handles -= 1;
        if held.handles > 0 {
            self.release_buffer(id, &mut effects.share);
            return;
        }
        let Held { backing, size, .. } = *held;
        process.held.remove(&id);
        let Some(buffer) = self.buffers.get(&id) else { return };
        if buffer.home != Some(caller) {
            process.give_back(backing, size);
        }
        let is_own = buffer.holders == 1 && !buffer.exported;
        effects.process.push(if is_own {
            ProcessEffect::FreeMemory { handle, backing, size }
        } else {
            ProcessEffect::ForgetMemory { backing, size }
        });
        self.release_buffer(id, &mut effects.share);
    }

    /// One holder less; with the last one the buffer is gone.
    pub(super) fn release_buffer(&mut self, id: u64, effects: &mut Vec<ShareEffect>) {
        let Some(buffer) = self.buffers.get_mut(&id) else { return };
        buffer.holders -= 1;
        if buffer.holders > 0 {
            return;
        }
        if let Some(Buffer { backing, size, flags, gpu, home, exported, .. }) = self.buffers.remove(&id) {
            if let Some(home) = home.and_then(|home| self.processes.get_mut(&home)) {
                home.give_back(backing, size);
            }
            if exported {
                effects.push(ShareEffect::DiscardBuffer { buffer: id });
            }
            self.uncharge(flags, gpu, size);
        }
    }

    /// Releases what a process held that is no longer among the processes. What others still hold has no home from now
    /// on. `handles` are the names for `/dev/kfd` by buffer.
    pub(super) fn release_held(
        &mut self,
        key: ProcessKey,
        process: &mut Process,
        handles: &std::collections::BTreeMap<u64, u64>,
        effects: &mut Effects,
    ) {
        for buffer in self.buffers.values_mut().filter(|buffer| buffer.home == Some(key)) {
            buffer.home = None;
        }
        for (id, Held { backing, size, handles: count }) in std::mem::take(&mut process.held) {
            let handle = handles.get(&id).copied().unwrap_or(0);
            let last = self.buffers.get(&id).is_some_and(|buffer| buffer.holders == count && !buffer.exported);
            effects.process.push(if last {
                ProcessEffect::FreeMemory { handle, backing, size }
            } else {
                ProcessEffect::ForgetMemory { backing, size }
            });
            (0..count).for_each(|_| self.release_buffer(id, &mut effects.share));
        }
    }

    fn charge(&mut self, flags: AllocFlags, gpu: usize, size: u64) -> Result<(), Errno> {
        let (vram, system) = (self.profile.vram_bytes(), self.profile.gtt_bytes());
        if let Some((used, limit)) = account(&mut self.gpus[gpu].vram_used, vram, &mut self.system_used, system, flags)
        {
            let new = used.checked_add(size).filter(|new| *new <= limit).ok_or(Errno::ENOMEM)?;
            *used = new;
        }
        self.gpus[gpu].vram_reserved += reserved(flags, size);
        Ok(())
    }

    fn uncharge(&mut self, flags: AllocFlags, gpu: usize, size: u64) {
        if let Some((used, _)) = account(&mut self.gpus[gpu].vram_used, 0, &mut self.system_used, 0, flags) {
            *used -= size;
        }
        self.gpus[gpu].vram_reserved -= reserved(flags, size);
    }
}

impl Process {
    /// Offsets of the render file that a buffer had are free again.
    fn give_back(&mut self, backing: Backing, size: u64) {
        if let Some(offset) = backing.render_offset() {
            self.offsets.put(offset, size);
        }
    }
}

/// Granularity of the answer to how much is left.
pub(super) const AVAILABLE_ALIGN: u64 = 2 << 20;

/// What a buffer takes of the video memory that is told to be left: small buffers break up large pieces.
fn reserved(flags: AllocFlags, size: u64) -> u64 {
    if flags.both(AllocFlags::KINDS) == AllocFlags::VRAM { size.next_multiple_of(AVAILABLE_ALIGN) } else { 0 }
}

/// The account of a kind of memory and its limit; doorbells and registers have none.
fn account<'a>(
    vram_used: &'a mut u64,
    vram: u64,
    system_used: &'a mut u64,
    system: u64,
    flags: AllocFlags,
) -> Option<(&'a mut u64, u64)> {
    match flags.both(AllocFlags::KINDS) {
        AllocFlags::VRAM => Some((vram_used, vram)),
        AllocFlags::GTT | AllocFlags::USERPTR => Some((system_used, system)),
        _ => None,
    }
}
