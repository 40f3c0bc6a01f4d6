//! The driver's own queue (HIQ), through which it orders the firmware to take queues off a gpu and to map them.
//!
//! Only its write pointer is kept: debugfs shows it, and the cycles of a gpu can be counted by it.
//!
//! Source: `unmap_queues_cpsch` and `map_queues_cpsch` for the packets, `kfd_packet_manager_v9.c` for their sizes,
//! `kq_acquire_packet_buffer` for how the ring wraps.

use super::Driver;

/// Words of the ring.
const RING: u32 = 512;
/// Words of the packets.
const UNMAP_QUEUES: u32 = 6;
const QUERY_STATUS: u32 = 7;
const RUN_LIST: u32 = 4;
const WRITE_DATA: u32 = 5;
/// Where the pointer is after the driver has told the firmware its resources (`pm_send_set_resources`).
const AFTER_START: u32 = 8;

/// The driver's own queue on one gpu.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnQueue {
    pointer: u32,
    /// Whether the firmware has a runlist.
    active_runlist: bool,
}

impl Default for OwnQueue {
    fn default() -> OwnQueue {
        OwnQueue { pointer: AFTER_START, active_runlist: false }
    }
}

impl OwnQueue {
    /// The write pointer, which is the read pointer as well: the firmware has read everything.
    pub(super) const fn pointer(self) -> u32 {
        self.pointer
    }

    fn send(&mut self, words: u32) {
        // A packet does not wrap: the rest of the ring is filled, and it starts at the beginning.
        self.pointer = if self.pointer + words >= RING { words } else { self.pointer + words };
    }

    fn cycle(&mut self, graced: bool, maps: bool) {
        if std::mem::take(&mut self.active_runlist) {
            let grace = if graced { WRITE_DATA } else { 0 };
            for words in [grace, UNMAP_QUEUES, QUERY_STATUS, grace] {
                if words > 0 {
                    self.send(words);
                }
            }
        }
        if maps {
            self.send(RUN_LIST);
            self.active_runlist = true;
        }
    }
}

impl Driver {
    /// Notes a cycle of a gpu: its packets go through the driver's own queue. `graced` says whether it brought a grace
    /// period of its own.
    pub fn cycled(&mut self, gpu: u32, graced: bool) {
        let maps = !self.runlist(gpu).packets.is_empty();
        if let Some(state) = self.gpus.get_mut(gpu as usize) {
            state.own_queue.cycle(graced, maps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_cycle_move_the_pointer() {
        let mut own = OwnQueue::default();
        own.cycle(false, true);
        assert_eq!(own.pointer(), 12, "there was nothing to take off");
        own.cycle(false, true);
        assert_eq!(own.pointer(), 29);
        own.cycle(true, true);
        assert_eq!(own.pointer(), 56);
        own.cycle(false, false);
        own.cycle(true, false);
        assert_eq!(own.pointer(), 69, "without a runlist nothing is sent");
    }

    #[test]
    fn a_packet_does_not_wrap() {
        let mut own = OwnQueue { pointer: 500, active_runlist: true };
        own.cycle(false, true);
        assert_eq!(own.pointer(), 11);
    }
}
