//! Process slots: who is there, how it is woken, what the supervisor tells it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::{Chip, MOST_WORKERS, ProcessSlot, ProcessWords, SPARE};
use crate::sys;

pub(super) const FREE: u32 = 0;
pub(super) const LIVE: u32 = 1;
/// The processes have ended; what they had is being given back.
pub(super) const DYING: u32 = 2;
/// Being prepared.
const CLAIMED: u32 = 3;

impl ProcessWords {
    fn clear(&self) {
        let counts = [&self.wake, &self.seen, &self.asleep, &self.mail, &self.token_waiters];
        let flags = [&self.closed, &self.tokens_gone];
        counts.into_iter().chain(flags).chain(&self.workers).for_each(|word| word.store(0, Ordering::Relaxed));
        [&self.virtual_time, &self.sdma_us].into_iter().chain(&self.spare).for_each(|word| {
            word.store(0, Ordering::Relaxed);
        });
    }
}

impl Chip {
    /// A process for a new process; `None` if all are taken. Only for the supervisor.
    pub fn add_process(&self) -> Option<ProcessSlot> {
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

    /// Process slots that are taken.
    pub fn processes(&self) -> u32 {
        ProcessSlot::all().filter(|&process| self.is_live(process)).count() as u32
    }

    /// Whether a process has the process.
    pub fn is_live(&self, process: ProcessSlot) -> bool {
        process.0 < super::MAX_PROCESSES && self.process(process).state.load(Ordering::SeqCst) == LIVE
    }

    /// Tells the workers of a process to look for work again: a doorbell rang, a command came, there is room or a token.
    pub fn wake(&self, process: ProcessSlot) {
        let words = self.process(process);
        words.wake.fetch_add(1, Ordering::SeqCst);
        if words.asleep.load(Ordering::SeqCst) != 0 {
            sys::wake(&words.wake);
        }
    }

    /// Sleeps until the process is woken, at most `limit`. Returns at once if it was woken since one of its workers last
    /// slept. `still_idle` is asked once more after everybody can see that we sleep.
    pub fn sleep(&self, process: ProcessSlot, limit: Duration, still_idle: impl FnOnce() -> bool) {
        let words = self.process(process);
        words.asleep.fetch_add(1, Ordering::SeqCst);
        let count = words.wake.load(Ordering::SeqCst);
        if words.seen.swap(count, Ordering::SeqCst) == count && still_idle() {
            sys::wait(&words.wake, count, Some(limit));
        }
        words.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Sleeps until the process is woken after `still_idle` was asked, whoever else noticed.
    pub(super) fn sleep_unnoticed(&self, process: ProcessSlot, limit: Duration, still_idle: impl FnOnce() -> bool) {
        let words = self.process(process);
        words.asleep.fetch_add(1, Ordering::SeqCst);
        let count = words.wake.load(Ordering::SeqCst);
        if still_idle() {
            sys::wait(&words.wake, count, Some(limit));
        }
        words.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Counts the commands that the supervisor has written for a process.
    pub fn mail(&self, process: ProcessSlot) -> &AtomicU32 {
        &self.process(process).mail
    }

    /// The driver gives up on a process: its workers must stop.
    pub fn close(&self, process: ProcessSlot) {
        self.process(process).closed.store(1, Ordering::SeqCst);
        self.wake(process);
    }

    /// Whether the driver has given up on a process.
    pub fn is_closed(&self, process: ProcessSlot) -> bool {
        self.process(process).closed.load(Ordering::Relaxed) != 0
    }

    /// Enters a process that executes waves; false if there are too many.
    pub fn register_worker(&self, process: ProcessSlot, pid: u32) -> bool {
        let free = |word: &&AtomicU32| word.compare_exchange(0, pid, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        pid != 0 && self.process(process).workers.iter().find(free).is_some()
    }

    /// The processes that execute waves of a process, as they say.
    pub fn workers(&self, process: ProcessSlot) -> impl Iterator<Item = u32> {
        let words: &[AtomicU32; MOST_WORKERS] = &self.process(process).workers;
        words.iter().map(|word| word.load(Ordering::SeqCst)).filter(|&pid| pid != 0)
    }

    /// Time that copy engines have worked for a process, in microseconds.
    pub fn sdma_us(&self, process: ProcessSlot) -> &AtomicU64 {
        &self.process(process).sdma_us
    }

    /// Words of a process for whatever else its processes and the supervisor tell each other; zero at first.
    pub fn spare(&self, process: ProcessSlot) -> &[AtomicU64; SPARE] {
        &self.process(process).spare
    }
}
