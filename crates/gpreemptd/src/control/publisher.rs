//! Status, statistics and events, handed from the deciding thread to the control thread.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpreempt_core::Nanos;
use gpreempt_proto::{Event, Stats, Status};

use super::wake::Waker;
use crate::clock;

/// Fewest events kept, so that watching clients survive a burst even with `log_events = 0`.
const FEWEST_EVENTS: usize = 64;

/// Events copied at once: bounds how long the deciding thread waits for the lock.
const CHUNK: usize = 256;

/// Status and statistics at one instant.
#[derive(Debug)]
pub struct Published {
    /// The state of gpus, jobs and tenants.
    pub status: Status,
    /// Counters and distributions.
    pub stats: Stats,
    /// When both were published.
    pub at: Nanos,
}

/// An event, with the owner of its cause, which decides which users may see the name of the cause.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) event: Event,
    /// Owner of the job that caused the event, if known.
    pub(super) cause_uid: Option<u32>,
}

/// Shared by the deciding thread, which writes, and the control thread, which reads. Each holds the lock only to copy a
/// few pointers.
#[derive(Debug)]
pub struct Publisher {
    kept: Mutex<Kept>,
    /// A client waits for the next publication.
    wanted: AtomicBool,
    /// A client watches events.
    watched: AtomicBool,
    waker: Waker,
}

#[derive(Debug)]
struct Kept {
    events: VecDeque<Arc<Noted>>,
    /// Events dropped: the number of the oldest that is kept.
    forgotten: u64,
    most: usize,
    published: Option<Arc<Published>>,
}

/// A part of the kept events.
#[derive(Debug)]
pub(super) struct Chunk {
    /// In order.
    pub(super) events: Vec<Arc<Noted>>,
    /// Number of the first of them: larger than requested if those between were dropped.
    pub(super) first: u64,
}

impl Publisher {
    /// Makes a publisher that keeps this many events.
    ///
    /// # Errors
    ///
    /// If the process has no descriptor left.
    pub fn new(log_events: usize) -> io::Result<Arc<Publisher>> {
        let kept = Kept { events: VecDeque::new(), forgotten: 0, most: log_events.max(FEWEST_EVENTS), published: None };
        Ok(Arc::new(Publisher {
            kept: Mutex::new(kept),
            wanted: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            waker: Waker::new()?,
        }))
    }

    /// Adds an event. Only operators see the name of the job that caused it; see [`Publisher::note_by`].
    pub fn note(&self, event: Event) {
        self.keep(Noted { event, cause_uid: None });
    }

    /// Adds an event that was caused by a job of this user, who may see its name.
    pub fn note_by(&self, event: Event, cause_uid: u32) {
        self.keep(Noted { event, cause_uid: Some(cause_uid) });
    }

    fn keep(&self, noted: Noted) {
        let noted = Arc::new(noted);
        let mut kept = self.lock();
        kept.events.push_back(noted);
        let forgotten = kept.shrink();
        drop(kept);
        // Freed outside of the lock.
        drop(forgotten);
        if self.watched.load(Ordering::Acquire) {
            self.waker.wake();
        }
    }

    /// Changes the number of events kept.
    pub fn set_log_events(&self, log_events: usize) {
        let mut kept = self.lock();
        kept.most = log_events.max(FEWEST_EVENTS);
        let forgotten = kept.shrink();
        drop(kept);
        drop(forgotten);
    }

    /// Publishes status and statistics, and wakes the control thread if a client waits for them.
    pub fn publish(&self, status: Status, stats: Stats) {
        let published = Arc::new(Published { status, stats, at: clock::now() });
        let old = self.lock().published.replace(published);
        drop(old);
        if self.wanted.swap(false, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// Returns whether a client waits for the next publication; otherwise none is needed.
    #[must_use]
    pub fn wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Returns the newest publication.
    #[must_use]
    pub fn published(&self) -> Option<Arc<Published>> {
        self.lock().published.clone()
    }

    pub(super) fn want(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    pub(super) fn set_watched(&self, watched: bool) {
        self.watched.store(watched, Ordering::Release);
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Returns the number of the next event.
    pub(super) fn next_event(&self) -> u64 {
        self.lock().next()
    }

    /// Returns all events that are kept, oldest first.
    #[cfg(test)]
    pub(crate) fn events(&self) -> Vec<Event> {
        self.lock().events.iter().map(|noted| noted.event.clone()).collect()
    }

    /// A handful of events beginning with this number, or with the oldest; none if there is none yet.
    pub(super) fn events_from(&self, number: u64) -> Chunk {
        let kept = self.lock();
        let first = number.max(kept.forgotten);
        let skip = usize::try_from(first - kept.forgotten).unwrap_or(usize::MAX);
        let events = kept.events.iter().skip(skip).take(CHUNK).cloned().collect();
        Chunk { events, first }
    }

    /// A handful of events that end before this number, newest first.
    pub(super) fn events_before(&self, number: u64) -> Vec<Arc<Noted>> {
        let kept = self.lock();
        let skip = usize::try_from(kept.next().saturating_sub(number)).unwrap_or(usize::MAX);
        kept.events.iter().rev().skip(skip).take(CHUNK).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it holds the lock, and a publisher half written is better than no daemon.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn next(&self) -> u64 {
        self.forgotten + self.events.len() as u64
    }

    #[must_use]
    fn shrink(&mut self) -> Vec<Arc<Noted>> {
        let excess = self.events.len().saturating_sub(self.most);
        self.forgotten += excess as u64;
        self.events.drain(..excess).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpreempt_proto::EventKind;

    fn event(at_ms: u64) -> Event {
        Event { at_ms, kind: EventKind::Gone, gpu: None, pid: None, job: None, uid: None }
    }

    fn times(events: &[Arc<Noted>]) -> Vec<u64> {
        events.iter().map(|noted| noted.event.at_ms).collect()
    }

    #[test]
    fn the_newest_events_are_kept_and_keep_their_numbers() {
        let publisher = Publisher::new(100).unwrap();
        (0..150).for_each(|at| publisher.note(event(at)));
        assert_eq!((publisher.events_from(0).first, publisher.next_event()), (50, 150));
        let chunk = publisher.events_from(10);
        assert_eq!((chunk.first, times(&chunk.events)), (50, (50..150).collect()));
        let chunk = publisher.events_from(148);
        assert_eq!((chunk.first, times(&chunk.events)), (148, vec![148, 149]));
        assert_eq!(times(&publisher.events_from(150).events), [0u64; 0]);
        assert_eq!(times(&publisher.events_before(52)), [51, 50]);
        assert_eq!(times(&publisher.events_before(50)), [0u64; 0]);
        publisher.set_log_events(70);
        assert_eq!(publisher.events_from(0).first, 80);
    }

    #[test]
    fn a_publication_is_wanted_until_it_comes() {
        let publisher = Publisher::new(0).unwrap();
        assert!(publisher.published().is_none() && !publisher.wanted());
        publisher.want();
        assert!(publisher.wanted());
        publisher.publish(Status { daemon_pid: 7, ..Status::default() }, Stats::default());
        assert!(!publisher.wanted());
        assert_eq!(publisher.published().unwrap().status.daemon_pid, 7);
    }
}
