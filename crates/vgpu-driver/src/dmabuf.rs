//! DMA buffers: a buffer as a descriptor, and back, within one process.
//!
//! The driver does not learn when the last copy of a descriptor is closed: an exported buffer stays allocated until its
//! process ends.

use std::collections::BTreeSet;

use kfd_abi::memory::{AllocFlags, ExportDmabufArgs, GetDmabufInfoArgs, ImportDmabufArgs, handle, handle_parts};

use super::memory::{Buffer, Handle};
use super::{Backing, Call, Driver, Errno, FdKind, ProcessEffect, ProcessKey};
use crate::profile::Gfx;

impl Driver {
    pub(super) fn export_dmabuf(
        &mut self,
        caller: ProcessKey,
        args: &mut ExportDmabufArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let (gpu_id, id) = handle_parts(args.handle);
        let gpu = self.gpu(gpu_id)?;
        let process = self.process_mut(caller)?;
        let id = process.handle(gpu, id).ok_or(Errno::EINVAL)?.buffer;
        let buffer = process.buffers.get_mut(&id).ok_or(Errno::EINVAL)?;
        match buffer.backing {
            Backing::Vram { .. } | Backing::Gtt { .. } => {}
            // Memory of the process is not the driver's to hand on.
            Backing::UserPtr { .. } => return Err(Errno::EPERM),
            // The real driver would, but registers and doorbells have no place in the render file.
            Backing::Doorbell { .. } | Backing::MmioRemap { .. } => return Err(Errno::EINVAL),
        }
        buffer.holders += 1;
        let (backing, size) = (buffer.backing, buffer.size);
        let token = process.next_buffer;
        process.next_buffer += 1;
        process.dmabufs.insert(token, id);
        call.effects.process.push(ProcessEffect::ExportDmabuf { token, fd_flags: args.flags, backing, size });
        Ok(0)
    }

    /// The buffer behind the descriptor a call names. `EBADF` if it is none, `EINVAL` if it is another thing.
    fn dmabuf(&self, caller: ProcessKey, call: &Call) -> Result<(u64, &Buffer), Errno> {
        let token = match call.fd {
            None => return Err(Errno::EBADF),
            Some(FdKind::Dmabuf { token }) => token,
            Some(FdKind::Render { .. } | FdKind::Other) => return Err(Errno::EINVAL),
        };
        let process = self.process(caller)?;
        let id = process.dmabufs.get(&token).ok_or(Errno::EINVAL)?;
        process.buffers.get(id).map(|buffer| (*id, buffer)).ok_or(Errno::EINVAL)
    }

    pub(super) fn get_dmabuf_info(
        &mut self,
        caller: ProcessKey,
        args: &mut GetDmabufInfoArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let (_, buffer) = self.dmabuf(caller, call)?;
        args.size = buffer.size;
        // Only graphics drivers attach any.
        args.metadata_size = 0;
        // Only of video memory it is remembered whether the host may reach it.
        let is_vram = buffer.flags.has(AllocFlags::VRAM);
        let shown = if is_vram { AllocFlags::VRAM | AllocFlags::PUBLIC } else { AllocFlags::GTT };
        args.flags = buffer.flags.both(shown);
        // Where gpus have partitions, system memory belongs to none of them, and the first gpu is named.
        let gpu = if is_vram || self.profile.gfx == Gfx::Gfx90a { buffer.gpu } else { 0 };
        args.gpu_id = self.gpus[gpu].gpu.gpu_id;
        Ok(0)
    }

    pub(super) fn import_dmabuf(
        &mut self,
        caller: ProcessKey,
        args: &mut ImportDmabufArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let gpu = self.bound_gpu(caller, args.gpu_id, Errno::ENODEV)?;
        let (buffer, imported) = self.dmabuf(caller, call)?;
        // What the buffer was allocated for does not count: the holder of the descriptor may write and execute it.
        let kind = imported.flags.both(AllocFlags::VRAM | AllocFlags::GTT);
        let flags = kind | AllocFlags::WRITABLE | AllocFlags::EXECUTABLE;
        let process = self.process_mut(caller)?;
        let id = process.on(gpu)?.handle_ids.take().ok_or(Errno::ENOMEM)?;
        let mapped = BTreeSet::new();
        process.add_handle(gpu, id, Handle { buffer, va: args.va_addr, flags, mapped, vram_usage: 0 });
        args.handle = handle(args.gpu_id, id);
        Ok(0)
    }
}
