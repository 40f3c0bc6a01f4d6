//! Wake words.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn who_was_woken_before_does_not_sleep() {
    let (chip, _file) = chip(1);
    let (process, _) = new_process(&chip);
    chip.wake(process);
    let mut asked = false;
    chip.sleep(process, LONG, || {
        asked = true;
        true
    });
    assert!(!asked, "it knows already that there is something");
    chip.sleep(process, LONG, || false);
}

#[test]
fn every_ring_is_noticed() {
    const RINGS: u32 = 2000;
    let (chip, _file) = chip(1);
    let (process, _) = new_process(&chip);
    let (rung, noticed) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=RINGS {
                rung.store(n, Ordering::SeqCst);
                chip.wake(process);
                while noticed.load(Ordering::SeqCst) < n {
                    std::thread::yield_now();
                }
            }
        });
        while noticed.load(Ordering::SeqCst) < RINGS {
            let n = rung.load(Ordering::SeqCst);
            if n > noticed.load(Ordering::SeqCst) {
                noticed.store(n, Ordering::SeqCst);
            } else {
                chip.sleep(process, LONG, || rung.load(Ordering::SeqCst) == n);
            }
        }
    });
}

#[test]
fn words_of_a_process_slot_start_anew() {
    let (chip, _file) = chip(1);
    let (process, _) = new_process(&chip);
    assert!(
        chip.register_worker(process, 11) && chip.register_worker(process, 12) && !chip.register_worker(process, 0)
    );
    assert_eq!(chip.workers(process).collect::<Vec<_>>(), [11, 12]);
    chip.process(process).token_waiters.store(3, Ordering::SeqCst);
    chip.process(process).virtual_time.store(5, Ordering::SeqCst);
    chip.close(process);
    assert!(chip.is_closed(process));
    chip.release_process(process);
    assert_eq!(chip.add_process(), Some(process));
    assert_eq!(chip.workers(process).count(), 0);
    assert_eq!(chip.process(process).token_waiters.load(Ordering::SeqCst), 0);
    assert_eq!(chip.process(process).virtual_time.load(Ordering::SeqCst), 0);
    assert!(!chip.is_closed(process));
    assert_eq!((1..=65).filter(|&pid| chip.register_worker(process, pid)).count(), 64);
}
