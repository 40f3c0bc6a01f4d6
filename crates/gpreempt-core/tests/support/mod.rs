//! A small machine for stories: it observes all tenants and executes plans at once.
#![allow(dead_code, reason = "every test file uses its own part of the machine")]

use gpreempt_core::{
    Action, Activity, ActuatorKind, Entry, GpuIndex, GpuParams, GpuSlot, JobId, JobParams, JobSlot, Level, Nanos,
    Observation, Parts, Patience, Permille, Report, Scheduler, TenantId, TenantSlot,
};

pub(crate) type Heap = Parts<Vec<GpuSlot>, Vec<JobSlot>, Vec<TenantSlot>, Vec<u32>, Vec<Entry>>;

/// Returns `n` milliseconds.
pub(crate) fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

/// Creates a core with a few slots of each kind.
pub(crate) fn empty_core() -> Scheduler<Heap> {
    Scheduler::new(Parts {
        gpus: vec![GpuSlot::EMPTY; 4],
        jobs: vec![JobSlot::EMPTY; 8],
        tenants: vec![TenantSlot::EMPTY; 16],
        order: vec![0; 8],
        plan: vec![Entry::EMPTY; 16],
    })
    .expect("the parts fit")
}

/// Returns settings of a job without patience and without exempt time.
pub(crate) fn at_level(level: u8) -> JobParams {
    JobParams {
        level: Level::new(level).expect("a level"),
        patience: Patience::Fixed(Nanos::ZERO),
        min_run: Nanos::ZERO,
        ..JobParams::default()
    }
}

/// A tenant and its current observation.
pub(crate) struct Actor {
    pub(crate) id: TenantId,
    pub(crate) look: Observation,
}

/// A machine and its tenants.
pub(crate) struct Stage {
    pub(crate) core: Scheduler<Heap>,
    pub(crate) now: Nanos,
    pub(crate) actors: Vec<Actor>,
    pub(crate) wake: Nanos,
    /// Whether the driver refuses, and how long it takes.
    pub(crate) refuses: bool,
    pub(crate) took: Nanos,
}

impl Stage {
    pub(crate) fn new(gpus: u8, params: GpuParams) -> Stage {
        let mut core = empty_core();
        for gpu in 0..gpus {
            core.set_gpu(GpuIndex(gpu), params).expect("a slot");
        }
        Stage {
            core,
            now: ms(1),
            actors: Vec::new(),
            wake: Nanos::NEVER,
            refuses: false,
            took: Nanos::from_micros(100),
        }
    }

    /// Creates a machine with strict priority and without linger.
    pub(crate) fn plain(gpus: u8) -> Stage {
        Stage::new(gpus, GpuParams { linger_max: Nanos::ZERO, ..GpuParams::default() })
    }

    /// Adds a job with one tenant on each of `gpus`; returns the job and the index of its first actor.
    pub(crate) fn job(&mut self, params: JobParams, gpus: &[u8]) -> (JobId, usize) {
        let job = self.core.add_job(params).expect("room");
        let first = self.actors.len();
        for &gpu in gpus {
            self.actor(job, gpu, true);
        }
        (job, first)
    }

    pub(crate) fn actor(&mut self, job: JobId, gpu: u8, stoppable: bool) -> usize {
        let id = self.core.add_tenant(job, GpuIndex(gpu), stoppable).expect("room");
        let look = Observation { at: self.now, since: self.now, queues: 1, ..Observation::default() };
        self.actors.push(Actor { id, look });
        self.actors.len() - 1
    }

    pub(crate) fn does(&mut self, actor: usize, activity: Activity) {
        let look = &mut self.actors[actor].look;
        if look.activity.has_work() != activity.has_work() {
            look.since = self.now;
        }
        look.activity = activity;
    }

    pub(crate) fn holds_share(&mut self, actor: usize, permille: u16) {
        self.actors[actor].look.occupancy = Some(Permille::new(permille));
    }

    /// Advances to `now`, observes all tenants, then decides and executes until a plan is empty. Returns all entries.
    pub(crate) fn at(&mut self, now: Nanos) -> Vec<Entry> {
        self.now = now;
        for actor in &mut self.actors {
            actor.look.at = now;
            // Tenants that were removed cannot be observed.
            let _ = self.core.observe(actor.id, actor.look);
        }
        let mut all = Vec::new();
        loop {
            let plan = self.core.decide(now, &ActuatorKind::DebugTrap);
            self.wake = plan.wake;
            let entries = plan.entries.to_vec();
            self.carry_out(&entries);
            all.extend_from_slice(&entries);
            if entries.is_empty() {
                return all;
            }
        }
    }

    fn carry_out(&mut self, entries: &[Entry]) {
        for entry in entries {
            let actor = self.actors.iter_mut().find(|actor| actor.id == entry.tenant).expect("a tenant of ours");
            let stopped = if entry.action == Action::Preempt { actor.look.queues } else { 0 };
            let stopped_queues = (!self.refuses).then_some(stopped);
            if !self.refuses {
                actor.look.stopped_queues = stopped;
            }
            let report = Report { at: self.now, took: self.took, cycles: None, stopped_queues };
            self.core.report(entry.tenant, entry.number, report).expect("known");
        }
    }

    pub(crate) fn is_stopped(&self, actor: usize) -> bool {
        self.actors[actor].look.stopped_queues > 0
    }
}
