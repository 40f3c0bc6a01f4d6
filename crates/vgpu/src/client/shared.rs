//! Memory that the program shares with the gpu, and what the program does to it on its own.
//!
//! The kernel's driver is notified when shared memory is unmapped and forgets its attributes. Here the hooks of mmap
//! and munmap take note, and the next call of the process tells the driver before it does anything else: until then
//! nothing depends on it, because the device finds the memory gone by itself. The hooks run inside allocators, ours
//! included, so they neither allocate nor wait. Calls that no hook sees, those of the C library itself, are found out
//! as far as they leave holes.

use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Unmapped ranges that can wait for the next call. One more stays shared for the driver, which may refuse its
/// addresses to another owner later.
const ROOM: usize = 512;

/// A range of addresses: start and end.
pub(super) type Range = (u64, u64);

/// What this process shares.
#[derive(Debug)]
pub(super) struct Shared {
    /// The ranges in order, none touching another. Null if there are none.
    ranges: AtomicPtr<Vec<Range>>,
    /// Hooks that are looking at them.
    readers: AtomicUsize,
    /// Held while the driver is told of a change.
    changing: Mutex<()>,
    gone: [Note; ROOM],
}

/// A range that was unmapped.
#[derive(Debug)]
struct Note {
    state: AtomicU8,
    start: AtomicU64,
    end: AtomicU64,
}

const FREE: u8 = 0;
const BEING_WRITTEN: u8 = 1;
const WRITTEN: u8 = 2;

impl Shared {
    pub(super) fn new() -> Shared {
        Shared {
            ranges: AtomicPtr::new(std::ptr::null_mut()),
            readers: AtomicUsize::new(0),
            changing: Mutex::new(()),
            gone: [const { Note { state: AtomicU8::new(FREE), start: AtomicU64::new(0), end: AtomicU64::new(0) } };
                ROOM],
        }
    }

    /// What was in this range of addresses is about to go, or has just gone. Neither allocates nor waits.
    pub(super) fn unmapped(&self, start: u64, length: u64) {
        if self.ranges.load(Ordering::Acquire).is_null() {
            return;
        }
        let end = start.saturating_add(length);
        if !self.with_ranges(|ranges| overlapping(ranges, start, end).next().is_some()) {
            return;
        }
        for note in &self.gone {
            let taken = note.state.compare_exchange(FREE, BEING_WRITTEN, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                note.start.store(start, Ordering::Relaxed);
                note.end.store(end, Ordering::Relaxed);
                note.state.store(WRITTEN, Ordering::Release);
                return;
            }
        }
    }

    /// The holder sees what was unmapped before, and is the only thread to tell the driver.
    pub(super) fn change(&self) -> Changing<'_> {
        Changing { shared: self, _alone: self.changing.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    fn with_ranges<T>(&self, look: impl FnOnce(&[Range]) -> T) -> T {
        self.readers.fetch_add(1, Ordering::SeqCst);
        let ranges = self.ranges.load(Ordering::SeqCst);
        // SAFETY: a list is freed only when it has been replaced and there was no reader after that.
        let result = look(unsafe { ranges.as_ref() }.map_or(&[], Vec::as_slice));
        self.readers.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let ranges = *self.ranges.get_mut();
        if !ranges.is_null() {
            // SAFETY: made by `replace`, and no thread reads it any more.
            drop(unsafe { Box::from_raw(ranges) });
        }
    }
}

/// The right to change what is shared.
pub(super) struct Changing<'a> {
    shared: &'a Shared,
    _alone: MutexGuard<'a, ()>,
}

impl Changing<'_> {
    /// Takes the shared parts that were unmapped since this was last asked out of what is shared.
    pub(super) fn take_unmapped(&self) -> Vec<Range> {
        let mut found = Vec::new();
        for note in &self.shared.gone {
            if note.state.load(Ordering::Acquire) == WRITTEN {
                found.push((note.start.load(Ordering::Relaxed), note.end.load(Ordering::Relaxed)));
                note.state.store(FREE, Ordering::Release);
            }
        }
        found.into_iter().flat_map(|(start, end)| self.remove(start, end)).collect()
    }

    /// Takes the shared parts of a range out that are not there according to `exists`.
    pub(super) fn take_missing(&self, start: u64, end: u64, exists: impl Fn(Range) -> bool) -> Vec<Range> {
        let shared: Vec<Range> = self.shared.with_ranges(|ranges| overlapping(ranges, start, end).collect());
        shared.into_iter().filter(|part| !exists(*part)).flat_map(|(start, end)| self.remove(start, end)).collect()
    }

    /// A range is shared from now on.
    pub(super) fn add(&self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let mut ranges = self.shared.with_ranges(<[Range]>::to_vec);
        let touches = |range: &Range| range.0 <= end && start <= range.1;
        let merged = ranges
            .iter()
            .filter(|range| touches(range))
            .fold((start, end), |all, part| (all.0.min(part.0), all.1.max(part.1)));
        ranges.retain(|range| !touches(range));
        let at = ranges.partition_point(|range| range.0 < merged.0);
        ranges.insert(at, merged);
        self.replace(ranges);
    }

    /// Answers the parts of a range that were shared and are not any more.
    fn remove(&self, start: u64, end: u64) -> Vec<Range> {
        let ranges = self.shared.with_ranges(<[Range]>::to_vec);
        let removed: Vec<Range> = overlapping(&ranges, start, end).collect();
        if !removed.is_empty() {
            let left =
                ranges.into_iter().flat_map(|range| [(range.0, range.1.min(start)), (range.0.max(end), range.1)]);
            self.replace(left.filter(|part| part.0 < part.1).collect());
        }
        removed
    }

    fn replace(&self, ranges: Vec<Range>) {
        let new = if ranges.is_empty() { std::ptr::null_mut() } else { Box::into_raw(Box::new(ranges)) };
        let old = self.shared.ranges.swap(new, Ordering::SeqCst);
        // Readers only search the list.
        while self.shared.readers.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
        if !old.is_null() {
            // SAFETY: made above, replaced, and the threads that were reading it have finished.
            drop(unsafe { Box::from_raw(old) });
        }
    }
}

/// The parts of ordered ranges that lie within one.
fn overlapping(ranges: &[Range], start: u64, end: u64) -> impl Iterator<Item = Range> {
    let first = ranges.partition_point(|range| range.1 <= start);
    let within = ranges[first..].iter().take_while(move |range| range.0 < end);
    within.map(move |range| (range.0.max(start), range.1.min(end))).filter(|part| part.0 < part.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(shared: &Shared) -> Vec<Range> {
        shared.with_ranges(<[Range]>::to_vec)
    }

    #[test]
    fn only_unmapped_memory_that_is_shared_is_noted_and_only_once() {
        let shared = Shared::new();
        shared.unmapped(0, u64::MAX);
        assert!(shared.change().take_unmapped().is_empty());
        shared.change().add(10, 20);
        shared.change().add(30, 40);
        shared.unmapped(20, 10);
        shared.unmapped(0, 10);
        shared.unmapped(15, 0);
        assert!(shared.change().take_unmapped().is_empty());
        shared.unmapped(15, 20);
        assert_eq!(shared.change().take_unmapped(), [(15, 20), (30, 35)]);
        assert_eq!(ranges(&shared), [(10, 15), (35, 40)]);
        assert!(shared.change().take_unmapped().is_empty());
        shared.unmapped(12, 1);
        shared.unmapped(11, u64::MAX);
        assert_eq!(shared.change().take_unmapped(), [(12, 13), (11, 12), (13, 15), (35, 40)]);
        assert_eq!(ranges(&shared), [(10, 11)]);
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let shared = Shared::new();
        for (start, end) in [(40, 50), (10, 20), (25, 30), (7, 7), (20, 25)] {
            shared.change().add(start, end);
        }
        assert_eq!(ranges(&shared), [(10, 30), (40, 50)]);
        shared.change().add(0, 100);
        assert_eq!(ranges(&shared), [(0, 100)]);
    }

    #[test]
    fn more_notes_than_there_is_room_for_do_no_harm() {
        let shared = Shared::new();
        shared.change().add(0, 10_000);
        for at in 0..ROOM as u64 + 100 {
            shared.unmapped(at * 2, 1);
        }
        assert_eq!(shared.change().take_unmapped().len(), ROOM);
        shared.unmapped(9_000, 1);
        assert_eq!(shared.change().take_unmapped(), [(9_000, 9_001)]);
    }

    #[test]
    fn memory_that_went_unseen_is_found_missing() {
        let shared = Shared::new();
        shared.change().add(10, 20);
        shared.change().add(30, 40);
        let exists = |part: Range| part.0 < 30;
        assert!(shared.change().take_missing(0, 30, exists).is_empty());
        assert_eq!(shared.change().take_missing(15, 33, exists), [(30, 33)]);
        assert_eq!(ranges(&shared), [(10, 20), (33, 40)]);
    }

    #[test]
    fn hooks_may_look_while_ranges_change() {
        let shared = Shared::new();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let shared = &shared;
                scope.spawn(move || (0..2000).for_each(|at| shared.unmapped(at * 7 + thread, 3)));
            }
            for at in 0..500 {
                let changing = shared.change();
                changing.add(at * 20, at * 20 + 15);
                changing.take_unmapped();
            }
        });
        let changing = shared.change();
        changing.take_unmapped();
        changing.remove(0, u64::MAX);
        assert!(ranges(&shared).is_empty());
    }
}
