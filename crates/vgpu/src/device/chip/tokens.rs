//! Execution tokens: the right to use the machine's processors for waves.
//!
//! A process gets time in proportion to the wave slots it occupies: its virtual time advances by the time it holds
//! tokens divided by its waves, and a free token goes to the waiting process with the least virtual time.

use std::num::NonZero;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::process_device::DeviceActivity;
use super::lock::{Guard, Holder};
use super::process_slot::DYING;
use super::waiting::{members, set_member};
use super::{Chip, MOST_TOKENS, ProcessSlot, crash};
use crate::kill_points::{self, Point};

/// How long a token is held although others wait, in nanoseconds.
const SLICE: u64 = 1_000_000;
/// How long a free token is reserved for the process whose turn it is, in nanoseconds.
const LATE: u64 = 2_000_000;
/// Longest sleep of a waiting process: the one that should wake it may have died.
const NAP: Duration = Duration::from_millis(5);
/// Bits of virtual time below a nanosecond of a single wave.
const FRACTION: u32 = 12;

/// Returns how many tokens this machine has: its processors less one, which programs and driver keep.
pub(crate) fn tokens_of_machine() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(cores.saturating_sub(1)).unwrap_or(u32::MAX).max(1)
}

/// The right to execute waves. A holder that is told to yield drops the guard and acquires another.
#[derive(Debug)]
pub(crate) struct TokenGuard<'a> {
    chip: &'a Chip,
    process: ProcessSlot,
    token: usize,
    since: u64,
}

impl TokenGuard<'_> {
    /// Returns whether the time slice is over and another process waits.
    pub(crate) fn should_yield(&self) -> bool {
        let waiting = &self.chip.token_words().waiting;
        members(waiting).any(|process| process != self.process)
            && (self.chip.clock)().saturating_sub(self.since) >= SLICE
    }
}

impl Drop for TokenGuard<'_> {
    fn drop(&mut self) {
        if !crash::dying()
            && let Some(locked) = self.chip.lock_tokens(Holder::Process(self.process), None)
        {
            locked.release(self.process, self.token, (self.chip.clock)());
        }
    }
}

impl Chip {
    /// Waits for the right to execute waves. To be called before a workgroup is taken from a device, so that a waiting
    /// worker holds nothing that others of its process could run. `give_up` is evaluated before each sleep and after
    /// each wake-up. Returns `None` if it is true, at the time `until`, or if the driver has given up on the process.
    pub(crate) fn acquire(
        &self,
        process: ProcessSlot,
        until: Option<Instant>,
        give_up: impl Fn() -> bool,
    ) -> Option<TokenGuard<'_>> {
        let mut waiting = false;
        loop {
            let left = until.map_or(NAP, |until| until.saturating_duration_since(Instant::now()).min(NAP));
            let mut token = None;
            let mut over = false;
            self.sleep_unnoticed(process, left, || {
                token = self.attempt(process, &mut waiting);
                let ended = left.is_zero() || self.is_closed(process) || !self.is_live(process);
                over = token.is_none() && (ended || give_up());
                token.is_none() && !over
            });
            if token.is_some() {
                kill_points::hit(Point::Token);
                return token;
            }
            if over {
                if waiting && let Some(locked) = self.lock_tokens(Holder::Process(process), None) {
                    locked.stop_waiting(process);
                    locked.call_next();
                }
                return None;
            }
        }
    }

    /// Takes turns while this process holds a token and its turns are busy, at most until `until`, and for `slice` at
    /// most. That time counts from the token: a process that waited for it gets its whole slice. `is_wanted` ends the
    /// wait and the turns. Returns the most activity of a turn.
    pub(crate) fn execute(
        &self,
        process: ProcessSlot,
        until: Option<Instant>,
        slice: Duration,
        is_wanted: impl Fn() -> bool,
        mut turn: impl FnMut() -> DeviceActivity,
    ) -> DeviceActivity {
        let Some(token) = self.acquire(process, until, &is_wanted) else { return DeviceActivity::Waiting };
        let begun = Instant::now();
        let mut most = DeviceActivity::Waiting;
        loop {
            let activity = turn();
            most = most.max(activity);
            let due = begun.elapsed() >= slice || until.is_some_and(|until| Instant::now() >= until);
            if activity < DeviceActivity::Busy || due || is_wanted() || token.should_yield() {
                return most;
            }
        }
    }

    /// Returns the number of tokens that are held.
    pub(crate) fn tokens_held(&self) -> u32 {
        let tokens = self.token_words().tokens.iter().take(self.tokens().min(MOST_TOKENS) as usize);
        tokens.filter(|token| token.holder.load(Ordering::Relaxed) != 0).count() as u32
    }

    fn attempt(&self, process: ProcessSlot, waiting: &mut bool) -> Option<TokenGuard<'_>> {
        if self.is_closed(process) || !self.is_live(process) {
            return None;
        }
        let now = (self.clock)();
        let locked = self.lock_tokens(Holder::Process(process), None)?;
        match locked.take(process, *waiting, now) {
            Some(token) => {
                *waiting = false;
                Some(TokenGuard { chip: self, process, token, since: now })
            }
            None => {
                *waiting = true;
                None
            }
        }
    }

    /// Takes the lock of the tokens. Returns `None` after `limit`.
    pub(super) fn lock_tokens(&self, holder: Holder, limit: Option<Duration>) -> Option<LockedTokens<'_>> {
        let guard = self.token_words().lock.lock(self, holder, limit)?;
        let mut locked = LockedTokens { chip: self, guard };
        if locked.guard.is_damaged() {
            locked.rebuild();
            locked.guard.repaired();
        }
        Some(locked)
    }

    /// Wave slots that a process occupies, at least one.
    fn weight(&self, process: ProcessSlot) -> u64 {
        (0..self.gpus()).map(|gpu| u64::from(self.occupancy_of(process, gpu))).sum::<u64>().max(1)
    }

    fn virtual_time(&self, process: ProcessSlot) -> u64 {
        self.process(process).virtual_time.load(Ordering::Relaxed)
    }
}

/// The tokens, with their lock held.
pub(super) struct LockedTokens<'a> {
    chip: &'a Chip,
    guard: Guard<'a>,
}

impl LockedTokens<'_> {
    /// Returns the number of tokens.
    fn count(&self) -> usize {
        self.chip.tokens().min(MOST_TOKENS) as usize
    }

    fn holder(&self, token: usize) -> Option<ProcessSlot> {
        self.chip.token_words().tokens[token].holder.load(Ordering::Relaxed).checked_sub(1).and_then(ProcessSlot::new)
    }

    fn set(&self, token: usize, holder: Option<ProcessSlot>, now: u64) {
        let words = &self.chip.token_words().tokens[token];
        crash::point();
        words.holder.store(holder.map_or(0, |process| process.number() + 1), Ordering::Relaxed);
        words.since.store(now, Ordering::Relaxed);
    }

    fn free(&self) -> impl Iterator<Item = usize> {
        (0..self.count()).filter(|&token| self.holder(token).is_none())
    }

    /// Takes the tokens of dead processes back.
    fn rebuild(&self) {
        let now = (self.chip.clock)();
        for token in 0..self.count() {
            if self.holder(token).is_none_or(|process| !self.chip.is_live(process)) {
                self.set(token, None, now);
            }
        }
        let words = self.chip.token_words();
        for process in ProcessSlot::all().filter(|&process| !self.chip.is_live(process)) {
            set_member(&words.waiting, process, false);
            if self.chip.process(process).state.load(Ordering::SeqCst) == DYING {
                self.chip.process(process).tokens_gone.store(1, Ordering::SeqCst);
            }
        }
    }

    /// Accounts for the time that tokens were held until now.
    fn settle(&self, now: u64) {
        let words = self.chip.token_words();
        let mut least = u64::MAX;
        for (token, process) in (0..self.count()).filter_map(|token| Some((token, self.holder(token)?))) {
            let since = words.tokens[token].since.swap(now, Ordering::Relaxed);
            let held = now.saturating_sub(since).min(u64::MAX >> FRACTION) << FRACTION;
            let time = self.chip.virtual_time(process).saturating_add(held / self.chip.weight(process));
            self.chip.process(process).virtual_time.store(time, Ordering::Relaxed);
        }
        let holders = (0..self.count()).filter_map(|token| self.holder(token));
        for process in holders.chain(members(&words.waiting)) {
            least = least.min(self.chip.virtual_time(process));
        }
        if least != u64::MAX {
            words.floor.fetch_max(least, Ordering::Relaxed);
        }
    }

    /// Takes a token for a process, if one is free and no other process comes first; otherwise the process waits from
    /// now on. `waiting`: whether an earlier call made the caller wait.
    pub(super) fn take(&self, process: ProcessSlot, waiting: bool, now: u64) -> Option<usize> {
        let words = self.chip.token_words();
        let own = self.chip.process(process);
        self.settle(now);
        let holds = (0..self.count()).any(|token| self.holder(token) == Some(process));
        if !holds && own.token_waiters.load(Ordering::Relaxed) == 0 {
            // Time that a process did not ask for is gone.
            own.virtual_time.fetch_max(words.floor.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let time = self.chip.virtual_time(process);
        let free: Vec<_> = self.free().collect();
        let ahead: u64 = members(&words.waiting)
            .filter(|&other| other != process && self.chip.is_live(other) && self.chip.virtual_time(other) < time)
            .map(|other| u64::from(self.chip.process(other).token_waiters.load(Ordering::Relaxed)))
            .sum();
        let late = |token: &usize| now.saturating_sub(words.tokens[*token].since.load(Ordering::Relaxed)) > LATE;
        let token = if free.len() as u64 > ahead { free.first().copied() } else { free.into_iter().find(late) };
        match token {
            Some(token) => {
                if waiting {
                    self.stop_waiting(process);
                }
                self.set(token, Some(process), now);
                self.call_next();
                Some(token)
            }
            None => {
                if !waiting {
                    crash::point();
                    own.token_waiters.fetch_add(1, Ordering::Relaxed);
                    set_member(&words.waiting, process, true);
                }
                // The process that is ahead may have missed its wake-up.
                self.call_next();
                None
            }
        }
    }

    /// Gives a token back.
    pub(super) fn release(&self, process: ProcessSlot, token: usize, now: u64) {
        self.settle(now);
        // It may have been taken away from a process that was thought dead.
        if token < self.count() && self.holder(token) == Some(process) {
            self.set(token, None, now);
        }
        self.call_next();
    }

    /// Records that a worker of a process no longer waits.
    fn stop_waiting(&self, process: ProcessSlot) {
        let waiters = &self.chip.process(process).token_waiters;
        crash::point();
        let left = waiters.load(Ordering::Relaxed).saturating_sub(1);
        waiters.store(left, Ordering::Relaxed);
        set_member(&self.chip.token_words().waiting, process, left > 0);
    }

    /// Wakes the process that is to have a free token.
    fn call_next(&self) {
        if self.free().next().is_none() {
            return;
        }
        let waiting = members(&self.chip.token_words().waiting).filter(|&process| self.chip.is_live(process));
        if let Some(process) = waiting.min_by_key(|&process| self.chip.virtual_time(process)) {
            self.chip.wake(process);
        }
    }
}
