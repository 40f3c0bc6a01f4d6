//! The machine: a deterministic discrete-event model of gpus, their queues and the tasks that use them.
//!
//! A run is a function of profile, workload, mechanism and seed. Time is virtual; events are ordered by instant and,
//! among equals, by the order in which they were scheduled.
//!
//! - A **gpu** is a pool of slots and registers. Workgroups of one kernel that start together are one batch with one
//!   end; a gpu knows its few batches and waits for the earliest end only. ([`dispatch`](self::Dispatch))
//! - A **queue** belongs to one task on one gpu. Its kernels run one after the other. The ring is a formula, not a
//!   buffer: a kernel becomes available at the pace of the host.
//! - A **cycle** freezes a gpu, moves waves to save areas and back, and changes which queues run. ([`Machine::switch`])
//! - A **client** submits a task's requests, one at a time.
//!
//! A mechanism acts on the machine through its public operations and receives events through [`Mechanism`]'s hooks. The
//! machine never calls it in the middle of a change: notices are queued and delivered afterwards, at the same instant.
//!
//! Task and gpu numbers are indices into the workload's lists. Those are checked when a workload is read; operations
//! given a number that does not exist panic.

mod account;
mod client;
mod collective;
mod cycle;
mod device;
mod dispatch;
mod event;
mod gpu;
mod hold;
mod queue;
mod ring;
mod runlist;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gpreempt_core::Nanos;

use crate::mechanism::Mechanism;
use crate::outcome::{RunOutcome, TraceEvent, TraceKind};
use crate::profile::Profile;
use crate::workload::{Role, Workload};

pub use cycle::{CycleDone, SwitchPath, Ticket};
pub use device::{full_gpu, micros};
pub use dispatch::Dispatch;
pub use ring::Progress;

use account::Figures;
use client::{Arrivals, Client};
use cycle::Call;
use device::{Device, Shape, ShapeTable};
use event::{EventQueue, MachineEvent};
use gpu::Gpu;
use queue::{Queue, block};

/// A notice for the mechanism.
#[derive(Clone, Copy, Debug)]
enum Notice {
    Submitted(usize),
    Drained(usize),
    KernelDone { task: usize, gpu: usize },
    Timer(u64),
    CycleDone(CycleDone),
}

/// Gpus, queues and clients in virtual time.
#[derive(Debug)]
pub struct Machine {
    now: Nanos,
    duration: Nanos,
    device: Device,
    order: Dispatch,
    reports_kernels: bool,
    events: EventQueue,
    notices: VecDeque<Notice>,
    gpus: Vec<Gpu>,
    queues: Vec<Queue>,
    clients: Vec<Client>,
    /// The kernels of all tasks, one after the other; tasks of one model share theirs.
    shapes: Vec<Shape>,
    /// Gpus on which workgroups may be able to start.
    dirty: Vec<usize>,
    /// Tasks whose collective may be able to start.
    unsettled_collectives: Vec<usize>,
    /// Calls that have not reached the driver yet.
    calls: BTreeMap<Ticket, Call>,
    next_ticket: u64,
    figures: Figures,
    trace: Option<Vec<TraceEvent>>,
}

/// The observable state of a task's queue on one gpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueView {
    /// Whether submitted work is not complete.
    pub unfinished: bool,
    /// Number of resident workgroups.
    pub resident: u32,
    /// Wave slots they occupy, in thousandths of the gpu's.
    pub occupancy_permille: u32,
    /// Number of packets the host has written.
    pub wptr: u64,
    /// Number of packets the gpu has fetched, completed or not.
    pub rptr: u64,
    /// Whether a cycle has stopped it and none has resumed it.
    pub stopped: bool,
    /// Whether it has a hardware slot, or would have one if it were not stopped.
    pub mapped: bool,
}

impl Machine {
    /// Creates an idle machine at time zero and schedules the workload's first arrivals. `record` keeps a trace.
    #[must_use]
    pub fn new(profile: &Profile, workload: &Workload, seed: u64, record: bool) -> Machine {
        let device = Device::new(profile);
        let named = workload.tasks.iter().flat_map(|task| &task.gpus);
        let gpus = named.fold(workload.gpus, |gpus, &gpu| gpus.max(gpu + 1));
        let mut machine = Machine {
            now: Nanos::ZERO,
            duration: workload.duration,
            order: Dispatch::default(),
            reports_kernels: false,
            events: EventQueue::default(),
            notices: VecDeque::new(),
            gpus: (0..gpus).map(|_| Gpu::new(device.total)).collect(),
            queues: Vec::new(),
            clients: Vec::new(),
            shapes: Vec::new(),
            dirty: Vec::new(),
            unsettled_collectives: Vec::new(),
            calls: BTreeMap::new(),
            next_ticket: 0,
            figures: Figures::default(),
            trace: record.then(Vec::new),
            device,
        };
        let mut shapes = ShapeTable::default();
        for (index, task) in workload.tasks.iter().enumerate() {
            let mut client = Client::new(task, index, seed);
            // A task that never submits has no queue: it takes no place on a runlist.
            if Arrivals::any(&task.load) && !task.kernels.is_empty() {
                client.shapes = shapes.begin_of(&task.kernels, &machine.device);
                client.gpus = task.gpus.as_slice().into();
                for &gpu in &task.gpus {
                    client.queues.push(machine.queues.len());
                    machine.gpus[gpu].runlist.insert(0, machine.queues.len());
                    machine.queues.push(Queue::new(index, gpu));
                }
            }
            machine.clients.push(client);
        }
        machine.shapes = shapes.into_shapes();
        for g in 0..machine.gpus.len() {
            machine.first_runlist(g);
        }
        for task in 0..machine.clients.len() {
            machine.expect_arrival(task);
        }
        machine
    }

    /// Runs to the end of the workload's duration under `mechanism`, called `name` in the outcome.
    #[must_use]
    pub fn run(mut self, mechanism: &mut dyn Mechanism, name: &'static str) -> RunOutcome {
        self.order = mechanism.dispatch();
        self.reports_kernels = mechanism.wants_kernels();
        mechanism.start(&mut self);
        self.settle();
        while let Some(event) = self.events.next_before(self.duration) {
            self.now = event.at;
            if !self.handle(event.what) {
                continue;
            }
            self.figures.events += 1;
            self.settle();
            while let Some(notice) = self.notices.pop_front() {
                match notice {
                    Notice::Submitted(task) => mechanism.submitted(&mut self, task),
                    Notice::Drained(task) => mechanism.drained(&mut self, task),
                    Notice::KernelDone { task, gpu } => mechanism.kernel_done(&mut self, task, gpu),
                    Notice::Timer(token) => mechanism.timer(&mut self, token),
                    Notice::CycleDone(done) => mechanism.cycle_done(&mut self, done),
                }
                self.settle();
            }
        }
        self.close();
        self.outcome(name)
    }

    /// Handles an event. Returns false if it was stale.
    fn handle(&mut self, what: MachineEvent) -> bool {
        match what {
            MachineEvent::Completion { gpu } => return self.complete(gpu as usize),
            MachineEvent::Fetch { queue } => return self.woken(queue as usize),
            MachineEvent::Arrival { task } => self.arrival(task as usize),
            MachineEvent::Call { ticket } => self.call_arrives(ticket),
            MachineEvent::CycleEnd { gpu } => self.end_cycle(gpu as usize),
            MachineEvent::Quantum { gpu } => return self.quantum_over(gpu as usize),
            MachineEvent::Timer { token } => self.notices.push_back(Notice::Timer(token)),
        }
        true
    }

    fn expect_arrival(&mut self, task: usize) {
        let client = &mut self.clients[task];
        if client.queues.is_empty() {
            return;
        }
        if let Some(at) = client.arrivals.next(self.now) {
            self.events.schedule(at, MachineEvent::Arrival { task: task as u32 });
        }
    }

    fn arrival(&mut self, task: usize) {
        self.expect_arrival(task);
        if self.clients[task].current.is_some() {
            self.clients[task].miss(self.now);
        } else {
            self.begin_request(task, self.now);
        }
    }

    /// Completes a task's request, whose last kernel is complete on every gpu.
    fn request_finished(&mut self, task: usize) {
        let client = &mut self.clients[task];
        let Some(request) = client.current.take() else {
            return;
        };
        let latency = self.now.since(request.arrival);
        client.completed += 1;
        client.latency.record(latency.0).expect("the histogram grows");
        let next = client.missed.take();
        let think = client.arrivals.think();
        let gpu = client.gpus[0];
        let what = TraceKind::Request { request: request.number };
        self.record(request.arrival, latency, Some(task), gpu, what);
        match (next, think) {
            (Some(arrival), _) => self.begin_request(task, arrival),
            (None, Some(Nanos::ZERO)) => self.begin_request(task, self.now),
            (None, think) => {
                if let Some(think) = think {
                    self.events.schedule(self.now.plus(think), MachineEvent::Arrival { task: task as u32 });
                }
                self.account_kept(task);
                self.clients[task].account_starved(self.now);
                self.notices.push_back(Notice::Drained(task));
            }
        }
    }

    /// Returns the current instant.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the number of tasks.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.clients.len()
    }

    /// Returns the number of gpus.
    #[must_use]
    pub fn gpus(&self) -> usize {
        self.gpus.len()
    }

    /// Returns a task's level.
    #[must_use]
    pub fn level(&self, task: usize) -> u8 {
        self.clients[task].level
    }

    /// Returns a task's role.
    #[must_use]
    pub fn role(&self, task: usize) -> Role {
        self.clients[task].role
    }

    /// Returns the gpus on which a task has a queue.
    #[must_use]
    pub fn gpus_of(&self, task: usize) -> Arc<[usize]> {
        Arc::clone(&self.clients[task].gpus)
    }

    /// Returns whether a task has a request in flight.
    #[must_use]
    pub fn unfinished(&self, task: usize) -> bool {
        self.clients[task].current.is_some()
    }

    /// Returns the observable state of a task's queue on a gpu; `None` if it has no queue there.
    #[must_use]
    pub fn view(&self, task: usize, gpu: usize) -> Option<QueueView> {
        let queue = &self.queues[self.queue_of(task, gpu)?];
        let client = &self.clients[task];
        let waves = |head: queue::Head| u64::from(head.resident) * self.shapes[head.shape].each.waves;
        let occupied = queue.head.map_or(0, waves) * 1_000 / self.device.total.waves;
        Some(QueueView {
            unfinished: client.current.is_some() && queue.done < client.kernels_per_request,
            resident: queue.head.map_or(0, |head| head.resident),
            occupancy_permille: occupied as u32,
            wptr: queue.wptr(self.now, self.device.submit),
            rptr: queue.rptr,
            stopped: queue.blocked & block::STOPPED != 0,
            mapped: queue.blocked & block::UNMAPPED == 0,
        })
    }

    /// Calls the mechanism's `timer` with `token` at `at`, or at once if that is past. Timers cannot be cancelled: a
    /// mechanism that no longer needs one ignores the token.
    pub fn set_timer(&mut self, at: Nanos, token: u64) {
        self.events.schedule(at.max(self.now), MachineEvent::Timer { token });
    }

    fn queue_of(&self, task: usize, gpu: usize) -> Option<usize> {
        let mut queues = self.clients[task].queues.iter().copied();
        queues.find(|&q| self.queues[q].gpu == gpu)
    }
}
