//! Finds processes, their queues and gpus. A thread of its own, because files of the driver and of other processes may
//! take long. For the same reason it starts the actuator, looks for other daemons, and tracks the end of processes.
//!
//! A scan of processes that did not change lists the driver's directories and asks each known program for one byte,
//! which tells whether it is still the same. Everything else is read when something changed, or a few times per second.

mod gpus;
mod other_daemon;
mod process_record;
mod program;
mod resume_cause;
mod rings;
mod survey;
mod thread;
mod tracked;
mod warn_once;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use gpreempt_core::Nanos;
use gpreempt_observe::RingPlace;
use kfd::{GpuId, Pid, ProcessMemory, QueueId};

use crate::actuate::{ActuatorOptions, Link};
use crate::identity::Identity;
use crate::inbox::InputSender;

pub(crate) use tracked::ended;

/// A finding of the discovery thread, or the outcome of a request.
#[derive(Debug)]
pub enum DiscoveryEvent {
    /// The gpus of the machine; sent first, and again when they change.
    Gpus(Vec<DiscoveredGpu>),
    /// A process has compute queues, or they changed.
    Process(Box<Process>),
    /// A process is gone, executed another program, or has no compute queues any more.
    Gone {
        /// The process.
        pid: Pid,
    },
    /// The answer to [`DiscoveryRequest::SampleOccupancy`].
    Occupancy(OccupancySample),
    /// A stopped process must run. Sent once for each cause while it lasts.
    MustResume {
        /// The process.
        pid: Pid,
        /// The cause.
        cause: ResumeCause,
    },
    /// The answer to [`DiscoveryRequest::StartActuator`].
    ActuatorStart(ActuatorStart),
    /// Tracked processes have ended. Sent before the processes that the same scan found.
    TrackedEnded(ProcessSet),
    /// A full scan ended.
    Scanned {
        /// When it began.
        at: Nanos,
    },
}

/// The outcome of an attempt to start the actuator.
#[derive(Debug)]
pub enum ActuatorStart {
    /// It starts. What it reports comes as [`crate::inbox::Input::Actuator`], possibly before this.
    Started(Link),
    /// Not started: this process is the actuator of another daemon on these gpus.
    OtherDaemon(Pid),
    /// The system has no process or descriptor left, or the program cannot be executed.
    Failed(io::Error),
}

/// Processes, each with its start time in clock ticks since boot, so that a later process of the same number is not
/// meant.
pub type ProcessSet = BTreeMap<u32, u64>;

/// Why a stopped process must run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeCause {
    /// A thread of it waits to destroy a queue, or is otherwise held up by the stop inside the driver.
    Destroying,
    /// It is exiting.
    Exiting,
    /// SIGTERM, SIGINT or SIGHUP waits for it: it is halted, or busy in the kernel. A signal that a handler takes at
    /// once leaves no trace that others could see.
    Terminated,
}

/// A gpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredGpu {
    /// The driver's number.
    pub id: GpuId,
    /// PCI address, with `/N` for partition N where there are several.
    pub address: String,
    /// Product name.
    pub name: String,
    /// The hardware's own number, the same on every boot; 0 if the driver does not tell.
    pub unique_id: u64,
    /// Compute units, all XCCs together.
    pub cus: u32,
    /// Waves each holds.
    pub waves_per_cu: u32,
}

/// A process with compute queues.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its identity.
    pub identity: Identity,
    /// Its memory; absent if this user may not read it, with the reason.
    pub memory: Result<Arc<ProcessMemory>, String>,
    /// What it has on each gpu.
    pub tenants: Vec<Tenant>,
    /// The process that traces it, which may be our actuator.
    pub traced_by: Option<Pid>,
    /// Contexts that it made beside its first. Their queues are in no session, and [`Tenant::compute`] does not have
    /// them; their rings are among [`Tenant::rings`].
    pub contexts: usize,
}

/// What a process has on one gpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// The gpu.
    pub gpu: GpuId,
    /// Compute queues.
    pub compute: Vec<QueueId>,
    /// Copy queues. They are never stopped.
    pub sdma: Vec<QueueId>,
    /// Where the rings of the compute queues are; empty while unknown, with the reason in [`Tenant::blind`]. In no
    /// particular order: which ring is which queue is not known, nor needed.
    pub rings: Vec<RingPlace>,
    /// Why rings are not known.
    pub blind: Option<Blind>,
    /// Bytes of video memory.
    pub vram: u64,
}

impl Tenant {
    /// Returns a tenant of `gpu` of which nothing is known yet.
    #[must_use]
    pub fn on(gpu: GpuId) -> Tenant {
        Tenant { gpu, compute: Vec::new(), sdma: Vec::new(), rings: Vec::new(), blind: None, vram: 0 }
    }
}

/// Why rings are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blind {
    /// In words, with the remedy.
    pub why: String,
    /// The driver's descriptors may not be read at all; else they do not show its queues yet.
    pub refused: bool,
}

/// A sample of a tenant's occupancy, taken because a decision depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OccupancySample {
    /// The process.
    pub pid: Pid,
    /// The gpu.
    pub gpu: GpuId,
    /// When the driver was asked.
    pub at: Nanos,
    /// Compute units that hold waves of it, if the driver tells.
    pub occupied_cus: Option<u32>,
    /// Milliseconds it was evicted so far.
    pub evicted_ms: Option<u64>,
}

/// A request of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryRequest {
    /// Sample the occupancy of these tenants; answered by one [`DiscoveryEvent::Occupancy`] each.
    SampleOccupancy(Vec<(Pid, GpuId)>),
    /// Rings of this process cannot be read where they were: look for them again.
    RingsLost(Pid),
    /// Processes that are stopped now: each scan checks whether one must run.
    Stopped(Vec<Pid>),
    /// Start the actuator, unless another daemon has one on these gpus. Answered by one
    /// [`DiscoveryEvent::ActuatorStart`].
    StartActuator {
        /// The executable.
        program: PathBuf,
        /// Which actuator.
        options: ActuatorOptions,
    },
    /// Report the end of these processes, and of no others, whether they have queues or not.
    Track(ProcessSet),
    /// Time between two scans, and the variables that rules ask for.
    Configure {
        /// See [`Config`](crate::config::Config).
        scan: Duration,
        /// Environment variables to read of every process.
        variables: Vec<String>,
    },
}

/// Settings of the discovery thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Time between two scans while a process uses a gpu.
    pub scan: Duration,
    /// Variables that rules ask for.
    pub variables: Vec<String>,
}

/// Handle of the discovery thread, which ends when this is dropped.
#[derive(Debug)]
pub struct Discovery {
    requests: Option<Sender<DiscoveryRequest>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the discovery thread. It sends its findings to `to`, and ends when the receiver is gone.
///
/// # Errors
///
/// If the system has no thread left.
pub fn start(settings: Settings, to: InputSender) -> io::Result<Discovery> {
    let (requests, received) = mpsc::channel();
    let work = thread::Thread::new(settings, received, to);
    let thread = std::thread::Builder::new().name("discovery".to_owned()).spawn(move || work.run())?;
    Ok(Discovery { requests: Some(requests), thread: Some(thread) })
}

impl Discovery {
    /// A handle without a thread, and the requests that go to it.
    #[cfg(test)]
    pub(crate) fn detached() -> (Discovery, mpsc::Receiver<DiscoveryRequest>) {
        let (requests, received) = mpsc::channel();
        (Discovery { requests: Some(requests), thread: None }, received)
    }

    /// Sends a request. A thread that has ended does not take it, and has no receiver for its findings either.
    pub fn tell(&self, request: DiscoveryRequest) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(request);
        }
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, there is nothing left to end.
            let _ = thread.join();
        }
    }
}
