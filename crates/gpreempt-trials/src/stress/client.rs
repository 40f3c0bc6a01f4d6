//! A client of the stress: kernels with known results on several queues, queues that come and go, pauses. It says on
//! stdout what it did, and ends when its input does.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use kfd_runtime::{
    Arguments, Buffer, CodeObject, CopyQueue, Device, Error, Executable, Order, Placement, Queue, Runtime, Signal,
};
use kfd_suite::suite::{self, Argument, BufferArgument, Job};
use rand_core::Rng;
use rand_pcg::Pcg64;
use vgpu::kill_points::{self, Point};

use super::StressClientArgs;
use super::words;
use crate::random::below;

/// Kernels that end soon, and a long loop that is usually met in the middle.
const KERNELS: &[&str] = &["vadd", "fill", "reduce", "histogram", "exactly_once", "counter", "scratch", "spin"];

/// How long a kernel may take while other processes are stopped, killed and replaced.
const LIMIT: Duration = Duration::from_secs(120);

/// Computes on queues that come and go until the standard input is closed.
///
/// # Errors
/// If the driver refuses something that it must not refuse.
pub fn run(options: &StressClientArgs, out: &mut impl Write) -> Result<()> {
    if let Some(page) = &options.points {
        kill_points::use_page(page);
    }
    vgpu::sys::allow_tracing();
    let ended = watch_input();
    let runtime = Runtime::open()?;
    let mut client = Client::new(runtime.device(0)?, options)?;
    let mut jobs = 0;
    while !ended.load(Ordering::Relaxed) {
        for mismatch in client.round()? {
            writeln!(out, "{} {mismatch}", words::WRONG)?;
        }
        jobs += client.queues.len();
        writeln!(out, "{} {jobs}", words::JOBS)?;
        out.flush()?;
        client.change_queues()?;
        thread::sleep(Duration::from_micros(below(&mut client.random, 4000)));
    }
    Ok(())
}

/// True when this process is to end.
pub(super) fn watch_input() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&ended);
    thread::spawn(move || {
        // Whatever ends the input: the stress is not there any more.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        set.store(true, Ordering::Relaxed);
    });
    ended
}

struct Client<'a> {
    device: &'a Device,
    queues: Vec<Queue>,
    random: Pcg64,
}

impl<'a> Client<'a> {
    fn new(device: &'a Device, options: &StressClientArgs) -> Result<Self> {
        let queues = (0..options.queues).map(|_| Queue::new(device)).collect::<Result<_, _>>()?;
        Ok(Client { device, queues, random: Pcg64::new(options.seed.into(), 1) })
    }

    /// One kernel on every queue, all at the same time. What was wrong.
    fn round(&mut self) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        let mut running = Vec::new();
        for queue in &mut self.queues {
            let name = KERNELS[below(&mut self.random, KERNELS.len() as u64) as usize];
            let job = suite::find(name).and_then(|test| test.job(self.random.next_u64()));
            running.push(Running::start(queue, job.with_context(|| format!("there is no kernel {name}"))?)?);
        }
        kill_points::hit(Point::Running);
        for (queue, running) in self.queues.iter().zip(running) {
            queue.wait(&running.done, LIMIT)?;
            wrong.extend(running.check()?);
        }
        Ok(wrong)
    }

    /// Replaces a queue now and then, and takes a copy queue for a moment. There are fewer of those than clients.
    fn change_queues(&mut self) -> Result<()> {
        match below(&mut self.random, 4) {
            0 => {
                let index = below(&mut self.random, self.queues.len() as u64) as usize;
                drop(self.queues.swap_remove(index));
                self.queues.push(Queue::new(self.device)?);
            }
            1 => match CopyQueue::new(self.device) {
                Ok(_) | Err(Error::Call { .. }) => {}
                Err(error) => return Err(error.into()),
            },
            _ => {}
        }
        Ok(())
    }
}

/// A kernel on its way, with everything it needs.
struct Running {
    job: Job,
    buffers: Vec<Buffer>,
    done: Signal,
    _program: Executable,
    _block: Buffer,
}

impl Running {
    fn start(queue: &mut Queue, job: Job) -> Result<Running> {
        let device = queue.device().clone();
        let program = Executable::load(queue, &CodeObject::parse(job.object)?)?;
        let kernel = program.kernel(job.kernel)?;
        let mut buffers = Vec::new();
        let mut arguments = Arguments::default();
        for argument in &job.arguments {
            arguments = match argument {
                Argument::U32(value) => arguments.u32(*value),
                Argument::F32(value) => arguments.f32(*value),
                Argument::Buffer(shape) => {
                    let mut buffer = device.allocate(shape.contents.len(), shape.placement)?;
                    buffer.write(0, &shape.contents)?;
                    let arguments = arguments.address(buffer.address());
                    buffers.push(buffer);
                    arguments
                }
            };
        }
        let bytes = arguments.block(kernel.argument_bytes);
        let mut block = device.allocate(bytes.len(), Placement::Gtt)?;
        block.write(0, &bytes)?;
        device.flush_host_writes();
        let done = Signal::new(&device, 1)?;
        queue.dispatch(&kernel, block.address(), &job.launch, Order::AfterPrevious, &done)?;
        Ok(Running { job, buffers, done, _program: program, _block: block })
    }

    /// The first result that is not what the host computed.
    fn check(&self) -> Result<Option<String>> {
        let shapes = self.job.arguments.iter().filter_map(Argument::buffer);
        for (index, (shape, buffer)) in shapes.zip(&self.buffers).enumerate() {
            if let Some(wrong) = compare(index, shape, buffer)? {
                return Ok(Some(format!("{}: {wrong}", self.job.kernel)));
            }
        }
        Ok(None)
    }
}

fn compare(index: usize, shape: &BufferArgument, buffer: &Buffer) -> Result<Option<String>> {
    let found = buffer.read(0, shape.contents.len())?;
    Ok(shape.compare(index, &found).map(|mismatch| mismatch.to_string()))
}
