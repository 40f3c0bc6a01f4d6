//! The supervisor's channel to one process: orders to its executors and their answers, its slot on the chip, its end.

use std::collections::HashMap;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linux_host::process::ProcStat;

use super::cgroup::{self, Adopted};
use crate::control::{Answer, Control, Damaged, Numbered, Order};
use crate::device::chip::{Chip, ProcessSlot};
use crate::driver::{Interrupt, ProcessKey};
use crate::sys::{self, PollFlags};

/// How often a thread that waits for executors checks whether they still live.
const LOOK: Duration = Duration::from_millis(1);

/// How long executors may leave no room for an order that is not answered.
const ROOM_LIMIT: Duration = Duration::from_secs(1);
/// Answers that are taken before the deadline is checked again.
const MOST_ANSWERS: usize = 1000;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The process has ended, or its executors have.
    Gone,
    /// The deadline has passed.
    Late,
}

/// The executors of one process.
pub(super) struct ProcessChannel {
    pub(super) process: ProcessKey,
    pub(super) control: Control,
    chip: Arc<Chip>,
    pub(super) slot: ProcessSlot,
    /// The process; none if it had exited when it attached.
    pidfd: Option<OwnedFd>,
    /// Closes when the process and its executors are gone.
    stream: UnixStream,
    gone: AtomicBool,
    /// Its slot on the chip has been released.
    released: AtomicBool,
    numbers: AtomicU64,
    rings: AtomicU64,
    /// Held while orders are written: there is one writer.
    writing: Mutex<()>,
    /// Answers that threads wait for, by the number of the order.
    answers: Mutex<HashMap<u64, Option<Answer>>>,
}

impl ProcessChannel {
    /// Creates the channel of a process; `None` if the chip has no free slot, or the supervisor no descriptor left with
    /// which it could watch the process.
    pub(super) fn new(process: ProcessKey, control: Control, stream: UnixStream, chip: &Arc<Chip>) -> Option<Self> {
        let pidfd = match sys::pidfd(process.pid) {
            Ok(pidfd) => Some(pidfd),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
            Err(_) => return None,
        };
        let slot = chip.add_process()?;
        Some(Self {
            process,
            control,
            chip: Arc::clone(chip),
            slot,
            pidfd,
            stream,
            gone: AtomicBool::new(false),
            released: AtomicBool::new(false),
            numbers: AtomicU64::new(Numbered::UNANSWERED + 1),
            rings: AtomicU64::new(0),
            writing: Mutex::new(()),
            answers: Mutex::default(),
        })
    }

    /// Notes that a doorbell of the process was rung and wakes its executors.
    pub(super) fn ring(&self) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    /// Returns how often doorbells of the process were seen to be rung.
    pub(super) fn rings(&self) -> u64 {
        self.rings.load(Ordering::SeqCst)
    }

    /// Wakes the executors, which look for work.
    pub(super) fn wake(&self) {
        self.chip.wake(self.slot);
    }

    /// Whether no executor will carry out orders any more.
    pub(super) fn is_gone(&self) -> bool {
        if self.gone.load(Ordering::SeqCst) {
            return true;
        }
        let state = sys::poll_now(self.stream.as_fd(), PollFlags::RDHUP);
        let hung_up = state.intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR);
        let gone = hung_up || self.control.is_lost();
        if gone {
            self.gone.store(true, Ordering::SeqCst);
        }
        gone
    }

    fn damaged(&self) -> NoAnswer {
        super::say(&format!("the order queue of process {} is damaged: the process loses its gpu", self.process.pid));
        self.gone.store(true, Ordering::SeqCst);
        NoAnswer::Gone
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<u64, Option<Answer>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an interrupt that the executors raised. One caller at a time.
    pub(super) fn take_interrupt(&self) -> Option<Interrupt> {
        match self.control.take_interrupt() {
            Ok(interrupt) => interrupt,
            Err(_) => {
                self.damaged();
                None
            }
        }
    }

    /// Posts an order that is not answered.
    ///
    /// # Errors
    /// If no executor takes it.
    pub(super) fn tell(&self, what: Order) -> Result<(), NoAnswer> {
        self.post(Numbered { number: Numbered::<Order>::UNANSWERED, what }, Instant::now() + ROOM_LIMIT)
    }

    /// Posts an order and returns its number, with which [`ProcessChannel::wait`] is to be called.
    ///
    /// # Errors
    /// If no executor takes it, and why.
    pub(super) fn order(&self, what: Order, deadline: Instant) -> Result<u64, NoAnswer> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.answers().insert(number, None);
        let posted = self.post(Numbered { number, what }, deadline);
        if posted.is_err() {
            self.answers().remove(&number);
        }
        posted.map(|()| number)
    }

    fn post(&self, order: Numbered<Order>, deadline: Instant) -> Result<(), NoAnswer> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.control.order(&order).map_err(|_| self.damaged())? {
            if self.is_gone() {
                return Err(NoAnswer::Gone);
            }
            if Instant::now() >= deadline {
                return Err(NoAnswer::Late);
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
        let result = loop {
            let seen = self.control.answered();
            match self.take_answers(number) {
                Ok(Some(answer)) => break Ok(answer),
                Ok(None) => {}
                Err(_) => break Err(self.damaged()),
            }
            if self.is_gone() {
                break Err(NoAnswer::Gone);
            }
            if Instant::now() >= deadline {
                break Err(NoAnswer::Late);
            }
            self.control.wait_for_answer(seen, LOOK);
        };
        self.answers().remove(&number);
        result
    }

    /// Takes up to [`MOST_ANSWERS`] answers and keeps those that threads wait for. Returns the one to `number`, if it
    /// has come.
    fn take_answers(&self, number: u64) -> Result<Option<Answer>, Damaged> {
        let mut answers = self.answers();
        for _ in 0..MOST_ANSWERS {
            let Some(answer) = self.control.take_answer()? else { break };
            if let Some(place) = answers.get_mut(&answer.number) {
                *place = Some(answer.what);
            }
        }
        Ok(answers.get_mut(&number).and_then(Option::take))
    }

    /// Posts an order and waits until it is carried out.
    ///
    /// # Errors
    /// As [`ProcessChannel::order`] and [`ProcessChannel::wait`].
    pub(super) fn ask(&self, what: Order, limit: Duration) -> Result<Answer, NoAnswer> {
        let deadline = Instant::now() + limit;
        self.wait(self.order(what, deadline)?, deadline)
    }
}

/// How long executors may take to end after their client has, or after they are killed.
const ENDING: Duration = Duration::from_secs(2);
/// How often executors are checked for having ended before their process.
const WATCH: Duration = Duration::from_millis(100);

impl ProcessChannel {
    /// Waits until the process has exited or closed its connection. Executors that are lost before that are released at
    /// once. This waits for no other process: its executors may wait for a lock of the chip that this process died
    /// with.
    pub(super) fn wait_for_end(&self) {
        let Some(process) = &self.pidfd else { return };
        let (process, stream) = (process.as_fd(), self.stream.as_fd());
        let (mut running, mut adopted) = (Vec::new(), Adopted::default());
        while !self.is_gone() && !self.misses_any(&mut running) {
            adopted.adopt(&running);
            if sys::wait_for_either(process, stream, Some(WATCH)) {
                return;
            }
        }
        if !sys::wait_for_either(process, stream, Some(Duration::ZERO)) {
            self.release();
            sys::wait_for_either(process, stream, None);
        }
    }

    /// Releases the chip and closes the connection of a process that is over. Another process may have inherited the
    /// other end, and the connection's thread has to learn of the process's end all the same.
    pub(super) fn end(&self) {
        self.release();
        // A connection that is closed already needs no shutdown.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Whether the process has exited, reaped or not.
    pub(super) fn has_exited(&self) -> bool {
        self.pidfd.as_ref().is_none_or(|process| !sys::poll_now(process.as_fd(), PollFlags::IN).is_empty())
    }

    /// Releases what the process had on the chip. Its executors have ended by now or are about to; those that do not
    /// end in time are killed.
    fn release(&self) {
        if self.released.swap(true, Ordering::SeqCst) {
            return;
        }
        self.gone.store(true, Ordering::SeqCst);
        self.chip.close(self.slot);
        if !self.executors_end() {
            for executor in self.executors().filter(|executor| executor.parent == Some(self.process.pid)) {
                // SAFETY: sends a signal to an executor of this process, which would harm the next owner of its slot.
                unsafe { libc::kill(executor.pid.cast_signed(), libc::SIGKILL) };
            }
            self.executors_end();
        }
        self.chip.release_process(self.slot);
    }

    /// Returns the executors that have not ended.
    fn executors(&self) -> impl Iterator<Item = Running> {
        self.chip.workers(self.slot).filter_map(Running::executor)
    }

    /// Whether executors freeze with the control group of the process.
    pub(super) fn shares_cgroup(&self) -> bool {
        cgroup::shares(self.process.pid, self.executors().map(|executor| executor.pid))
    }

    /// Whether an executor that ran at the last check has ended. A process that is stopped does not report that itself.
    fn misses_any(&self, before: &mut Vec<u32>) -> bool {
        let own = self.executors().filter(|executor| executor.parent.is_none_or(|parent| parent == self.process.pid));
        let now: Vec<u32> = own.map(|executor| executor.pid).collect();
        let misses = before.iter().any(|pid| !now.contains(pid));
        *before = now;
        misses
    }

    /// Waits until all executors have ended, at most [`ENDING`]; whether they have.
    fn executors_end(&self) -> bool {
        let until = Instant::now() + ENDING;
        while self.executors().next().is_some() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Gives up executors that missed a deadline and are stopped by a signal: they will never answer, and what they
    /// hold of the chip is missed by others.
    pub(super) fn blame(&self) {
        if self.executors().any(|executor| executor.stopped) {
            self.gone.store(true, Ordering::SeqCst);
        }
    }
}

impl Drop for ProcessChannel {
    fn drop(&mut self) {
        self.release();
    }
}

/// A process that has not ended.
struct Running {
    pid: u32,
    /// Not known of a process whose state cannot be read.
    parent: Option<u32>,
    stopped: bool,
}

impl Running {
    /// Returns the executor with this pid, unless it has ended: its pid may belong to another program by now, and the
    /// process that inherited it may be slow to reap it. One whose state cannot be read, for lack of descriptors, runs
    /// as far as this can tell.
    fn executor(pid: u32) -> Option<Self> {
        let Some(stat) = ProcStat::read(pid) else {
            return sys::exists(pid).then_some(Self { pid, parent: None, stopped: false });
        };
        let runs = stat.comm == crate::executor::NAME && !stat.is_dead();
        runs.then_some(Self { pid, parent: Some(stat.parent), stopped: stat.is_halted() })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::super::few_descriptors::{take_all, with_few_descriptors};
    use super::*;
    use crate::device::Geometry;
    use crate::driver::WaveControl;

    struct Client {
        child: std::process::Child,
        control: Control,
        /// Another process may have inherited the connection: the process's end must do.
        theirs: UnixStream,
        channel: Arc<ProcessChannel>,
    }

    fn client(chip: &Arc<Chip>) -> Client {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a process");
        let key = ProcessKey::new(child.id(), 0);
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let (control, page) = Control::new().expect("a page");
        let channel = ProcessChannel::new(key, Control::open(page.as_fd()).expect("a page"), ours, chip).expect("room");
        Client { child, control, theirs, channel: Arc::new(channel) }
    }

    fn chip() -> Arc<Chip> {
        Arc::new(Chip::create(Geometry::cdna(8, 1), 1, 1).expect("memory").0)
    }

    #[test]
    fn answers_that_no_caller_waits_for_are_not_kept() {
        let chip = chip();
        let Client { mut child, control, channel, theirs: _theirs } = client(&chip);
        for _ in 0..10 {
            channel.tell(Order::Reset { gpu: 0 }).expect("there is room");
            assert_eq!(
                control.take_order().expect("no nonsense").expect("there is one").number,
                Numbered::<Order>::UNANSWERED
            );
        }
        let soon = || Instant::now() + Duration::from_secs(60);
        let late = channel.order(Order::Reset { gpu: 0 }, soon()).expect("there is room");
        assert_eq!(channel.wait(late, Instant::now()), Err(NoAnswer::Late));
        let number = channel.order(Order::Reset { gpu: 0 }, soon()).expect("there is room");
        for number in (late..late + 5000).filter(|other| *other != number).chain([number]) {
            assert!(control.answer(&Numbered { number, what: Answer::Done }));
        }
        assert_eq!(channel.wait(number, soon()), Ok(Answer::Done));
        assert!(channel.answers().is_empty());
        child.kill().expect("can be killed");
        child.wait().expect("ends");
    }

    #[test]
    fn executors_that_take_no_orders_do_not_hold_up_the_caller_for_ever() {
        let chip = chip();
        let Client { mut child, channel, theirs: _theirs, .. } = client(&chip);
        let queues = vec![0; 10_000];
        let order = || Order::Map { gpu: 0, queues: queues.clone(), waves: WaveControl::default(), not_before: 0 };
        let refused = (0..1000).find_map(|_| channel.order(order(), Instant::now()).err());
        assert_eq!(refused, Some(NoAnswer::Late));
        child.kill().expect("can be killed");
        child.wait().expect("ends");
    }

    #[test]
    fn the_place_of_executors_that_are_lost_is_free_while_their_process_lives() {
        let chip = chip();
        let Client { mut child, control, channel, theirs: _theirs } = client(&chip);
        let watched = Arc::clone(&channel);
        let watcher = std::thread::spawn(move || {
            watched.wait_for_end();
            watched.end();
        });
        control.lose();
        let until = Instant::now() + Duration::from_secs(60);
        while chip.is_live(channel.slot) && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(!chip.is_live(channel.slot) && !watcher.is_finished());
        child.kill().expect("can be killed");
        watcher.join().expect("ends");
        child.wait().expect("ends");
    }

    /// A process that is named like an executor, and the channel of this process with it as its only executor.
    fn with_executor(chip: &Arc<Chip>) -> (std::process::Child, ProcessChannel, UnixStream) {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join(crate::executor::NAME);
        std::fs::copy("/bin/cat", &program).expect("a copy");
        let executor = Command::new(program).stdin(Stdio::piped()).spawn().expect("a process");
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let control = Control::new().expect("a page").0;
        let key = ProcessKey::new(std::process::id(), 0);
        let channel = ProcessChannel::new(key, control, ours, chip).expect("room");
        assert!(chip.register_worker(channel.slot, executor.id()));
        (executor, channel, theirs)
    }

    #[test]
    fn an_executor_that_died_is_missed_although_its_process_says_nothing() {
        let chip = chip();
        let (mut executor, channel, _theirs) = with_executor(&chip);
        let mut running = Vec::new();
        assert!(!channel.misses_any(&mut running) && !channel.misses_any(&mut running));
        assert_eq!(running, [executor.id()]);
        executor.kill().expect("can be killed");
        executor.wait().expect("ends");
        assert!(channel.misses_any(&mut running));
    }

    #[test]
    fn no_executor_is_missed_because_there_is_no_descriptor_to_look_at_it_with() {
        with_few_descriptors("no_executor_is_missed_because", || {
            let chip = chip();
            let (mut executor, channel, theirs) = with_executor(&chip);
            let mut running = Vec::new();
            assert!(!channel.misses_any(&mut running));
            let (stream, control) = (theirs.try_clone().expect("a copy"), Control::new().expect("a page").0);
            let taken = take_all();
            assert!(!channel.misses_any(&mut running));
            assert_eq!(running, [executor.id()]);
            // One that comes now cannot be watched: it is refused, and does not lose its gpu afterwards.
            assert!(ProcessChannel::new(channel.process, control, stream, &chip).is_none());
            drop(taken);
            executor.kill().expect("can be killed");
            executor.wait().expect("ends");
            assert!(channel.misses_any(&mut running));
        });
    }

    #[test]
    fn the_place_of_a_dead_process_is_free_while_others_still_deal_with_it() {
        let chip = chip();
        let Client { mut child, mut theirs, channel, .. } = client(&chip);
        let watched = Arc::clone(&channel);
        let watcher = std::thread::spawn(move || {
            watched.wait_for_end();
            watched.end();
        });
        assert!(chip.is_live(channel.slot) && !channel.is_gone());
        child.kill().expect("can be killed");
        watcher.join().expect("ends");
        assert!(!chip.is_live(channel.slot) && channel.is_gone());
        assert_eq!(theirs.read(&mut [0]).expect("can be read"), 0, "the connection is closed");
        child.wait().expect("ends");
        // The slot may belong to another process by the time the last reference goes.
        let next = chip.add_process().expect("room");
        assert_eq!(next.number(), channel.slot.number());
        drop(channel);
        assert!(chip.is_live(next));
    }
}
