//! Who waits for room, and who is to have it first.
//!
//! The hardware's queues compete by class and take turns within a class. Processes here take room themselves, so each
//! publishes what its best waiting workgroup needs, and nobody takes what somebody with a better claim could use. One
//! whose workgroup does not fit anywhere holds up nobody, nor does one that does not come for what it was offered.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::cu::Cursor;
use super::super::cu_mask::CuMask;
use super::super::slots::{Class, Need, Request};
use super::layout::SeatSet;
use super::repair::Locked;
use super::{Chip, MOST_SEATS, PartWords, SeatId, crash};

/// How long others wait for a seat to take what it was offered, in nanoseconds.
pub(super) const LATE: u64 = 20_000_000;

/// What a seat waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    need: Need,
    class: Class,
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
            0 => Class::Low,
            1 => Class::Medium,
            _ => Class::High,
        };
        (word >> 63 != 0).then_some(Self { need, class, masked: word >> 62 & 1 != 0 })
    }
}

/// The seats in a set.
pub(super) fn members(set: &SeatSet) -> impl Iterator<Item = SeatId> {
    (0..MOST_SEATS).step_by(64).zip(set).flat_map(|(first, word)| {
        let mut left = word.load(Ordering::SeqCst);
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (bit < 64).then_some(SeatId(first + bit))
        })
    })
}

/// Puts a seat into a set or takes it out.
pub(super) fn set_member(set: &SeatSet, seat: SeatId, member: bool) {
    let (word, bit) = (&set[seat.index() / 64], 1 << (seat.0 % 64));
    if (word.load(Ordering::SeqCst) & bit != 0) != member {
        crash::point();
        word.fetch_xor(bit, Ordering::SeqCst);
    }
}

/// A workgroup that waits and fits.
struct Claim {
    seat: SeatId,
    class: Class,
    served: u64,
}

impl Chip {
    fn mask_of(&self, part: &PartWords) -> CuMask {
        CuMask::of_words(std::array::from_fn(|n| AtomicU64::load(&part.mask[n], Ordering::Relaxed)))
    }
}

impl Locked<'_> {
    pub(super) fn set_waiting(&self, seat: SeatId, waits: bool) {
        set_member(&self.words.waiting, seat, waits);
    }

    /// Publishes what a seat waits for.
    pub(super) fn publish(&self, seat: SeatId, best: Option<&Request<'_>>) {
        let Some(part) = self.chip.seat_part(seat, self.gpu) else { return };
        let Some(best) = best else {
            self.set_waiting(seat, false);
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
        self.set_waiting(seat, true);
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

    /// Whether a waiting workgroup fits on a compute unit.
    fn fits(&self, part: &PartWords, wanted: &Wanted, cu: u32) -> bool {
        let Some(words) = self.chip.totals(self.gpu).get(cu as usize) else { return false };
        (!wanted.masked || self.chip.mask_of(part).contains(cu))
            && words.load().with(&wanted.need, self.chip.geometry(), 0).is_some()
    }

    /// Waiting workgroups that fit.
    fn claims(&self) -> impl Iterator<Item = Claim> {
        members(&self.words.waiting).filter_map(|seat| {
            let part = self.chip.seat_part(seat, self.gpu)?;
            let wanted = Wanted::unpack(part.wanted.load(Ordering::Relaxed)).filter(|_| self.chip.is_live(seat))?;
            let candidate = part.candidate.load(Ordering::Relaxed).checked_sub(1)?;
            if !self.fits(part, &wanted, candidate) {
                self.look_everywhere(part, &wanted);
                part.candidate.load(Ordering::Relaxed).checked_sub(1)?;
            }
            Some(Claim { seat, class: wanted.class, served: part.served.load(Ordering::Relaxed) })
        })
    }

    /// The seat that is to have room before `me` asks for a workgroup of a class.
    pub(super) fn preferred(&self, me: SeatId, class: Class) -> Option<SeatId> {
        let served = self.chip.seat_part(me, self.gpu)?.served.load(Ordering::Relaxed);
        self.claims()
            .filter(|claim| claim.seat != me && (Reverse(claim.class), claim.served) < (Reverse(class), served))
            .filter(|claim| !self.is_late(claim.seat))
            .min_by_key(|claim| (Reverse(claim.class), claim.served))
            .map(|claim| claim.seat)
    }

    /// Whether a seat was offered room long ago and has not taken it.
    fn is_late(&self, seat: SeatId) -> bool {
        let offered = self.chip.seat_part(seat, self.gpu).map_or(0, |part| part.offered.load(Ordering::Relaxed));
        offered != 0 && (self.chip.clock)().saturating_sub(offered) > LATE
    }

    /// Wakes the seat that is to have room next, if any waits that could use it.
    pub(super) fn call_next(&self) {
        // One that is late is called, too, but so is the one after it: it may never come.
        let mut claims: Vec<_> = self.claims().collect();
        claims.sort_by_key(|claim| (Reverse(claim.class), claim.served));
        for claim in claims {
            let late = self.is_late(claim.seat);
            self.call(claim.seat);
            if !late {
                break;
            }
        }
    }

    /// Offers room to a seat.
    pub(super) fn call(&self, seat: SeatId) {
        if let Some(part) = self.chip.seat_part(seat, self.gpu)
            && part.offered.load(Ordering::Relaxed) == 0
        {
            part.offered.store((self.chip.clock)().max(1), Ordering::Relaxed);
        }
        self.chip.wake(seat);
    }

    /// There is more room on a compute unit: notes for whom it is enough.
    pub(super) fn offer(&self, cu: u32) {
        for seat in members(&self.words.waiting) {
            let Some(part) = self.chip.seat_part(seat, self.gpu) else { continue };
            let Some(wanted) = Wanted::unpack(part.wanted.load(Ordering::Relaxed)) else { continue };
            if part.candidate.load(Ordering::Relaxed) == 0 && self.fits(part, &wanted, cu) {
                part.candidate.store(cu + 1, Ordering::Relaxed);
                part.offered.store(0, Ordering::Relaxed);
            }
        }
    }

    /// There may be more room everywhere.
    pub(super) fn offer_again(&self) {
        for seat in members(&self.words.waiting) {
            let Some(part) = self.chip.seat_part(seat, self.gpu) else { continue };
            if let Some(wanted) = Wanted::unpack(part.wanted.load(Ordering::Relaxed)) {
                self.look_everywhere(part, &wanted);
            }
        }
    }
}
