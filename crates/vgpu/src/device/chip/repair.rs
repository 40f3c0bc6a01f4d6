//! Repair after the death of a process: its room, tokens and locks are taken back.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::cu::{Cu, RECENT};
use super::lock::{Guard, Holder};
use super::process_slot::{DYING, LIVE};
use super::{Chip, GpuWords, ProcessSlot};

/// How long the supervisor tries to repair a gpu itself. If the process that holds the lock does not go on meanwhile,
/// the next holder repairs, at the latest the supervisor when that process has ended.
const TRY: Duration = Duration::from_millis(20);

/// A gpu whose lock is held and whose state is consistent.
pub(super) struct Locked<'a> {
    pub(super) chip: &'a Chip,
    pub(super) gpu: u32,
    pub(super) words: &'a GpuWords,
    guard: Guard<'a>,
}

impl Chip {
    /// Takes back everything that a process had: room, tokens, locks, its entry among the waiting processes. Only for
    /// the supervisor, and only when nothing of the process can touch this memory any more: it has ended, and so have
    /// the processes that executed waves for it.
    pub(crate) fn release_process(&self, process: ProcessSlot) {
        let state = &self.process(process).state;
        if state.compare_exchange(LIVE, DYING, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return;
        }
        // One thread after the other: to rebuild takes longer than `TRY` on a busy machine, and when all processes end
        // there may be no next holder.
        let _alone = self.repairing.lock().unwrap_or_else(PoisonError::into_inner);
        for gpu in 0..self.gpus() {
            if let Some(words) = self.gpu(gpu) {
                words.lock.damage();
            }
            // To take the lock is to repair.
            self.lock_gpu(gpu, Holder::Supervisor, Some(TRY));
        }
        self.token_words().lock.damage();
        self.lock_tokens(Holder::Supervisor, Some(TRY));
        ProcessSlot::all().filter(|&other| self.is_live(other)).for_each(|other| self.wake(other));
    }

    /// Takes the lock of a gpu. Returns `None` after `limit`, or if there is no such gpu.
    pub(super) fn lock_gpu(&self, gpu: u32, holder: Holder, limit: Option<Duration>) -> Option<Locked<'_>> {
        let words = self.gpu(gpu)?;
        let guard = words.lock.lock(self, holder, limit)?;
        let mut locked = Locked { chip: self, gpu, words, guard };
        if locked.guard.is_damaged() {
            locked.rebuild();
            locked.guard.repaired();
        }
        Some(locked)
    }
}

impl Locked<'_> {
    /// Drops the parts of dead processes and adds up those of living ones.
    fn rebuild(&self) {
        let mut totals = vec![Cu::default(); self.chip.totals(self.gpu).len()];
        for process in ProcessSlot::all() {
            let Some(part) = self.chip.process_part(process, self.gpu) else { continue };
            if self.chip.is_live(process) {
                let mut waves = 0_u32;
                for (total, share) in totals.iter_mut().zip(self.chip.share(process, self.gpu)) {
                    let share = share.load();
                    waves = waves.saturating_add(share.waves());
                    *total = total.plus(&share);
                }
                part.waves.store(waves, Ordering::Relaxed);
                continue;
            }
            self.set_waiting(process, false);
            if self.chip.process(process).state.load(Ordering::SeqCst) == DYING && part.gone.load(Ordering::SeqCst) == 0
            {
                self.chip.share(process, self.gpu).iter().for_each(|cu| cu.store(&Cu::default()));
                part.waves.store(0, Ordering::Relaxed);
                part.wanted.store(0, Ordering::Relaxed);
                part.candidate.store(0, Ordering::Relaxed);
                part.gone.store(1, Ordering::SeqCst);
            }
        }
        let mut waves = 0_u32;
        for (words, total) in self.chip.totals(self.gpu).iter().zip(&totals) {
            words.store(total);
            waves = waves.saturating_add(total.waves());
        }
        self.words.waves.store(waves, Ordering::Relaxed);
        self.words.version.fetch_add(2 * RECENT, Ordering::SeqCst);
        self.offer_again();
    }
}
