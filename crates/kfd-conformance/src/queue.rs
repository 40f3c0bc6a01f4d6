//! Memory and queues of a client.

use kfd_abi::PAGE_SIZE;
use kfd_abi::cwsr::eop_buffer_size;
use kfd_abi::memory::{AllocFlags, AllocMemoryArgs, MapMemoryArgs, UnmapMemoryArgs};
use kfd_abi::queue::{CreateQueueArgs, DestroyQueueArgs, MAX_PERCENTAGE, QueueType, UpdateQueueArgs};

use crate::actor::Reply;
use crate::bench::Client;
use crate::verdict::{Verdict, broken};

/// System memory of the gpu that both sides see at once.
pub(crate) const SYSTEM: AllocFlags = AllocFlags(
    AllocFlags::GTT.0
        | AllocFlags::WRITABLE.0
        | AllocFlags::EXECUTABLE.0
        | AllocFlags::NO_SUBSTITUTE.0
        | AllocFlags::COHERENT.0
        | AllocFlags::UNCACHED.0,
);
/// Video memory.
pub(crate) const VIDEO: AllocFlags =
    AllocFlags(AllocFlags::VRAM.0 | AllocFlags::WRITABLE.0 | AllocFlags::EXECUTABLE.0 | AllocFlags::NO_SUBSTITUTE.0);
/// Bytes of the rings of the suite.
pub(crate) const RING: u32 = PAGE_SIZE;
/// Priority of queues that ask for none.
pub(crate) const NORMAL: u32 = 7;
/// Offsets of the two indices in their page, as ROCr has them.
pub(crate) const WRITE_INDEX: u64 = 0x38;
pub(crate) const READ_INDEX: u64 = 0x80;

/// A buffer of a client, mapped on its gpu.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) at: u64,
    pub(crate) handle: u64,
    /// Offset at which the render node maps it.
    pub(crate) offset: u64,
}

/// A queue of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) id: u32,
    pub(crate) args: CreateQueueArgs,
    pub(crate) ring: Memory,
}

impl Client {
    /// Allocates a buffer at fresh addresses, not mapped on the gpu.
    pub(crate) fn allocate(&mut self, size: u64, flags: AllocFlags) -> Verdict<Memory> {
        let at = self.actor.reserve(size as usize)?;
        let gpu_id = self.subject.id();
        let args = AllocMemoryArgs { va_addr: at, size, gpu_id, flags, ..AllocMemoryArgs::default() };
        let args = self.call(args)?.ok("ALLOC_MEMORY_OF_GPU")?;
        Ok(Memory { at, handle: args.handle, offset: args.mmap_offset })
    }

    /// Allocates a buffer and maps it on the gpu.
    pub(crate) fn buffer(&mut self, size: u64, flags: AllocFlags) -> Verdict<Memory> {
        let memory = self.allocate(size, flags)?;
        self.map_on_gpu(memory.handle)?.ok("MAP_MEMORY_TO_GPU")?;
        Ok(memory)
    }

    /// Allocates a buffer that the gpu and the process see.
    pub(crate) fn shared_buffer(&mut self, size: u64) -> Verdict<Memory> {
        let memory = self.buffer(size, SYSTEM)?;
        let Some(render) = self.render else { return broken("the process has no address space") };
        self.actor.map_file(Some(memory.at), size as usize, render, memory.offset)?;
        Ok(memory)
    }

    /// Writes the id of the gpu to memory of the client and returns where.
    pub(crate) fn gpu_list(&mut self) -> Verdict<u64> {
        let at = self.actor.memory(PAGE_SIZE as usize)?;
        let id = self.subject.id();
        self.actor.write(at, id.to_le_bytes().to_vec())?;
        Ok(at)
    }

    pub(crate) fn map_on_gpu(&mut self, handle: u64) -> Verdict<Reply<MapMemoryArgs>> {
        let device_ids_array_ptr = self.gpu_list()?;
        self.call(MapMemoryArgs { handle, device_ids_array_ptr, n_devices: 1, n_success: 0 })
    }

    pub(crate) fn unmap_on_gpu(&mut self, handle: u64) -> Verdict<Reply<UnmapMemoryArgs>> {
        let device_ids_array_ptr = self.gpu_list()?;
        self.call(UnmapMemoryArgs { handle, device_ids_array_ptr, n_devices: 1, n_success: 0 })
    }

    /// Allocates what every queue needs, and returns the call that creates one of this kind.
    fn ring_args(&mut self, queue_type: QueueType) -> Verdict<(CreateQueueArgs, Memory)> {
        let ring = self.shared_buffer(RING.into())?;
        let indices = self.shared_buffer(PAGE_SIZE.into())?;
        let args = CreateQueueArgs {
            ring_base_address: ring.at,
            write_pointer_address: indices.at + WRITE_INDEX,
            read_pointer_address: indices.at + READ_INDEX,
            ring_size: RING,
            gpu_id: self.subject.id(),
            queue_type,
            queue_percentage: MAX_PERCENTAGE,
            queue_priority: NORMAL,
            ..CreateQueueArgs::default()
        };
        Ok((args, ring))
    }

    /// Allocates what a compute queue needs, and returns the call that creates it.
    pub(crate) fn queue_args(&mut self) -> Verdict<(CreateQueueArgs, Memory)> {
        let (args, ring) = self.ring_args(QueueType::COMPUTE_AQL)?;
        let eop_size = u64::from(eop_buffer_size(self.subject.gpu.gfx));
        let eop = self.buffer(eop_size, VIDEO)?;
        let save_area = self.subject.save_area;
        let area = self.buffer(save_area.total, VIDEO)?;
        let args = CreateQueueArgs {
            eop_buffer_address: eop.at,
            eop_buffer_size: eop_size,
            ctx_save_restore_address: area.at,
            ctx_save_restore_size: save_area.cwsr,
            ctl_stack_size: save_area.ctl_stack,
            ..args
        };
        Ok((args, ring))
    }

    /// Creates a compute queue.
    pub(crate) fn queue(&mut self) -> Verdict<Made> {
        self.queue_with(|_| {})
    }

    /// Creates a compute queue with other arguments than usual.
    pub(crate) fn queue_with(&mut self, change: impl FnOnce(&mut CreateQueueArgs)) -> Verdict<Made> {
        let (mut args, ring) = self.queue_args()?;
        change(&mut args);
        let args = self.call(args)?.ok("CREATE_QUEUE")?;
        Ok(Made { id: args.queue_id, args, ring })
    }

    /// Creates a copy queue.
    pub(crate) fn copy_queue(&mut self) -> Verdict<Made> {
        let (args, ring) = self.ring_args(QueueType::SDMA)?;
        let args = self.call(args)?.ok("CREATE_QUEUE")?;
        Ok(Made { id: args.queue_id, args, ring })
    }

    pub(crate) fn destroy(&mut self, queue_id: u32) -> Verdict<Reply<DestroyQueueArgs>> {
        self.call(DestroyQueueArgs { queue_id, pad: 0 })
    }

    /// Changes a queue: what it had is passed again except what `change` changes.
    pub(crate) fn update(
        &mut self,
        queue: &Made,
        change: impl FnOnce(&mut UpdateQueueArgs),
    ) -> Verdict<Reply<UpdateQueueArgs>> {
        let mut args = UpdateQueueArgs {
            ring_base_address: queue.args.ring_base_address,
            queue_id: queue.id,
            ring_size: queue.args.ring_size,
            queue_percentage: queue.args.queue_percentage,
            queue_priority: queue.args.queue_priority,
        };
        change(&mut args);
        self.call(args)
    }
}
