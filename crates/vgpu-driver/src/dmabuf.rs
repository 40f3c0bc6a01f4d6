//! DMA buffers: a buffer as a descriptor, and back, in any process.
//!
//! Every export is a holder of its buffer of its own, named by a token, until the supervisor finds that the last copy
//! of the descriptor is closed. The real driver has one DMA buffer for all exports of a buffer; no call tells them
//! apart.

use std::collections::BTreeSet;
use std::mem::offset_of;

use kfd_abi::memory::{AllocFlags, ExportDmabufArgs, GetDmabufInfoArgs, ImportDmabufArgs, handle_parts};

use super::buffers::Buffer;
use super::memory::Handle;
use super::{Backing, Call, Driver, Effects, Errno, FdKind, ProcessEffect, ProcessKey, ShareEffect};
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
        let id = self.process(caller)?.handle(gpu, id).ok_or(Errno::EINVAL)?.buffer;
        self.export(id, args.flags, offset_of!(ExportDmabufArgs, dmabuf_fd), &mut call.effects)?;
        Ok(0)
    }

    /// Makes a DMA buffer of a buffer; the number of its descriptor goes to `argument` in the arguments.
    pub(super) fn export(
        &mut self,
        id: u64,
        fd_flags: u32,
        argument: usize,
        effects: &mut Effects,
    ) -> Result<(), Errno> {
        let buffer = self.buffers.get_mut(&id).ok_or(Errno::EINVAL)?;
        let offset = match buffer.backing {
            Backing::Vram { offset } | Backing::Gtt { offset } => offset,
            // Memory of the process is not the driver's to hand on.
            Backing::UserPtr { .. } => return Err(Errno::EPERM),
            // The real driver would, but registers and doorbells have no place in the render file.
            Backing::Doorbell { .. } | Backing::MmioRemap { .. } => return Err(Errno::EINVAL),
        };
        buffer.holders += 1;
        buffer.exported = true;
        let size = buffer.size;
        let token = self.next_dmabuf;
        self.next_dmabuf += 1;
        self.dmabufs.insert(token, id);
        effects.share.push(ShareEffect::ExportDmabuf { token, buffer: id, offset, size });
        effects.process.push(ProcessEffect::ExportDmabuf { token, fd_flags, argument });
        Ok(())
    }

    /// The last copy of a DMA buffer's descriptor is closed, or could not be made. Answers what is to be done while the
    /// driver is locked.
    pub fn dmabuf_closed(&mut self, token: u64) -> Vec<ShareEffect> {
        let mut effects = Vec::new();
        if let Some(buffer) = self.dmabufs.remove(&token) {
            self.release_buffer(buffer, &mut effects);
        }
        effects
    }

    /// The buffer behind the descriptor a call names. `EBADF` if it is none, `EINVAL` if it is another thing.
    pub(super) fn dmabuf(&self, named: Option<FdKind>) -> Result<(u64, &Buffer), Errno> {
        let token = match named {
            None => return Err(Errno::EBADF),
            Some(FdKind::Dmabuf { token }) => token,
            Some(FdKind::Render { .. } | FdKind::Other) => return Err(Errno::EINVAL),
        };
        let id = self.dmabufs.get(&token).ok_or(Errno::EINVAL)?;
        self.buffers.get(id).map(|buffer| (*id, buffer)).ok_or(Errno::EINVAL)
    }

    pub(super) fn get_dmabuf_info(
        &mut self,
        _: ProcessKey,
        args: &mut GetDmabufInfoArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let (_, buffer) = self.dmabuf(call.fd)?;
        args.size = buffer.size;
        let metadata = buffer.metadata.data.clone();
        let room = std::mem::replace(&mut args.metadata_size, metadata.len() as u32);
        if metadata.len() as u32 > room {
            return Err(Errno::EINVAL);
        }
        // Only of video memory it is remembered whether the host may reach it.
        let is_vram = buffer.flags.has(AllocFlags::VRAM);
        let shown = if is_vram { AllocFlags::VRAM | AllocFlags::PUBLIC } else { AllocFlags::GTT };
        args.flags = buffer.flags.both(shown);
        // Where gpus have partitions, system memory belongs to none of them, and the first gpu is named.
        let gpu = if is_vram || self.profile.gfx == Gfx::Gfx90a { buffer.gpu } else { 0 };
        args.gpu_id = self.gpus[gpu].gpu.gpu_id;
        if args.metadata_ptr != 0 {
            call.answer(0, metadata)?;
        }
        Ok(0)
    }

    pub(super) fn import_dmabuf(
        &mut self,
        caller: ProcessKey,
        args: &mut ImportDmabufArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let gpu = self.bound_gpu(caller, args.gpu_id, Errno::ENODEV)?;
        let (buffer, imported) = self.dmabuf(call.fd)?;
        // What the buffer was allocated for does not count: the holder of the descriptor may write and execute it.
        let kind = imported.flags.both(AllocFlags::VRAM | AllocFlags::GTT);
        let flags = kind | AllocFlags::WRITABLE | AllocFlags::EXECUTABLE;
        let handle = Handle { buffer, va: args.va_addr, flags, mapped: BTreeSet::new(), vram_usage: 0 };
        (args.handle, _) = self.add_handle(caller, gpu, handle, &mut call.effects)?;
        Ok(0)
    }
}
