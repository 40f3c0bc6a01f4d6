//! A host and a driver for the core: observes tenants, executes plans, and fails where the history says so.

use std::vec;
use std::vec::Vec;

use super::scenario::{Event, Scenario};
use crate::{
    Action, Activity, ActuatorKind, Batch, Cost, Entry, EntryNumber, Error, GpuIndex, GpuSet, GpuSlot, JobId,
    JobParams, JobSlot, Nanos, Observation, Parts, Permille, Report, Scheduler, TenantId, TenantSlot,
};

pub(super) type Heap = Parts<Vec<GpuSlot>, Vec<JobSlot>, Vec<TenantSlot>, Vec<u32>, Vec<Entry>>;

/// Slots for every job and tenant of a history.
const ROOM: usize = 96;

/// Creates a core over vectors.
pub(super) fn heap(gpus: usize) -> Scheduler<Heap> {
    Scheduler::new(Parts {
        gpus: vec![GpuSlot::EMPTY; gpus],
        jobs: vec![JobSlot::EMPTY; ROOM],
        tenants: vec![TenantSlot::EMPTY; ROOM],
        order: vec![0; ROOM],
        plan: vec![Entry::EMPTY; ROOM],
    })
    .unwrap()
}

/// The true state of a tenant.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub(super) id: TenantId,
    pub(super) job: usize,
    pub(super) gpu: usize,
    pub(super) alive: bool,
    pub(super) stoppable: bool,
    pub(super) activity: Activity,
    pub(super) since: Nanos,
    pub(super) occupancy: Option<Permille>,
    pub(super) queues: u16,
    pub(super) stopped: u16,
    /// Whether an entry is being executed.
    pub(super) in_flight: bool,
    /// The last report.
    last_report: Option<(EntryNumber, Report)>,
    /// The last two observations.
    last_look: Observation,
    old_look: Observation,
}

impl Tenant {
    pub(super) fn works(&self) -> bool {
        self.alive && self.activity.has_work()
    }

    /// Returns the number of queues that an action changes: the host acts on those it has observed.
    pub(super) fn queues_for(&self, action: Action) -> u16 {
        match action {
            Action::Preempt => self.last_look.queues.saturating_sub(self.stopped),
            Action::Resume => self.stopped,
        }
    }

    /// Returns its occupancy at the last observation, if it had work then; `Some(None)` if that was not measured.
    pub(super) fn seen_share(&self) -> Option<Option<Permille>> {
        let look = &self.last_look;
        look.activity.has_work().then_some(look.occupancy)
    }

    /// Returns whether it has work on queues that are not stopped.
    pub(super) fn runs(&self) -> bool {
        self.works() && self.stopped < self.queues
    }
}

/// The true state of a job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) params: JobParams,
}

/// A call to the driver in progress.
#[derive(Clone, Copy, Debug)]
struct Call {
    tenant: usize,
    /// Number of queues the host knew when it called.
    known: u16,
    entry: Entry,
    ends: Nanos,
    took: Nanos,
    /// As the report tells it.
    cycles: Option<u32>,
    refused: bool,
    lost: bool,
}

/// A plan entry that the world executes.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) entry: Entry,
    pub(super) tenant: usize,
    /// Whether the tenant's last entry was still being executed.
    pub(super) overlaps: bool,
}

/// Selects one of `len` things; `None` if there are none.
fn pick(n: u8, len: usize) -> Option<usize> {
    usize::from(n).checked_rem(len)
}

/// The machine.
pub(super) struct World {
    pub(super) core: Scheduler<Heap>,
    pub(super) scenario: Scenario,
    pub(super) now: Nanos,
    pub(super) jobs: Vec<Job>,
    pub(super) tenants: Vec<Tenant>,
    pub(super) resetting: Vec<bool>,
    /// When the last cycle of each gpu ends.
    busy: Vec<Nanos>,
    calls: Vec<Call>,
    refusals: u8,
    lost: u8,
    slow: Nanos,
    wake: Nanos,
    next_look: Nanos,
    /// Time of the last event that changes what jobs may expect (levels, members, resets, failures).
    pub(super) upset: Nanos,
}

impl World {
    pub(super) fn new(scenario: &Scenario) -> World {
        let gpus = scenario.gpus.len();
        let mut world = World {
            core: heap(gpus),
            scenario: scenario.clone(),
            now: Nanos::from_millis(1),
            jobs: Vec::new(),
            tenants: Vec::new(),
            resetting: vec![false; gpus],
            busy: vec![Nanos::ZERO; gpus],
            calls: Vec::new(),
            refusals: 0,
            lost: 0,
            slow: Nanos::ZERO,
            wake: Nanos::ZERO,
            next_look: Nanos::ZERO,
            upset: Nanos::ZERO,
        };
        for (index, params) in scenario.gpus.iter().enumerate() {
            // The estimate is right from the start, so that bounds computed from it hold.
            let params = crate::GpuParams { cycle_estimate: scenario.cycle, ..*params };
            world.core.set_gpu(GpuIndex(index as u8), params).unwrap();
        }
        for spec in &scenario.jobs {
            let id = world.core.add_job(spec.params).unwrap();
            world.jobs.push(Job { id, params: spec.params });
            for gpu in (0..gpus).filter(|gpu| spec.gpus & (1 << gpu) != 0) {
                let job = world.jobs.len() - 1;
                world.add_tenant(job, gpu, spec.stoppable, spec.occupancy.map(Permille::new));
            }
        }
        world
    }

    fn add_tenant(&mut self, job: usize, gpu: usize, stoppable: bool, occupancy: Option<Permille>) {
        let Ok(id) = self.core.add_tenant(self.jobs[job].id, GpuIndex(gpu as u8), stoppable) else {
            return;
        };
        self.tenants.push(Tenant {
            id,
            job,
            gpu,
            alive: true,
            stoppable,
            activity: Activity::Idle,
            since: self.now,
            occupancy,
            queues: 1,
            stopped: 0,
            in_flight: false,
            last_report: None,
            last_look: Observation::default(),
            old_look: Observation::default(),
        });
    }

    /// Returns the tenants of a job that exist, without those on gpus in reset.
    pub(super) fn members(&self, job: usize) -> impl Iterator<Item = &Tenant> {
        self.tenants.iter().filter(move |tenant| tenant.alive && tenant.job == job && !self.resetting[tenant.gpu])
    }

    /// Applies `event` to the machine.
    pub(super) fn apply(&mut self, event: &Event) {
        let (tenants, jobs, gpus) = (self.tenants.len(), self.jobs.len(), self.busy.len());
        match *event {
            Event::Turns(which, activity) => {
                if let Some(at) = pick(which, tenants) {
                    self.turn(at, activity);
                }
            }
            Event::JobTurns(which, activity) => {
                let Some(job) = pick(which, jobs) else { return };
                for at in 0..tenants {
                    if self.tenants[at].job == job {
                        self.turn(at, activity);
                    }
                }
            }
            Event::QueueBorn(which) => {
                if let Some(at) = pick(which, tenants) {
                    self.tenants[at].queues += 1;
                }
            }
            Event::Refusals(count) => self.refusals = count,
            Event::LostReports(count) => self.lost = count,
            Event::Slow(micros) => self.slow = Nanos::from_micros(u64::from(micros)),
            Event::OldLook(which) => {
                if let Some(at) = pick(which, tenants).filter(|&at| self.tenants[at].alive) {
                    let tenant = &self.tenants[at];
                    self.core.observe(tenant.id, tenant.old_look).unwrap();
                    // An observation, even an old one, makes the host ask for a decision.
                    self.wake = Nanos::ZERO;
                }
            }
            Event::OldReport(which) => {
                if let Some(at) = pick(which, tenants).filter(|&at| self.tenants[at].alive)
                    && let Some((number, report)) = self.tenants[at].last_report
                {
                    // Hosts that stamp reports when they arrive give an old one a new time.
                    let _ = self.core.report(self.tenants[at].id, number, Report { at: self.now, ..report });
                    self.wake = Nanos::ZERO;
                }
            }
            Event::Reset(gpu, on) => {
                let Some(gpu) = pick(gpu, gpus) else { return };
                self.resetting[gpu] = on;
                self.core.set_resetting(GpuIndex(gpu as u8), on).unwrap();
                self.upset = self.now;
            }
            Event::Hold(..) | Event::Level(..) => self.change_job(event),
            Event::TenantBorn { .. } | Event::Vanishes(_) | Event::Moves { .. } => self.change_members(event),
        }
    }

    /// Applies an event that changes the settings of a job.
    fn change_job(&mut self, event: &Event) {
        let (Event::Hold(job, _) | Event::Level(job, _)) = *event else { return };
        let Some(job) = pick(job, self.jobs.len()) else { return };
        match *event {
            Event::Level(_, level) => {
                self.jobs[job].params.level = crate::Level::new(level).unwrap();
                self.core.set_job(self.jobs[job].id, self.jobs[job].params).unwrap();
            }
            Event::Hold(_, millis) => {
                let until = self.now.plus(Nanos::from_millis(u64::from(millis)));
                self.core.hold(self.jobs[job].id, until).unwrap();
            }
            _ => {}
        }
        self.upset = self.now;
    }

    /// Applies an event that adds, removes or moves a tenant.
    fn change_members(&mut self, event: &Event) {
        let (tenants, jobs) = (self.tenants.len(), self.jobs.len());
        match *event {
            Event::TenantBorn { job, gpu } => {
                let (Some(job), Some(gpu)) = (pick(job, jobs), pick(gpu, self.busy.len())) else { return };
                self.add_tenant(job, gpu, true, None);
            }
            Event::Vanishes(which) => {
                let Some(at) = pick(which, tenants).filter(|&at| self.tenants[at].alive) else { return };
                self.tenants[at].alive = false;
                self.core.remove_tenant(self.tenants[at].id).unwrap();
            }
            Event::Moves { tenant, job } => {
                let (Some(at), Some(job)) = (pick(tenant, tenants), pick(job, jobs)) else { return };
                if !self.tenants[at].alive {
                    return;
                }
                self.move_tenant(at, job);
            }
            _ => return,
        }
        self.upset = self.now;
    }

    /// Moves a tenant to another job as hosts do: under a new id, observed at once with the queues that are stopped.
    fn move_tenant(&mut self, at: usize, job: usize) {
        let tenant = &mut self.tenants[at];
        self.core.remove_tenant(tenant.id).unwrap();
        tenant.id = self.core.add_tenant(self.jobs[job].id, GpuIndex(tenant.gpu as u8), tenant.stoppable).unwrap();
        tenant.job = job;
        tenant.last_look.stopped_queues = tenant.stopped;
        self.core.observe(tenant.id, tenant.last_look).unwrap();
    }

    fn turn(&mut self, at: usize, activity: Activity) {
        let tenant = &mut self.tenants[at];
        if tenant.activity.has_work() != activity.has_work() {
            tenant.since = self.now;
        }
        tenant.activity = activity;
    }

    /// Returns the next instant at which something is due: an observation, a decision, the end of a call.
    pub(super) fn next_due(&self) -> Nanos {
        let calls = self.calls.iter().map(|call| call.ends).min().unwrap_or(Nanos::NEVER);
        self.next_look.min(self.wake.max(self.now)).min(calls)
    }

    /// Advances to `now` and does what is due. Returns the entries of the decision, if there was one.
    pub(super) fn step(&mut self, now: Nanos) -> Vec<Done> {
        self.now = now;
        self.finish_calls();
        if now < self.next_look && now < self.wake {
            return Vec::new();
        }
        if now >= self.next_look {
            self.look();
            self.next_look = now.plus(self.scenario.period);
        }
        self.decide()
    }

    fn look(&mut self) {
        for tenant in self.tenants.iter_mut().filter(|tenant| tenant.alive) {
            let look = Observation {
                at: self.now,
                activity: tenant.activity,
                since: tenant.since,
                occupancy: tenant.occupancy,
                queues: tenant.queues,
                stopped_queues: tenant.stopped,
            };
            self.core.observe(tenant.id, look).unwrap();
            tenant.old_look = core::mem::replace(&mut tenant.last_look, look);
        }
    }

    fn decide(&mut self) -> Vec<Done> {
        let plan = self.core.decide(self.now, &self.scenario.actuator);
        self.wake = plan.wake;
        let entries: Vec<Entry> = plan.entries.to_vec();
        let done: Vec<Done> = entries
            .into_iter()
            .map(|entry| {
                let tenant = self.tenants.iter().position(|tenant| tenant.id == entry.tenant).unwrap();
                let overlaps = self.calls.iter().any(|call| call.entry.tenant == entry.tenant);
                Done { entry, tenant, overlaps }
            })
            .collect();
        let before = self.busy.clone();
        let mut switched = GpuSet::EMPTY;
        for Done { entry, tenant, .. } in &done {
            let together = self.scenario.spends() == ActuatorKind::Combined;
            if together {
                // One cycle for the whole plan: every call starts when the first did, which has the cycle.
                self.busy[self.tenants[*tenant].gpu] = before[self.tenants[*tenant].gpu];
            }
            self.call(*tenant, entry, !together || !switched.has(entry.gpu));
            switched = switched.with(GpuSet::one(entry.gpu));
        }
        done
    }

    /// Calls the driver. Calls on one gpu wait for each other; a combined cycle is as long as one. `counts`: the cycles
    /// are those of this call, and not of another with which it is combined.
    fn call(&mut self, at: usize, entry: &Entry, counts: bool) {
        let tenant = &mut self.tenants[at];
        tenant.in_flight = true;
        let refused = self.resetting[tenant.gpu] || self.refusals > 0;
        self.refusals = self.refusals.saturating_sub(1);
        let lost = self.lost > 0;
        self.lost = self.lost.saturating_sub(1);
        let one = Batch::EMPTY.and(tenant.queues_for(entry.action));
        let known = tenant.last_look.queues;
        let cycles = self.scenario.spends().cycles(GpuIndex(tenant.gpu as u8), one, Batch::EMPTY);
        let took = self.scenario.cycle.times(u64::from(cycles)).plus(core::mem::take(&mut self.slow));
        let ends = self.busy[tenant.gpu].max(self.now).plus(took);
        self.busy[tenant.gpu] = ends;
        // A host that cannot tell the cycles measures the time of one.
        let told = self.scenario.driver.map(|_| if counts { cycles } else { 0 });
        let took = if told.is_some() { took } else { Nanos(took.0 / u64::from(cycles.max(1))) };
        self.calls.push(Call { known, tenant: at, entry: *entry, ends, took, cycles: told, refused, lost });
    }

    fn finish_calls(&mut self) {
        let now = self.now;
        let (ended, open): (Vec<Call>, Vec<Call>) = self.calls.drain(..).partition(|call| call.ends <= now);
        self.calls = open;
        for call in ended {
            let tenant = &mut self.tenants[call.tenant];
            tenant.in_flight = false;
            if !tenant.alive {
                continue;
            }
            if !call.refused {
                tenant.stopped = if call.entry.action == Action::Preempt { call.known } else { 0 };
            }
            if call.lost {
                continue;
            }
            let stopped_queues = (!call.refused).then_some(tenant.stopped);
            let report = Report { at: call.ends, took: call.took, cycles: call.cycles, stopped_queues };
            tenant.last_report = Some((call.entry.number, report));
            let outcome = self.core.report(tenant.id, call.entry.number, report);
            assert!(matches!(outcome, Ok(()) | Err(Error::StaleEntry)), "{outcome:?}");
            if outcome.is_err() {
                // The entry was planned for the tenant before it moved, or overtaken by a call from that time. Hosts
                // tell the core by an observation what the call did.
                tenant.last_look = Observation { at: now, stopped_queues: tenant.stopped, ..tenant.last_look };
                self.core.observe(tenant.id, tenant.last_look).unwrap();
            }
            // A report causes a decision at once.
            self.wake = Nanos::ZERO;
        }
    }
}
