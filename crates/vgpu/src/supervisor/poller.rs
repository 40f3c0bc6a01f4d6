//! Polls doorbells.
//!
//! Clients ring by writing to a page, without a system call. One thread compares the doorbells of all queues with what
//! it saw last and wakes the executors of those that were rung, often while doorbells ring and rarely when none does.
//! In passing it notices interrupts that executors raised, which another thread handles.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::process_channel::ProcessChannel;
use crate::driver::{ProcessKey, layout};
use crate::sys::Map;

/// Pause between two looks shortly after something happened.
const BUSY: Duration = Duration::from_micros(30);
/// Pause when nothing happened for [`CALM_AFTER`].
const CALM: Duration = Duration::from_micros(500);
const CALM_AFTER: Duration = Duration::from_millis(50);

/// The doorbells of one process.
pub(super) struct DoorbellWatch {
    channel: Arc<ProcessChannel>,
    kfd: OwnedFd,
    /// Mapped doorbell pages by gpu.
    pages: HashMap<u32, Map>,
    /// By queue: gpu, position, and the value seen last.
    queues: HashMap<u32, (u32, u32, u64)>,
    /// Interrupts seen.
    interrupted: u32,
}

#[derive(Default)]
struct State {
    processes: HashMap<ProcessKey, DoorbellWatch>,
}

/// The polling thread and what it watches.
#[derive(Clone)]
pub struct Poller {
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Poller {
    /// Starts the thread, which sends the processes whose executors raised interrupts to `interrupted`.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub fn start(interrupted: Sender<ProcessKey>) -> io::Result<Self> {
        let poller = Self { shared: Arc::default() };
        let thread = poller.clone();
        std::thread::Builder::new().name("poller".into()).spawn(move || thread.watch(&interrupted))?;
        Ok(poller)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the doorbells of a process.
    pub(super) fn add(&self, process: ProcessKey, kfd: OwnedFd, channel: Arc<ProcessChannel>) {
        let watched = DoorbellWatch { channel, kfd, pages: HashMap::new(), queues: HashMap::new(), interrupted: 0 };
        self.state().processes.insert(process, watched);
    }

    /// Stops watching the doorbells of a process. The result holds its channel, which may wait for executors when it is
    /// dropped.
    pub(super) fn remove(&self, process: ProcessKey) -> Option<DoorbellWatch> {
        self.state().processes.remove(&process)
    }

    /// Watches the doorbell of a queue, word `index` of the gpu's page. The word is set to a value that no ring writes.
    ///
    /// # Errors
    /// If the doorbell page cannot be mapped.
    pub fn add_queue(&self, process: ProcessKey, queue: u32, gpu: u32, index: u32) -> io::Result<()> {
        let mut state = self.state();
        let Some(watched) = state.processes.get_mut(&process) else { return Ok(()) };
        if !watched.pages.contains_key(&gpu) {
            let page = Map::new(watched.kfd.as_fd(), layout::doorbells(gpu), layout::DOORBELLS_SIZE as usize)?;
            watched.pages.insert(gpu, page);
        }
        if let Some(word) = watched.pages.get(&gpu).and_then(|page| doorbell(page, index)) {
            word.store(u64::MAX, Ordering::SeqCst);
        }
        watched.queues.insert(queue, (gpu, index, u64::MAX));
        self.shared.1.notify_all();
        Ok(())
    }

    /// Stops watching the doorbell of a queue.
    pub fn remove_queue(&self, process: ProcessKey, queue: u32) {
        if let Some(watched) = self.state().processes.get_mut(&process) {
            watched.queues.remove(&queue);
        }
    }

    fn watch(&self, interrupted: &Sender<ProcessKey>) {
        let mut last_ring = Instant::now();
        loop {
            let mut state = self.state();
            while state.processes.values().all(|process| process.queues.is_empty()) {
                state = self.shared.1.wait(state).unwrap_or_else(PoisonError::into_inner);
                last_ring = Instant::now();
            }
            let mut rung = false;
            for (key, process) in &mut state.processes {
                rung |= process.look();
                if process.was_interrupted() {
                    // Without a receiver the supervisor is about to exit.
                    let _ = interrupted.send(*key);
                }
            }
            drop(state);
            let now = Instant::now();
            if rung {
                last_ring = now;
            }
            std::thread::sleep(if now - last_ring < CALM_AFTER { BUSY } else { CALM });
        }
    }
}

impl DoorbellWatch {
    /// Wakes the executors if a doorbell changed. Executors that are awake look themselves.
    fn look(&mut self) -> bool {
        let mut rung = false;
        for (gpu, index, seen) in self.queues.values_mut() {
            let Some(word) = self.pages.get(gpu).and_then(|page| doorbell(page, *index)) else { continue };
            let now = word.load(Ordering::SeqCst);
            rung |= now != *seen;
            *seen = now;
        }
        if rung {
            self.channel.ring();
        }
        rung
    }

    /// Returns whether executors have raised interrupts since the last call.
    fn was_interrupted(&mut self) -> bool {
        let now = self.channel.control.interrupted();
        std::mem::replace(&mut self.interrupted, now) != now
    }
}

/// Word `index` of a doorbell page.
fn doorbell(page: &Map, index: u32) -> Option<&AtomicU64> {
    let offset = index as usize * 8;
    if offset + 8 > page.length() {
        return None;
    }
    // SAFETY: the word lies in the mapping, is aligned, and every process accesses it as a whole.
    Some(unsafe { AtomicU64::from_ptr(page.start().add(offset).cast()) })
}
