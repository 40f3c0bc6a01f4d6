//! The order in which processes that wait for room get it.
//!
//! The hardware's queues compete by class and take turns within a class. Processes here take room themselves, so each
//! publishes what its best waiting workgroup needs, and none takes room that a process with a better claim could use. A
//! process whose workgroup fits nowhere holds up no other, nor does one that does not take what it was offered.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::cu::Cursor;
use super::super::cu_mask::CuMask;
use super::super::slots::{Need, PriorityClass, SlotRequest};
use super::layout::ProcessSet;
use super::repair::Locked;
use super::{Chip, MAX_PROCESSES, PartWords, ProcessSlot, crash};

/// How long others wait for a process to take what it was offered, in nanoseconds.
pub(super) const LATE: u64 = 20_000_000;

/// Need and class of the best waiting workgroup of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    need: Need,
    class: PriorityClass,
    masked: bool,
}

impl Wanted {
    fn pack(&self) -> u64 {
        let Need { waves, vgprs, sgprs, lds } = self.need;
        let field = |value: u32, bits: u32, shift: u32| u64::from(value.min((1 << bits) - 1)) << shift;
        let need = field(waves, 8, 0) | field(vgprs, 16, 8) | field(sgprs, 16, 24) | field(lds, 20, 40);
        need | (self.class as u64) << 60 | u64::from(self.masked) << 62 | 1 << 63
    }

    /// `None` if nothing waits.
    fn unpack(word: u64) -> Option<Self> {
        let field = |bits: u32, shift: u32| (word >> shift) as u32 & ((1 << bits) - 1);
        let need = Need { waves: field(8, 0), vgprs: field(16, 8), sgprs: field(16, 24), lds: field(20, 40) };
        let class = match field(2, 60) {
            0 => PriorityClass::Low,
            1 => PriorityClass::Medium,
            _ => PriorityClass::High,
        };
        (word >> 63 != 0).then_some(Self { need, class, masked: word >> 62 & 1 != 0 })
    }
}

/// Returns the processes in a set.
pub(super) fn members(set: &ProcessSet) -> impl Iterator<Item = ProcessSlot> {
    (0..MAX_PROCESSES).step_by(64).zip(set).flat_map(|(first, word)| {
        let mut left = word.load(Ordering::SeqCst);
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (bit < 64).then_some(ProcessSlot(first + bit))
        })
    })
}

/// Puts a process into a set or takes it out.
pub(super) fn set_member(set: &ProcessSet, process: ProcessSlot, member: bool) {
    let (word, bit) = (&set[process.index() / 64], 1 << (process.0 % 64));
    if (word.load(Ordering::SeqCst) & bit != 0) != member {
        crash::point();
        word.fetch_xor(bit, Ordering::SeqCst);
    }
}

/// A workgroup that waits and fits.
struct Claim {
    process: ProcessSlot,
    class: PriorityClass,
    served: u64,
}

impl Chip {
    fn mask_of(&self, part: &PartWords) -> CuMask {
        CuMask::of_words(std::array::from_fn(|n| AtomicU64::load(&part.mask[n], Ordering::Relaxed)))
    }
}

impl Locked<'_> {
    pub(super) fn set_waiting(&self, process: ProcessSlot, waits: bool) {
        set_member(&self.words.waiting, process, waits);
    }

    /// Publishes what a process waits for.
    pub(super) fn publish(&self, process: ProcessSlot, best: Option<&SlotRequest<'_>>) {
        let Some(part) = self.chip.process_part(process, self.gpu) else { return };
        let Some(best) = best else {
            self.set_waiting(process, false);
            part.wanted.store(0, Ordering::Relaxed);
            return self.call_next();
        };
        if let Some(mask) = best.allowed {
            for (word, value) in part.mask.iter().zip(mask.words()) {
                word.store(*value, Ordering::Relaxed);
            }
        }
        let wanted = Wanted { need: best.need, class: best.class, masked: best.allowed.is_some() };
        crash::point();
        part.wanted.store(wanted.pack(), Ordering::Relaxed);
        self.look_everywhere(part, &wanted);
        self.set_waiting(process, true);
        // Room may have come up since it was looked for.
        self.call_next();
    }

    /// Looks for a compute unit where a waiting workgroup fits.
    fn look_everywhere(&self, part: &PartWords, wanted: &Wanted) {
        let mask = wanted.masked.then(|| self.chip.mask_of(part));
        let totals = self.chip.totals(self.gpu);
        let allowed = |cu: u32| mask.as_ref().is_none_or(|mask| mask.contains(cu));
        let found = Cursor::default().find(self.chip.geometry(), &wanted.need, None, |cu| {
            totals.get(cu as usize).filter(|_| allowed(cu)).map(super::CuWords::load)
        });
        part.candidate.store(found.map_or(0, |(cu, ..)| cu + 1), Ordering::Relaxed);
        part.offered.store(0, Ordering::Relaxed);
    }

    /// Returns whether a waiting workgroup fits on a compute unit.
    fn fits(&self, part: &PartWords, wanted: &Wanted, cu: u32) -> bool {
        let Some(words) = self.chip.totals(self.gpu).get(cu as usize) else { return false };
        (!wanted.masked || self.chip.mask_of(part).contains(cu))
            && words.load().with(&wanted.need, self.chip.geometry(), 0).is_some()
    }

    /// Waiting workgroups that fit.
    fn claims(&self) -> impl Iterator<Item = Claim> {
        members(&self.words.waiting).filter_map(|process| {
            let part = self.chip.process_part(process, self.gpu)?;
            let wanted = Wanted::unpack(part.wanted.load(Ordering::Relaxed)).filter(|_| self.chip.is_live(process))?;
            let candidate = part.candidate.load(Ordering::Relaxed).checked_sub(1)?;
            if !self.fits(part, &wanted, candidate) {
                self.look_everywhere(part, &wanted);
                part.candidate.load(Ordering::Relaxed).checked_sub(1)?;
            }
            Some(Claim { process, class: wanted.class, served: part.served.load(Ordering::Relaxed) })
        })
    }

    /// Returns the process whose claim comes before that of `me` for a workgroup of `class`, if any.
    pub(super) fn preferred(&self, me: ProcessSlot, class: PriorityClass) -> Option<ProcessSlot> {
        let served = self.chip.process_part(me, self.gpu)?.served.load(Ordering::Relaxed);
        self.claims()
            .filter(|claim| claim.process != me && (Reverse(claim.class), claim.served) < (Reverse(class), served))
            .filter(|claim| !self.is_late(claim.process))
            .min_by_key(|claim| (Reverse(claim.class), claim.served))
            .map(|claim| claim.process)
    }

    /// Returns whether a process was offered room long ago and has not taken it.
    fn is_late(&self, process: ProcessSlot) -> bool {
        let offered = self.chip.process_part(process, self.gpu).map_or(0, |part| part.offered.load(Ordering::Relaxed));
        offered != 0 && (self.chip.clock)().saturating_sub(offered) > LATE
    }

    /// Wakes the process that is to have room next, if any waits that could use it.
    pub(super) fn call_next(&self) {
        // One that is late is called, too, but so is the one after it: it may never come.
        let mut claims: Vec<_> = self.claims().collect();
        claims.sort_by_key(|claim| (Reverse(claim.class), claim.served));
        for claim in claims {
            let late = self.is_late(claim.process);
            self.call(claim.process);
            if !late {
                break;
            }
        }
    }

    /// Offers room to a process.
    pub(super) fn call(&self, process: ProcessSlot) {
        if let Some(part) = self.chip.process_part(process, self.gpu)
            && part.offered.load(Ordering::Relaxed) == 0
        {
            part.offered.store((self.chip.clock)().max(1), Ordering::Relaxed);
        }
        self.chip.wake(process);
    }

    /// Notes which waiting workgroups fit on a compute unit that has gained room.
    pub(super) fn offer(&self, cu: u32) {
        for process in members(&self.words.waiting) {
            let Some(part) = self.chip.process_part(process, self.gpu) else { continue };
            let Some(wanted) = Wanted::unpack(part.wanted.load(Ordering::Relaxed)) else { continue };
            if part.candidate.load(Ordering::Relaxed) == 0 && self.fits(part, &wanted, cu) {
                part.candidate.store(cu + 1, Ordering::Relaxed);
                part.offered.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Searches again for all waiting workgroups: room may have appeared on any compute unit.
    pub(super) fn offer_again(&self) {
        for process in members(&self.words.waiting) {
            let Some(part) = self.chip.process_part(process, self.gpu) else { continue };
            if let Some(wanted) = Wanted::unpack(part.wanted.load(Ordering::Relaxed)) {
                self.look_everywhere(part, &wanted);
            }
        }
    }
}
