//! Locks in shared memory that survive the death of their holder.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::layout::MAX_PROCESSES;
use super::{Chip, ProcessSlot, crash};
use crate::sys;

/// Attempts before the processor is yielded.
const SPINS: u32 = 100;
/// Attempts before the caller sleeps.
const YIELDS: u32 = SPINS + 20;
/// Longest sleep: what the lock protects takes microseconds.
const NAP: Duration = Duration::from_millis(1);
/// Owner word of the supervisor.
const SUPERVISOR: u32 = MAX_PROCESSES + 1;

/// A lock in shared memory.
#[repr(C)]
pub(super) struct LockWords {
    /// Number of the holder's slot plus 1; 0 if free.
    owner: AtomicU32,
    /// Not 0: a process sleeps on the lock.
    contended: AtomicU32,
    /// Deaths of holders and other processes since the last repair. If there are any, the protected state must be made
    /// consistent before use.
    repair: AtomicU32,
    reserved: AtomicU32,
}

/// Holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Process(ProcessSlot),
    Supervisor,
}

impl Holder {
    fn word(self) -> u32 {
        match self {
            Self::Process(process) => process.0 + 1,
            Self::Supervisor => SUPERVISOR,
        }
    }
}

/// A held lock; released on drop.
pub(super) struct Guard<'a> {
    words: &'a LockWords,
    /// Deaths that were known when the lock was taken.
    deaths: u32,
}

impl LockWords {
    /// Takes the lock. Returns `None` after `limit`.
    pub(super) fn lock(&self, chip: &Chip, holder: Holder, limit: Option<Duration>) -> Option<Guard<'_>> {
        let me = holder.word();
        let mut tries = 0;
        let mut started = None;
        loop {
            crash::point();
            let Err(owner) = self.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) else { break };
            if !chip.may_hold(owner) {
                // The next holder must see the damage, even if this process dies at once.
                self.damage();
                if self.owner.compare_exchange(owner, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    break;
                }
            }
            tries += 1;
            if tries <= SPINS {
                std::hint::spin_loop();
            } else if tries <= YIELDS {
                std::thread::yield_now();
            } else {
                let started = *started.get_or_insert_with(Instant::now);
                if limit.is_some_and(|limit| started.elapsed() >= limit) {
                    return None;
                }
                self.contended.store(1, Ordering::SeqCst);
                sys::wait(&self.owner, owner, Some(NAP));
            }
        }
        Some(Guard { words: self, deaths: self.repair.load(Ordering::SeqCst) })
    }

    /// Obliges the next holder to repair the protected state.
    pub(super) fn damage(&self) {
        self.repair.fetch_add(1, Ordering::SeqCst);
    }
}

impl Chip {
    /// Returns whether the owner word names a live process or the supervisor.
    fn may_hold(&self, owner: u32) -> bool {
        owner == SUPERVISOR || owner.checked_sub(1).is_some_and(|process| self.is_live(ProcessSlot(process)))
    }
}

impl Guard<'_> {
    /// Returns whether the protected state may be inconsistent; [`Guard::repaired`] ends that.
    pub(super) fn is_damaged(&self) -> bool {
        self.deaths != 0
    }

    /// Records that the protected state is consistent again. A process that died since the lock was taken may have been
    /// counted as alive: then the next holder has to repair once more.
    pub(super) fn repaired(&mut self) {
        crash::point();
        let _ = self.words.repair.compare_exchange(self.deaths, 0, Ordering::SeqCst, Ordering::SeqCst);
        self.deaths = 0;
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if crash::dying() {
            return;
        }
        self.words.owner.store(0, Ordering::SeqCst);
        if self.words.contended.swap(0, Ordering::SeqCst) != 0 {
            sys::wake(&self.words.owner);
        }
    }
}
