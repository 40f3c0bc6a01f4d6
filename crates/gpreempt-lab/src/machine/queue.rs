//! One user-mode queue: the packets in its ring, and the kernel that the gpu has fetched from it.
//!
//! Packets are not stored. A request's kernels enter the ring at a fixed pace, so the instant at which each becomes
//! available is a formula ([`Submission`]), and the ring's pointers are counts.

use gpreempt_core::Nanos;

/// Reasons why a queue does not run; bits of [`Queue::blocked`].
pub(super) mod block {
    /// Stopped by a cycle: neither fetches nor dispatches, and has nothing resident.
    pub(in super::super) const STOPPED: u8 = 1;
    /// Not mapped: with an over-subscribed runlist another process has the slot.
    pub(in super::super) const UNMAPPED: u8 = 2;
    /// Held back: fetches nothing; a kernel that has started runs to its end.
    pub(in super::super) const HELD: u8 = 4;
    /// Kept from running by the mechanism. For accounting only: another bit, or the launch limit of a shim, has the
    /// effect.
    pub(in super::super) const KEPT: u8 = 8;
}

/// Kernels `first..limit` of a request enter the ring, one every `submit` from `start` on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Submission {
    /// Kernels before `first` are in the ring since about this instant.
    pub(super) before: Nanos,
    pub(super) start: Nanos,
    pub(super) first: u32,
    pub(super) limit: u32,
}

impl Submission {
    /// Returns a submission before which the ring is empty.
    pub(super) fn new(start: Nanos, first: u32, limit: u32) -> Submission {
        Submission { before: start, start, first, limit }
    }

    /// The same, and then the kernels up to `limit`, from `start` on or when the host is done with those before.
    pub(super) fn extended(self, now: Nanos, start: Nanos, limit: u32, submit: Nanos) -> Submission {
        if self.submitted(now, submit) < u64::from(self.limit - self.first) {
            return Submission { limit, ..self };
        }
        Submission { before: self.start, start, first: self.limit, limit }
    }

    /// Returns when kernel `index`, below the limit, is in the ring.
    pub(super) fn available(&self, index: u32, submit: Nanos) -> Nanos {
        match index.checked_sub(self.first) {
            Some(after) => self.start.plus(submit.times(u64::from(after))),
            None => self.before,
        }
    }

    /// Returns how many of `first..limit` are in the ring.
    pub(super) fn submitted(&self, now: Nanos, submit: Nanos) -> u64 {
        let all = u64::from(self.limit - self.first);
        if now < self.start {
            return 0;
        }
        match now.since(self.start).0.checked_div(submit.0) {
            Some(after) => all.min(after.saturating_add(1)),
            None => all,
        }
    }
}

/// The kernel at the head of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Position within the request.
    pub(super) index: u32,
    /// Index of its shape.
    pub(super) shape: usize,
    /// When its doorbell rang.
    pub(super) rung: Nanos,
    /// Workgroups not dispatched yet.
    pub(super) undispatched: u32,
    /// Workgroups on the gpu.
    pub(super) resident: u32,
    /// At least one workgroup has been dispatched.
    pub(super) started: bool,
    /// It had started before, and has been put back.
    pub(super) repeated: bool,
}

/// Workgroups that were saved together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    pub(super) count: u32,
    /// Time they still need.
    pub(super) left: Nanos,
}

/// The queue of one task on one gpu.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) task: usize,
    pub(super) gpu: usize,
    /// Bits of [`block`].
    pub(super) blocked: u8,
    pub(super) submission: Submission,
    /// Packets written before `submission`.
    written: u64,
    /// Packets fetched.
    pub(super) rptr: u64,
    /// Kernels of the request that the ring received, including those discarded since.
    pub(super) released: u32,
    /// The ring was emptied and waits for a resubmission.
    pub(super) cleared: bool,
    /// Next kernel of the request to fetch.
    pub(super) next: u32,
    /// Kernels of the request that are complete.
    pub(super) done: u32,
    /// Kernels of the request that have started, at least once.
    pub(super) touched: u32,
    /// Instant of the fetch event that is not stale.
    pub(super) wake: Nanos,
    pub(super) head: Option<Head>,
    /// Workgroups of the head kernel in the save area, the last one to be restored first.
    pub(super) saved: Vec<Saved>,
    /// The save area lives in host memory.
    pub(super) save_in_host: bool,
    /// Member of its gpu's list of queues that want slots.
    pub(super) listed: bool,
    /// Since when the mechanism keeps it from running.
    pub(super) kept_since: Option<Nanos>,
    /// Since when its head kernel has been on the gpu and the gpu not frozen.
    pub(super) span: Option<Nanos>,
}

impl Queue {
    pub(super) fn new(task: usize, gpu: usize) -> Queue {
        Queue {
            task,
            gpu,
            blocked: 0,
            submission: Submission::default(),
            written: 0,
            rptr: 0,
            released: 0,
            cleared: false,
            next: 0,
            done: 0,
            touched: 0,
            wake: Nanos::NEVER,
            head: None,
            saved: Vec::new(),
            save_in_host: false,
            listed: false,
            kept_since: None,
            span: None,
        }
    }

    /// Mapped and not stopped: its waves are on the gpu.
    pub(super) fn runs(&self) -> bool {
        self.blocked & (block::STOPPED | block::UNMAPPED) == 0
    }

    pub(super) fn may_fetch(&self) -> bool {
        self.blocked & (block::STOPPED | block::UNMAPPED | block::HELD) == 0
    }

    /// Kept from running by the mechanism, rather than by a lack of slots.
    pub(super) fn kept(&self) -> bool {
        self.blocked & (block::STOPPED | block::KEPT) != 0
    }

    /// Returns whether there are workgroups that could be placed on the gpu.
    pub(super) fn wants_slots(&self) -> bool {
        self.head.is_some_and(|head| {
            self.runs()
                && (head.undispatched > 0 || !self.saved.is_empty())
                && (head.started || self.blocked & block::HELD == 0)
        })
    }

    /// Packets written.
    pub(super) fn wptr(&self, now: Nanos, submit: Nanos) -> u64 {
        self.written + self.submission.submitted(now, submit)
    }

    /// Replaces the submission. Packets of the old one that were not written yet never are.
    pub(super) fn submit(&mut self, now: Nanos, submission: Submission, pace: Nanos) {
        self.written = self.wptr(now, pace);
        self.submission = submission;
    }

    /// Submits the kernels up to `limit` after those already submitted.
    pub(super) fn submit_more(&mut self, now: Nanos, start: Nanos, limit: u32, pace: Nanos) {
        let submission = self.submission.extended(now, start, limit, pace);
        if submission.first == self.submission.first {
            self.submission = submission;
        } else {
            self.submit(now, submission, pace);
        }
    }

    /// Discards the packets in the ring that were not fetched.
    pub(super) fn flush(&mut self, now: Nanos, pace: Nanos) {
        let nothing = Submission::new(now, self.next, self.next);
        self.submit(now, nothing, pace);
        self.rptr = self.written;
        self.wake = Nanos::NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_fills_at_the_pace_of_the_host() {
        let pace = Nanos(10);
        let mut queue = Queue::new(0, 0);
        let submission = Submission::new(Nanos(100), 0, 4);
        queue.submit(Nanos(0), submission, pace);
        let filled: Vec<u64> = [0, 99, 100, 109, 110, 130, 9_999].map(|now| queue.wptr(Nanos(now), pace)).into();
        assert_eq!(filled, [0, 0, 1, 1, 2, 4, 4]);
        assert_eq!(submission.available(3, pace), Nanos(130));
    }

    #[test]
    fn flushing_empties_the_ring_and_keeps_its_pointers_monotone() {
        let pace = Nanos(10);
        let mut queue = Queue::new(0, 0);
        let submission = Submission::new(Nanos(0), 0, 100);
        queue.submit(Nanos(0), submission, pace);
        queue.rptr = 2;
        queue.next = 2;
        queue.flush(Nanos(55), pace);
        assert_eq!((queue.rptr, queue.wptr(Nanos(10_000), pace)), (6, 6));
        let again = Submission::new(Nanos(60), 2, 100);
        queue.submit(Nanos(60), again, pace);
        assert_eq!(queue.wptr(Nanos(60), pace), 7);
    }

    #[test]
    fn a_host_that_needs_no_time_submits_everything_at_once() {
        let submission = Submission::new(Nanos(5), 0, 7);
        assert_eq!(submission.submitted(Nanos(5), Nanos::ZERO), 7);
        assert_eq!(submission.available(6, Nanos::ZERO), Nanos(5));
    }
}
