//! Compute queues: a ring of AQL packets, and the memory that the gpu needs to run and to preempt it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use kfd_abi::aql::{Header, PACKET_SIZE, PacketType};
use kfd_abi::cwsr::eop_buffer_size;
use kfd_abi::hsa::{AmdQueue, HsaQueue, QueueProperties};
use kfd_abi::queue::{CreateQueueArgs, MAX_PERCENTAGE, QueueType};
use kfd_abi::save_area::SaveAreaHeader;
use kfd_abi::{Abi, PAGE_SIZE};

use crate::code_object::Kernel;
use crate::device::{Device, Doorbells};
use crate::error::{Error, Result};
use crate::memory::{Buffer, GpuAddr, Placement};
use crate::packet::{self, Launch, Order, Target};
use crate::scratch::ScratchSize;
use crate::signal::Signal;

/// Packets of a ring.
const PACKETS: u64 = 1024;
/// Priority of a queue that asks for none.
const NORMAL_PRIORITY: u32 = 7;
/// Longest wait for room in the ring, and for the runtime's own packets.
const PATIENCE: Duration = Duration::from_secs(60);

/// A compute queue. Destroyed when dropped.
#[derive(Debug)]
pub struct Queue {
    device: Device,
    queue_id: u32,
    doorbell: u64,
    doorbells: Arc<Doorbells>,
    ring: Buffer,
    control: Buffer,
    object: AmdQueue,
    scratch: Option<(ScratchSize, Buffer)>,
    commands: Buffer,
    /// The packet processor reports here what it cannot do.
    inactive: Signal,
    /// The driver reports here what went wrong with the waves.
    exception: Signal,
    /// Used by the hardware until the queue is destroyed.
    _end_of_packet: Buffer,
    /// Context save area: the state of the waves while the queue is preempted.
    _save_area: Buffer,
}

impl Queue {
    /// Creates a queue of normal priority.
    ///
    /// # Errors
    ///
    /// If memory, events or queues are used up.
    pub fn new(device: &Device) -> Result<Queue> {
        Queue::with_priority(device, NORMAL_PRIORITY)
    }

    /// Creates a queue with a priority from 0, the lowest, to 15.
    ///
    /// # Errors
    ///
    /// If memory, events or queues are used up, or the driver does not know the priority.
    pub fn with_priority(device: &Device, priority: u32) -> Result<Queue> {
        let node = device.node();
        let ring_size = PACKETS as usize * PACKET_SIZE;
        let mut ring = device.allocate(ring_size, Placement::Uncached)?;
        clear_ring(&mut ring)?;
        let mut control = device.allocate(PAGE_SIZE as usize, Placement::Uncached)?;
        let commands = device.allocate(PAGE_SIZE as usize, Placement::Uncached)?;
        let end_of_packet = device.allocate(eop_buffer_size(node.gpu.gfx) as usize, Placement::Vram)?;
        let inactive = Signal::new(device, 0)?;
        let exception = Signal::new(device, 0)?;
        let save_area = create_save_area(device, &exception)?;
        let object = queue_object(device, &ring, &inactive);
        control.put(0, &object)?;
        let mut args = CreateQueueArgs {
            ring_base_address: ring.address().0,
            write_pointer_address: control.address().plus(AmdQueue::WRITE_INDEX).0,
            read_pointer_address: control.address().plus(AmdQueue::READ_INDEX).0,
            ring_size: ring_size as u32,
            gpu_id: node.gpu.id.0,
            queue_type: QueueType::COMPUTE_AQL,
            queue_percentage: MAX_PERCENTAGE,
            queue_priority: priority,
            eop_buffer_address: end_of_packet.address().0,
            eop_buffer_size: end_of_packet.len() as u64,
            ctx_save_restore_address: save_area.address().0,
            ctx_save_restore_size: node.save_area.cwsr,
            ctl_stack_size: node.save_area.ctl_stack,
            ..CreateQueueArgs::default()
        };
        device.flush_host_writes();
        device.driver().create_queue(&mut args)?;
        let doorbells = device.doorbells(args.doorbell_offset).inspect_err(|_| {
            // The queue would outlive its memory.
            let _ = device.driver().destroy_queue(args.queue_id);
        })?;
        Ok(Queue {
            device: device.clone(),
            queue_id: args.queue_id,
            doorbell: args.doorbell_offset,
            doorbells,
            ring,
            control,
            object,
            scratch: None,
            commands,
            inactive,
            exception,
            _end_of_packet: end_of_packet,
            _save_area: save_area,
        })
    }

    /// Returns the driver's id of the queue.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.queue_id
    }

    /// Returns the gpu of the queue.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Runs a kernel; `arguments` hold its argument block. The signal, if there is one, is counted down at its end.
    /// Arguments, code and buffers have to live until then.
    ///
    /// # Errors
    ///
    /// If the kernel needs more scratch or local memory than there is, or the ring stays full.
    pub fn dispatch<'a>(
        &mut self,
        kernel: &Kernel,
        arguments: GpuAddr,
        launch: &Launch,
        order: Order,
        completion: impl Into<Option<&'a Signal>>,
    ) -> Result<()> {
        let limit = self.device.node().local_memory;
        if kernel.local_memory > limit {
            let (asked, limit) = (kernel.local_memory.into(), limit.into());
            return Err(Error::TooLarge { what: "local memory", asked, limit });
        }
        self.provide_scratch(kernel.scratch_per_item)?;
        let target = Target {
            descriptor: kernel.descriptor,
            arguments,
            scratch_per_item: kernel.scratch_per_item,
            local_memory: kernel.local_memory,
        };
        let completion = completion.into().map_or(GpuAddr(0), Signal::handle);
        self.submit(&packet::dispatch(&target, launch, order, completion))
    }

    /// Occupies the timed engine of `kernel/vmi300` with `waves` for `duration`; then the signal, if there is one, is
    /// counted down.
    ///
    /// The packet names no kernel. A device that executes code stops the queue with an error.
    ///
    /// # Errors
    ///
    /// If the ring stays full.
    pub fn dispatch_timed<'a>(
        &mut self,
        duration: Duration,
        waves: u32,
        order: Order,
        completion: impl Into<Option<&'a Signal>>,
    ) -> Result<()> {
        let completion = completion.into().map_or(GpuAddr(0), Signal::handle);
        self.submit(&packet::timed(duration, waves, order, completion))
    }

    /// Waits on the gpu until all of the signals are 0; then `completion` is counted down.
    ///
    /// # Errors
    ///
    /// If the ring stays full.
    pub fn barrier_and(&mut self, signals: &[&Signal], order: Order, completion: &Signal) -> Result<()> {
        let handles: Vec<GpuAddr> = signals.iter().map(|signal| signal.handle()).collect();
        let mut chunks = handles.chunks(packet::BARRIER_SIGNALS).peekable();
        let mut order = order;
        while let Some(chunk) = chunks.next() {
            if chunks.peek().is_none() {
                return self.submit(&packet::barrier_and(chunk, order, completion.handle()));
            }
            self.submit(&packet::barrier_and(chunk, order, GpuAddr(0)))?;
            // The packets of one barrier count as one: the last completes after the others.
            order = Order::AfterPrevious;
        }
        self.submit(&packet::barrier_and(&[], order, completion.handle()))
    }

    /// Waits on the gpu until a signal is not less than `value`; then `completion` is counted down.
    ///
    /// # Errors
    ///
    /// If the ring stays full.
    pub fn barrier_value(&mut self, signal: &Signal, value: i64, completion: &Signal) -> Result<()> {
        self.submit(&packet::barrier_value(signal.handle(), value, completion.handle()))
    }

    /// Waits until a signal is 0.
    ///
    /// # Errors
    ///
    /// If the gpu faults, the queue stops with an error, or the time is up.
    pub fn wait(&self, signal: &Signal, limit: Duration) -> Result<()> {
        signal.wait(&[&self.inactive, &self.exception], limit)
    }

    /// Makes the gpu forget instructions it has cached: code was written.
    pub(crate) fn drop_code_caches(&mut self) -> Result<()> {
        let words = packet::DROP_CODE_CACHES;
        self.commands.write(0, &words.map(u32::to_le_bytes).concat())?;
        let done = Signal::new(&self.device, 1)?;
        self.submit(&packet::jump_to_pm4(self.commands.address(), words.len() as u32, done.handle()))?;
        self.wait(&done, PATIENCE)
    }

    /// Gives the queue enough scratch for `bytes` a lane. Existing scratch is replaced only while nothing runs.
    fn provide_scratch(&mut self, bytes: u32) -> Result<()> {
        if bytes == 0 || self.scratch.as_ref().is_some_and(|(size, _)| size.lane >= bytes) {
            return Ok(());
        }
        let size = ScratchSize::of(self.device.node(), bytes)?;
        let memory = self.device.allocate(size.total() as usize, Placement::Vram)?;
        if self.scratch.is_some() {
            self.drain()?;
        }
        size.describe(memory.address(), &mut self.object);
        self.write_object()?;
        self.scratch = Some((size, memory));
        Ok(())
    }

    /// Waits until every packet so far has completed.
    fn drain(&mut self) -> Result<()> {
        let done = Signal::new(&self.device, 1)?;
        self.submit(&packet::barrier_and(&[], Order::AfterPrevious, done.handle()))?;
        self.wait(&done, PATIENCE)
    }

    /// Writes the object behind the read index, which with the write index belongs to the gpu by now.
    fn write_object(&mut self) -> Result<()> {
        let mut bytes = [0; AmdQueue::SIZE];
        let behind = AmdQueue::READ_INDEX as usize + size_of::<u64>();
        let rest = self.object.encode(&mut bytes).and_then(|()| bytes.get(behind..)).unwrap_or_default();
        self.control.write(behind, rest)
    }

    fn submit(&mut self, packet: &impl Abi) -> Result<()> {
        let bytes = packet::bytes_of(packet)?;
        let write_index = self.control.atomic(AmdQueue::WRITE_INDEX as usize)?;
        let index = write_index.load(Ordering::Relaxed);
        self.await_room(index)?;
        let slot = (index % PACKETS) as usize * PACKET_SIZE;
        let (first, rest) = bytes.split_at(size_of::<u64>());
        self.ring.write(slot + first.len(), rest)?;
        let first = first.try_into().map_or(0, u64::from_le_bytes);
        // The header comes last: with it the packet is valid.
        self.ring.atomic(slot)?.store(first, Ordering::Release);
        write_index.store(index + 1, Ordering::Release);
        self.device.flush_host_writes();
        // The doorbell takes the index of the last packet, so the first value is 0.
        self.doorbells.ring(self.doorbell, index);
        Ok(())
    }

    /// Waits until the slot of packet `index` is free: the processor has fetched the one a ring before.
    fn await_room(&self, index: u64) -> Result<()> {
        let read_index = self.control.atomic(AmdQueue::READ_INDEX as usize)?;
        let begin = Instant::now();
        while index.wrapping_sub(read_index.load(Ordering::Acquire)) >= PACKETS {
            for signal in [&self.inactive, &self.exception] {
                match signal.value()? {
                    0 => {}
                    code => return Err(Error::Queue { code: code.cast_unsigned() }),
                }
            }
            if begin.elapsed() > PATIENCE {
                return Err(Error::RingFull { size: PACKETS });
            }
            thread::yield_now();
        }
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Before its memory goes. A driver that refuses has lost the gpu, and ends the queue with the process.
        let _ = self.device.driver().destroy_queue(self.queue_id);
    }
}

/// Marks every slot as not ready.
fn clear_ring(ring: &mut Buffer) -> Result<()> {
    let Header(invalid) = Header(PacketType::INVALID.0.into());
    for slot in 0..PACKETS as usize {
        ring.write(slot * PACKET_SIZE, &invalid.to_le_bytes())?;
    }
    Ok(())
}

/// The object as the packet processor wants it.
fn queue_object(device: &Device, ring: &Buffer, inactive: &Signal) -> AmdQueue {
    let (node, apertures) = (device.node(), device.apertures());
    AmdQueue {
        hsa_queue: HsaQueue {
            kind: 1,
            features: 1,
            base_address: ring.address().0,
            size: PACKETS as u32,
            ..HsaQueue::default()
        },
        group_segment_aperture_base_hi: (apertures.lds_base >> 32) as u32,
        private_segment_aperture_base_hi: (apertures.scratch_base >> 32) as u32,
        max_cu_id: node.gpu.cus.saturating_sub(1),
        max_wave_id: node.gpu.waves_per_cu.saturating_sub(1),
        read_dispatch_id_field_base_byte_offset: AmdQueue::READ_INDEX as u32,
        queue_properties: QueueProperties::IS_PTR64,
        queue_inactive_signal: inactive.handle().0,
        ..AmdQueue::default()
    }
}

/// The save area with a header for each chip, so that errors of waves reach `exception`.
fn create_save_area(device: &Device, exception: &Signal) -> Result<Buffer> {
    let size = device.node().save_area;
    let mut area = device.allocate(size.total as usize, Placement::Vram)?;
    let num_xcc = device.node().gpu.xccs;
    for xcc in 0..num_xcc {
        let header = SaveAreaHeader {
            // The debugger's part follows the areas of all chips.
            debug_offset: (num_xcc - xcc) * size.cwsr,
            debug_size: size.debug * num_xcc,
            err_payload_addr: exception.value_address().0,
            err_event_id: exception.event().id(),
            ..SaveAreaHeader::default()
        };
        area.put(xcc as usize * size.cwsr as usize, &header)?;
    }
    Ok(area)
}
