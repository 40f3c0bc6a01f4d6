//! Wake words.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn who_was_woken_before_does_not_sleep() {
    let (chip, _file) = chip(1);
    let (seat, _) = process(&chip);
    chip.wake(seat);
    let mut asked = false;
    chip.sleep(seat, LONG, || {
        asked = true;
        true
    });
    assert!(!asked, "it knows already that there is something");
    chip.sleep(seat, LONG, || false);
}

#[test]
fn every_ring_is_noticed() {
    const RINGS: u32 = 2000;
    let (chip, _file) = chip(1);
    let (seat, _) = process(&chip);
    let (rung, noticed) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=RINGS {
                rung.store(n, Ordering::SeqCst);
                chip.wake(seat);
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
                chip.sleep(seat, LONG, || rung.load(Ordering::SeqCst) == n);
            }
        }
    });
}

#[test]
fn words_of_a_seat_start_anew() {
    let (chip, _file) = chip(1);
    let (seat, _) = process(&chip);
    assert!(chip.register_worker(seat, 11) && chip.register_worker(seat, 12) && !chip.register_worker(seat, 0));
    assert_eq!(chip.workers(seat).collect::<Vec<_>>(), [11, 12]);
    chip.mail(seat).fetch_add(3, Ordering::SeqCst);
    chip.sdma_us(seat).fetch_add(5, Ordering::SeqCst);
    chip.spare(seat)[15].store(7, Ordering::SeqCst);
    chip.close(seat);
    assert!(chip.is_closed(seat));
    chip.release_seat(seat);
    assert_eq!(chip.add_seat(), Some(seat));
    assert_eq!(chip.workers(seat).count(), 0);
    assert_eq!(chip.mail(seat).load(Ordering::SeqCst), 0);
    assert_eq!(chip.sdma_us(seat).load(Ordering::SeqCst) + chip.spare(seat)[15].load(Ordering::SeqCst), 0);
    assert!(!chip.is_closed(seat));
    assert_eq!((1..=65).filter(|&pid| chip.register_worker(seat, pid)).count(), 64);
}
