//! Process slots: the state of each client process in the chip, its wake-ups and its workers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Chip, MOST_WORKERS, ProcessSlot, ProcessWords};
use crate::sys;

pub(super) const FREE: u32 = 0;
pub(super) const LIVE: u32 = 1;
/// The processes have ended; their room and tokens are being taken back.
pub(super) const DYING: u32 = 2;
/// Being prepared.
const CLAIMED: u32 = 3;

impl ProcessWords {
    fn clear(&self) {
        let counts = [&self.wake, &self.seen, &self.asleep, &self.token_waiters];
        let flags = [&self.closed, &self.tokens_gone];
        counts.into_iter().chain(flags).chain(&self.workers).for_each(|word| word.store(0, Ordering::Relaxed));
        self.virtual_time.store(0, Ordering::Relaxed);
    }
}

impl Chip {
    /// Takes a slot for a new process. Returns `None` if all are taken. Only for the supervisor.
    pub(crate) fn add_process(&self) -> Option<ProcessSlot> {
        let gone = |process| {
            let mut parts = (0..self.gpus()).filter_map(|gpu| self.process_part(process, gpu));
            self.process(process).tokens_gone.load(Ordering::SeqCst) != 0
                && parts.all(|part| part.gone.load(Ordering::SeqCst) != 0)
        };
        ProcessSlot::all().find(|&process| {
            let words = self.process(process);
            let state = words.state.load(Ordering::SeqCst);
            let usable = state == FREE || (state == DYING && gone(process));
            let change = |from, to| words.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            if !usable || !change(state, CLAIMED) {
                return false;
            }
            words.clear();
            for part in (0..self.gpus()).filter_map(|gpu| self.process_part(process, gpu)) {
                part.gone.store(0, Ordering::SeqCst);
                part.served.store(0, Ordering::Relaxed);
            }
            change(CLAIMED, LIVE)
        })
    }

    /// Returns the number of slots that are taken.
    pub(crate) fn processes(&self) -> u32 {
        ProcessSlot::all().filter(|&process| self.is_live(process)).count() as u32
    }

    /// Returns whether a process has this slot.
    pub(crate) fn is_live(&self, process: ProcessSlot) -> bool {
        process.0 < super::MAX_PROCESSES && self.process(process).state.load(Ordering::SeqCst) == LIVE
    }

    /// Wakes the workers of a process: a doorbell rang, an order came, or there is room or a token.
    pub(crate) fn wake(&self, process: ProcessSlot) {
        let words = self.process(process);
        words.wake.fetch_add(1, Ordering::SeqCst);
        if words.asleep.load(Ordering::SeqCst) != 0 {
            sys::wake(&words.wake);
        }
    }

    /// Sleeps until the process is woken, at most `limit`. Returns at once if it was woken since one of its workers
    /// last slept. `still_idle` is evaluated once more after the sleep has become visible to others.
    pub(crate) fn sleep(&self, process: ProcessSlot, limit: Duration, still_idle: impl FnOnce() -> bool) {
        let words = self.process(process);
        words.asleep.fetch_add(1, Ordering::SeqCst);
        let count = words.wake.load(Ordering::SeqCst);
        if words.seen.swap(count, Ordering::SeqCst) == count && still_idle() {
            sys::wait(&words.wake, count, Some(limit));
        }
        words.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Sleeps until the process is woken after `still_idle` was evaluated, also if another worker has noticed the wake.
    pub(super) fn sleep_unnoticed(&self, process: ProcessSlot, limit: Duration, still_idle: impl FnOnce() -> bool) {
        let words = self.process(process);
        words.asleep.fetch_add(1, Ordering::SeqCst);
        let count = words.wake.load(Ordering::SeqCst);
        if still_idle() {
            sys::wait(&words.wake, count, Some(limit));
        }
        words.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Tells the workers of a process to stop: the driver has given up on it.
    pub(crate) fn close(&self, process: ProcessSlot) {
        self.process(process).closed.store(1, Ordering::SeqCst);
        self.wake(process);
    }

    /// Returns whether the driver has given up on a process.
    pub(crate) fn is_closed(&self, process: ProcessSlot) -> bool {
        self.process(process).closed.load(Ordering::Relaxed) != 0
    }

    /// Enters the pid of a worker. Returns false if the process has [`MOST_WORKERS`] already, or for pid 0.
    pub(crate) fn register_worker(&self, process: ProcessSlot, pid: u32) -> bool {
        let free = |word: &&AtomicU32| word.compare_exchange(0, pid, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        pid != 0 && self.process(process).workers.iter().find(free).is_some()
    }

    /// Returns the pids of the workers of a process, as those workers entered them.
    pub(crate) fn workers(&self, process: ProcessSlot) -> impl Iterator<Item = u32> {
        let words: &[AtomicU32; MOST_WORKERS] = &self.process(process).workers;
        words.iter().map(|word| word.load(Ordering::SeqCst)).filter(|&pid| pid != 0)
    }
}
