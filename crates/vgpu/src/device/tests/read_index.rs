//! When the read index passes a packet, for each kind of device.

use kfd_abi::Abi;
use kfd_abi::aql::{Barrier, FenceScope, Header, PacketType};
use kfd_abi::hsa::AmdSignal;
use proptest::prelude::*;

use super::super::{DeviceConfig, PacketFormat, SaveArea};
use super::aql::unordered;
use super::kernels::{COUNT, SPIN};
use super::machine::{CONFIG, Machine, RING, Ring, dispatch, halves};
use crate::driver::profile::ReadIndexKind;

const KINDS: [ReadIndexKind; 3] = [ReadIndexKind::Retire, ReadIndexKind::FetchRewoundAtSave, ReadIndexKind::Fetch];
/// Slots of the ring.
const SLOTS: u64 = RING / 64;

/// A queue with a save area, a kernel that counts and one that waits for a word.
struct Stage {
    machine: Machine,
    queue: Ring,
    counter: u64,
    count: (u64, u64),
    spin: u64,
}

impl Stage {
    fn new(read_index: ReadIndexKind, quantum: u64) -> Stage {
        let mut machine = Machine::with(DeviceConfig { read_index, ..CONFIG }, quantum);
        let (control_stack, size) = (8192, 256 << 10);
        let address = machine.alloc(size.into());
        machine.save_area = Some(SaveArea { address, size, control_stack, xccs: 1 });
        let counter = machine.alloc(8);
        let count = (machine.plain_kernel(COUNT), machine.buffer(&halves(counter)));
        let spin = machine.plain_kernel(SPIN);
        let queue = machine.queue(PacketFormat::Aql);
        Stage { machine, queue, counter, count, spin }
    }

    fn submit_count(&mut self, ordered: bool, signal: u64) {
        let packet = dispatch(self.count.0, self.count.1, 64, 64, signal);
        self.machine.submit(&self.queue, &if ordered { packet } else { unordered(packet) });
    }

    /// Submits a kernel that runs until the word that is returned is not 0.
    fn submit_spin(&mut self, signal: u64) -> u64 {
        let (go, to) = (self.machine.alloc(8), self.machine.alloc(8));
        let arguments = self.machine.buffer(&[halves(go), halves(to)].concat());
        self.machine.submit(&self.queue, &unordered(dispatch(self.spin, arguments, 64, 64, signal)));
        go
    }

    fn submit_wait(&mut self, signal: u64) {
        let header = Header::new(PacketType::BARRIER_AND, false, FenceScope::NONE, FenceScope::NONE);
        self.machine.submit(&self.queue, &Barrier { header, dep_signal: [signal, 0, 0, 0, 0], ..Barrier::ZERO });
    }

    fn index(&self) -> u64 {
        self.machine.u64(self.queue.read)
    }

    fn is_invalid(&self, packet: u64) -> bool {
        self.machine.u32(self.queue.ring + packet % SLOTS * 64) & 0xFF == u32::from(PacketType::INVALID.0)
    }

    /// Takes the queue off the device, saves it, and says which index a debugger would see.
    fn save(&self) -> u64 {
        let mut device = self.machine.device.lock().unwrap();
        device.unmap();
        device.save_all();
        self.index()
    }

    fn restore(&self) {
        self.machine.device.lock().unwrap().map(&[self.queue.id]);
    }
}

#[test]
fn the_index_waits_for_the_oldest_packet_where_packets_retire() {
    for kind in KINDS {
        let mut stage = Stage::new(kind, 50);
        let done = [stage.machine.signal(1, None), stage.machine.signal(1, None), stage.machine.signal(1, None)];
        let go = stage.submit_spin(done[0]);
        stage.submit_count(false, done[1]);
        stage.submit_count(true, done[2]);
        stage.machine.run();
        let values = |stage: &Stage| done.map(|signal| stage.machine.value(signal));
        assert_eq!(values(&stage), [1, 0, 1], "the second has ended before the first");
        let retires = kind == ReadIndexKind::Retire;
        assert_eq!(stage.index(), if retires { 0 } else { 3 }, "{kind:?}");
        let invalid = [0, 1, 2].map(|packet| stage.is_invalid(packet));
        assert_eq!(invalid, [!retires; 3], "{kind:?}: a slot is the program's when the index has passed it");
        stage.machine.set_u32(go, 1);
        stage.machine.run();
        assert_eq!((values(&stage), stage.index()), ([0; 3], 3));
        assert!((0..3).all(|packet| stage.is_invalid(packet)));
    }
}

/// What AMD's debugger library insists on: no wave of a suspended queue belongs to a packet before its read index.
#[test]
fn the_index_of_a_saved_queue_has_not_passed_a_packet_with_waves_unless_it_advances_at_fetch_alone() {
    for kind in KINDS {
        let mut stage = Stage::new(kind, 50);
        stage.submit_count(true, 0);
        let go = stage.submit_spin(0);
        stage.submit_count(false, 0);
        stage.machine.run();
        let saved = if kind == ReadIndexKind::Fetch { 3 } else { 1 };
        let running = if kind == ReadIndexKind::Retire { 1 } else { 3 };
        for _ in 0..3 {
            assert_eq!(stage.index(), running, "{kind:?}");
            assert_eq!(stage.save(), saved, "{kind:?}");
            stage.restore();
        }
        // What is submitted meanwhile comes after what was fetched before.
        stage.save();
        stage.submit_count(true, 0);
        stage.restore();
        stage.machine.set_u32(go, 1);
        stage.machine.run();
        assert_eq!((stage.index(), stage.machine.u32(stage.counter)), (4, 3), "{kind:?}: each ran once");
        assert_eq!(stage.save(), 4, "nothing is under way");
    }
}

#[test]
fn a_wait_that_has_not_passed_is_not_passed_by_the_index_where_packets_retire() {
    for kind in KINDS {
        let mut stage = Stage::new(kind, 50);
        let signal = stage.machine.signal(1, None);
        stage.submit_wait(signal);
        stage.submit_count(false, 0);
        stage.machine.run();
        assert_eq!(stage.index(), u64::from(kind != ReadIndexKind::Retire), "{kind:?}");
        assert_eq!(stage.save(), u64::from(kind == ReadIndexKind::Fetch), "{kind:?}");
        stage.machine.set_u64(signal + AmdSignal::VALUE, 0);
        stage.restore();
        stage.machine.run();
        assert_eq!((stage.index(), stage.machine.u32(stage.counter)), (2, 1));
    }
}

#[test]
fn no_packet_is_fetched_from_a_slot_that_the_index_has_not_passed() {
    let mut stage = Stage::new(ReadIndexKind::Retire, 50);
    let go = stage.submit_spin(0);
    stage.machine.run();
    for _ in 0..SLOTS {
        stage.submit_count(false, 0);
    }
    stage.machine.run();
    assert_eq!((stage.index(), u64::from(stage.machine.u32(stage.counter))), (0, SLOTS - 1));
    stage.machine.set_u32(go, 1);
    stage.machine.run();
    assert!(stage.index() >= SLOTS);
}

#[test]
fn a_rewind_reaches_no_further_than_the_ring() {
    let mut stage = Stage::new(ReadIndexKind::FetchRewoundAtSave, 50);
    let go = stage.submit_spin(0);
    for _ in 0..SLOTS + 10 {
        stage.submit_count(false, 0);
        stage.machine.run();
    }
    assert_eq!(stage.save(), SLOTS + 11 - SLOTS, "the slot of the first is in use again");
    stage.restore();
    stage.machine.set_u32(go, 1);
    stage.machine.run();
    assert_eq!((stage.index(), u64::from(stage.machine.u32(stage.counter))), (SLOTS + 11, SLOTS + 10));
}

/// What a program does, and what happens to its queue.
#[derive(Clone, Copy, Debug)]
enum Act {
    Count {
        ordered: bool,
    },
    Spin,
    /// Lets the oldest kernel that spins end.
    Go,
    Wait,
    /// Fires the signal of the oldest wait.
    Fire,
    Turns(u8),
    Save,
    Restore,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => any::<bool>().prop_map(|ordered| Act::Count { ordered }),
        2 => Just(Act::Spin),
        3 => Just(Act::Go),
        2 => Just(Act::Wait),
        3 => Just(Act::Fire),
        8 => (0_u8..40).prop_map(Act::Turns),
        2 => Just(Act::Save),
        4 => Just(Act::Restore),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_the_index_shows_each_packet_is_executed_once(
        kind in prop::sample::select(&KINDS[..]),
        acts in prop::collection::vec(act(), 1..150),
    ) {
        let mut stage = Stage::new(kind, 3);
        let (mut spins, mut waits, mut counts, mut saved) = (Vec::new(), Vec::new(), 0, false);
        let mut highest = 0;
        for act in acts {
            let written = stage.machine.u64(stage.queue.write);
            let room = written - stage.index() < SLOTS;
            match act {
                Act::Count { ordered } if room => {
                    counts += 1;
                    stage.submit_count(ordered, 0);
                }
                Act::Spin if room && spins.len() < 8 => spins.push(stage.submit_spin(0)),
                Act::Go if !spins.is_empty() => stage.machine.set_u32(spins.remove(0), 1),
                Act::Wait if room && waits.len() < 8 => {
                    waits.push(stage.machine.signal(1, None));
                    stage.submit_wait(waits[waits.len() - 1]);
                }
                Act::Fire if !waits.is_empty() => stage.machine.set_u64(waits.remove(0) + AmdSignal::VALUE, 0),
                Act::Turns(turns) => (0..turns).for_each(|_| {
                    stage.machine.worker.turn(&stage.machine.device);
                }),
                Act::Save => {
                    stage.save();
                    saved = true;
                }
                Act::Restore if saved => {
                    stage.restore();
                    saved = false;
                }
                _ => {}
            }
            let index = stage.index();
            prop_assert!(index <= stage.machine.u64(stage.queue.write));
            prop_assert!(stage.machine.u64(stage.queue.write) - index <= SLOTS, "more than the ring holds");
            if kind != ReadIndexKind::FetchRewoundAtSave {
                prop_assert!(index >= highest, "it only grows");
            }
            highest = highest.max(index);
        }
        stage.restore();
        spins.iter().for_each(|go| stage.machine.set_u32(*go, 1));
        waits.iter().for_each(|signal| stage.machine.set_u64(signal + AmdSignal::VALUE, 0));
        stage.machine.run();
        prop_assert!(!stage.machine.stopped(&stage.queue));
        prop_assert_eq!(stage.machine.u32(stage.counter), counts);
        prop_assert_eq!(stage.index(), stage.machine.u64(stage.queue.write));
    }
}
