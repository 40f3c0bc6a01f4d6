//! Monitors: the properties of a history under strict priority, checked at every step.

use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::string::String;
use std::vec::Vec;

use super::world::{Done, World};
use crate::bounds;
use crate::snapshot;
use crate::storage::Storage as _;
use crate::{Action, GpuIndex, Nanos, Phase, Reason};

/// A promised property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Property {
    /// No inversion lasts longer than its bound.
    Inversion,
    /// No job with work stays stopped longer than its bound.
    Starvation,
    /// Every entry of a plan changes something.
    NoNoOp,
    /// No entry is planned for a tenant while its last one is being executed.
    NoOverlap,
    /// No entry preempts a tenant that cannot be stopped.
    Stoppable,
    /// A stopped job runs again once no higher job that runs wants its gpus.
    Resumes,
    /// No job is partly stopped for longer than a plan takes.
    Whole,
    /// No two jobs hold parts of each other for longer than a plan takes.
    NoMutualHold,
    /// Only a job with work on a common gpu causes a stop.
    Causes,
    /// No gpu spends more cycles than its budget.
    Budget,
    /// A resumed job is not stopped during its exempt time.
    Exempt,
    /// Larger victims are preempted first.
    Order,
    /// The gate separates the turns of aged jobs on a gpu.
    Gate,
}

/// Checks one property.
pub(super) struct Monitor {
    property: Property,
    /// Since when each watched condition holds.
    since: BTreeMap<(usize, usize, usize), Nanos>,
    stopped: BTreeSet<usize>,
    turns: BTreeMap<usize, Nanos>,
    cycles: Vec<Vec<(Nanos, u32)>>,
}

type Check = Result<(), String>;

impl Monitor {
    pub(super) fn new(property: Property, gpus: usize) -> Monitor {
        Monitor {
            property,
            since: BTreeMap::new(),
            stopped: BTreeSet::new(),
            turns: BTreeMap::new(),
            cycles: std::vec![Vec::new(); gpus],
        }
    }

    /// Checks a plan that was just made.
    pub(super) fn plan(&mut self, world: &World, plan: &[Done]) -> Check {
        match self.property {
            Property::NoNoOp => no_no_op(world, plan),
            Property::NoOverlap => no_overlap(plan),
            Property::Stoppable => stoppable(world, plan),
            Property::Causes => causes(world, plan),
            Property::Order => order(world, plan),
            Property::Budget => self.budget(world, plan),
            Property::Exempt => self.exempt(world, plan),
            Property::Gate => self.gate(world, plan),
            _ => Ok(()),
        }
    }

    /// Checks the state that lasts until the next step.
    pub(super) fn state(&mut self, world: &mut World) -> Check {
        match self.property {
            Property::Inversion => self.inversion(world),
            Property::Starvation => self.starvation(world),
            Property::Resumes => self.resumes(world),
            Property::Whole => self.whole(world),
            Property::NoMutualHold => self.mutual(world),
            Property::Exempt => {
                self.note_resumes(world);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Fails if the condition behind `key` has held for longer than `bound`.
    fn lasting(&mut self, world: &World, key: (usize, usize, usize), holds: bool, bound: Nanos) -> Check {
        if !holds {
            self.since.remove(&key);
            return Ok(());
        }
        let since = *self.since.entry(key).or_insert(world.now);
        let lasted = world.now.since(since.max(world.upset));
        if lasted > bound {
            return Err(format!("{:?} {key:?}: lasted {lasted:?} since {since:?}, bound {bound:?}", self.property));
        }
        Ok(())
    }

    fn inversion(&mut self, world: &mut World) -> Check {
        for upper in 0..world.jobs.len() {
            for gpu in 0..world.resetting.len() {
                let (id, job, period) = (GpuIndex(gpu as u8), world.jobs[upper].id, world.scenario.period);
                let terms = world.core.inversion_bound(id, job, period, &world.scenario.actuator).unwrap();
                for lower in 0..world.jobs.len() {
                    let holds = is_inverted(world, upper, lower, gpu);
                    self.lasting(world, (upper, lower, gpu), holds, bounds::inversion(&terms))
                        .map_err(|violation| format!("{violation}; {terms:?}"))?;
                }
            }
        }
        Ok(())
    }

    fn starvation(&mut self, world: &mut World) -> Check {
        for job in 0..world.jobs.len() {
            let terms = world.core.starvation_bound(world.jobs[job].id, world.scenario.period).unwrap();
            // The resume waits for the calls before it on the same gpu.
            let bound = bounds::starvation(&terms).plus(plan_time(world));
            let mut stopped = world.members(job).filter(|tenant| tenant.works()).peekable();
            let holds = stopped.peek().is_some() && stopped.all(|tenant| tenant.stopped == tenant.queues);
            self.lasting(world, (job, 0, 0), holds, bound)?;
        }
        Ok(())
    }

    fn resumes(&mut self, world: &World) -> Check {
        for job in 0..world.jobs.len() {
            let stopped = world.members(job).any(|tenant| tenant.stopped > 0);
            let level = world.jobs[job].params.level;
            let wanted = world.members(job).any(|mine| {
                world
                    .tenants
                    .iter()
                    .any(|other| other.gpu == mine.gpu && other.runs() && world.jobs[other.job].params.level > level)
            });
            let linger = world.scenario.gpus.iter().map(|gpu| gpu.linger_max).max().unwrap_or(Nanos::ZERO);
            let bound = linger.plus(world.scenario.period.times(2)).plus(plan_time(world).times(2));
            self.lasting(world, (job, 0, 0), stopped && !wanted, bound)?;
        }
        Ok(())
    }

    fn whole(&mut self, world: &mut World) -> Check {
        for job in 0..world.jobs.len() {
            let stopped = world.members(job).any(|tenant| tenant.stopped > 0);
            let holds = stopped && world.members(job).any(super::world::Tenant::runs);
            let refill = refill_time(world);
            let bound = world.scenario.period.plus(plan_time(world).times(2)).plus(refill);
            self.lasting(world, (job, 0, 0), holds, bound)?;
        }
        Ok(())
    }

    fn mutual(&mut self, world: &mut World) -> Check {
        let holds_part = |a: usize, b: usize| {
            world.members(a).any(|mine| {
                mine.runs()
                    && world.members(b).any(|theirs| theirs.gpu == mine.gpu && theirs.works() && theirs.stopped > 0)
            })
        };
        let pairs: Vec<(usize, usize, bool)> = (0..world.jobs.len())
            .flat_map(|a| (0..a).map(move |b| (a, b)))
            .map(|(a, b)| (a, b, holds_part(a, b) && holds_part(b, a)))
            .collect();
        let bound = world.scenario.period.plus(plan_time(world).times(2)).plus(refill_time(world));
        for (a, b, holds) in pairs {
            self.lasting(world, (a, b, 0), holds, bound)?;
        }
        Ok(())
    }

    fn budget(&mut self, world: &World, plan: &[Done]) -> Check {
        for (gpu, params) in world.scenario.gpus.iter().enumerate() {
            let id = GpuIndex(gpu as u8);
            let batch = |action| {
                plan.iter()
                    .filter(|done| done.entry.gpu == id && done.entry.action == action)
                    .fold(crate::Batch::EMPTY, |batch, done| batch.and(world.tenants[done.tenant].queues_for(action)))
            };
            let cost = world.scenario.spends();
            let spent = crate::Cost::cycles(&cost, id, batch(Action::Preempt), batch(Action::Resume));
            if spent == 0 {
                continue;
            }
            self.cycles[gpu].push((world.now, spent));
            let largest = stop_and_resumes(world, gpu);
            let mut sum = 0u64;
            for &(at, spent) in self.cycles[gpu].iter().rev() {
                sum += u64::from(spent);
                let window = world.now.since(at);
                let most = bounds::cycles(params, window, largest).saturating_add(underestimate(world, largest));
                if sum > most {
                    return Err(format!("Budget: {sum} cycles within {window:?} on gpu {gpu}, at most {most}"));
                }
            }
        }
        Ok(())
    }

    fn exempt(&mut self, world: &World, plan: &[Done]) -> Check {
        let stops = |done: &&Done| done.entry.action == Action::Preempt && done.entry.why.reason == Reason::HigherWants;
        for done in plan.iter().filter(stops) {
            let job = world.tenants[done.tenant].job;
            let Some(&since) = self.since.get(&(job, 0, 0)) else { continue };
            let ran = world.now.since(since);
            if ran < world.jobs[job].params.min_run {
                return Err(format!("Exempt: job {job} stopped after running for {ran:?}"));
            }
        }
        Ok(())
    }

    /// Notes since when jobs run again after they were stopped.
    fn note_resumes(&mut self, world: &World) {
        for job in 0..world.jobs.len() {
            if world.members(job).any(|tenant| tenant.stopped > 0) {
                self.stopped.insert(job);
                self.since.remove(&(job, 0, 0));
            } else if self.stopped.remove(&job) {
                self.since.insert((job, 0, 0), world.now);
            }
        }
    }

    fn gate(&mut self, world: &World, plan: &[Done]) -> Check {
        for done in plan.iter().filter(|done| done.entry.why.reason == Reason::Aged) {
            let tenant = &world.tenants[done.tenant];
            let turn = world.jobs[tenant.job].params.turn();
            let last = self.turns.get(&tenant.gpu).copied();
            // A turn that begins with another is the same turn; the gate is as long as the last turn needs.
            if let Some(open) = last
                && world.now < open
                && self.since.get(&(tenant.gpu, 0, 0)) != Some(&world.now)
            {
                return Err(format!("Gate: a turn on gpu {} before {open:?}", tenant.gpu));
            }
            self.since.insert((tenant.gpu, 0, 0), world.now);
            let open = world.now.plus(turn.times(2));
            let entry = self.turns.entry(tenant.gpu).or_insert(open);
            *entry = (*entry).max(open);
        }
        Ok(())
    }
}

/// Returns how many cycles the plans under way may spend that the cost function does not know of. `largest` is what
/// stopping and resuming everything takes.
fn underestimate(world: &World, largest: u32) -> u64 {
    let many = crate::Batch { tenants: 2, queues: 3 };
    let cycles = |cost: crate::ActuatorKind| crate::Cost::cycles(&cost, GpuIndex(0), many, crate::Batch::EMPTY);
    if cycles(world.scenario.spends()) > cycles(world.scenario.actuator) { u64::from(largest) } else { 0 }
}

/// Returns the cycles to stop everything on a gpu and to resume it one by one.
fn stop_and_resumes(world: &World, gpu: usize) -> u32 {
    let cost = &world.scenario.spends();
    let each = |tenant: &super::world::Tenant| {
        let one = crate::Batch::EMPTY.and(tenant.queues);
        crate::Cost::cycles(cost, GpuIndex(gpu as u8), crate::Batch::EMPTY, one)
    };
    2 * world.tenants.iter().filter(|tenant| tenant.alive && tenant.gpu == gpu).map(each).sum::<u32>()
}

/// Returns the time to execute everything that can be in progress on one gpu.
fn plan_time(world: &World) -> Nanos {
    let gpus = world.resetting.len();
    let calls = |gpu: usize| {
        world
            .tenants
            .iter()
            .filter(|tenant| tenant.alive && tenant.gpu == gpu)
            .map(|tenant| u64::from(tenant.queues))
            .sum::<u64>()
    };
    let most = (0..gpus).map(calls).max().unwrap_or(0);
    world.scenario.cycle.times(2 * most)
}

/// Returns the refill term of the crate's bound, which is the same for every job of the machine.
fn refill_time(world: &mut World) -> Nanos {
    if world.jobs.is_empty() {
        return Nanos::ZERO;
    }
    snapshot::refill(world.core.storage.view(), &world.scenario.actuator)
}

/// Returns whether `upper` wants a gpu on which `lower` runs, no higher job keeps `upper` from it, and `lower` could be
/// stopped.
fn is_inverted(world: &World, upper: usize, lower: usize, gpu: usize) -> bool {
    let level = |job: usize| world.jobs[job].params.level;
    if level(upper) <= level(lower) || world.resetting[gpu] {
        return false;
    }
    let wants = world.members(upper).any(|tenant| tenant.gpu == gpu && tenant.works())
        && world.members(upper).all(|tenant| tenant.stopped == 0 && !tenant.in_flight);
    let runs = world.members(lower).any(|tenant| tenant.gpu == gpu && tenant.runs());
    let stoppable = world.tenants.iter().filter(|t| t.alive && t.job == lower).all(|tenant| tenant.stoppable);
    let unchallenged = world.members(upper).all(|mine| {
        world.tenants.iter().all(|other| !(other.gpu == mine.gpu && other.works() && level(other.job) > level(upper)))
    });
    wants && runs && stoppable && unchallenged
}

fn no_no_op(world: &World, plan: &[Done]) -> Check {
    let mut seen = Vec::new();
    for done in plan {
        let tenant = &world.tenants[done.tenant];
        let changes = match done.entry.action {
            Action::Preempt => tenant.stopped < tenant.queues,
            Action::Resume => tenant.stopped > 0,
        };
        if !changes || seen.contains(&done.tenant) {
            return Err(format!("NoNoOp: {:?} of {tenant:?}", done.entry));
        }
        seen.push(done.tenant);
    }
    Ok(())
}

fn no_overlap(plan: &[Done]) -> Check {
    let early = plan.iter().find(|done| done.overlaps);
    early.map_or(Ok(()), |done| Err(format!("NoOverlap: {:?}", done.entry)))
}

fn stoppable(world: &World, plan: &[Done]) -> Check {
    let asked = plan.iter().filter(|done| done.entry.action == Action::Preempt);
    let mut wrong = asked.filter(|done| !world.tenants[done.tenant].stoppable);
    wrong.next().map_or(Ok(()), |done| Err(format!("Stoppable: {:?}", done.entry)))
}

fn causes(world: &World, plan: &[Done]) -> Check {
    for done in plan.iter().filter(|done| done.entry.why.reason == Reason::HigherWants) {
        if done.entry.action != Action::Preempt {
            continue;
        }
        let victim = world.tenants[done.tenant].job;
        let cause = world.jobs.iter().position(|job| Some(job.id) == done.entry.why.cause);
        let justified = cause.is_some_and(|cause| {
            // Observations may be a period old: the core is judged by what it could know.
            world.members(cause).any(|theirs| {
                (theirs.works() || theirs.since > world.now.since(world.scenario.period))
                    && world.members(victim).any(|mine| mine.gpu == theirs.gpu)
            })
        });
        if !justified {
            return Err(format!("Causes: {:?} without a job that wants the gpu", done.entry));
        }
    }
    Ok(())
}

fn order(world: &World, plan: &[Done]) -> Check {
    let size = |done: &Done| {
        let job = world.tenants[done.tenant].job;
        // The core can compare what the host saw at its last observation.
        let all: Option<Vec<_>> = world.members(job).filter_map(super::world::Tenant::seen_share).collect();
        all.map(|all| all.into_iter().map(|share| u32::from(share.get())).sum::<u32>().min(1000))
    };
    let preempts: Vec<&Done> = plan.iter().filter(|done| done.entry.action == Action::Preempt).collect();
    for pair in preempts.windows(2) {
        if let (Some(first), Some(second)) = (size(pair[0]), size(pair[1]))
            && first < second
            && pair.iter().all(|done| done.entry.why.reason == Reason::HigherWants)
        {
            return Err(format!("Order: {first:?} before {second:?}"));
        }
    }
    let resume_first =
        plan.windows(2).any(|pair| pair[0].entry.action == Action::Resume && pair[1].entry.action == Action::Preempt);
    if resume_first { Err("Order: a resume before a preemption".into()) } else { Ok(()) }
}

/// Checks a machine at rest: no job is partly stopped, and every tenant is in the phase of its job.
pub(super) fn at_rest(world: &mut World) -> Check {
    for job in 0..world.jobs.len() {
        let status = world.core.job(world.jobs[job].id).unwrap();
        let stopped = world.members(job).any(|tenant| tenant.stopped > 0);
        let runs = world.members(job).any(super::world::Tenant::runs);
        if stopped && runs {
            return Err(format!("AtRest: job {job} is partly stopped: {:?}", world.tenants));
        }
        if stopped && status.phase == Phase::Running {
            return Err(format!("AtRest: job {job} should run: {:?}", world.tenants));
        }
    }
    Ok(())
}
