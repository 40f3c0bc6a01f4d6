//! A process as the hardware scheduler deals with it: the engines that carry out its orders.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::control::{Answer, Control, Numbered, Order};
use crate::device::chip::{Chip, SeatId};
use crate::driver::ProcessKey;
use crate::sys;

/// How often somebody who waits for engines looks whether they still live.
const LOOK: Duration = Duration::from_millis(1);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The process is gone, or its engines are.
    Gone,
    /// It takes too long.
    Late,
}

/// The engines of one process.
pub(super) struct Seat {
    pub(super) process: ProcessKey,
    pub(super) control: Control,
    chip: Arc<Chip>,
    pub(super) number: SeatId,
    /// Closes when the process and its engines are gone.
    stream: UnixStream,
    gone: AtomicBool,
    /// What it had on the chip is given back.
    released: AtomicBool,
    numbers: AtomicU64,
    rings: AtomicU64,
    /// Held while orders are written: there is one writer.
    writing: Mutex<()>,
    /// Answers that somebody else waits for.
    answers: Mutex<HashMap<u64, Answer>>,
}

impl Seat {
    /// A seat for a process; `None` if all are taken.
    pub(super) fn new(process: ProcessKey, control: Control, stream: UnixStream, chip: &Arc<Chip>) -> Option<Self> {
        let number = chip.add_seat()?;
        Some(Self {
            process,
            control,
            chip: Arc::clone(chip),
            number,
            stream,
            gone: AtomicBool::new(false),
            released: AtomicBool::new(false),
            numbers: AtomicU64::new(Numbered::UNANSWERED + 1),
            rings: AtomicU64::new(0),
            writing: Mutex::new(()),
            answers: Mutex::default(),
        })
    }

    /// A doorbell of the process was rung.
    pub(super) fn ring(&self) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    /// How often doorbells of the process were rung, as far as anybody has noticed.
    pub(super) fn rings(&self) -> u64 {
        self.rings.load(Ordering::SeqCst)
    }

    /// Tells the engines to look for work.
    pub(super) fn wake(&self) {
        self.chip.wake(self.number);
    }

    /// Whether nobody will carry out orders any more.
    pub(super) fn is_gone(&self) -> bool {
        if self.gone.load(Ordering::SeqCst) {
            return true;
        }
        let mut poll = libc::pollfd { fd: self.stream.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: one structure, no waiting.
        unsafe { libc::poll(&raw mut poll, 1, 0) };
        let hung_up = poll.revents & (libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR) != 0;
        let gone = hung_up || self.control.is_lost();
        if gone {
            self.gone.store(true, Ordering::SeqCst);
        }
        gone
    }

    /// Gives an order; its number.
    ///
    /// # Errors
    /// If nobody is there to take it.
    pub(super) fn order(&self, what: Order) -> Result<u64, NoAnswer> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.give(Numbered { number, what }).map(|()| number)
    }

    /// Gives an order whose answer nobody waits for.
    ///
    /// # Errors
    /// If nobody is there to take it.
    pub(super) fn tell(&self, what: Order) -> Result<(), NoAnswer> {
        self.give(Numbered { number: Numbered::UNANSWERED, what })
    }

    fn give(&self, order: Numbered<Order>) -> Result<(), NoAnswer> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.control.order(&order) {
            if self.is_gone() {
                return Err(NoAnswer::Gone);
            }
            std::thread::sleep(LOOK);
        }
        self.wake();
        Ok(())
    }

    /// Waits for the answer to an order.
    ///
    /// # Errors
    /// If it does not come, and why.
    pub(super) fn wait(&self, number: u64, deadline: Instant) -> Result<Answer, NoAnswer> {
        loop {
            let seen = self.control.answered();
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                match self.control.take_answer() {
                    Ok(Some(answer)) => {
                        answers.insert(answer.number, answer.what);
                    }
                    Ok(None) => break,
                    Err(_) => {
                        self.gone.store(true, Ordering::SeqCst);
                        return Err(NoAnswer::Gone);
                    }
                }
            }
            if let Some(answer) = answers.remove(&number) {
                return Ok(answer);
            }
            drop(answers);
            if self.is_gone() {
                return Err(NoAnswer::Gone);
            }
            if Instant::now() >= deadline {
                return Err(NoAnswer::Late);
            }
            self.control.wait_for_answer(seen, LOOK);
        }
    }

    /// Gives an order and waits until it is carried out.
    ///
    /// # Errors
    /// As [`Seat::order`] and [`Seat::wait`].
    pub(super) fn ask(&self, what: Order, limit: Duration) -> Result<Answer, NoAnswer> {
        let number = self.order(what)?;
        self.wait(number, Instant::now() + limit)
    }
}

/// How long engine processes may take to end when their client has.
const ENDING: Duration = Duration::from_secs(2);

impl Seat {
    /// Waits until the process is gone, and gives back what it had on the chip. This depends on nobody: whoever waits for
    /// engines of others may wait for a lock that this process died with.
    pub(super) fn watch(&self) {
        let process = sys::pidfd(self.process.pid);
        // One that cannot be watched has ended.
        if let Ok(process) = &process {
            sys::wait_for_either(process.as_fd(), self.stream.as_fd());
        }
        self.release();
    }

    /// Gives back what the process had on the chip. Its engines have ended by now, or are about to.
    fn release(&self) {
        if self.released.swap(true, Ordering::SeqCst) {
            return;
        }
        self.gone.store(true, Ordering::SeqCst);
        self.chip.close(self.number);
        let until = Instant::now() + ENDING;
        while self.chip.workers(self.number).any(is_engine) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        self.chip.release_seat(self.number);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.release();
    }
}

/// Whether a process is an engine that has not ended: its number may have gone to somebody else, and whoever inherited it
/// may be slow to notice its end.
fn is_engine(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parts = stat.split_once(" (").and_then(|(_, rest)| rest.rsplit_once(") "));
    parts.is_some_and(|(name, rest)| name == crate::engine::NAME && !rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::device::Geometry;

    #[test]
    fn the_place_of_a_dead_process_is_free_while_others_still_deal_with_it() {
        let (chip, _file) = Chip::create(Geometry::cdna(8, 1), 1, 1).expect("memory");
        let chip = Arc::new(chip);
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a process");
        let key = ProcessKey { pid: child.id(), start: 0 };
        // Somebody may have inherited the connection: the process's end must do.
        let (ours, _theirs) = UnixStream::pair().expect("sockets");
        let (control, _page) = Control::new().expect("a page");
        let seat = Arc::new(Seat::new(key, control, ours, &chip).expect("room"));
        let watched = Arc::clone(&seat);
        let watcher = std::thread::spawn(move || watched.watch());
        assert!(chip.is_live(seat.number) && !seat.is_gone());
        child.kill().expect("can be killed");
        watcher.join().expect("ends");
        assert!(!chip.is_live(seat.number) && seat.is_gone());
        child.wait().expect("ends");
        // The place may have gone to somebody else by the time the last one lets go.
        let next = chip.add_seat().expect("room");
        assert_eq!(next.number(), seat.number.number());
        drop(seat);
        assert!(chip.is_live(next));
    }
}
