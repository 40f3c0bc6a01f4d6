//! Working memory of a poll: what is too large for a kernel's stack. Nothing in it outlives a poll, so one serves all
//! tenants that are polled in turn.

use core::fmt;

use kfd_abi::aql::{PACKET_SIZE, SignalHandle, Slot};

/// Packets that are read at most after they were fetched: one call, half a page.
pub(crate) const FETCHED: usize = 32;
/// Places for signals that are learned in one look.
const PLACES: usize = 256;
/// Places that are tried for a signal.
const TRIED: usize = 8;

/// Working memory of [`TenantProbe::poll`](crate::TenantProbe::poll), 6 KiB.
pub struct Scratch {
    /// Packets as they were read.
    pub(crate) slots: [Slot; FETCHED],
    pub(crate) learned: Learned,
}

impl Scratch {
    /// Memory that was not used yet.
    pub const EMPTY: Scratch =
        Scratch { slots: [[0; PACKET_SIZE]; FETCHED], learned: Learned { places: [Learned::FREE; PLACES], used: 0 } };
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

/// Signals of packets that came since the last look, each with the last ring that has it.
///
/// A table with open addressing, so that a look at all rings costs no more than a few steps for each packet. A signal
/// that finds no place is not remembered: rings that used it before then wait for it until it fires, or a sample tells.
pub(crate) struct Learned {
    places: [(Option<SignalHandle>, u16); PLACES],
    used: usize,
}

impl Learned {
    const FREE: (Option<SignalHandle>, u16) = (None, 0);

    pub(crate) fn clear(&mut self) {
        if self.used > 0 {
            self.places.fill(Learned::FREE);
            self.used = 0;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    fn tried(signal: SignalHandle) -> impl Iterator<Item = usize> {
        // Signals lie 64 bytes apart; the upper bits of the product depend on all bits of the address.
        let first = (signal.get().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        (0..TRIED).map(move |step| first.wrapping_add(step) % PLACES)
    }

    /// A packet of this ring, and of no other that was read before, has the signal.
    pub(crate) fn insert(&mut self, signal: SignalHandle, ring: u16) {
        for at in Learned::tried(signal) {
            let Some(place) = self.places.get_mut(at) else { continue };
            if place.0.is_none_or(|there| there == signal) {
                self.used += usize::from(place.0.is_none());
                *place = (Some(signal), ring);
                return;
            }
        }
    }

    /// Whether a packet of another ring has the signal, and none of this ring that was read later.
    pub(crate) fn is_of_another(&self, signal: SignalHandle, ring: u16) -> bool {
        let there = Learned::tried(signal).find_map(|at| self.places.get(at).filter(|place| place.0 == Some(signal)));
        there.is_some_and(|(_, learner)| *learner != ring)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn table() -> Learned {
        Learned { places: [Learned::FREE; PLACES], used: 0 }
    }

    fn signal(number: u64) -> SignalHandle {
        SignalHandle::new(0x7F00_0000_0000 + number * 64).unwrap()
    }

    proptest! {
        #[test]
        fn a_signal_is_of_the_ring_that_learned_it_last(learned in prop::collection::vec((0u64..2000, 0u16..9), 0..600)) {
            let (mut table, mut truth) = (table(), BTreeMap::new());
            for (number, ring) in learned {
                table.insert(signal(number), ring);
                truth.insert(number, ring);
            }
            for number in 0..2000 {
                for ring in 0..9 {
                    let of_another = truth.get(&number).is_some_and(|learner| *learner != ring);
                    prop_assert!(of_another || !table.is_of_another(signal(number), ring));
                }
            }
            table.clear();
            prop_assert!(table.is_empty() && !table.is_of_another(signal(1), 0));
        }
    }

    #[test]
    fn signals_as_a_runtime_allocates_them_find_places() {
        let mut table = table();
        for number in 0..100 {
            table.insert(signal(number), 3);
        }
        assert!((0..100).all(|number| table.is_of_another(signal(number), 4)));
    }
}
