//! Tokens: how the processors' time is shared.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::super::lock::Holder;
use super::*;

/// One token, and processes that occupy so many waves.
fn with_waves(waves: &[u32]) -> (Arc<Chip>, Vec<ProcessSlot>) {
    let (chip, _file) = Chip::create(Geometry::cdna(64, 1), 1, 1).expect("shared memory");
    let chip = Arc::new(chip);
    let processes = waves
        .iter()
        .map(|&count| {
            let (process, slots) = new_process(&chip);
            let one = Need { waves: 1, ..QUARTER };
            assert_eq!((0..count).filter_map(|_| slots.take(&medium(one))).count(), count as usize);
            process
        })
        .collect();
    (chip, processes)
}

fn attempt(chip: &Chip, process: ProcessSlot, waiting: &mut bool, now: u64) -> Option<usize> {
    let token = chip.lock_tokens(Holder::Process(process), None).expect("the lock").take(process, *waiting, now);
    *waiting = token.is_none();
    token
}

/// Lets all run for `slices` milliseconds, each asking whenever it does not hold the token; slices of each.
fn share(chip: &Chip, processes: &[ProcessSlot], slices: u64, from: u64) -> Vec<u64> {
    let mut waiting = vec![false; processes.len()];
    let mut had = vec![0; processes.len()];
    for n in 0..slices {
        let now = from + n * 1_000_000;
        let tokens: Vec<_> = processes
            .iter()
            .zip(&mut waiting)
            .map(|(&process, waiting)| attempt(chip, process, waiting, now))
            .collect();
        // The process that asks first may have to leave it to one later in the list, which then gets it at its turn.
        let (winner, token) = tokens.iter().enumerate().find_map(|(n, token)| Some((n, (*token)?))).expect("a winner");
        had[winner] += 1;
        let locked = chip.lock_tokens(Holder::Process(processes[winner]), None).expect("the lock");
        locked.release(processes[winner], token, now + 1_000_000);
    }
    had
}

#[test]
fn time_goes_by_occupied_waves() {
    let (chip, processes) = with_waves(&[100, 300, 200]);
    let had = share(&chip, &processes, 600, 1);
    for (had, expected) in had.iter().zip([100_u64, 300, 200]) {
        assert!(had.abs_diff(expected) <= 5, "{had} slices of {expected}");
    }
}

#[test]
fn who_was_idle_gets_no_time_in_advance() {
    let (chip, processes) = with_waves(&[10, 10]);
    let alone = share(&chip, &processes[..1], 1000, 1);
    assert_eq!(alone, [1000]);
    let had = share(&chip, &processes, 100, 1_000_000_000);
    assert!(had[0].abs_diff(had[1]) <= 2, "{had:?}");
}

#[test]
fn a_long_time_alone_is_not_held_against_anybody() {
    let (chip, processes) = with_waves(&[10, 10]);
    let mut waiting = [false; 2];
    let token = attempt(&chip, processes[0], &mut waiting[0], 1).expect("it is free");
    let late = 10_000_000_000;
    assert_eq!(attempt(&chip, processes[1], &mut waiting[1], late), None);
    let locked = chip.lock_tokens(Holder::Process(processes[0]), None).expect("the lock");
    locked.release(processes[0], token, late + 1);
    drop(locked);
    let token = attempt(&chip, processes[1], &mut waiting[1], late + 2).expect("its turn");
    let locked = chip.lock_tokens(Holder::Process(processes[1]), None).expect("the lock");
    locked.release(processes[1], token, late + 3);
    drop(locked);
    let had = share(&chip, &processes, 100, late + 4);
    assert!(had[0].abs_diff(had[1]) <= 2, "{had:?}");
}

#[test]
fn a_free_token_is_not_kept_for_one_that_does_not_come() {
    let (chip, processes) = with_waves(&[1, 1]);
    let mut waiting = [false; 2];
    let token = attempt(&chip, processes[0], &mut waiting[0], 1).expect("it is free");
    assert_eq!(attempt(&chip, processes[1], &mut waiting[1], 2), None);
    chip.lock_tokens(Holder::Process(processes[0]), None).expect("the lock").release(processes[0], token, 1_000_000);
    assert_eq!(attempt(&chip, processes[0], &mut waiting[0], 1_000_001), None, "the other has had less");
    assert!(attempt(&chip, processes[0], &mut waiting[0], 100_000_000).is_some());
}

#[test]
fn a_slice_ends_only_when_another_process_waits() {
    static NOW: AtomicU64 = AtomicU64::new(1);
    let (mut chip, _file) = Chip::create(Geometry::cdna(1, 1), 1, 1).expect("shared memory");
    chip.clock = || NOW.load(Ordering::SeqCst);
    let (one, two) = (chip.add_process().expect("a free slot"), chip.add_process().expect("a free slot"));
    let guard = chip.acquire(one, None, || true).expect("it is free");
    NOW.fetch_add(5_000_000, Ordering::SeqCst);
    assert!(!guard.should_yield(), "no other process waits");
    drop(guard);
    let guard = chip.acquire(one, None, || true).expect("it is free");
    assert_eq!(attempt(&chip, two, &mut false, NOW.load(Ordering::SeqCst)), None);
    assert!(!guard.should_yield(), "the slice has begun just now");
    NOW.fetch_add(1_000_000, Ordering::SeqCst);
    assert!(guard.should_yield());
    drop(guard);
    assert!(chip.acquire(one, None, || true).is_none() && chip.acquire(two, None, || true).is_some());
}

#[test]
fn tokens_are_never_held_by_more_than_there_are() {
    const ROUNDS: u32 = 400;
    let (chip, _file) = chip(1);
    let processes = [(); 3].map(|()| chip.add_process().expect("a free slot"));
    let (holders, most) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for process in &processes {
            // Two workers each.
            for _ in 0..2 {
                scope.spawn(|| {
                    (0..ROUNDS).for_each(|_| {
                        let guard = chip.acquire(*process, None, || false).expect("no worker gives up");
                        most.fetch_max(holders.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        holders.fetch_sub(1, Ordering::SeqCst);
                        drop(guard);
                    });
                });
            }
        }
    });
    assert_eq!((most.load(Ordering::SeqCst), holders.load(Ordering::SeqCst)), (2, 0));
}

#[test]
fn the_workers_of_one_process_hold_all_tokens_at_once() {
    for tokens in [1, 2, 7, 64] {
        let (chip, _file) = Chip::create(Geometry::cdna(64, 1), 1, tokens).expect("shared memory");
        let process = chip.add_process().expect("a free slot");
        // A worker that gives up shows that no token is left.
        let guards: Vec<_> = std::iter::from_fn(|| chip.acquire(process, None, || true)).collect();
        assert_eq!((guards.len(), chip.tokens_held()), (tokens as usize, tokens));
    }
}

#[test]
fn a_process_that_gives_up_waits_no_more() {
    let (chip, processes) = with_waves(&[1, 1]);
    let guard = chip.acquire(processes[0], None, || true).expect("it is free");
    assert!(chip.acquire(processes[1], None, || true).is_none());
    assert!(super::super::waiting::members(&chip.token_words().waiting).next().is_none());
    chip.release_process(processes[0]);
    assert!(chip.acquire(processes[1], None, || true).is_some(), "the token of a dead process is free");
    std::mem::forget(guard);
}

#[test]
fn a_process_with_other_work_waits_for_a_token_only_until_its_deadline() {
    let (chip, _file) = chip(1);
    let processes: Vec<_> = (0..2).map(|_| chip.add_process().expect("a free slot")).collect();
    let held: Vec<_> = (0..2).filter_map(|_| chip.acquire(processes[0], None, || true)).collect();
    assert_eq!(held.len(), 2);
    let until = std::time::Instant::now() + std::time::Duration::from_micros(100);
    assert!(chip.acquire(processes[1], Some(until), || false).is_none());
    assert!(std::time::Instant::now() >= until);
    drop(held);
    assert!(chip.acquire(processes[1], Some(until), || false).is_some(), "one that is free is taken all the same");
}
