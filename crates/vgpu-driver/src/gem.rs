//! Buffers of the render node: allocate, close, pass on, and ask about them.
//!
//! Order of checks and errors: `amdgpu_gem.c`, `drm_gem.c` and `drm_prime.c` of Linux 6.12. Runtimes map memory that
//! programs place themselves, and memory of other processes, through these calls ([`gem_va`](super::gem_va)). Kinds of
//! memory that only graphics has, and encrypted memory, are refused.

use std::collections::BTreeMap;
use std::mem::offset_of;

use kfd_abi::Abi;
use kfd_abi::drm::{
    GemCloseArgs, GemCreateArgs, GemCreateFlags, GemDomains, GemMetadataArgs, GemMmapArgs, GemOpArgs, GemWaitIdleArgs,
    PrimeHandleArgs,
};
use kfd_abi::memory::AllocFlags;

use super::buffers::Buffer;
use super::call::{decode_padded, encode};
use super::drm::put_args;
use super::ids::Ids;
use super::memory::Mapping;
use super::process::whole_pages;
use super::{Call, Driver, Errno, ProcessKey};

/// Flags of a descriptor that `PRIME_HANDLE_TO_FD` takes: `O_CLOEXEC` and `O_RDWR`.
const FD_FLAGS: u32 = 0o2_000_002;

/// An opening of a render node, by which a process has buffers and an address space.
#[derive(Debug)]
pub(super) struct Opening {
    /// Buffers by handle.
    handles: BTreeMap<u32, u64>,
    ids: Ids,
    /// What is mapped in its address space, as long as `/dev/kfd` has not taken that.
    pub(super) mappings: BTreeMap<u64, Mapping>,
}

impl Default for Opening {
    fn default() -> Opening {
        Opening { handles: BTreeMap::new(), ids: Ids::new(1..u32::MAX), mappings: BTreeMap::new() }
    }
}

impl Opening {
    /// The buffer with this handle.
    pub(super) fn buffer(&self, handle: u32) -> Option<u64> {
        self.handles.get(&handle).copied()
    }

    /// The handle of a buffer.
    fn handle_of(&self, buffer: u64) -> Option<u32> {
        self.handles.iter().find(|(_, known)| **known == buffer).map(|(handle, _)| *handle)
    }
}

/// An opening that a call is made on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) caller: ProcessKey,
    /// Index of the gpu.
    pub(super) gpu: usize,
    /// The opening.
    pub(super) file: u64,
}

impl Driver {
    pub(super) fn opening(&mut self, node: Node) -> Result<&mut Opening, Errno> {
        Ok(self.process_mut(node.caller)?.openings.entry(node.file).or_default())
    }

    /// The buffer with a handle; `ENOENT` if there is none.
    pub(super) fn gem(&mut self, node: Node, handle: u32) -> Result<(u64, &Buffer), Errno> {
        let id = self.opening(node)?.buffer(handle).ok_or(Errno::ENOENT)?;
        self.buffers.get(&id).map(|buffer| (id, buffer)).ok_or(Errno::ENOENT)
    }

    pub(super) fn gem_create(&mut self, node: Node, args: &mut GemCreateArgs, call: &mut Call) -> Result<i64, Errno> {
        let (domains, flags) = (GemDomains(args.domains), GemCreateFlags(args.domain_flags));
        // Only graphics has the others, and encryption needs firmware.
        let usable = GemDomains::CPU | GemDomains::GTT | GemDomains::VRAM;
        if !flags.without(GemCreateFlags::DEFINED).is_empty()
            || !domains.without(usable).is_empty()
            || flags.has(GemCreateFlags::ENCRYPTED)
        {
            return Err(Errno::EINVAL);
        }
        let size = whole_pages(args.bo_size).ok_or(Errno::ENOMEM)?;
        if size == 0 {
            return Err(Errno::EINVAL);
        }
        let kind = if domains.has(GemDomains::VRAM) { AllocFlags::VRAM } else { AllocFlags::GTT };
        let public =
            if flags.has(GemCreateFlags::CPU_ACCESS_REQUIRED) { AllocFlags::PUBLIC } else { AllocFlags::EMPTY };
        let buffer = self.add_buffer(node.caller, node.gpu, kind | public, size, None)?;
        if let Some(buffer) = self.buffers.get_mut(&buffer) {
            buffer.hidden = flags.has(GemCreateFlags::NO_CPU_ACCESS);
        }
        let handle = self.open_gem(node, buffer, call)?;
        *args = GemCreateArgs { bo_size: handle.into(), ..GemCreateArgs::ZERO };
        Ok(0)
    }

    /// Gives a buffer a handle.
    fn open_gem(&mut self, node: Node, buffer: u64, call: &mut Call) -> Result<u32, Errno> {
        self.hold(node.caller, buffer, &mut call.effects)?;
        let opening = self.opening(node)?;
        let handle = opening.ids.take().ok_or(Errno::ENOSPC)?;
        opening.handles.insert(handle, buffer);
        Ok(handle)
    }

    pub(super) fn gem_close(&mut self, node: Node, args: &mut GemCloseArgs, call: &mut Call) -> Result<i64, Errno> {
        let opening = self.opening(node)?;
        let buffer = opening.handles.remove(&args.handle).ok_or(Errno::EINVAL)?;
        opening.ids.put(args.handle);
        // With its handle a buffer leaves the address space.
        self.unmap_gem(node, buffer, &mut call.effects.process)?;
        self.unhold(node.caller, buffer, 0, &mut call.effects);
        Ok(0)
    }

    pub(super) fn gem_mmap(&mut self, node: Node, args: &mut GemMmapArgs, _: &mut Call) -> Result<i64, Errno> {
        let handle = std::mem::take(&mut args.handle_or_offset) as u32;
        let (id, buffer) = self.gem(node, handle)?;
        if buffer.hidden {
            return Err(Errno::EPERM);
        }
        let held = self.process(node.caller)?.held.get(&id).ok_or(Errno::ENOENT)?;
        args.handle_or_offset = held.backing.render_offset().ok_or(Errno::EPERM)?;
        Ok(0)
    }

    pub(super) fn gem_metadata(&mut self, node: Node, args: &mut GemMetadataArgs, _: &mut Call) -> Result<i64, Errno> {
        let id = self.gem(node, args.handle)?.0;
        let metadata = &mut self.buffers.get_mut(&id).ok_or(Errno::ENOENT)?.metadata;
        match args.op {
            GemMetadataArgs::GET => {
                (args.flags, args.tiling_info) = (metadata.flags, metadata.tiling);
                args.data_size_bytes = metadata.data.len() as u32;
                let mut data = metadata.data.clone();
                data.resize(GemMetadataArgs::DATA_BYTES as usize, 0);
                args.data = decode_padded(&data);
                Ok(0)
            }
            GemMetadataArgs::SET if args.data_size_bytes > GemMetadataArgs::DATA_BYTES => Err(Errno::EINVAL),
            GemMetadataArgs::SET => {
                metadata.tiling = args.tiling_info;
                metadata.data = encode(&args.data);
                metadata.data.truncate(args.data_size_bytes as usize);
                // Without data the flags stay as they were.
                if !metadata.data.is_empty() {
                    metadata.flags = args.flags;
                }
                Ok(0)
            }
            // The driver looks at the buffer, does nothing, and says so with this number.
            _ => Err(Errno::EPERM),
        }
    }

    /// Compute work does not mark the buffers that it uses.
    pub(super) fn gem_wait_idle(&mut self, node: Node, args: &mut GemWaitIdleArgs, _: &mut Call) -> Result<i64, Errno> {
        self.gem(node, args.handle)?;
        *args = GemWaitIdleArgs::ZERO;
        Ok(0)
    }

    pub(super) fn gem_op(&mut self, node: Node, args: &mut GemOpArgs, call: &mut Call) -> Result<i64, Errno> {
        let (_, buffer) = self.gem(node, args.handle)?;
        if args.op != GemOpArgs::GET_CREATE_INFO {
            return Err(Errno::EINVAL);
        }
        let is_vram = buffer.flags.has(AllocFlags::VRAM);
        let mut flags = GemCreateFlags::VRAM_CLEARED;
        if buffer.flags.has(AllocFlags::PUBLIC) {
            flags = flags | GemCreateFlags::CPU_ACCESS_REQUIRED;
        }
        if buffer.hidden {
            flags = flags | GemCreateFlags::NO_CPU_ACCESS;
        }
        let info = GemCreateArgs {
            bo_size: buffer.size,
            alignment: kfd_abi::PAGE_SIZE.into(),
            domains: if is_vram { GemDomains::VRAM.0 } else { GemDomains::GTT.0 },
            domain_flags: flags.0,
        };
        call.answer(0, encode(&info))?;
        Ok(0)
    }

    pub(super) fn prime_handle_to_fd(
        &mut self,
        node: Node,
        args: &mut PrimeHandleArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        if args.flags & !FD_FLAGS != 0 {
            return Err(Errno::EINVAL);
        }
        let (id, _) = self.gem(node, args.handle)?;
        self.export(id, args.flags, offset_of!(PrimeHandleArgs, fd), &mut call.effects)?;
        Ok(0)
    }

    pub(super) fn prime_fd_to_handle(
        &mut self,
        node: Node,
        args: &mut PrimeHandleArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let (buffer, _) = self.dmabuf(call.named)?;
        args.handle = match self.opening(node)?.handle_of(buffer) {
            Some(known) => known,
            None => self.open_gem(node, buffer, call)?,
        };
        Ok(0)
    }

    /// Runs a handler on the typed argument, and puts it back into as many bytes as the caller gave.
    pub(super) fn run_drm<T: Abi>(
        &mut self,
        node: Node,
        call: &mut Call,
        handler: fn(&mut Driver, Node, &mut T, &mut Call) -> Result<i64, Errno>,
    ) -> Result<i64, Errno> {
        let mut args: T = call.decode();
        let result = handler(self, node, &mut args, call);
        put_args(call, &args)?;
        result
    }
}
