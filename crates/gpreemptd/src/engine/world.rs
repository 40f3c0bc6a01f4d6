//! What the engine knows: gpus, processes, their tenants, and the jobs they belong to, each with its place in the core.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpreempt_core::{
    Action, Activity, Entry, GpuId as Slot, GpuParams, GpuSet, GpuSlot, JobId, JobParams, JobSlot, Level, Nanos, Parts,
    Permille, Scheduler, TenantId, TenantSlot, Why,
};
use kfd::{Pid, ProcessMemory};

use crate::config::Assignment;
use crate::identity::Identity;
use crate::observe::Eye;
use crate::scout;

use super::breaker::Breaker;

/// Jobs and tenants that can be managed at once: eight gpus with 64 processes each.
const JOBS: usize = 512;
const TENANTS: usize = 512;

/// The core with memory from the heap.
pub(super) type Core = Scheduler<Parts<Vec<GpuSlot>, Vec<JobSlot>, Vec<TenantSlot>, Vec<u32>, Vec<Entry>>>;

/// A tenant's name: process and gpu.
pub(super) type Name = (Pid, u32);

/// A core with no jobs.
pub(super) fn new_core() -> Result<Core, gpreempt_core::Error> {
    Scheduler::new(Parts {
        gpus: vec![GpuSlot::default(); GpuSet::CAPACITY],
        jobs: vec![JobSlot::default(); JOBS],
        tenants: vec![TenantSlot::default(); TENANTS],
        order: vec![0; JOBS],
        plan: vec![Entry::EMPTY; TENANTS],
    })
}

/// A gpu.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) about: scout::Gpu,
    pub(super) slot: Slot,
    /// The driver still has it.
    pub(super) present: bool,
    pub(super) params: GpuParams,
    pub(super) managed: bool,
    pub(super) breaker: Breaker,
    /// While the driver resets it: until when nothing is tried.
    pub(super) resetting_until: Option<Nanos>,
    /// A call to the driver was measured.
    pub(super) measured: bool,
    /// When the last cycle that we know of ended: it took the waves of everybody off the gpu for a moment.
    pub(super) bounced_at: Nanos,
    /// The tenant whose burst is left alone, to see what happens without us.
    pub(super) spared_for: Option<Name>,
    /// How long at most: a burst may have no end.
    pub(super) spared_until: Nanos,
    /// Whether jobs there could get into each other's way, as of the last change.
    pub(super) contested: bool,
    pub(super) contested_since: Nanos,
    /// Tenants whose work would displace others, and those others: what is looked at, as of the last change.
    pub(super) upper: Vec<Name>,
    pub(super) lower: Vec<Name>,
}

impl Gpu {
    /// One on which nothing has happened yet.
    pub(super) fn new(about: scout::Gpu, slot: Slot, params: GpuParams, managed: bool) -> Gpu {
        Gpu {
            about,
            slot,
            present: true,
            params,
            managed,
            breaker: Breaker::default(),
            resetting_until: None,
            measured: false,
            bounced_at: Nanos::ZERO,
            spared_for: None,
            spared_until: Nanos::ZERO,
            contested: false,
            contested_since: Nanos::ZERO,
            upper: Vec::new(),
            lower: Vec::new(),
        }
    }
}

/// How a session with a process stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Session {
    /// None, and none is needed.
    #[default]
    None,
    /// Asked for, and when.
    Asked { at: Nanos },
    /// There is one; with or without the process's runtime.
    Open { runtime: bool },
    /// It was refused; tried again later.
    Refused { why: String, retry_at: Nanos },
}

/// A process with compute queues.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) identity: Identity,
    pub(super) user: String,
    pub(super) treatment: Option<Assignment>,
    pub(super) session: Session,
    /// Sessions refused in a row.
    pub(super) refusals: u32,
    pub(super) traced_by: Option<Pid>,
    /// The operator told the daemon to leave it alone.
    pub(super) unmanaged: bool,
    pub(super) memory: Option<Arc<ProcessMemory>>,
    /// Its memory cannot be read, and why.
    pub(super) unreadable: Option<String>,
    /// It wants to go: until when it is not stopped.
    pub(super) leaving_until: Nanos,
}

/// All compute queues of a process on a gpu.
#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) name: Name,
    pub(super) gpu: usize,
    pub(super) about: scout::Tenant,
    pub(super) job: Option<String>,
    /// The job's level, as of the last change.
    pub(super) level: Option<Level>,
    pub(super) core: Option<TenantId>,
    pub(super) eye: Option<Eye>,
    /// When the scout was last asked to look for its rings again.
    pub(super) sought_at: Nanos,
    pub(super) seen: Seen,
    /// Queues that are stopped.
    pub(super) stopped: BTreeSet<u32>,
    /// Since when at least one is, and why.
    pub(super) stopped_at: Option<Nanos>,
    pub(super) why: Option<Why>,
    /// On whose account, in words: the job may end before the stop does.
    pub(super) cause: Option<String>,
    /// The order that is under way.
    pub(super) ordered: Option<Action>,
    /// As the core was told.
    pub(super) stoppable: bool,
    pub(super) preempted: u64,
    pub(super) stopped_total: Nanos,
    /// A sample was asked for and has not come.
    pub(super) sampling: bool,
    pub(super) sampled_at: Nanos,
    /// Share of the gpu, as last sampled, and when.
    pub(super) occupancy: Option<(Permille, Nanos)>,
}

/// What was last seen of a tenant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) at: Nanos,
    pub(super) activity: Activity,
    pub(super) since: Nanos,
    pub(super) changed_at: Nanos,
    pub(super) pending: u64,
    /// The burst met lower work that ran, and was, or was not, left alone.
    pub(super) contested: bool,
    pub(super) spared: bool,
    pub(super) risen_at: Nanos,
    /// How long the present work was seen to wait for the gpu.
    pub(super) waited: Nanos,
    /// When the look had ended that first saw the present work.
    pub(super) noticed_at: Nanos,
}

impl Tenant {
    /// One of which nothing is known yet.
    pub(super) fn new(name: Name, gpu: usize, now: Nanos) -> Tenant {
        Tenant {
            name,
            gpu,
            about: scout::Tenant::default(),
            job: None,
            level: None,
            core: None,
            eye: None,
            sought_at: Nanos::ZERO,
            seen: Seen { changed_at: now, ..Seen::default() },
            stopped: BTreeSet::new(),
            stopped_at: None,
            why: None,
            cause: None,
            ordered: None,
            stoppable: false,
            preempted: 0,
            stopped_total: Nanos::ZERO,
            sampling: false,
            sampled_at: Nanos::ZERO,
            occupancy: None,
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        !self.stopped.is_empty()
    }

    pub(super) fn queues(&self) -> u16 {
        u16::try_from(self.about.compute.len()).unwrap_or(u16::MAX)
    }

    pub(super) fn stopped_queues(&self) -> u16 {
        u16::try_from(self.stopped.len()).unwrap_or(u16::MAX)
    }

    /// Whether its work is on the gpu, as far as known.
    pub(super) fn runs(&self) -> bool {
        self.seen.activity.has_work() && self.stopped.len() < self.about.compute.len()
    }
}

/// Tenants that stop and run together.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) core: JobId,
    pub(super) rule: String,
    pub(super) max_level: Level,
    /// As the rules have it.
    pub(super) params: JobParams,
    /// Set by hand.
    pub(super) level: Option<Level>,
    /// By the operator, who is not bound by the rules.
    pub(super) trusted: bool,
    /// The name under which that is kept.
    pub(super) kept: String,
    pub(super) held_until: Option<Nanos>,
    pub(super) pids: BTreeSet<Pid>,
    /// Whose it is.
    pub(super) uid: u32,
}

impl Job {
    pub(super) fn level(&self) -> Level {
        let by_hand = self.level.map(|level| if self.trusted { level } else { level.min(self.max_level) });
        by_hand.unwrap_or(self.params.level)
    }

    /// What the core is told.
    pub(super) fn effective(&self) -> JobParams {
        JobParams { level: self.level(), ..self.params }
    }
}

/// Everything.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) gpus: Vec<Gpu>,
    pub(super) processes: BTreeMap<Pid, Process>,
    pub(super) tenants: BTreeMap<Name, Tenant>,
    pub(super) jobs: BTreeMap<String, Job>,
}

impl World {
    pub(super) fn gpu_index(&self, id: u32) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.about.id.0 == id)
    }

    pub(super) fn tenants_of(&self, pid: Pid) -> impl Iterator<Item = &Tenant> {
        self.tenants.range((pid, 0)..=(pid, u32::MAX)).map(|(_, tenant)| tenant)
    }

    pub(super) fn by_core(&self, id: TenantId) -> Option<Name> {
        self.tenants.values().find(|tenant| tenant.core == Some(id)).map(|tenant| tenant.name)
    }

    pub(super) fn job_name(&self, id: JobId) -> Option<&str> {
        self.jobs.iter().find(|(_, job)| job.core == id).map(|(name, _)| name.as_str())
    }

    /// Works out who is looked at on each gpu, after levels or members changed.
    pub(super) fn sort_tenants(&mut self) {
        let World { gpus, tenants, jobs, .. } = self;
        for tenant in tenants.values_mut() {
            tenant.level = tenant.job.as_ref().and_then(|job| jobs.get(job)).map(Job::level);
        }
        for (index, gpu) in gpus.iter_mut().enumerate() {
            let here = || tenants.values().filter(move |tenant| tenant.gpu == index && tenant.level.is_some());
            let lowest = here().map(|tenant| tenant.level).min().flatten();
            let highest = here().map(|tenant| tenant.level).max().flatten();
            // Equals take turns, so each of them matters.
            let is_upper = |tenant: &&Tenant| lowest == highest || tenant.level > lowest;
            gpu.upper = here().filter(is_upper).map(|tenant| tenant.name).collect();
            gpu.lower = here().filter(|tenant| !is_upper(tenant)).map(|tenant| tenant.name).collect();
        }
    }

    /// Stopped processes.
    pub(super) fn stopped_pids(&self) -> BTreeSet<Pid> {
        self.tenants.values().filter(|tenant| tenant.is_stopped()).map(|tenant| tenant.name.0).collect()
    }
}
