//! The executor: the processes that execute a client's waves.
//!
//! Waves need the client's memory, so executors run in the client's address space. They are processes of their own and
//! not threads, so that they go on while the client is stopped or traced, as a real gpu does, and so that no wait of
//! the client sees them. They end with the client.
//!
//! # Safety
//!
//! An executor process is made with `clone(CLONE_VM | CLONE_FILES | CLONE_FS)`. It runs on a stack of its own but with
//! the thread register, and therefore the thread-local data, of a *donor*: a thread of the client that was started for
//! this purpose and is parked until the executor has ended. libc and std do not know the executor. That is sound under
//! these rules, which this module and everything it calls (`device`, `control`, `vgpu-isa`) must keep:
//!
//! * **One user of thread-local data at a time.** Between `clone` and the end of the executor the donor executes one
//!   raw `waitpid` and nothing else (`spawn::until_ended`), which does not even write errno. So errno and std's panic
//!   count belong to the executor alone. The donor never returns, so no destructor of thread-local data runs on what a
//!   killed executor left behind.
//! * **No libc function that depends on the calling thread or process.** The thread descriptor names the *donor*: no
//!   thread creation, `pthread_join`, recursive, error-checking or robust mutexes, cancellation, `fork`, `exit` or
//!   stdio. Allowed are atomics, futexes, raw system calls, functions that only compute, and `std::sync::Mutex`: it
//!   records no owner, so executors and threads of the client may share one.
//! * **No allocation from the client's malloc.** A stopped thread of the client may hold its lock, and it keeps
//!   caches per thread. `vgpu-preload` sets a global allocator whose lock is taken by code of this project alone, for
//!   one call.
//! * **No lock that is held while its holder waits.** Locks that executors and threads of the client both take
//!   (`device`, events) are held for bounded work. A client that is stopped inside such a section delays its own
//!   executors until it continues, never those of another client. A lock whose holder was killed counts as lost
//!   (`faults::lock`).
//! * **No code of the client.** `spawn` blocks all signals before `clone`; SIGSEGV and SIGBUS are unblocked again
//!   with the executor's own handler, which replaces none of the client's: without CLONE_SIGHAND the table is a copy.
//!   The executor ends with `exit_group`, which runs no exit handler.
//! * **No plain access to memory of the client**, which may unmap it at any time. Waves and packets access it through
//!   guarded copies (`vgpu_isa::memory`), after whose faults `faults::on_fault` continues.
//! * **Nothing unwinds out of `spawn::enter`**, whose caller is the trampoline of `clone`.
//!
//! Descriptors are shared with the client, which may close or replace them: [`VerifiedFd`] guards the one in use.

mod faults;
mod gpus;
mod order_queue;
mod preemption_fuzzer;
mod spawn;

use std::ffi::CStr;
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
use crate::sys::{self, PollFlags, VerifiedFd};
pub(crate) use faults::{forget, has_failed, lock};
pub(crate) use gpus::{ProcessGpu, ProcessGpus};
pub(crate) use order_queue::OrderQueue;
use preemption_fuzzer::PreemptionFuzzer;

/// Name of executor processes, as `/proc/PID/comm` shows it.
const COMM: &CStr = c"vgpu-executor";
/// `COMM` as text.
pub(crate) const NAME: &str = match COMM.to_str() {
    Ok(name) => name,
    Err(_) => panic!("the name is ASCII"),
};

/// Instructions a wave runs before its workgroup comes back.
const QUANTUM: u64 = 4096;
/// Longest sleep of a worker without work; doorbells end it.
const IDLE: Duration = Duration::from_millis(200);
/// Shortest and longest pause of a worker whose packets wait for a value in memory, whose change wakes nothing.
const WAITING: (Duration, Duration) = (Duration::from_micros(5), Duration::from_millis(1));
/// How often a busy worker publishes its counters and checks that the supervisor is still there.
const LOOK: Duration = Duration::from_millis(100);

/// State that all workers of one client share.
pub(crate) struct ExecutorState {
    pub(crate) gpus: Arc<ProcessGpus>,
    pub(crate) config: DeviceConfig,
    pub(crate) control: Arc<Control>,
    pub(crate) events: Arc<Events>,
    /// The connection to the supervisor: it hangs up when the supervisor is gone.
    pub(crate) connection: &'static VerifiedFd<UnixStream>,
    /// State that this process shares with all others on the gpus.
    pub(crate) chip: Arc<Chip>,
    pub(crate) process_slot: ProcessSlot,
    pub(crate) storm: Option<Storm>,
    /// Pid of the client.
    pub(crate) client: i32,
    pub(crate) order_queue: OrderQueue,
    pub(crate) lost: AtomicBool,
}

/// Environment variable that overrides the number of workers, 1 to [`MOST_WORKERS`].
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

/// Body of a worker: carries out orders, processes packets and executes waves until the supervisor or the client is
/// gone.
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
        let look = looked.elapsed() >= LOOK;
        if look || pulse < DeviceActivity::Busy {
            shared.show_counters();
        }
        if look {
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

    /// Processes packets of all gpus. This needs no token: it tells whether there are waves that need one.
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

    /// Executes waves while this process holds a token and there are any, at most until the time at which queues must
    /// leave or come back: no other code watches that clock. Returns after [`LOOK`] at the latest, because a kernel
    /// that no other process interrupts may run for ever.
    fn execute(
        &self,
        workers: &mut [Worker],
        mut fuzzer: Option<&mut PreemptionFuzzer>,
        until: Option<Instant>,
    ) -> DeviceActivity {
        let turn = || {
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
            pulse
        };
        self.chip.execute(self.process_slot, until, LOOK, || self.control.has_orders(), turn)
    }

    /// Publishes what was saved, restored and copied.
    fn show_counters(&self) {
        for (index, device) in self.each_device().enumerate() {
            self.control.show_preempted(index, &device.save_counters());
            self.control.show_copied(index, device.copied_us());
        }
    }

    fn is_idle(&self) -> bool {
        !self.control.has_orders() && self.process_packets() == DeviceActivity::Idle
    }

    /// Reports the gpu as lost, because the supervisor or an executor is gone: the gpu fell off the bus.
    fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
        self.control.lose();
        for gpu in self.gpus.iter() {
            self.events.hardware_exception(&order_queue::reset(gpu.gpu_id), true);
        }
    }
}

/// Returns whether either end of a connection is closed.
fn hung_up(connection: &VerifiedFd<UnixStream>) -> bool {
    let Some(stream) = connection.get() else { return true };
    let closed = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    sys::poll_now(stream.as_fd(), PollFlags::empty()).intersects(closed)
}
