//! The engine: what executes a client's waves.
//!
//! It works inside the client's address space, because GPU code needs the client's memory, but as processes of its own
//! that share that address space: it goes on while the client is stopped or traced, as a real GPU does, and nobody who
//! waits for children sees it. It ends with the client.

mod faults;
mod gpus;
mod order_queue;
mod preemption_fuzzer;
mod spawn;

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::client::Events;
use crate::control::Control;
use crate::device::chip::{Chip, ProcessSlot};
use crate::device::{DeviceActivity, DeviceConfig, ProcessDevice, Worker};
use crate::kill_points::{self, Point};
use crate::options::Storm;
use crate::sys::{self, VerifiedFd};
pub(crate) use faults::{forget, has_failed, lock};
pub(crate) use gpus::{ProcessGpu, ProcessGpus};
pub(crate) use order_queue::OrderQueue;
use preemption_fuzzer::PreemptionFuzzer;

/// Name of engine processes.
pub(crate) const NAME: &str = "vgpu-device";

/// Instructions a wave runs before its workgroup comes back.
const QUANTUM: u64 = 4096;
/// Sleep of an engine without work; doorbells end it.
const IDLE: Duration = Duration::from_millis(200);
/// Shortest and longest pause of an engine whose packets wait for memory that anybody may write.
const WAITING: (Duration, Duration) = (Duration::from_micros(5), Duration::from_millis(1));
/// How often a busy engine looks whether there still is a driver.
const LOOK: Duration = Duration::from_millis(100);

/// What the workers of one client share.
pub(crate) struct ExecutorState {
    pub(crate) gpus: Arc<ProcessGpus>,
    pub(crate) config: DeviceConfig,
    pub(crate) control: Arc<Control>,
    pub(crate) events: Arc<Events>,
    /// The connection to the supervisor: it hangs up when the supervisor is gone.
    pub(crate) connection: &'static VerifiedFd<UnixStream>,
    /// What this process shares with all others on the gpus.
    pub(crate) chip: Arc<Chip>,
    pub(crate) process_slot: ProcessSlot,
    pub(crate) storm: Option<Storm>,
    /// The process whose gpu this is.
    pub(crate) client: i32,
    pub(crate) order_queue: OrderQueue,
    pub(crate) lost: AtomicBool,
}

/// Number of workers, if the user wants another than ours.
const WORKERS_VARIABLE: &str = "GPREEMPT_VGPU_WORKERS";
const MOST_WORKERS: usize = 64;

/// Starts the workers: as many as can hold an execution token at once.
///
/// # Errors
/// ENOMEM or EAGAIN if there can be no more threads.
pub(crate) fn start(shared: &Arc<ExecutorState>) -> Result<(), i32> {
    let wanted = std::env::var(WORKERS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let workers = wanted.unwrap_or(shared.chip.tokens() as usize).clamp(1, MOST_WORKERS);
    for _ in 0..workers {
        spawn::worker(Arc::clone(shared))?;
    }
    Ok(())
}

/// The life of a worker.
fn work(shared: &Arc<ExecutorState>) {
    let worker = |_| {
        let wanting = Arc::clone(shared);
        let is_wanted = move || wanting.control.has_orders() || wanting.order_queue.is_due();
        Worker::new(shared.config, QUANTUM).interrupted_by(is_wanted)
    };
    let mut workers: Vec<Worker> = shared.gpus.iter().map(worker).collect();
    let mut fuzzer = shared.storm.map(PreemptionFuzzer::new);
    let mut pause = WAITING.0;
    let mut looked = Instant::now();
    while !shared.lost.load(Ordering::Relaxed) && !shared.chip.is_closed(shared.process_slot) {
        let due = shared.order_queue.obey(shared);
        let mut pulse = shared.process_packets();
        if pulse > DeviceActivity::Idle && shared.is_runnable() {
            let until = due.map(|due| Instant::now() + due);
            pulse = pulse.max(shared.execute(&mut workers, fuzzer.as_mut(), until));
        }
        let most = due.unwrap_or(IDLE).min(IDLE);
        match pulse {
            DeviceActivity::Busy => pause = WAITING.0,
            DeviceActivity::Waiting => {
                shared.chip.sleep(shared.process_slot, pause.min(most), || !shared.control.has_orders());
                pause = (pause * 2).min(WAITING.1);
            }
            DeviceActivity::Idle => {
                shared.chip.sleep(shared.process_slot, most, || shared.is_idle());
                pause = WAITING.0;
            }
        }
        if pulse < DeviceActivity::Busy || looked.elapsed() > LOOK {
            shared.show_counters();
        }
        if looked.elapsed() > LOOK {
            looked = Instant::now();
            if hung_up(shared.connection) {
                shared.lose();
            }
        }
    }
    shared.lose();
}

impl ExecutorState {
    fn each_device(&self) -> impl Iterator<Item = MutexGuard<'_, ProcessDevice>> {
        self.gpus.iter().map(|gpu| gpu.device.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn process_packets(&self) -> DeviceActivity {
        let advance = |mut device: MutexGuard<'_, ProcessDevice>| {
            kill_points::hit(Point::DeviceLock);
            device.advance()
        };
        self.each_device().map(advance).max().unwrap_or(DeviceActivity::Idle)
    }

    fn is_runnable(&self) -> bool {
        self.each_device().any(|device| device.runnable())
    }

    /// Executes waves as long as this process may and there are any, but not beyond a time at which queues have to leave or
    /// come back: nobody else looks at the clock.
    fn execute(
        &self,
        workers: &mut [Worker],
        mut fuzzer: Option<&mut PreemptionFuzzer>,
        until: Option<Instant>,
    ) -> DeviceActivity {
        let Some(token) = self.chip.acquire(self.process_slot, until, || self.control.has_orders()) else {
            return DeviceActivity::Waiting;
        };
        let mut most = DeviceActivity::Waiting;
        loop {
            let mut pulse = DeviceActivity::Idle;
            for (worker, gpu) in workers.iter_mut().zip(self.gpus.iter()) {
                if let Some(fuzzer) = &mut fuzzer {
                    worker.set_quantum(fuzzer.quantum());
                }
                pulse = pulse.max(worker.turn(&gpu.device));
                if let Some(fuzzer) = &mut fuzzer {
                    fuzzer.preempt_all(&gpu.device);
                }
            }
            most = most.max(pulse);
            let due = until.is_some_and(|until| Instant::now() >= until);
            if pulse < DeviceActivity::Busy || due || self.control.has_orders() || token.should_yield() {
                return most;
            }
        }
    }

    /// Lets everybody see what was saved and restored.
    fn show_counters(&self) {
        for (index, device) in self.each_device().enumerate() {
            self.control.show_preempted(index, &device.save_counters());
            self.control.show_copied(index, device.copied_us());
        }
    }

    fn is_idle(&self) -> bool {
        !self.control.has_orders() && self.process_packets() == DeviceActivity::Idle
    }

    /// The driver or an engine is gone: the gpu fell off the bus.
    fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
        self.control.lose();
        for gpu in self.gpus.iter() {
            self.events.hardware_exception(&order_queue::reset(gpu.gpu_id), true);
        }
    }
}

/// Whether the other end of a connection is closed, or ours.
fn hung_up(connection: &VerifiedFd<UnixStream>) -> bool {
    let Some(stream) = connection.get() else { return true };
    sys::poll_now(stream.as_fd(), 0) & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}
