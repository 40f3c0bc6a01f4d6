//! The supervisor: the process that is the driver.
//!
//! It starts with the listening socket as standard input, is told what gpu to be by its launcher, serves every process
//! that connects, and ends when the last connection closes. It lives in a session of its own, so a Ctrl-C meant for the
//! program does not reach it. One thread for each connection; the driver's state is behind one lock, like the real one's.

mod connection;
mod poller;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::driver::Driver;
use crate::profile::Profile;
use crate::sys;

pub use poller::Poller;

/// What all connections share.
pub struct Supervisor {
    device: OnceLock<Device>,
    poller: Poller,
    connections: AtomicUsize,
}

/// The gpu, once it is known.
struct Device {
    driver: Mutex<Driver>,
}

/// Serves until the last connection closes. The listener is standard input.
///
/// # Errors
/// If standard input is not a listening socket.
pub fn main() -> io::Result<()> {
    detach();
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    let supervisor = Arc::new(Supervisor { device: OnceLock::new(), poller: Poller::start()?, connections: 0.into() });
    loop {
        let (stream, _) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let clone = Arc::clone(&supervisor);
        supervisor.attend("connection", move || connection::serve(&clone, &stream))?;
    }
}

/// Leaves the launcher's session and its signals.
fn detach() {
    // SAFETY: plain system calls; the only effect is on this process. Descriptors that the launcher inherited are not
    // ours to keep open: somebody may wait for their other end.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        libc::setsid();
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::prctl(libc::PR_SET_NAME, c"vgpu-supervisor".as_ptr());
    }
}

impl Supervisor {
    fn device(&self) -> Option<&Device> {
        self.device.get()
    }

    /// Does something in a thread of its own; the process ends when nobody does anything any more. The launcher's
    /// connection comes first, so that is when everybody is gone.
    fn attend(self: &Arc<Self>, name: &str, what: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let supervisor = Arc::clone(self);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            what();
            if supervisor.connections.fetch_sub(1, Ordering::SeqCst) == 1 {
                std::process::exit(0);
            }
        });
        thread.map(drop)
    }

    /// Becomes the gpu of this profile, and stays at least as long as a process that is named.
    fn configure(self: &Arc<Self>, profile: Profile, hold: Option<u32>) -> Result<(), String> {
        if let Some(pid) = hold {
            let process = sys::pidfd(pid).map_err(|error| format!("process {pid} cannot be watched: {error}"))?;
            self.attend("hold", move || sys::wait_for_exit(&process)).map_err(|error| error.to_string())?;
        }
        self.device
            .set(Device { driver: Mutex::new(Driver::new(profile)) })
            .map_err(|_| "the virtual gpu is configured already".to_owned())
    }
}

impl Device {
    fn driver(&self) -> std::sync::MutexGuard<'_, Driver> {
        // A panic in one call must not take the gpu away from everybody else.
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
