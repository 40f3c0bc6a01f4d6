//! What the host knows: gpus, processes, their tenants, and the jobs they belong to, each with its number in the core.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use gpreempt_core::{
    Activity, Entry, EntryNumber, GpuIndex, GpuParams, GpuSet, GpuSlot, JobId, JobParams, JobSlot, Level, Nanos, Parts,
    Permille, Reason, Scheduler, TenantId, TenantSlot, Why,
};
use kfd::{GpuId, Pid, ProcessMemory};

use crate::config::Assignment;
use crate::control::wire::ToWire as _;
use crate::discovery;
use crate::identity::Identity;
use crate::observe::TenantProbe;

use super::breaker::Breaker;
use super::displacement::Displacements;

/// Jobs and tenants that can be managed at once: eight gpus with 64 processes each.
const JOBS: usize = 512;
const TENANTS: usize = 512;

/// The core with memory from the heap.
pub(super) type Core = Scheduler<Parts<Vec<GpuSlot>, Vec<JobSlot>, Vec<TenantSlot>, Vec<u32>, Vec<Entry>>>;

/// Identifies a tenant: a process on a gpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TenantKey {
    pub(super) pid: Pid,
    pub(super) gpu: GpuId,
}

/// All gpus seen so far, each at the index that it has in the core. One that is gone keeps its place until another
/// takes it.
#[derive(Debug, Default)]
pub(super) struct Gpus(Vec<Gpu>);

impl Gpus {
    pub(super) fn get(&self, index: GpuIndex) -> Option<&Gpu> {
        self.0.get(usize::from(index.0))
    }

    pub(super) fn get_mut(&mut self, index: GpuIndex) -> Option<&mut Gpu> {
        self.0.get_mut(usize::from(index.0))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Gpu> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Gpu> {
        self.0.iter_mut()
    }

    /// Returns the indices of all gpus. Borrows nothing, so that gpus can be changed meanwhile.
    pub(super) fn indices(&self) -> impl Iterator<Item = GpuIndex> + use<> {
        (0..self.0.len()).filter_map(GpuIndex::new)
    }

    /// Returns the index of the gpu that the driver knows by this id.
    pub(super) fn find(&self, id: GpuId) -> Option<GpuIndex> {
        self.iter().find(|gpu| gpu.about.id == id).map(|gpu| gpu.index)
    }

    /// Returns the index that comes after the last, if the core has room.
    pub(super) fn next_index(&self) -> Option<GpuIndex> {
        GpuIndex::new(self.0.len())
    }

    /// Puts a gpu at its index, which is that of another or [`Gpus::next_index`].
    pub(super) fn put(&mut self, gpu: Gpu) {
        match self.get_mut(gpu.index) {
            Some(place) => *place = gpu,
            None => self.0.push(gpu),
        }
    }
}

/// A core with no jobs.
pub(super) fn new_core() -> Result<Core, gpreempt_core::Error> {
    Scheduler::new(Parts {
        gpus: vec![GpuSlot::EMPTY; GpuSet::CAPACITY],
        jobs: vec![JobSlot::EMPTY; JOBS],
        tenants: vec![TenantSlot::EMPTY; TENANTS],
        order: vec![0; JOBS],
        plan: vec![Entry::EMPTY; TENANTS],
    })
}

/// A gpu.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) about: discovery::DiscoveredGpu,
    pub(super) index: GpuIndex,
    /// The driver still has it.
    pub(super) present: bool,
    pub(super) params: GpuParams,
    pub(super) managed: bool,
    pub(super) breaker: Breaker,
    /// While the driver resets it: until when nothing is tried.
    pub(super) resetting_until: Option<Nanos>,
    /// When the last cycle that we know of ended: it took all waves off the gpu for a moment.
    pub(super) cycle_ended_at: Nanos,
    /// The read index of a queue was seen to wait for the end of packets.
    pub(super) index_retires: bool,
    /// The read index of a queue was seen to pass unfinished work.
    pub(super) index_passes_unfinished: bool,
    /// Whether jobs there could get into each other's way, as of the last change.
    pub(super) contested: bool,
    pub(super) contested_since: Nanos,
    /// Which jobs could displace which, as of the last change.
    pub(super) displacements: Displacements,
    /// Tenants on whose work a decision depends, and the other managed ones: the watch set, as of the last change.
    pub(super) upper: Vec<TenantKey>,
    pub(super) lower: Vec<TenantKey>,
}

impl Gpu {
    /// One on which nothing has happened yet.
    pub(super) fn new(about: discovery::DiscoveredGpu, index: GpuIndex, params: GpuParams, managed: bool) -> Gpu {
        Gpu {
            about,
            index,
            present: true,
            params,
            managed,
            breaker: Breaker::default(),
            resetting_until: None,
            cycle_ended_at: Nanos::ZERO,
            index_retires: false,
            index_passes_unfinished: false,
            contested: false,
            contested_since: Nanos::ZERO,
            displacements: Displacements::default(),
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
    pub(super) assignment: Option<Assignment>,
    /// A control group of which all processes have its job.
    pub(super) whole_cgroup: Option<String>,
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
    /// Contexts that it made beside its first.
    pub(super) contexts: usize,
    /// The driver had no time for it: what it answered, and until when it is not stopped.
    pub(super) busy: Option<(String, Nanos)>,
}

/// All compute queues of a process on a gpu.
#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) key: TenantKey,
    pub(super) gpu: GpuIndex,
    pub(super) about: discovery::Tenant,
    pub(super) job: Option<String>,
    /// The job's level, as of the last change.
    pub(super) level: Option<Level>,
    pub(super) core: Option<TenantId>,
    /// The core's number of its job; absent with [`Tenant::core`].
    pub(super) job_id: Option<JobId>,
    pub(super) probe: Option<TenantProbe>,
    /// When the discovery thread was last asked to look for its rings again.
    pub(super) sought_at: Nanos,
    pub(super) last: LastPoll,
    /// Queues that are stopped.
    pub(super) stopped: BTreeSet<u32>,
    /// Since when at least one is, and why.
    pub(super) stopped_at: Option<Nanos>,
    pub(super) why: Option<Why>,
    /// On whose account, in words: the job may end before the stop does.
    pub(super) cause: Option<String>,
    /// The entry that is being carried out: the last of them, if the core has given an earlier one up.
    pub(super) ordered: Option<EntryNumber>,
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
pub(super) struct LastPoll {
    pub(super) at: Nanos,
    pub(super) activity: Activity,
    pub(super) since: Nanos,
    pub(super) changed_at: Nanos,
    pub(super) pending: u64,
    /// The burst met lower work that ran, and was, or was not, left alone.
    pub(super) contested: bool,
    /// The burst met work that could never displace its own, so its length shows what protection is worth.
    pub(super) comparable: bool,
    pub(super) control: bool,
    pub(super) risen_at: Nanos,
    /// How long the present work was seen to wait for the gpu.
    pub(super) waited: Nanos,
    /// When the look had ended that first saw the present work.
    pub(super) noticed_at: Nanos,
}

impl Tenant {
    /// One of which nothing is known yet.
    pub(super) fn new(key: TenantKey, gpu: GpuIndex, now: Nanos) -> Tenant {
        Tenant {
            key,
            gpu,
            about: discovery::Tenant::on(key.gpu),
            job: None,
            level: None,
            core: None,
            job_id: None,
            probe: None,
            sought_at: Nanos::ZERO,
            last: LastPoll { changed_at: now, ..LastPoll::default() },
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

    /// Notes that it was stopped, why and on whose account.
    pub(super) fn note_stop(&mut self, why: Why, by: Option<&str>, at: Nanos) {
        self.preempted += u64::from(self.stopped_at.is_none());
        self.stopped_at.get_or_insert(at);
        self.why = Some(why);
        let reason = || (why.reason != Reason::Held).then(|| why.reason.to_wire().to_string());
        self.cause = by.map(str::to_owned).or_else(reason);
    }

    /// Whether its work is on the gpu, as far as known.
    pub(super) fn runs(&self) -> bool {
        self.last.activity.has_work() && self.stopped.len() < self.about.compute.len()
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
    pub(super) override_key: String,
    pub(super) held_until: Option<Nanos>,
    /// It had used its limit up at the last decision. Kept in observe mode only.
    pub(super) over_limit: bool,
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

/// All gpus, processes, tenants and jobs, related by their keys.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) gpus: Gpus,
    pub(super) processes: BTreeMap<Pid, Process>,
    pub(super) tenants: BTreeMap<TenantKey, Tenant>,
    pub(super) jobs: BTreeMap<String, Job>,
}

impl World {
    pub(super) fn tenants_of(&self, pid: Pid) -> impl Iterator<Item = &Tenant> {
        self.tenants
            .range(TenantKey { pid, gpu: GpuId(0) }..=TenantKey { pid, gpu: GpuId(u32::MAX) })
            .map(|(_, tenant)| tenant)
    }

    pub(super) fn by_core(&self, id: TenantId) -> Option<TenantKey> {
        self.tenants.values().find(|tenant| tenant.core == Some(id)).map(|tenant| tenant.key)
    }

    pub(super) fn job_name(&self, id: JobId) -> Option<&str> {
        self.jobs.iter().find(|(_, job)| job.core == id).map(|(name, _)| name.as_str())
    }

    /// Asks the core which jobs could displace which, and divides the tenants of each gpu accordingly. Called after
    /// members, levels or parameters changed.
    pub(super) fn classify_tenants(&mut self, core: &Core) {
        let World { gpus, tenants, jobs, .. } = self;
        for tenant in tenants.values_mut() {
            tenant.level = tenant.job.as_ref().and_then(|job| jobs.get(job)).map(Job::level);
        }
        for gpu in gpus.iter_mut() {
            let index = gpu.index;
            let here = || tenants.values().filter(move |tenant| tenant.gpu == index && tenant.job_id.is_some());
            let jobs: HashSet<JobId> = here().filter_map(|tenant| tenant.job_id).collect();
            gpu.displacements = Displacements::ask(core, index, &jobs);
            // Where no job displaces another, as beside a hold, none is more urgent to see than the others.
            let any = jobs.iter().any(|job| gpu.displacements.must_be_watched(*job));
            let is_upper =
                |tenant: &&Tenant| !any || tenant.job_id.is_some_and(|job| gpu.displacements.must_be_watched(job));
            let upper: Vec<TenantKey> = here().filter(is_upper).map(|tenant| tenant.key).collect();
            gpu.lower = here().filter(|tenant| !is_upper(tenant)).map(|tenant| tenant.key).collect();
            gpu.upper = upper;
        }
    }

    /// Stopped processes.
    pub(super) fn stopped_pids(&self) -> BTreeSet<Pid> {
        self.tenants.values().filter(|tenant| tenant.is_stopped()).map(|tenant| tenant.key.pid).collect()
    }
}
