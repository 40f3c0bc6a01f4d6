//! Work that is really executed: an actor's chain of kernels with known results, on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use kfd_runtime::{Runtime, Signal};
use kfd_suite::chain::{Chain, State, Work};

/// Longest time for one kernel, stopped moments included.
const KERNEL: Duration = Duration::from_secs(15);

/// Work under way.
pub(crate) struct Running {
    done: Arc<AtomicU32>,
    enough: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), String>>,
}

impl Running {
    /// Begins: kernels follow each other until it is enough.
    pub(crate) fn begin(groups: u32, steps: u32) -> Running {
        let (done, enough) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let (done, enough) = (Arc::clone(&done), Arc::clone(&enough));
            move || work(Work { groups, steps }, &done, &enough)
        });
        Running { done, enough, thread }
    }

    /// Returns how many kernels have completed; none if the work ended by itself, which is a failure.
    pub(crate) fn done(&self) -> Option<u32> {
        (!self.thread.is_finished()).then(|| self.done.load(Ordering::Relaxed))
    }

    /// Ends after the present kernel. Returns what is wrong with the results; nothing if they are right.
    pub(crate) fn end(self) -> Result<(), String> {
        self.enough.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err("the thread that works failed".to_owned()))
    }
}

fn work(work: Work, done: &AtomicU32, enough: &AtomicBool) -> Result<(), String> {
    let failed = |error: kfd_runtime::Error| error.to_string();
    let runtime = Runtime::open().map_err(failed)?;
    let device = runtime.device(0).map_err(failed)?;
    let mut chain = Chain::new(device, work, 1).map_err(failed)?;
    while !enough.load(Ordering::Relaxed) {
        let signal = Signal::new(device, 1).map_err(failed)?;
        chain.submit(Some(&signal)).map_err(failed)?;
        chain.wait(&signal, KERNEL).map_err(failed)?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    let expected = State::after(work, chain.submitted());
    if chain.state().map_err(failed)? == expected { Ok(()) } else { Err("results are wrong".to_owned()) }
}
