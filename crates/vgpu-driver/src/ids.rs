//! Numbers and offsets that are given out, taken back and given out again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Numbers of a range; the lowest free one is next.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    next: u32,
    end: u32,
    returned: BTreeSet<u32>,
}

impl Ids {
    pub(super) fn new(range: Range<u32>) -> Ids {
        Ids { next: range.start, end: range.end, returned: BTreeSet::new() }
    }

    /// The number that is next, if there is one.
    pub(super) fn lowest(&self) -> Option<u32> {
        self.returned.first().copied().or_else(|| (self.next < self.end).then_some(self.next))
    }

    pub(super) fn take(&mut self) -> Option<u32> {
        if let Some(id) = self.returned.pop_first() {
            return Some(id);
        }
        if self.next >= self.end {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// Takes back a number that was taken.
    pub(super) fn put(&mut self, id: u32) {
        self.returned.insert(id);
    }
}

/// Ranges of a file; the lowest that fits is next.
#[derive(Clone, Debug)]
pub(super) struct Space {
    /// Start and length of what is free; no two touch.
    free: BTreeMap<u64, u64>,
}

impl Space {
    pub(super) fn new(range: Range<u64>) -> Space {
        Space { free: BTreeMap::from([(range.start, range.end - range.start)]) }
    }

    pub(super) fn take(&mut self, len: u64) -> Option<u64> {
        let (&start, &room) = self.free.iter().find(|(_, room)| **room >= len)?;
        self.free.remove(&start);
        if room > len {
            self.free.insert(start + len, room - len);
        }
        Some(start)
    }

    /// Takes back a range that was taken.
    pub(super) fn put(&mut self, mut start: u64, mut len: u64) {
        if let Some((&before, &room)) = self.free.range(..start).next_back()
            && before + room == start
        {
            self.free.remove(&before);
            start = before;
            len += room;
        }
        if let Some(room) = self.free.remove(&(start + len)) {
            len += room;
        }
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_comes_next() {
        let mut ids = Ids::new(1..4);
        assert_eq!([ids.take(), ids.take(), ids.take(), ids.take()], [Some(1), Some(2), Some(3), None]);
        ids.put(3);
        ids.put(1);
        assert_eq!([ids.take(), ids.take(), ids.take()], [Some(1), Some(3), None]);
    }

    #[test]
    fn ranges_are_reused_and_grow_together() {
        let mut space = Space::new(100..200);
        let taken: Vec<u64> = [30, 30, 40].iter().map(|&len| space.take(len).unwrap()).collect();
        assert_eq!(taken, [100, 130, 160]);
        assert_eq!(space.take(1), None);
        space.put(100, 30);
        space.put(160, 40);
        assert_eq!(space.take(60), None);
        space.put(130, 30);
        assert_eq!(space.free, BTreeMap::from([(100, 100)]));
        assert_eq!(space.take(100), Some(100));
    }
}
