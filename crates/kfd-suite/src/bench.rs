//! Runs the jobs of the suite on a gpu.

use std::time::{Duration, Instant};

use kfd_runtime::{
    Arguments, Buffer, CodeObject, CopyQueue, Device, Executable, Order, Placement, Queue, Result, Signal,
};

use crate::checksum::Checksum;
use crate::suite::{Argument, Job, Mismatch};

/// How long a kernel of the suite may take.
const LIMIT: Duration = Duration::from_secs(120);

/// A gpu with the queues that tests need.
#[derive(Debug)]
pub struct Bench {
    /// Runs kernels.
    pub queue: Queue,
    /// Moves memory.
    pub copies: CopyQueue,
}

/// Result of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Work-items, or bytes where nothing is computed.
    pub items: u64,
    /// From the doorbell to the end.
    pub elapsed: Duration,
    /// The first wrong result, if any.
    pub mismatch: Option<Mismatch>,
    /// Checksum over all results.
    pub checksum: Checksum,
}

impl Bench {
    /// Creates the queues.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn new(device: &Device) -> Result<Bench> {
        Ok(Bench { queue: Queue::new(device)?, copies: CopyQueue::new(device)? })
    }

    /// Returns the gpu.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.queue.device()
    }

    /// Allocates a buffer with these contents. The copy engine fills buffers in video memory.
    ///
    /// # Errors
    ///
    /// If there is no memory left or the copy fails.
    pub fn buffer(&mut self, contents: &[u8], placement: Placement) -> Result<Buffer> {
        let mut buffer = self.device().allocate(contents.len(), placement)?;
        if placement == Placement::Vram {
            let mut staging = self.device().allocate(contents.len(), Placement::Gtt)?;
            staging.write(0, contents)?;
            self.copy(&staging, &buffer, contents.len())?;
        } else {
            buffer.write(0, contents)?;
        }
        Ok(buffer)
    }

    /// Reads the first `length` bytes of a buffer, through the copy engine if it lies in video memory.
    ///
    /// # Errors
    ///
    /// If there is no memory left or the copy fails.
    pub fn contents(&mut self, buffer: &Buffer, length: usize, placement: Placement) -> Result<Vec<u8>> {
        if placement != Placement::Vram {
            return buffer.read(0, length);
        }
        let staging = self.device().allocate(length, Placement::Gtt)?;
        self.copy(buffer, &staging, length)?;
        staging.read(0, length)
    }

    fn copy(&mut self, from: &Buffer, to: &Buffer, length: usize) -> Result<()> {
        let done = Signal::new(self.device(), 1)?;
        self.copies.copy(from, to, length, &done)?;
        self.copies.wait(&done, LIMIT)
    }

    /// Runs a job and compares its buffers with the expected results.
    ///
    /// # Errors
    ///
    /// If it could not be run to its end. A wrong result is an outcome, not an error.
    pub fn run(&mut self, job: &Job) -> Result<Outcome> {
        let program = Executable::load(&mut self.queue, &CodeObject::parse(job.object)?)?;
        let kernel = program.kernel(job.kernel)?;
        let mut buffers = Vec::new();
        let mut arguments = Arguments::default();
        for argument in &job.arguments {
            arguments = match argument {
                Argument::U32(value) => arguments.u32(*value),
                Argument::F32(value) => arguments.f32(*value),
                Argument::Buffer(shape) => {
                    let buffer = self.buffer(&shape.contents, shape.placement)?;
                    let arguments = arguments.address(buffer.address());
                    buffers.push((shape, buffer));
                    arguments
                }
            };
        }
        let block = self.buffer(&arguments.block(kernel.argument_bytes), Placement::Gtt)?;
        let done = Signal::new(self.device(), 1)?;
        let begin = Instant::now();
        self.queue.dispatch(&kernel, block.address(), &job.launch, Order::AfterPrevious, &done)?;
        self.queue.wait(&done, LIMIT)?;
        let elapsed = begin.elapsed();
        let mut mismatch = None;
        let mut checksum = Checksum::default();
        for (index, (shape, buffer)) in buffers.iter().enumerate() {
            let found = self.contents(buffer, shape.contents.len(), shape.placement)?;
            mismatch = mismatch.or_else(|| shape.compare(index, &found));
            checksum.add(&found);
        }
        Ok(Outcome { items: job.launch.items(), elapsed, mismatch, checksum })
    }

    /// Waits for a signal of the compute queue as long as tests do.
    ///
    /// # Errors
    ///
    /// If the gpu fails or the time is up.
    pub fn wait(&self, signal: &Signal) -> Result<()> {
        self.queue.wait(signal, LIMIT)
    }

    /// Waits for a signal of the copy queue as long as tests do.
    ///
    /// # Errors
    ///
    /// If the gpu fails or the time is up.
    pub fn wait_for_copy(&self, signal: &Signal) -> Result<()> {
        self.copies.wait(signal, LIMIT)
    }
}
