//! The memory that the supervisor and the executors of one process share: how orders of the driver reach executors
//! while their program may be stopped.

mod orders;
mod ring;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::device::SaveCounters;
use crate::driver::Interrupt;
use crate::profile::MAX_GPUS;
use crate::sys::{self, Map};
pub(crate) use orders::{Answer, Departure, Numbered, Order};
pub(crate) use ring::Damaged;
use ring::Ring;

#[repr(C)]
struct Words {
    /// Orders ever written.
    ordered: AtomicU32,
    /// Orders ever taken.
    taken: AtomicU32,
    /// Answers ever written.
    answered: AtomicU32,
    /// Changes whenever a call that waits may go on.
    changes: AtomicU32,
    /// Not 0: the executors have given up.
    lost: AtomicU32,
    /// What was saved and restored on each gpu.
    preempted: [[AtomicU64; COUNTERS]; MAX_GPUS as usize],
    /// Time that the copies of each gpu took, in microseconds.
    copied_us: [AtomicU64; MAX_GPUS as usize],
    orders: Ring,
    answers: Ring,
    /// Interrupts ever written.
    interrupted: AtomicU32,
    interrupts: Ring,
}

const COUNTERS: usize = 7;

/// The control page of one client process.
#[derive(Debug)]
pub(crate) struct Control {
    map: Map,
    /// Held while an interrupt is written: the gpus of a process may raise them at the same time.
    raising: Mutex<()>,
}

const SIZE: usize = size_of::<Words>().next_multiple_of(4096);

impl Control {
    /// Creates a page and the file to share it by.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let file = sys::memfd("gpreempt-vgpu-control", SIZE as u64)?;
        Ok((Self::open(file.as_fd())?, file))
    }

    /// Opens the page of another process.
    ///
    /// # Errors
    /// If the file is too short to be one, and errors of the operating system.
    pub(crate) fn open(file: BorrowedFd<'_>) -> io::Result<Self> {
        if !sys::is_as_long_as(file, SIZE as u64) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { map: Map::new(file, 0, SIZE)?, raising: Mutex::default() })
    }

    fn words(&self) -> &Words {
        // SAFETY: the mapping is large enough, zero at first, and holds nothing but these atomics.
        unsafe { &*self.map.start().cast::<Words>() }
    }

    /// Writes an order; `false` if there is no room until the executors take others. The caller wakes them.
    ///
    /// # Errors
    /// If the memory holds nonsense.
    pub(crate) fn order(&self, order: &Numbered<Order>) -> Result<bool, Damaged> {
        let written = write(&self.words().orders, order)?;
        self.words().ordered.fetch_add(u32::from(written), Ordering::SeqCst);
        Ok(written)
    }

    /// Whether there are orders.
    pub(crate) fn has_orders(&self) -> bool {
        self.words().ordered.load(Ordering::Acquire) != self.words().taken.load(Ordering::Relaxed)
    }

    /// Takes an order. One executor at a time.
    ///
    /// # Errors
    /// If the memory holds nonsense.
    pub(crate) fn take_order(&self) -> Result<Option<Numbered<Order>>, Damaged> {
        let order = read(&self.words().orders)?;
        if order.is_some() {
            self.words().taken.fetch_add(1, Ordering::SeqCst);
        }
        Ok(order)
    }

    /// Answers an order. One executor at a time.
    pub(crate) fn answer(&self, answer: &Numbered<Answer>) -> bool {
        if write(&self.words().answers, answer) != Ok(true) {
            return false;
        }
        self.words().answered.fetch_add(1, Ordering::SeqCst);
        sys::wake(&self.words().answered);
        true
    }

    /// Takes an answer. One reader at a time.
    ///
    /// # Errors
    /// If the memory holds nonsense.
    pub(crate) fn take_answer(&self) -> Result<Option<Numbered<Answer>>, Damaged> {
        read(&self.words().answers)
    }

    /// Returns how many answers were ever written.
    pub(crate) fn answered(&self) -> u32 {
        self.words().answered.load(Ordering::SeqCst)
    }

    /// Sleeps until there are more than `seen` answers, at most `limit`.
    pub(crate) fn wait_for_answer(&self, seen: u32, limit: Duration) {
        sys::wait(&self.words().answered, seen, Some(limit));
    }

    /// Raises an interrupt. Without room for it, or if the driver has written nonsense, it is lost: the driver has not
    /// taken thousands of earlier ones.
    pub(crate) fn interrupt(&self, interrupt: &Interrupt) {
        let _raising = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        if write(&self.words().interrupts, interrupt) == Ok(true) {
            self.words().interrupted.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Returns how many interrupts were ever raised.
    pub(crate) fn interrupted(&self) -> u32 {
        self.words().interrupted.load(Ordering::SeqCst)
    }

    /// Takes an interrupt. One reader at a time.
    ///
    /// # Errors
    /// If the memory holds nonsense.
    pub(crate) fn take_interrupt(&self) -> Result<Option<Interrupt>, Damaged> {
        read(&self.words().interrupts)
    }

    /// Publishes what was saved and restored on a gpu.
    pub(crate) fn show_preempted(&self, gpu: usize, counters: &SaveCounters) {
        let SaveCounters { saves, restores, waves, bytes, landed, moved, storms } = *counters;
        if let Some(words) = self.words().preempted.get(gpu) {
            for (word, value) in words.iter().zip([saves, restores, waves, bytes, landed, moved, storms]) {
                word.store(value, Ordering::Relaxed);
            }
        }
    }

    /// Publishes how long the copies of a gpu took, in microseconds.
    pub(crate) fn show_copied(&self, gpu: usize, microseconds: u64) {
        if let Some(word) = self.words().copied_us.get(gpu) {
            word.store(microseconds, Ordering::Relaxed);
        }
    }

    /// Returns how long the copies of a gpu took, in microseconds.
    pub(crate) fn copied_us(&self, gpu: usize) -> u64 {
        self.words().copied_us.get(gpu).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Returns what was saved and restored on a gpu.
    pub(crate) fn preempted(&self, gpu: usize) -> SaveCounters {
        let words = self.words().preempted.get(gpu);
        let at = |n: usize| words.and_then(|words| words.get(n)).map_or(0, |word| word.load(Ordering::Relaxed));
        let [saves, restores, waves, bytes, landed, moved, storms] = std::array::from_fn(at);
        SaveCounters { saves, restores, waves, bytes, landed, moved, storms }
    }

    /// Marks the executors as having given up.
    pub(crate) fn lose(&self) {
        self.words().lost.store(1, Ordering::SeqCst);
    }

    /// Whether the executors have given up.
    pub(crate) fn is_lost(&self) -> bool {
        self.words().lost.load(Ordering::SeqCst) != 0
    }

    /// Lets blocked calls be retried.
    pub(crate) fn changed(&self) {
        self.words().changes.fetch_add(1, Ordering::SeqCst);
        sys::wake(&self.words().changes);
    }

    /// Returns how often blocked calls were let be retried.
    pub(crate) fn changes(&self) -> u32 {
        self.words().changes.load(Ordering::SeqCst)
    }

    /// Sleeps until something may have changed since `seen`, at most `limit`.
    pub(crate) fn wait_for_change(&self, seen: u32, limit: Duration) {
        sys::wait(&self.words().changes, seen, Some(limit));
    }
}

fn write(ring: &Ring, message: &impl Serialize) -> Result<bool, Damaged> {
    serde_json::to_vec(message).map_or(Ok(false), |bytes| ring.write(&bytes))
}

fn read<T: DeserializeOwned>(ring: &Ring) -> Result<Option<T>, Damaged> {
    match ring.read()? {
        Some(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|_| Damaged),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use kfd_abi::queue::MAX_QUEUES_PER_PROCESS;

    use super::*;
    use crate::driver::{SaveExtent, UnmappedQueue};

    #[test]
    fn the_most_queues_that_a_process_can_have_fit_into_an_answer() {
        let (control, _file) = Control::new().expect("a page");
        let saved = SaveExtent { waves: u32::MAX, bytes: u64::MAX, control_stack: u32::MAX, wave_state: u32::MAX };
        let queue =
            |id| UnmappedQueue { id, rptr: Some(u64::MAX), wptr: Some(u64::MAX), saved, written: true, idle: false };
        let departure = Departure { queues: (0..MAX_QUEUES_PER_PROCESS).map(queue).collect(), ..Departure::default() };
        assert!(control.answer(&Numbered { number: 1, what: Answer::Unmapped(departure.clone()) }));
        let answer = control.take_answer().expect("no nonsense").expect("there is one");
        assert_eq!(answer.what, Answer::Unmapped(departure));
    }
}
