//! The path of a kernel: submitted, fetched, finished; and the calls with which a shim controls its submissions.

use gpreempt_core::Nanos;

use super::event::MachineEvent;
use super::queue::{Head, Submission};
use super::{Machine, Notice};

impl Machine {
    /// Begins a request of an idle task.
    pub(super) fn begin_request(&mut self, task: usize, arrival: Nanos) {
        let client = &mut self.clients[task];
        let number = client.started;
        client.started += 1;
        client.counted = 0;
        client.current = Some(super::client::Request { number, arrival, unfinished: client.queues.len() });
        let released = if client.intercepted { 0 } else { client.kernels_per_request };
        for i in 0..self.clients[task].queues.len() {
            let q = self.clients[task].queues[i];
            let queue = &mut self.queues[q];
            debug_assert!(queue.head.is_none() && queue.saved.is_empty(), "a request begins on an idle queue");
            queue.submit(self.now, Submission::new(self.now, 0, released), self.device.submit);
            queue.released = released;
            queue.cleared = false;
            queue.next = 0;
            queue.done = 0;
            queue.touched = 0;
            self.advance(q);
            self.expect_rotation(self.queues[q].gpu);
        }
        self.account_kept(task);
        self.clients[task].account_starved(self.now);
        self.notices.push_back(Notice::Submitted(task));
    }

    /// Fetches a queue's next kernel, now or when there is one.
    pub(super) fn advance(&mut self, q: usize) {
        let queue = &self.queues[q];
        if queue.head.is_some()
            || queue.next >= queue.submission.limit
            || !queue.may_fetch()
            || self.gpus[queue.gpu].frozen()
        {
            return;
        }
        // The doorbell of an empty queue takes a moment to be noticed.
        let rung = queue.submission.available(queue.next, self.device.submit);
        let at = if rung >= self.now {
            rung.plus(self.device.fetch)
        } else if queue.wake != Nanos::NEVER && queue.wake >= self.now {
            queue.wake
        } else {
            self.now
        };
        if at <= self.now {
            self.fetch(q, rung);
        } else if at != queue.wake {
            self.queues[q].wake = at;
            self.events.schedule(at, MachineEvent::Fetch { queue: q as u32 });
        }
    }

    /// Handles a fetch event. Returns false if it was stale.
    pub(super) fn woken(&mut self, q: usize) -> bool {
        if self.queues[q].wake != self.now {
            return false;
        }
        self.queues[q].wake = Nanos::NEVER;
        self.advance(q);
        true
    }

    fn fetch(&mut self, q: usize, rung: Nanos) {
        let queue = &mut self.queues[q];
        let client = &self.clients[queue.task];
        let index = queue.next;
        let shape = client.shapes + index as usize;
        queue.wake = Nanos::NEVER;
        queue.next += 1;
        queue.rptr += 1;
        debug_assert!(queue.rptr <= queue.wptr(self.now, self.device.submit), "fetched beyond the write pointer");
        queue.head = Some(Head {
            index,
            shape,
            rung,
            undispatched: self.shapes[shape].workgroups,
            resident: 0,
            started: false,
            repeated: index < queue.touched,
        });
        self.relist(q);
    }

    /// Completes a queue's head kernel, whose last workgroup has ended.
    pub(super) fn kernel_finished(&mut self, q: usize) {
        self.close_span(q);
        let queue = &mut self.queues[q];
        let Some(head) = queue.head.take() else {
            return;
        };
        let (task, gpu) = (queue.task, queue.gpu);
        let first_time = head.index >= queue.done;
        if first_time {
            queue.done = head.index + 1;
        }
        if self.reports_kernels {
            self.notices.push_back(Notice::KernelDone { task, gpu });
        }
        let client = &mut self.clients[task];
        if first_time {
            let everywhere = match client.queues.as_slice() {
                [_] => head.index + 1,
                queues => queues.iter().map(|&q| self.queues[q].done).min().unwrap_or(0),
            };
            client.kernels += u64::from(everywhere - client.counted);
            client.counted = everywhere;
        }
        if self.queues[q].done < client.kernels_per_request {
            self.advance(q);
            return;
        }
        if let Some(request) = client.current.as_mut() {
            request.unfinished -= 1;
            if request.unfinished == 0 {
                self.request_finished(task);
            }
        }
        // Its slot may be free for another process now.
        self.expect_rotation(gpu);
    }

    /// Writes `count` more kernels of an intercepted task's request into the rings, one every submission time from
    /// `from` on.
    pub fn launch(&mut self, task: usize, count: u32, from: Nanos) {
        let from = from.max(self.now);
        for i in 0..self.clients[task].queues.len() {
            let q = self.clients[task].queues[i];
            let limit = self.clients[task].kernels_per_request;
            let queue = &mut self.queues[q];
            queue.released = queue.released.saturating_add(count).min(limit);
            if !queue.cleared {
                queue.submit_more(self.now, from, queue.released, self.device.submit);
                self.advance(q);
            }
        }
    }

    /// Writes the kernels that a task's rings lost, or have not fetched yet, into the rings again from `from` on, one
    /// kernel every submission time, and ends the hold.
    pub fn resubmit(&mut self, task: usize, from: Nanos) {
        let from = from.max(self.now);
        for i in 0..self.clients[task].queues.len() {
            let q = self.clients[task].queues[i];
            let queue = &mut self.queues[q];
            queue.flush(self.now, self.device.submit);
            queue.cleared = false;
            let submission = Submission::new(from, queue.next, queue.released.max(queue.next));
            queue.submit(self.now, submission, self.device.submit);
            let gpu = queue.gpu;
            self.release(task, gpu);
        }
    }

    /// Intercepts a task: from now on only [`Machine::launch`] puts its kernels into its rings.
    pub fn intercept(&mut self, task: usize) {
        self.clients[task].intercepted = true;
    }

    /// Returns how many kernels of the current request were launched and how many are complete on every gpu.
    #[must_use]
    pub fn progress(&self, task: usize) -> Progress {
        let queues = self.clients[task].queues.iter().map(|&q| &self.queues[q]);
        Progress {
            launched: queues.clone().map(|queue| queue.released).min().unwrap_or(0),
            completed: queues.map(|queue| queue.done).min().unwrap_or(0),
            kernels: self.clients[task].kernels_per_request,
        }
    }
}

/// Progress of a task's current request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Kernels written into the rings.
    pub launched: u32,
    /// Kernels complete on every gpu.
    pub completed: u32,
    /// Kernels of a request.
    pub kernels: u32,
}
