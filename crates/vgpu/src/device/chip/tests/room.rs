//! Taking and giving by several processes.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::super::super::cu_mask::CuMask;
use super::*;

#[test]
fn processes_share_what_there_is() {
    let (chip, file) = chip(2);
    let (first, one) = new_process(&chip);
    let (second, two) = new_process(&chip);
    assert_ne!(first, second);
    // The second process maps the memory on its own.
    let other = Arc::new(Chip::open(file.as_fd()).expect("the same memory"));
    assert_eq!((other.geometry(), other.gpus(), other.tokens()), (chip.geometry(), 2, 2));
    let two_there = ChipSlots::new(Arc::clone(&other), second, 0).expect("a gpu");
    let places: Vec<_> = std::iter::from_fn(|| one.take(&medium(QUARTER))).take(3).collect();
    let others: Vec<_> = std::iter::from_fn(|| two_there.take(&medium(QUARTER))).collect();
    assert_eq!((places.len(), others.len()), (3, 5));
    assert_eq!((chip.occupancy(0), chip.occupancy_of(first, 0), chip.occupancy_of(second, 0)), (64, 24, 40));
    assert_eq!(chip.occupancy(1), 0);
    places.iter().for_each(|place| one.give(place));
    others.iter().for_each(|place| two.give(place));
    check(&chip, &[first, second]).expect("consistent");
    assert_eq!(chip.occupancy(0), 0);
}

#[test]
fn sizes_out_of_range_are_refused() {
    let size = Geometry::cdna(2, 1);
    for (size, gpus, tokens) in [
        (Geometry { cus: 0, ..size }, 1, 1),
        (Geometry { cus: 1025, ..size }, 1, 1),
        (Geometry { lds: 1 << 20, ..size }, 1, 1),
        (size, 0, 1),
        (size, 1, 0),
        (size, 1, 65),
    ] {
        assert!(Chip::create(size, gpus, tokens).is_err(), "{size:?} {gpus} {tokens}");
    }
    let (chip, _file) = chip(1);
    let process = chip.add_process().expect("a free slot");
    assert!(ChipSlots::new(Arc::clone(&chip), process, 2).is_none() && ProcessSlot::new(256).is_none());
    assert_eq!((chip.occupancy(9), chip.occupancy_of(process, 9)), (0, 0));
}

#[test]
fn a_file_that_is_something_else_is_refused() {
    for size in [0, 8, 4096, 1 << 20] {
        let file = crate::sys::memfd("other", size).expect("a file");
        assert!(Chip::open(file.as_fd()).is_err());
    }
}

#[test]
fn process_slots_come_back_and_run_out() {
    let (chip, _file) = chip(1);
    let processes: Vec<_> = std::iter::from_fn(|| chip.add_process()).collect();
    assert_eq!(processes.len(), 256);
    chip.release_process(processes[7]);
    chip.release_process(processes[7]);
    assert!(!chip.is_live(processes[7]));
    assert_eq!((chip.add_process(), chip.add_process()), (Some(processes[7]), None));
}

#[test]
fn a_closed_process_gets_nothing() {
    let (chip, _file) = chip(1);
    let (process, slots) = new_process(&chip);
    chip.close(process);
    assert!(slots.take(&medium(QUARTER)).is_none() && chip.acquire(process, None, || false).is_none());
}

#[test]
fn masks_count_here_too() {
    let (chip, _file) = chip(8);
    let (_, slots) = new_process(&chip);
    let mask = CuMask::of_dwords(&[0b1010_0000]);
    let masked = SlotRequest { allowed: Some(&mask), ..medium(QUARTER) };
    let units: Vec<_> = std::iter::from_fn(|| slots.take(&masked)).map(|place| place.cu).collect();
    assert_eq!(units.len(), 8);
    assert!(units.iter().all(|cu| [5, 7].contains(cu)));
    assert!(slots.take(&medium(QUARTER)).is_some());
}

/// What a process does in a random history.
#[derive(Clone, Copy, Debug)]
enum Act {
    Take { process: usize, waves: u32, vgprs: u32, lds: u32, class: u32 },
    Give { process: usize, which: usize },
    Wait { process: usize, waves: u32 },
    Die { process: usize },
    Scribble { word: usize, value: u64 },
}

fn act(scribbles: bool) -> impl Strategy<Value = Act> {
    let process = 0..4_usize;
    prop_oneof![
        8 => (process.clone(), 1..17_u32, 8..200_u32, 0..40_000_u32, 0..16_u32)
            .prop_map(|(process, waves, vgprs, lds, class)| Act::Take { process, waves, vgprs, lds, class }),
        6 => (process.clone(), 0..64_usize).prop_map(|(process, which)| Act::Give { process, which }),
        2 => (process.clone(), 0..17_u32).prop_map(|(process, waves)| Act::Wait { process, waves }),
        1 => process.prop_map(|process| Act::Die { process }),
        if scribbles { 4 } else { 0 } =>
            (0..100_000_usize, any::<u64>()).prop_map(|(word, value)| Act::Scribble { word, value }),
    ]
}

/// Plays a history; `after` is asked after each act.
fn play(acts: &[Act], mut after: impl FnMut(&Chip, &[ProcessSlot])) {
    let (chip, _file) = chip(3);
    let mut players: Vec<_> = (0..4).map(|_| (new_process(&chip), Vec::new())).collect();
    for act in acts {
        match *act {
            Act::Take { process, waves, vgprs, lds, class } => {
                let ((_, slots), places) = &mut players[process];
                let need = Need { waves, vgprs, sgprs: 16, lds };
                places.extend(slots.take(&request(need, PriorityClass::of_priority(class))));
            }
            Act::Give { process, which } => {
                let ((_, slots), places) = &mut players[process];
                if !places.is_empty() {
                    slots.give(&places.swap_remove(which % places.len()));
                }
            }
            Act::Wait { process, waves } => {
                let best = medium(Need { waves, ..QUARTER });
                players[process].0.1.wait(Some(&best).filter(|_| waves > 0));
            }
            Act::Die { process } => {
                chip.release_process(players[process].0.0);
                let Some(slot) = chip.add_process() else { return };
                let slots = ChipSlots::new(Arc::clone(&chip), slot, 0).expect("a gpu");
                players[process] = ((slot, slots), Vec::new());
            }
            Act::Scribble { word, value } => {
                let words = chip.part::<AtomicU64>(0, chip.map.length() / 8);
                // Not the locks: they would be waited for.
                let lock = chip.layout.gpu_words / 8..chip.layout.parts / 8;
                if !lock.contains(&word) {
                    words[word % words.len()].store(value, Ordering::Relaxed);
                }
            }
        }
        let processes: Vec<_> = players.iter().map(|player| player.0.0).collect();
        after(&chip, &processes);
    }
    for ((process, _), _) in &players {
        chip.release_process(*process);
    }
    after(&chip, &[]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_add_up_in_any_history(acts in prop::collection::vec(act(false), 1..120)) {
        let mut result = Ok(());
        play(&acts, |chip, processes| if result.is_ok() { result = check(chip, processes) });
        prop_assert_eq!(result, Ok(()));
    }

    #[test]
    fn nothing_that_lies_in_the_memory_makes_anybody_fail(acts in prop::collection::vec(act(true), 1..60)) {
        play(&acts, |_, _| {});
    }
}
