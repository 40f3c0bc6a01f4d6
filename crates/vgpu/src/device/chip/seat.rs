//! Seats: who is there, how it is woken, what the supervisor tells it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::{Chip, MOST_WORKERS, SPARE, SeatId, SeatWords};
use crate::sys;

pub(super) const FREE: u32 = 0;
pub(super) const LIVE: u32 = 1;
/// The processes have ended; what they had is being given back.
pub(super) const DYING: u32 = 2;
/// Being prepared.
const CLAIMED: u32 = 3;

impl SeatWords {
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
    /// A seat for a new process; `None` if all are taken. Only for the supervisor.
    pub fn add_seat(&self) -> Option<SeatId> {
        let gone = |seat| {
            let mut parts = (0..self.gpus()).filter_map(|gpu| self.seat_part(seat, gpu));
            self.seat(seat).tokens_gone.load(Ordering::SeqCst) != 0
                && parts.all(|part| part.gone.load(Ordering::SeqCst) != 0)
        };
        SeatId::all().find(|&seat| {
            let words = self.seat(seat);
            let state = words.state.load(Ordering::SeqCst);
            let usable = state == FREE || (state == DYING && gone(seat));
            let change = |from, to| words.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            if !usable || !change(state, CLAIMED) {
                return false;
            }
            words.clear();
            for part in (0..self.gpus()).filter_map(|gpu| self.seat_part(seat, gpu)) {
                part.gone.store(0, Ordering::SeqCst);
                part.served.store(0, Ordering::Relaxed);
            }
            change(CLAIMED, LIVE)
        })
    }

    /// Seats that are taken.
    pub fn seats(&self) -> u32 {
        SeatId::all().filter(|&seat| self.is_live(seat)).count() as u32
    }

    /// Whether a process has the seat.
    pub fn is_live(&self, seat: SeatId) -> bool {
        seat.0 < super::MOST_SEATS && self.seat(seat).state.load(Ordering::SeqCst) == LIVE
    }

    /// Tells the workers of a seat to look for work again: a doorbell rang, a command came, there is room or a token.
    pub fn wake(&self, seat: SeatId) {
        let words = self.seat(seat);
        words.wake.fetch_add(1, Ordering::SeqCst);
        if words.asleep.load(Ordering::SeqCst) != 0 {
            sys::wake(&words.wake);
        }
    }

    /// Sleeps until the seat is woken, at most `limit`. Returns at once if it was woken since one of its workers last
    /// slept. `still_idle` is asked once more after everybody can see that we sleep.
    pub fn sleep(&self, seat: SeatId, limit: Duration, still_idle: impl FnOnce() -> bool) {
        let words = self.seat(seat);
        words.asleep.fetch_add(1, Ordering::SeqCst);
        let count = words.wake.load(Ordering::SeqCst);
        if words.seen.swap(count, Ordering::SeqCst) == count && still_idle() {
            sys::wait(&words.wake, count, Some(limit));
        }
        words.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Sleeps until the seat is woken after `still_idle` was asked, whoever else noticed.
    pub(super) fn sleep_unnoticed(&self, seat: SeatId, limit: Duration, still_idle: impl FnOnce() -> bool) {
        let words = self.seat(seat);
        words.asleep.fetch_add(1, Ordering::SeqCst);
        let count = words.wake.load(Ordering::SeqCst);
        if still_idle() {
            sys::wait(&words.wake, count, Some(limit));
        }
        words.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Counts the commands that the supervisor has written for a seat.
    pub fn mail(&self, seat: SeatId) -> &AtomicU32 {
        &self.seat(seat).mail
    }

    /// The driver gives up on a process: its workers must stop.
    pub fn close(&self, seat: SeatId) {
        self.seat(seat).closed.store(1, Ordering::SeqCst);
        self.wake(seat);
    }

    /// Whether the driver has given up on a process.
    pub fn is_closed(&self, seat: SeatId) -> bool {
        self.seat(seat).closed.load(Ordering::Relaxed) != 0
    }

    /// Enters a process that executes waves; false if there are too many.
    pub fn register_worker(&self, seat: SeatId, pid: u32) -> bool {
        let free = |word: &&AtomicU32| word.compare_exchange(0, pid, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        pid != 0 && self.seat(seat).workers.iter().find(free).is_some()
    }

    /// The processes that execute waves of a seat, as they say.
    pub fn workers(&self, seat: SeatId) -> impl Iterator<Item = u32> {
        let words: &[AtomicU32; MOST_WORKERS] = &self.seat(seat).workers;
        words.iter().map(|word| word.load(Ordering::SeqCst)).filter(|&pid| pid != 0)
    }

    /// Time that copy engines have worked for a seat, in microseconds.
    pub fn sdma_us(&self, seat: SeatId) -> &AtomicU64 {
        &self.seat(seat).sdma_us
    }

    /// Words of a seat for whatever else its processes and the supervisor tell each other; zero at first.
    pub fn spare(&self, seat: SeatId) -> &[AtomicU64; SPARE] {
        &self.seat(seat).spare
    }
}
