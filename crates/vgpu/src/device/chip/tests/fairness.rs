//! Which process gets room first.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::super::waiting::LATE;
use super::*;

#[test]
fn the_higher_class_has_room_first() {
    let (chip, _file) = patient_chip(1);
    let (_, low) = new_process(&chip);
    let (_, high) = new_process(&chip);
    let places: Vec<_> = std::iter::from_fn(|| low.take(&request(QUARTER, PriorityClass::Low))).collect();
    assert_eq!(places.len(), 4);
    let best = request(QUARTER, PriorityClass::High);
    assert!(high.take(&best).is_none());
    high.wait(Some(&best));
    low.give(&places[0]);
    assert!(low.take(&request(QUARTER, PriorityClass::Low)).is_none(), "it is kept for the other");
    assert!(high.take(&best).is_some());
    high.wait(None);
    low.give(&places[1]);
    assert!(low.take(&request(QUARTER, PriorityClass::Low)).is_some(), "no process waits any more");
}

#[test]
fn a_workgroup_that_does_not_fit_holds_up_no_process() {
    let (chip, _file) = patient_chip(1);
    let (_, small) = new_process(&chip);
    let (_, large) = new_process(&chip);
    let places: Vec<_> = std::iter::from_fn(|| small.take(&medium(QUARTER))).collect();
    let best = request(Need { waves: 16, ..QUARTER }, PriorityClass::High);
    large.wait(Some(&best));
    small.give(&places[0]);
    let again = small.take(&medium(QUARTER)).expect("half of what the other needs is no use to it");
    small.give(&places[1]);
    small.give(&again);
    assert!(small.take(&medium(QUARTER)).is_none(), "now it fits");
    assert!(large.take(&best).is_some());
}

#[test]
fn processes_of_a_class_take_turns() {
    let (chip, _file) = patient_chip(1);
    let players: Vec<_> = (0..3).map(|_| new_process(&chip)).collect();
    let first: Vec<_> = std::iter::from_fn(|| players[0].1.take(&medium(QUARTER))).collect();
    assert_eq!(first.len(), 4);
    let mut resident: std::collections::VecDeque<_> = first.into_iter().map(|place| (0, place)).collect();
    players.iter().for_each(|(_, slots)| slots.wait(Some(&medium(QUARTER))));
    let mut order = Vec::new();
    for _ in 0..12 {
        let (owner, place) = resident.pop_front().expect("the device is full");
        players[owner].1.give(&place);
        // The one that gave asks first, as its worker is awake.
        let asked = (0..3).map(|n| (owner + n) % 3);
        let (winner, place) =
            asked.filter_map(|n| Some((n, players[n].1.take(&medium(QUARTER))?))).next().expect("a winner");
        order.push(winner);
        resident.push_back((winner, place));
    }
    for three in order.chunks(3) {
        let mut three = three.to_vec();
        three.sort_unstable();
        assert_eq!(three, [0, 1, 2], "{order:?}");
    }
}

#[test]
fn dead_and_late_processes_hold_up_no_other() {
    static NOW: AtomicU64 = AtomicU64::new(1);
    let (mut chip, _file) = Chip::create(Geometry::cdna(1, 1), 1, 1).expect("shared memory");
    chip.clock = || NOW.load(Ordering::SeqCst);
    let chip = Arc::new(chip);
    let (_, one) = new_process(&chip);
    let (other, two) = new_process(&chip);
    let places: Vec<_> = std::iter::from_fn(|| one.take(&medium(QUARTER))).collect();
    two.wait(Some(&medium(QUARTER)));
    one.give(&places[0]);
    assert!(one.take(&medium(QUARTER)).is_none());
    chip.release_process(other);
    let again = one.take(&medium(QUARTER)).expect("the other has died");
    let (_, three) = new_process(&chip);
    three.wait(Some(&medium(QUARTER)));
    one.give(&again);
    assert!(one.take(&medium(QUARTER)).is_none());
    NOW.fetch_add(LATE, Ordering::SeqCst);
    assert!(one.take(&medium(QUARTER)).is_none());
    NOW.fetch_add(1, Ordering::SeqCst);
    assert!(one.take(&medium(QUARTER)).is_some(), "it did not come for what it was offered");
}

#[test]
fn waiting_processes_are_woken_and_none_starves() {
    const ROUNDS: u32 = 300;
    let (chip, _file) = chip(1);
    let done: Vec<_> = (0..4).map(|_| AtomicU32::new(0)).collect();
    let stuck = AtomicBool::new(false);
    let whole = Need { waves: 16, vgprs: 128, ..QUARTER };
    std::thread::scope(|scope| {
        for count in &done {
            let (chip, stuck) = (&chip, &stuck);
            scope.spawn(move || {
                let (process, slots) = new_process(chip);
                for _ in 0..ROUNDS {
                    let place = loop {
                        if let Some(place) = slots.take(&medium(whole)) {
                            break place;
                        }
                        slots.wait(Some(&medium(whole)));
                        let before = std::time::Instant::now();
                        chip.sleep(process, Duration::from_secs(60), || true);
                        stuck.fetch_or(before.elapsed() > Duration::from_secs(50), Ordering::Relaxed);
                    };
                    slots.wait(None);
                    count.fetch_add(1, Ordering::Relaxed);
                    slots.give(&place);
                }
                chip.release_process(process);
            });
        }
    });
    assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == ROUNDS));
    assert!(!stuck.load(Ordering::Relaxed), "a waiting process was not woken");
    assert_eq!(chip.occupancy(0), 0);
}
