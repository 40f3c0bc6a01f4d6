//! A list of few things in memory of its own.

use core::fmt;

/// Up to `N` things, in the order in which they came.
#[derive(Clone, Copy)]
pub(crate) struct List<T, const N: usize> {
    items: [Option<T>; N],
    len: usize,
}

impl<T: Copy, const N: usize> List<T, N> {
    pub(crate) const EMPTY: List<T, N> = List { items: [None; N], len: 0 };

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.items.get_mut(..self.len)?.get_mut(at)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.get(..self.len).unwrap_or_default().iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.get_mut(..self.len).unwrap_or_default().iter_mut().flatten()
    }

    /// Adds a thing at the end. Returns the oldest one if it had to make room.
    pub(crate) fn push(&mut self, item: T) -> Option<T> {
        let lost = if self.len >= N { self.take_first() } else { None };
        if let Some(free) = self.items.get_mut(self.len) {
            *free = Some(item);
            self.len += 1;
        }
        lost
    }

    fn take_first(&mut self) -> Option<T> {
        let first = self.iter().next().copied();
        let mut is_first = true;
        self.retain(|_| !core::mem::take(&mut is_first));
        first
    }

    /// Keeps what `keep` says, in its order.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        let mut kept = 0;
        for at in 0..self.len {
            let Some(Some(item)) = self.items.get(at).copied() else { break };
            if keep(&item)
                && let Some(slot) = self.items.get_mut(kept)
            {
                *slot = Some(item);
                kept += 1;
            }
        }
        self.len = kept;
    }
}

impl<T: Copy + fmt::Debug, const N: usize> fmt::Debug for List<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_list_is_a_queue_that_drops_the_oldest(calls in prop::collection::vec((0u8..5, any::<u8>()), 0..100)) {
            let (mut list, mut queue) = (List::<u8, 6>::EMPTY, VecDeque::new());
            for (call, value) in calls {
                match call {
                    0 if value < 20 => {
                        list.clear();
                        queue.clear();
                    }
                    1 => {
                        list.retain(|item| item % 3 != value % 3);
                        queue.retain(|item| item % 3 != value % 3);
                    }
                    _ => {
                        let lost = if queue.len() == 6 { queue.pop_front() } else { None };
                        queue.push_back(value);
                        prop_assert_eq!(list.push(value), lost);
                    }
                }
                prop_assert_eq!(list.iter().collect::<Vec<_>>(), queue.iter().collect::<Vec<_>>());
                prop_assert_eq!((list.len(), list.is_empty()), (queue.len(), queue.is_empty()));
                prop_assert_eq!(list.get_mut(queue.len()), None);
                prop_assert_eq!(list.get_mut(0).copied(), queue.front().copied());
            }
        }
    }
}
