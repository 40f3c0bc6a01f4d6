//! Copy queues: memory moved by the gpu's copy engines.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use kfd_abi::PAGE_SIZE;
use kfd_abi::queue::{CreateQueueArgs, MAX_PERCENTAGE, MAX_PRIORITY, QueueType};

use crate::device::{Device, Doorbells};
use crate::error::{Error, Result};
use crate::memory::{Buffer, Placement};
use crate::packet::sdma;
use crate::signal::Signal;

/// Bytes of a ring.
const RING: u64 = 64 << 10;
/// Where the indices lie in their page; apart, because each side writes one.
const READ_INDEX: u64 = 0;
const WRITE_INDEX: u64 = 64;
/// Longest wait for room in the ring.
const PATIENCE: Duration = Duration::from_secs(60);

/// A copy queue. Destroyed when dropped.
#[derive(Debug)]
pub struct CopyQueue {
    device: Device,
    queue_id: u32,
    doorbell: u64,
    doorbells: Arc<Doorbells>,
    ring: Buffer,
    control: Buffer,
    /// Bytes written since the queue exists.
    written: u64,
}

impl CopyQueue {
    /// Creates a copy queue.
    ///
    /// # Errors
    ///
    /// If memory or the copy engines' queues are used up.
    pub fn new(device: &Device) -> Result<CopyQueue> {
        let ring = device.allocate(RING as usize, Placement::Uncached)?;
        let control = device.allocate(PAGE_SIZE as usize, Placement::Uncached)?;
        let mut args = CreateQueueArgs {
            ring_base_address: ring.address().0,
            write_pointer_address: control.address().plus(WRITE_INDEX).0,
            read_pointer_address: control.address().plus(READ_INDEX).0,
            ring_size: RING as u32,
            gpu_id: device.node().gpu.id.0,
            queue_type: QueueType::SDMA,
            queue_percentage: MAX_PERCENTAGE,
            queue_priority: MAX_PRIORITY,
            ..CreateQueueArgs::default()
        };
        device.driver().create_queue(&mut args)?;
        let doorbells = device.doorbells(args.doorbell_offset).inspect_err(|_| {
            // The queue would outlive its memory.
            let _ = device.driver().destroy_queue(args.queue_id);
        })?;
        let (queue_id, doorbell) = (args.queue_id, args.doorbell_offset);
        Ok(CopyQueue { device: device.clone(), queue_id, doorbell, doorbells, ring, control, written: 0 })
    }

    /// Copies the first `length` bytes of a buffer to the start of another. The signal is counted down at the end.
    ///
    /// # Errors
    ///
    /// If one of them is smaller, or the ring stays full.
    pub fn copy(&mut self, from: &Buffer, to: &Buffer, length: usize, completion: &Signal) -> Result<()> {
        for buffer in [from, to] {
            if length > buffer.len() {
                return Err(Error::OutOfBounds { offset: 0, length, size: buffer.len() });
            }
        }
        self.run(&sdma::copy(from.address(), to.address(), length as u64), completion)
    }

    /// Fills a buffer with a 32-bit pattern, as far as whole words go. The signal is counted down at the end.
    ///
    /// # Errors
    ///
    /// If the ring stays full.
    pub fn fill(&mut self, buffer: &Buffer, pattern: u32, completion: &Signal) -> Result<()> {
        self.run(&sdma::fill(buffer.address(), pattern, buffer.len() as u64), completion)
    }

    /// Waits until a signal is 0.
    ///
    /// # Errors
    ///
    /// If the gpu faults or the time is up.
    pub fn wait(&self, signal: &Signal, limit: Duration) -> Result<()> {
        signal.wait(&[], limit)
    }

    fn run(&mut self, commands: &[u32], completion: &Signal) -> Result<()> {
        let event = completion.event();
        let report = sdma::report(completion.value_address(), event.mailbox(), event.id());
        let bytes = [commands, &report].concat().into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        let length = bytes.len() as u64;
        if length > RING / 2 {
            return Err(Error::RingFull { size: RING });
        }
        let mut at = self.written % RING;
        if at + length > RING {
            // A packet must not reach over the end: zeroes are packets that do nothing.
            self.await_room(RING - at)?;
            self.ring.write(at as usize, &vec![0; (RING - at) as usize])?;
            self.written += RING - at;
            at = 0;
        }
        self.await_room(length)?;
        self.ring.write(at as usize, &bytes)?;
        self.written += length;
        self.device.flush_host_writes();
        self.control.atomic(WRITE_INDEX as usize)?.store(self.written, Ordering::Release);
        self.doorbells.ring(self.doorbell, self.written);
        Ok(())
    }

    /// Waits until `length` more bytes fit. What was written but not yet announced is announced first: the engine would
    /// wait for us as we for it.
    fn await_room(&self, length: u64) -> Result<()> {
        let read_index = self.control.atomic(READ_INDEX as usize)?;
        let begin = Instant::now();
        while self.written + length - read_index.load(Ordering::Acquire) > RING {
            self.control.atomic(WRITE_INDEX as usize)?.store(self.written, Ordering::Release);
            self.doorbells.ring(self.doorbell, self.written);
            if begin.elapsed() > PATIENCE {
                return Err(Error::RingFull { size: RING });
            }
            thread::yield_now();
        }
        Ok(())
    }
}

impl Drop for CopyQueue {
    fn drop(&mut self) {
        // Before its memory goes. A driver that refuses has lost the gpu, and ends the queue with the process.
        let _ = self.device.driver().destroy_queue(self.queue_id);
    }
}
