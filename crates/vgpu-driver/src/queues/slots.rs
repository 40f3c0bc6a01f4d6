//! Doorbells of a process on a gpu, and the slots of a gpu's copy engines.
//!
//! The doorbells of copy queues are fixed by hardware: each engine listens to its own, so compute queues leave them
//! out.

use std::ops::Range;

use kfd_abi::queue::{DOORBELL_SIZE, MAX_QUEUES_PER_PROCESS};

use crate::ids::Ids;
use crate::profile::Profile;

/// First doorbell of the copy engines.
const SDMA_FIRST: u32 = 0x100;
/// Doorbells of one engine.
const SDMA_PER_ENGINE: u32 = 10;
/// Doorbells that no compute queue gets, from the first one and once more from its mirror.
const SDMA_RESERVED: u32 = 0x100;
/// Every second queue of an engine listens to a doorbell this much further.
const MIRROR: u32 = 512;
const SDMA_MIRROR: u32 = SDMA_FIRST + MIRROR;

/// Bytes from the start of the doorbells.
pub(super) const fn position(doorbell: u32) -> u64 {
    doorbell as u64 * DOORBELL_SIZE as u64
}

/// Doorbells for compute queues.
#[derive(Debug)]
pub(crate) struct DoorbellSlots {
    /// Doorbells below, between and above those of the copy engines.
    free: [Ids; 3],
}

impl DoorbellSlots {
    pub(crate) fn new() -> DoorbellSlots {
        DoorbellSlots {
            free: [
                Ids::new(0..SDMA_FIRST),
                Ids::new(SDMA_FIRST + SDMA_RESERVED..SDMA_MIRROR),
                Ids::new(SDMA_MIRROR + SDMA_RESERVED..MAX_QUEUES_PER_PROCESS),
            ],
        }
    }

    pub(super) fn take(&mut self) -> Option<u32> {
        self.free.iter_mut().find_map(Ids::take)
    }

    /// Takes back a doorbell that was taken.
    pub(super) fn put(&mut self, doorbell: u32) {
        let at = match doorbell {
            ..SDMA_FIRST => 0,
            SDMA_FIRST..SDMA_MIRROR => 1,
            _ => 2,
        };
        self.free[at].put(doorbell);
    }
}

/// One queue of a copy engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SdmaSlot {
    pub(super) engine: u32,
    pub(super) queue: u32,
}

impl SdmaSlot {
    pub(super) const fn doorbell(self) -> u32 {
        SDMA_FIRST + self.engine * SDMA_PER_ENGINE + (self.queue & 1) * MIRROR + (self.queue >> 1)
    }
}

/// The queues of a gpu's copy engines that are free.
#[derive(Debug)]
pub(crate) struct SdmaSlots {
    /// By engine; those for other gpus come last.
    engines: Vec<Ids>,
    ordinary: usize,
}

impl SdmaSlots {
    pub(crate) fn new(profile: &Profile) -> SdmaSlots {
        let engines = profile.sdma_engines + profile.sdma_xgmi_engines;
        SdmaSlots {
            engines: (0..engines).map(|_| Ids::new(0..profile.sdma_queues_per_engine)).collect(),
            ordinary: profile.sdma_engines as usize,
        }
    }

    /// A queue of an ordinary engine.
    pub(super) fn take(&mut self) -> Option<SdmaSlot> {
        self.take_among(0..self.ordinary)
    }

    /// A queue of an engine for other gpus.
    pub(super) fn take_xgmi(&mut self) -> Option<SdmaSlot> {
        self.take_among(self.ordinary..self.engines.len())
    }

    /// The lowest free queue of any of these engines, so that the first queues are on different engines.
    fn take_among(&mut self, engines: Range<usize>) -> Option<SdmaSlot> {
        let free = |engine: &usize| self.engines.get(*engine).and_then(Ids::lowest);
        let engine = engines.filter(|engine| free(engine).is_some()).min_by_key(free)?;
        self.take_on(engine as u32)
    }

    /// A queue of this engine.
    pub(super) fn take_on(&mut self, engine: u32) -> Option<SdmaSlot> {
        let queue = self.engines.get_mut(engine as usize)?.take()?;
        Some(SdmaSlot { engine, queue })
    }

    /// Takes back a queue that was taken.
    pub(super) fn put(&mut self, slot: SdmaSlot) {
        if let Some(engine) = self.engines.get_mut(slot.engine as usize) {
            engine.put(slot.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_doorbell_is_given_out_twice() {
        let profile = Profile::load("mi300x").unwrap();
        let mut seen = BTreeSet::new();
        let mut sdma = SdmaSlots::new(&profile);
        let mut slots: Vec<SdmaSlot> = std::iter::from_fn(|| sdma.take()).collect();
        slots.extend(std::iter::from_fn(|| sdma.take_xgmi()));
        assert_eq!(slots.len(), 16 * 8);
        assert!(slots.iter().all(|slot| seen.insert(slot.doorbell())));
        let mut compute = DoorbellSlots::new();
        let doorbells: Vec<u32> = std::iter::from_fn(|| compute.take()).collect();
        assert!(doorbells.iter().all(|&doorbell| seen.insert(doorbell)));
        assert!(seen.iter().all(|&doorbell| doorbell < MAX_QUEUES_PER_PROCESS));
        // Those that come back are the ones that are given out again.
        for &doorbell in &doorbells {
            compute.put(doorbell);
        }
        assert_eq!(std::iter::from_fn(|| compute.take()).collect::<Vec<_>>(), doorbells);
        // Queues go to the engines in turn.
        let engines: Vec<u32> = slots.iter().map(|slot| slot.engine).collect();
        assert_eq!(
            (&engines[..4], &engines[16..32]),
            (&[0, 1, 0, 1][..], &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 2, 3][..])
        );
        sdma.put(slots[3]);
        assert_eq!(sdma.take(), Some(slots[3]));
        assert_eq!(sdma.take(), None);
    }
}
