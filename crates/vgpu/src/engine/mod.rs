//! The engine: what executes a client's waves.
//!
//! It works inside the client's address space, because GPU code needs the client's memory, but as processes of its own
//! that share that address space: it goes on while the client is stopped or traced, as a real GPU does, and nobody who
//! waits for children sees it. It ends with the client.

mod desk;
mod faults;
mod gpus;
mod spawn;

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::client::Events;
use crate::control::Control;
use crate::device::{Config, Pulse, Worker};
use crate::sys::Known;
use desk::Desk;
pub(crate) use faults::{forget, has_failed, lock};
pub(crate) use gpus::{Gpu, Gpus};

/// Instructions a wave runs before its workgroup comes back.
const QUANTUM: u64 = 4096;
/// Sleep of an engine without work; doorbells end it.
const IDLE: Duration = Duration::from_millis(200);
/// Shortest and longest pause of an engine whose packets wait for memory that anybody may write.
const WAITING: (Duration, Duration) = (Duration::from_micros(5), Duration::from_millis(1));
/// How often a busy engine looks whether there still is a driver.
const LOOK: Duration = Duration::from_millis(100);

/// What the workers of one client share.
pub(crate) struct Shared {
    pub(crate) gpus: Arc<Gpus>,
    pub(crate) config: Config,
    pub(crate) control: Arc<Control>,
    pub(crate) events: Arc<Events>,
    /// The connection to the supervisor: it hangs up when the supervisor is gone.
    pub(crate) connection: &'static Known<UnixStream>,
    /// The process whose gpu this is.
    client: i32,
    desk: Desk,
    lost: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        gpus: Arc<Gpus>,
        config: Config,
        control: Arc<Control>,
        events: Arc<Events>,
        connection: &'static Known<UnixStream>,
    ) -> Self {
        // SAFETY: takes no argument and cannot fail.
        let client = unsafe { libc::getpid() };
        Self { client, gpus, config, control, events, connection, desk: Desk::default(), lost: AtomicBool::new(false) }
    }
}

/// Number of workers, if the user wants another than ours.
const WORKERS_VARIABLE: &str = "GPREEMPT_VGPU_WORKERS";
const MOST_WORKERS: usize = 64;

/// Starts the workers: as many as the machine has cores, less one for the program itself.
///
/// # Errors
/// ENOMEM or EAGAIN if there can be no more threads.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<(), i32> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let wanted = std::env::var(WORKERS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let workers = wanted.unwrap_or(cores.saturating_sub(1)).clamp(1, MOST_WORKERS);
    for _ in 0..workers {
        spawn::worker(Arc::clone(shared))?;
    }
    Ok(())
}

/// The life of a worker.
fn work(shared: &Arc<Shared>) {
    let worker = |_| {
        let control = Arc::clone(&shared.control);
        Worker::new(shared.config, QUANTUM).interrupted_by(move || control.has_orders())
    };
    let mut workers: Vec<Worker> = shared.gpus.iter().map(worker).collect();
    let mut pause = WAITING.0;
    let mut looked = Instant::now();
    while !shared.lost.load(Ordering::Relaxed) {
        let due = shared.desk.obey(shared);
        let mut pulse = Pulse::Idle;
        for (worker, gpu) in workers.iter_mut().zip(shared.gpus.iter()) {
            pulse = pulse.max(worker.turn(&gpu.engine));
        }
        let most = due.unwrap_or(IDLE).min(IDLE);
        match pulse {
            Pulse::Busy => pause = WAITING.0,
            Pulse::Waiting => {
                shared.control.sleep(pause.min(most), || true);
                pause = (pause * 2).min(WAITING.1);
            }
            Pulse::Idle => {
                shared.control.sleep(most, || shared.is_idle());
                pause = WAITING.0;
            }
        }
        if looked.elapsed() > LOOK {
            looked = Instant::now();
            if hung_up(shared.connection) {
                shared.lose();
            }
        }
    }
}

impl Shared {
    fn is_idle(&self) -> bool {
        !self.control.has_orders()
            && self.gpus.iter().all(|gpu| {
                let mut engine = gpu.engine.lock().unwrap_or_else(PoisonError::into_inner);
                engine.advance() == Pulse::Idle
            })
    }

    /// The driver or an engine is gone: the gpu fell off the bus.
    fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
        self.control.lose();
        for gpu in self.gpus.iter() {
            self.events.hardware_exception(&desk::reset(gpu.gpu_id), true);
        }
    }
}

/// Whether the other end of a connection is closed, or ours.
fn hung_up(connection: &Known<UnixStream>) -> bool {
    let Some(stream) = connection.get() else { return true };
    let mut poll = libc::pollfd { fd: stream.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one structure, no waiting.
    unsafe { libc::poll(&raw mut poll, 1, 0) };
    poll.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}
