//! Sorting without allocation and without a path to a panic.
//!
//! The order changes little from one decision to the next, so insertion sort is usually one linear pass. When it needs
//! too many moves, heap sort takes over: a kernel cannot afford the quadratic case.

/// Sorts by descending key. The order of equal keys is unspecified, so keys should be unique.
pub(crate) fn sort_descending<T: Copy>(items: &mut [T], key: impl Fn(&T) -> (u64, u32)) {
    let mut moves = items.len().saturating_mul(4);
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 {
            let (Some(&before), Some(&here)) = (items.get(at.wrapping_sub(1)), items.get(at)) else {
                break;
            };
            if key(&before) >= key(&here) {
                break;
            }
            if moves == 0 {
                heap_sort(items, &key);
                return;
            }
            moves -= 1;
            swap(items, at - 1, at);
            at -= 1;
        }
    }
}

fn swap<T: Copy>(items: &mut [T], a: usize, b: usize) {
    let (Some(&first), Some(&second)) = (items.get(a), items.get(b)) else {
        return;
    };
    if let Some(slot) = items.get_mut(a) {
        *slot = second;
    }
    if let Some(slot) = items.get_mut(b) {
        *slot = first;
    }
}

fn heap_sort<T: Copy>(items: &mut [T], key: &impl Fn(&T) -> (u64, u32)) {
    let length = items.len();
    for root in (0..length / 2).rev() {
        sift(items, root, length, key);
    }
    for end in (1..length).rev() {
        swap(items, 0, end);
        sift(items, 0, end, key);
    }
}

/// Restores the heap whose smallest element is at the root, so that the sorted slice descends.
fn sift<T: Copy>(items: &mut [T], mut root: usize, end: usize, key: &impl Fn(&T) -> (u64, u32)) {
    loop {
        let mut smallest = root;
        for child in [2 * root + 1, 2 * root + 2] {
            if child < end
                && let (Some(a), Some(b)) = (items.get(child), items.get(smallest))
                && key(a) < key(b)
            {
                smallest = child;
            }
        }
        if smallest == root {
            return;
        }
        swap(items, root, smallest);
        root = smallest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn sorts_any_input_in_descending_order(mut values in prop::collection::vec(any::<u16>(), 0..200)) {
            let mut expected: Vec<u16> = values.clone();
            expected.sort_unstable_by(|a, b| b.cmp(a));
            sort_descending(&mut values, |&v| (u64::from(v), 0));
            prop_assert_eq!(values, expected);
        }
    }

    #[test]
    fn reversed_input_takes_the_heap_and_stays_below_quadratic_cost() {
        let mut values: Vec<u32> = (0..4096).collect();
        let comparisons = std::cell::Cell::new(0u64);
        sort_descending(&mut values, |&v| {
            comparisons.set(comparisons.get() + 1);
            (u64::from(v), 0)
        });
        assert!(values.windows(2).all(|pair| pair[0] > pair[1]));
        assert!(comparisons.get() < 500_000, "{} key evaluations", comparisons.get());
    }
}
