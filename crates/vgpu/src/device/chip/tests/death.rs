//! Processes that are killed at any time.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::crash;
use super::*;
use crate::sys::{self, Map};

/// What a process does until it dies.
fn live(chip: &Chip, slots: &ChipSlots, process: ProcessSlot) {
    let places: Vec<_> = (0..3).filter_map(|_| slots.take(&medium(QUARTER))).collect();
    slots.wait(Some(&medium(Need { waves: 16, vgprs: 128, ..QUARTER })));
    if let Some(guard) = chip.acquire(process, None, || true) {
        std::hint::black_box(&guard);
    }
    places.iter().for_each(|place| slots.give(place));
    slots.wait(None);
}

#[test]
fn death_at_any_change_leaves_nothing() {
    let mut died = 0;
    for changes in 0.. {
        let (chip, _file) = chip(2);
        let (survivor, its) = new_process(&chip);
        let place = its.take(&medium(QUARTER)).expect("there is room");
        let (process, slots) = new_process(&chip);
        let ended = crash::after(changes, || live(&chip, &slots, process));
        chip.release_process(process);
        check(&chip, &[survivor]).expect("consistent");
        assert_eq!(chip.occupancy(0), 8, "died before change {changes}");
        let tokens: Vec<_> = (0..3).filter_map(|_| chip.acquire(survivor, None, || true)).collect();
        assert_eq!(tokens.len(), 2, "died before change {changes}");
        its.give(&place);
        assert_eq!(std::iter::from_fn(|| its.take(&medium(QUARTER))).count(), 8);
        assert_eq!(chip.add_process(), Some(process));
        if ended {
            break;
        }
        died += 1;
    }
    assert!(died > 50, "only {died} changes were tried");
}

/// The process that repairs dies, too.
#[test]
fn death_during_the_repair_is_repaired() {
    for changes in 0..200 {
        let (chip, _file) = chip(2);
        let (survivor, its) = new_process(&chip);
        its.take(&medium(QUARTER)).expect("there is room");
        let (process, slots) = new_process(&chip);
        let (helper, helping) = new_process(&chip);
        slots.take(&medium(QUARTER)).expect("there is room");
        // It died, and the supervisor could not repair because it did not get the lock.
        chip.process(process).state.store(super::super::process_slot::DYING, Ordering::SeqCst);
        chip.gpu(0).expect("a gpu").lock.damage();
        let ended = crash::after(changes, || assert!(helping.take(&medium(QUARTER)).is_some()));
        chip.release_process(helper);
        check(&chip, &[survivor]).expect("consistent");
        assert_eq!(chip.occupancy(0), 8);
        if ended {
            return;
        }
    }
    panic!("a repair has fewer changes than that");
}

#[test]
fn killed_processes_leave_nothing() {
    const ROUNDS: u64 = 500;
    let (chip, file) = chip(2);
    let (survivor, its) = new_process(&chip);
    let page = sys::memfd("progress", 4096).expect("a file");
    let page = Map::new(page.as_fd(), 0, 4096).expect("a mapping");
    page.inherit();
    // SAFETY: an aligned word of the page, which is only accessed through atomics and outlives the loop.
    let progress = unsafe { &*page.start().cast::<AtomicU64>() };
    let mut worst = 0;
    for round in 0..ROUNDS {
        let process = chip.add_process().expect("a free slot");
        progress.store(0, Ordering::SeqCst);
        // SAFETY: the child does nothing but work on its own mapping and memory of its own until it is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let Ok(own) = Chip::open(file.as_fd()) else {
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(1) }
            };
            let own = Arc::new(own);
            let Some(slots) = ChipSlots::new(Arc::clone(&own), process, 0) else {
                // SAFETY: ends the child without running handlers that it inherited.
                unsafe { libc::_exit(1) }
            };
            loop {
                live(&own, &slots, process);
                progress.fetch_add(1, Ordering::SeqCst);
            }
        }
        assert!(child > 0, "no process");
        // The survivor works meanwhile, until the other has done something; then it dies wherever it is.
        while progress.load(Ordering::SeqCst) <= round % 7 {
            if let Some(place) = its.take(&medium(QUARTER)) {
                its.give(&place);
            }
            std::thread::yield_now();
            let mut status = 0;
            // SAFETY: one number is written.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) }, 0, "the child ended");
        }
        (0..round * 37 % 1000).for_each(|_| std::hint::spin_loop());
        // SAFETY: the process is our child and was not waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        worst = worst.max(chip.occupancy_of(process, 0));
        chip.release_process(process);
        check(&chip, &[survivor]).expect("consistent");
        assert_eq!(chip.occupancy(0), 0);
        let tokens: Vec<_> = (0..3).filter_map(|_| chip.acquire(survivor, None, || true)).collect();
        assert_eq!(tokens.len(), 2);
    }
    assert!(worst > 0, "no process ever died with room on the device");
}

/// A survivor holds the lock of the tokens for so long that the supervisor leaves the repair to others.
#[test]
fn the_slot_of_a_dead_process_is_not_reused_while_it_holds_a_token() {
    let (chip, _file) = chip(2);
    let (survivor, _its) = new_process(&chip);
    let (process, _slots) = new_process(&chip);
    std::mem::forget(chip.acquire(process, None, || true).expect("it is free"));
    let locked = chip.lock_tokens(super::super::lock::Holder::Process(survivor), None).expect("it is free");
    chip.release_process(process);
    let next = chip.add_process().expect("a free slot");
    assert_ne!(next, process);
    drop(locked);
    let tokens: Vec<_> = (0..3).filter_map(|_| chip.acquire(next, None, || true)).collect();
    assert_eq!(tokens.len(), 2);
    assert_eq!(chip.add_process(), Some(process));
}

#[test]
fn a_death_during_a_repair_is_repaired_by_the_next_holder() {
    use super::super::lock::Holder;
    let (chip, _file) = chip(2);
    let lock = &chip.gpu(0).expect("a gpu").lock;
    lock.damage();
    let mut guard = lock.lock(&chip, Holder::Supervisor, None).expect("it is free");
    assert!(guard.is_damaged());
    lock.damage();
    guard.repaired();
    drop(guard);
    let mut guard = lock.lock(&chip, Holder::Supervisor, None).expect("it is free");
    assert!(guard.is_damaged());
    guard.repaired();
    drop(guard);
    assert!(!lock.lock(&chip, Holder::Supervisor, None).expect("it is free").is_damaged());
}

/// No process is left that could repair later.
#[test]
fn processes_that_end_at_the_same_time_leave_nothing() {
    const PROCESSES: usize = 32;
    let (chip, _file) = chip(304);
    for round in 0..3 {
        let processes: Vec<_> = (0..PROCESSES).map(|_| new_process(&chip)).collect();
        for (_, slots) in &processes {
            slots.take(&medium(QUARTER)).expect("there is room");
        }
        let tokens = processes.iter().filter_map(|(process, _)| chip.acquire(*process, None, || true));
        tokens.for_each(std::mem::forget);
        std::thread::scope(|scope| {
            for (process, _) in &processes {
                scope.spawn(|| chip.release_process(*process));
            }
        });
        let left = (chip.occupancy(0), chip.tokens_held(), chip.processes());
        assert_eq!(left, (0, 0, 0), "round {round}");
        check(&chip, &[]).expect("consistent");
    }
}
