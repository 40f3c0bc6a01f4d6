//! The supervisor: the process that is the driver.
//!
//! It starts with the listening socket as standard input, is told what gpu to be by its launcher, serves every process
//! that connects, and ends when the last connection closes. It lives in a session of its own, so a Ctrl-C meant for the
//! program does not reach it. One thread for each connection; the driver's state is behind one lock, like the real
//! one's.

mod awaited;
mod cgroup;
mod connection;
mod door;
mod ending;
mod execute;
#[cfg(test)]
mod few_descriptors;
mod hws;
mod interrupts;
mod member;
mod observe;
mod openings;
mod poller;
mod process_channel;
mod sharing;
mod status;
mod waiting;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::device::chip::{self, Chip};
use crate::device::{Geometry, SaveCounters};
use crate::driver::{Driver, ProcessKey};
use crate::launch::Setup;
use crate::profile::{MAX_GPUS, Profile};
use crate::{kill_points, sys};

use awaited::Awaited;
use door::Door;
use ending::Ended;
use hws::{Fault, Hws};
use member::Member;
pub use poller::Poller;
use sharing::Sharing;
use waiting::Waiting;

/// The state that all connections share.
pub struct Supervisor {
    device: OnceLock<Device>,
    /// Held while a launcher's configuration is applied.
    configuring: Mutex<()>,
    poller: Poller,
    /// Processes whose executors raised interrupts; taken by the thread that handles them.
    interrupted: Mutex<Option<Receiver<ProcessKey>>>,
    /// Connections and held processes that keep the supervisor alive, or [`CLOSED`].
    connections: AtomicUsize,
    /// Processes that keep it alive.
    holders: AtomicU32,
    /// Connections ever accepted.
    accepted: AtomicU64,
    /// Processes that have the driver open.
    members: Mutex<BTreeMap<ProcessKey, Arc<Member>>>,
    waiting: Waiting,
    awaited: Awaited,
    /// Buffers that processes share. Its lock may be taken while the driver is locked, not the other way round.
    sharing: Sharing,
    ended: Ended,
    /// Waves that processes which have ended saved and restored, by gpu.
    gone: Mutex<[SaveCounters; MAX_GPUS as usize]>,
}

/// Number of connections of a supervisor that is about to exit: a launcher that connects now starts another one.
const CLOSED: usize = usize::MAX;

/// The gpus, once they are configured.
struct Device {
    /// As its first launcher wanted it.
    setup: Setup,
    driver: Mutex<Driver>,
    /// The part of the hardware that all processes share.
    chip: Arc<Chip>,
    chip_file: OwnedFd,
    /// One for each gpu.
    schedulers: Vec<Hws>,
}

/// Serves until the last connection closes. The listener is standard input.
///
/// # Errors
/// If standard input is not a listening socket.
pub fn main() -> io::Result<()> {
    detach();
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    let supervisor = Arc::new(Supervisor::new()?);
    let door = Door::new(listener)?;
    loop {
        let stream = door.next()?;
        let clone = Arc::clone(&supervisor);
        // Without a thread for it the connection closes.
        let _ = supervisor.attend("connection", move || connection::serve(&clone, &stream));
    }
}

/// Logs to standard error, which `GPREEMPT_VGPU_LOG` directs to a file and which otherwise leads nowhere.
fn say(text: &str) {
    // It may be closed or full, which is no reason to fail.
    let _ = writeln!(io::stderr(), "vgpu: {text}");
}

/// Leaves the launcher's session and its signals, and raises the priority where that is permitted.
fn detach() {
    // SAFETY: plain system calls; the only effect is on this process. Descriptors that the launcher inherited are not
    // ours to keep open: a process may wait for their other end.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        libc::setsid();
        let mut files = std::mem::zeroed::<libc::rlimit>();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut files) == 0 {
            files.rlim_cur = files.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files);
        }
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::prctl(libc::PR_SET_NAME, c"vgpu-supervisor".as_ptr());
        // A driver's calls run in the kernel, at once: they do not wait until waves, which have -10, leave a core to
        // them.
        libc::setpriority(libc::PRIO_PROCESS, 0, -12);
    }
}

impl Supervisor {
    fn new() -> io::Result<Self> {
        let (sender, interrupted) = channel();
        Ok(Self {
            device: OnceLock::new(),
            configuring: Mutex::new(()),
            poller: Poller::start(sender)?,
            interrupted: Mutex::new(Some(interrupted)),
            connections: 0.into(),
            holders: 0.into(),
            accepted: 0.into(),
            members: Mutex::default(),
            waiting: Waiting::default(),
            awaited: Awaited::default(),
            sharing: Sharing::default(),
            ended: Ended::default(),
            gone: Mutex::default(),
        })
    }

    fn device(&self) -> Option<&Device> {
        self.device.get()
    }

    /// Runs `what` in a thread of its own and exits the process when the last such thread ends. The launcher's
    /// connection comes first, so that is when the last process is gone.
    fn attend(self: &Arc<Self>, name: &str, what: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let one_more = |now| if now == CLOSED { None } else { Some(now + 1) };
        if self.connections.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_err() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let attended = Attended(Arc::clone(self));
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            let _attended = attended;
            what();
        });
        thread.map(drop)
    }

    /// Becomes the gpu that a launcher wants, or checks that it is that gpu already, and stays at least as long as the
    /// process `hold`.
    fn configure(self: &Arc<Self>, setup: Setup, hold: Option<u32>) -> Result<(), String> {
        let configuring = self.configuring.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = self.device.get() {
            setup.accepts(&device.setup)?;
        }
        if let Some(pid) = hold {
            self.hold(pid)?;
        }
        if self.device.get().is_none() {
            if let Some(page) = &setup.options.points {
                kill_points::use_page(page);
            }
            let device = Device::new(setup).map_err(|error| format!("cannot make the memory of the gpus: {error}"))?;
            self.device.get_or_init(|| device);
            self.rotate_runlists()?;
            self.handle_interrupts()?;
            self.watch_dmabufs()?;
        }
        drop(configuring);
        Ok(())
    }

    /// Starts the threads that give the queues of over-subscribed gpus their turns.
    fn rotate_runlists(self: &Arc<Self>) -> Result<(), String> {
        for gpu in 0..self.device.get().map_or(0, |device| device.schedulers.len()) {
            let supervisor = Arc::clone(self);
            let rotate = move || {
                if let Some(hws) = supervisor.hws(gpu as u32) {
                    hws.rotate(&supervisor);
                }
            };
            let started = std::thread::Builder::new().name("runlist".into()).spawn(rotate);
            started.map_err(|error| format!("there can be no more threads: {error}"))?;
        }
        Ok(())
    }

    /// Starts the thread that handles interrupts.
    fn handle_interrupts(self: &Arc<Self>) -> Result<(), String> {
        let receiver = self.interrupted.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(receiver) = receiver else { return Ok(()) };
        let supervisor = Arc::clone(self);
        let serve = move || interrupts::serve(&supervisor, &receiver);
        let started = std::thread::Builder::new().name("interrupts".into()).spawn(serve);
        started.map(drop).map_err(|error| format!("there can be no more threads: {error}"))
    }

    /// Returns the hardware scheduler of a gpu.
    fn hws(&self, gpu: u32) -> Option<&Hws> {
        self.device.get()?.schedulers.get(gpu as usize)
    }

    /// Runs `act` with the driver locked. It must not wait for executors.
    fn with_driver<T: Default>(&self, act: impl FnOnce(&mut Driver) -> T) -> T {
        self.device.get().map(|device| act(&mut device.driver())).unwrap_or_default()
    }

    fn lock_members(&self) -> std::sync::MutexGuard<'_, BTreeMap<ProcessKey, Arc<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a process that has the driver open.
    fn member(&self, process: ProcessKey) -> Option<Arc<Member>> {
        self.lock_members().get(&process).map(Arc::clone)
    }

    /// Returns the newest process with this pid that has the driver open.
    fn newest(&self, pid: u32) -> Option<(ProcessKey, Arc<Member>)> {
        let members = self.lock_members();
        let mut found = members.iter().filter(|(key, _)| key.pid == pid);
        found.next_back().map(|(key, member)| (*key, Arc::clone(member)))
    }

    /// Returns all processes that have the driver open.
    fn members(&self) -> Vec<Arc<Member>> {
        self.lock_members().values().map(Arc::clone).collect()
    }

    fn hold(self: &Arc<Self>, pid: u32) -> Result<(), String> {
        let process = sys::pidfd(pid).map_err(|error| format!("process {pid} cannot be watched: {error}"))?;
        let supervisor = Arc::clone(self);
        self.holders.fetch_add(1, Ordering::Relaxed);
        let watched = self.attend("hold", move || {
            sys::wait_for_input(process.as_fd());
            supervisor.holders.fetch_sub(1, Ordering::Relaxed);
        });
        watched.map_err(|error| error.to_string())
    }
}

/// Keeps the supervisor alive until it is dropped, also by a panic.
struct Attended(Arc<Supervisor>);

impl Drop for Attended {
    fn drop(&mut self) {
        let last = self.0.connections.fetch_sub(1, Ordering::SeqCst) == 1;
        // A connection may have come in between.
        if last && self.0.connections.compare_exchange(0, CLOSED, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            std::process::exit(0);
        }
    }
}

impl Device {
    fn new(setup: Setup) -> io::Result<Self> {
        let mut driver = Driver::of(setup.profile.clone(), setup.kernel);
        let sampling_ms = setup.options.sampling_after_stop_ms.unwrap_or(0);
        driver.set_sampling_after_stop(u64::from(sampling_ms) * 1_000_000);
        driver.set_mutant(setup.options.mutant);
        let gpus = 0..setup.profile.gpus;
        let fault = Arc::new(Fault::new(setup.options.hang_at_cycle));
        let schedulers = gpus.map(|gpu| Hws::new(gpu, &setup.profile, &setup.options, &fault)).collect();
        let (chip, chip_file) = Chip::create(geometry(&setup.profile), setup.profile.gpus, chip::tokens_of_machine())?;
        Ok(Self { driver: Mutex::new(driver), chip: Arc::new(chip), chip_file, schedulers, setup })
    }

    fn driver(&self) -> std::sync::MutexGuard<'_, Driver> {
        // A panic in one call must not take the gpu away from other processes.
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn geometry(profile: &Profile) -> Geometry {
    Geometry { waves: profile.waves_per_simd, lds: profile.lds_kib * 1024, ..Geometry::cdna(profile.cus, profile.xcc) }
}
