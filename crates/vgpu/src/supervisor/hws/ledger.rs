//! What lies in save areas: what a cycle has to pay for is what it puts there and what it takes out again.

use std::collections::HashMap;

use super::model::Bytes;
use crate::driver::{ProcessKey, UnmappedQueue};

/// Bytes that a process can save in one cycle, whatever it says: all waves of a gpu need less.
const MOST_SAVED: u64 = 4 << 30;

/// What the queues of a gpu have in their save areas.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    away: HashMap<(ProcessKey, u32), u64>,
}

impl Ledger {
    /// Queues of a process left the gpu. What was saved because of that; `to_host` says whose area is in host memory.
    pub(super) fn left(
        &mut self,
        process: ProcessKey,
        queues: &[UnmappedQueue],
        to_host: impl Fn(u32) -> bool,
    ) -> Bytes {
        let mut moved = Bytes::default();
        let mut left = MOST_SAVED;
        self.away.retain(|(owner, _), _| *owner != process);
        for queue in queues {
            let saved = queue.saved.bytes.min(left);
            left -= saved;
            if saved > 0 {
                self.away.insert((process, queue.id), saved);
            }
            if queue.written {
                moved.add(saved, to_host(queue.id));
            }
        }
        moved
    }

    /// A queue comes back; what has to be restored for that.
    pub(super) fn comes_back(&mut self, process: ProcessKey, queue: u32, to_host: bool) -> Bytes {
        let mut moved = Bytes::default();
        moved.add(self.away.remove(&(process, queue)).unwrap_or(0), to_host);
        moved
    }

    /// Forgets queues that are gone: their numbers are used again.
    pub(super) fn keep(&mut self, exists: impl Fn(ProcessKey, u32) -> bool) {
        self.away.retain(|(process, queue), _| exists(*process, *queue));
    }

    /// The gpu was reset.
    pub(super) fn clear(&mut self) {
        self.away.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::SaveExtent;

    const ALICE: ProcessKey = ProcessKey::new(1, 0);
    const BOB: ProcessKey = ProcessKey::new(2, 0);

    fn queue(id: u32, bytes: u64, written: bool) -> UnmappedQueue {
        let saved = SaveExtent { waves: u32::from(bytes > 0), bytes, ..SaveExtent::default() };
        UnmappedQueue { id, saved, written, ..UnmappedQueue::default() }
    }

    #[test]
    fn a_stopped_queue_is_saved_once_and_restored_once() {
        let mut ledger = Ledger::default();
        let vram = |bytes| Bytes { vram: bytes, host: 0 };
        assert_eq!(ledger.left(ALICE, &[queue(0, 100, true), queue(1, 30, true)], |_| false), vram(130));
        assert_eq!(ledger.comes_back(ALICE, 1, false), vram(30));
        // Cycles of others, and of the queue beside it, while it is stopped.
        assert_eq!(ledger.left(ALICE, &[queue(0, 100, false), queue(1, 0, true)], |_| false), vram(0));
        assert_eq!(ledger.left(BOB, &[queue(0, 7, true)], |_| false), vram(7));
        assert_eq!(ledger.comes_back(ALICE, 1, false), vram(0));
        assert_eq!(ledger.comes_back(ALICE, 0, false), vram(100));
        assert_eq!(ledger.comes_back(ALICE, 0, false), vram(0), "it is back");
    }

    #[test]
    fn bytes_count_where_the_save_area_is_when_they_move() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.left(ALICE, &[queue(0, 50, true), queue(1, 9, true)], |id| id == 1), {
            Bytes { vram: 50, host: 9 }
        });
        assert_eq!(ledger.comes_back(ALICE, 0, true), Bytes { vram: 0, host: 50 });
    }

    #[test]
    fn a_process_cannot_say_that_it_saved_more_than_a_gpu_holds() {
        let mut ledger = Ledger::default();
        let moved = ledger.left(ALICE, &[queue(0, u64::MAX, true), queue(1, u64::MAX, true)], |_| false);
        assert_eq!(moved.total(), MOST_SAVED);
    }

    #[test]
    fn a_new_queue_with_the_number_of_one_that_is_gone_has_nothing_to_restore() {
        let mut ledger = Ledger::default();
        ledger.left(ALICE, &[queue(0, 50, true)], |_| false);
        ledger.keep(|process, _| process != ALICE);
        assert_eq!(ledger.comes_back(ALICE, 0, false), Bytes::default());
        ledger.left(ALICE, &[queue(0, 50, true)], |_| false);
        ledger.clear();
        assert_eq!(ledger.comes_back(ALICE, 0, false), Bytes::default());
    }
}
