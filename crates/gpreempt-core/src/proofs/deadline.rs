//! Earliest deadline first meets every deadline that can be met, when cycles are free.

use proptest::prelude::*;
use std::format;
use std::string::String;
use std::vec::Vec;

use super::world::heap;
use super::{holds, notices};
use crate::mutant::Mutant;
use crate::{
    Action, Activity, ActuatorKind, GpuIndex, GpuParams, JobParams, Nanos, Observation, Patience, PolicyKind, Report,
    TenantId,
};

/// A periodic task: `runtime` of work every `period`, due when the next is released.
#[derive(Clone, Debug)]
struct Task {
    period: Nanos,
    runtime: Nanos,
}

/// Returns task sets that use nearly all of the gpu and never more.
fn task_sets() -> impl Strategy<Value = Vec<Task>> {
    (prop::collection::vec((4..60u64, 1..100u64), 2..6), 850..1000u64).prop_map(|(tasks, load)| {
        let weights: u64 = tasks.iter().map(|&(_, weight)| weight).sum();
        let task = |&(period, weight): &(u64, u64)| {
            let period = Nanos::from_millis(period);
            Task { period, runtime: Nanos(period.0 / 1000 * load * weight / weights).max(Nanos::from_micros(1)) }
        };
        tasks.iter().map(task).collect()
    })
}

struct Client {
    task: Task,
    tenant: TenantId,
    due: Nanos,
    next_release: Nanos,
    /// Remaining work of the current release.
    left: Nanos,
    since: Nanos,
    stopped: bool,
}

/// The distance of releases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Releases {
    /// Exactly a period apart.
    Periodic,
    /// A period apart or more.
    Sporadic,
}

/// Returns a time between zero and `most`; equal seeds give equal sequences.
fn delay(seed: &mut u64, most: Nanos) -> Nanos {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    Nanos((*seed >> 33) % most.0.max(1))
}

/// Runs the tasks for two seconds. The gpu runs every task with work that is not stopped; two at once is a failure.
fn meets_deadlines(tasks: &[Task], releases: Releases) -> Result<(), String> {
    let mut seed = tasks.iter().fold(1u64, |seed, task| seed.wrapping_mul(31).wrapping_add(task.runtime.0));
    let mut core = heap(1);
    let gpu = GpuParams {
        policy: PolicyKind::Deadline,
        linger_max: Nanos::ZERO,
        cycle_estimate: Nanos::ZERO,
        ..GpuParams::default()
    };
    core.set_gpu(GpuIndex(0), gpu).unwrap();
    let mut clients: Vec<Client> = tasks
        .iter()
        .map(|task| {
            let params = JobParams {
                patience: Patience::Fixed(Nanos::ZERO),
                min_run: Nanos::ZERO,
                max_stop: Nanos::NEVER,
                period: task.period,
                runtime: task.runtime,
                ..JobParams::default()
            };
            let job = core.add_job(params).unwrap();
            let tenant = core.add_tenant(job, GpuIndex(0), true).unwrap();
            let (start, zero) = (Nanos::from_millis(1), Nanos::ZERO);
            Client {
                task: task.clone(),
                tenant,
                due: zero,
                next_release: start,
                left: zero,
                since: zero,
                stopped: false,
            }
        })
        .collect();

    let mut now = Nanos::from_millis(1);
    while now < Nanos::from_secs(2) {
        if let Some(late) = clients.iter().find(|client| client.left > Nanos::ZERO && now >= client.due) {
            return Err(format!("{:?} missed its deadline at {now:?}", late.task));
        }
        for client in clients.iter_mut().filter(|client| client.next_release <= now) {
            client.since = now;
            client.left = client.task.runtime;
            client.due = now.plus(client.task.period);
            client.next_release = client.due;
            if releases == Releases::Sporadic {
                client.next_release = client.due.plus(delay(&mut seed, client.task.period));
            }
        }
        let mut wake = Nanos::ZERO;
        while wake <= now {
            wake = ask(&mut core, &mut clients, now);
        }
        let running: Vec<usize> =
            (0..clients.len()).filter(|&at| clients[at].left > Nanos::ZERO && !clients[at].stopped).collect();
        if running.len() > 1 {
            return Err(format!("{} run at {now:?}", running.len()));
        }
        let release = clients.iter().map(|client| client.next_release).min().unwrap();
        let end = running.first().map_or(Nanos::NEVER, |&at| now.plus(clients[at].left));
        let due = clients.iter().filter(|client| client.left > Nanos::ZERO).map(|client| client.due).min();
        let next = release.min(end).min(wake).min(due.unwrap_or(Nanos::NEVER));
        for &at in &running {
            clients[at].left = clients[at].left.since(next.since(now));
            if clients[at].left == Nanos::ZERO {
                clients[at].since = next;
            }
        }
        now = next;
    }
    Ok(())
}

/// Observes, decides and executes the plan at once; repeats this while plans have entries.
fn ask(core: &mut crate::Scheduler<super::world::Heap>, clients: &mut [Client], now: Nanos) -> Nanos {
    for client in clients.iter() {
        let activity = if client.left > Nanos::ZERO { Activity::Running } else { Activity::Idle };
        let stopped_queues = u16::from(client.stopped);
        let look =
            Observation { at: now, activity, since: client.since, queues: 1, stopped_queues, ..Observation::default() };
        core.observe(client.tenant, look).unwrap();
    }
    let plan = core.decide(now, &ActuatorKind::DebugTrap);
    let (wake, entries) = (plan.wake, plan.entries.to_vec());
    for entry in &entries {
        let client = clients.iter_mut().find(|client| client.tenant == entry.tenant).unwrap();
        client.stopped = entry.action == Action::Preempt;
        let report =
            Report { at: now, took: Nanos::ZERO, cycles: None, stopped_queues: Some(u16::from(client.stopped)) };
        core.report(entry.tenant, entry.number, report).unwrap();
    }
    if entries.is_empty() { wake } else { now }
}

#[test]
fn feasible_task_sets_meet_all_deadlines() {
    holds(&task_sets(), |tasks| meets_deadlines(tasks, Releases::Periodic));
}

#[test]
fn feasible_task_sets_meet_all_deadlines_when_releases_come_late() {
    holds(&task_sets(), |tasks| meets_deadlines(tasks, Releases::Sporadic));
}

#[test]
fn missed_deadlines_notice_their_mutant() {
    notices(Mutant::LatestDeadline, &task_sets(), |tasks| meets_deadlines(tasks, Releases::Periodic));
}

#[test]
fn asking_for_more_than_the_gpu_has_is_said() {
    let mut core = heap(2);
    for gpu in 0..2 {
        core.set_gpu(GpuIndex(gpu), GpuParams { policy: PolicyKind::Deadline, ..GpuParams::default() }).unwrap();
    }
    for (gpu, runtime) in [(0, 6), (0, 5), (1, 10)] {
        let params =
            JobParams { period: Nanos::from_millis(10), runtime: Nanos::from_millis(runtime), ..JobParams::default() };
        let job = core.add_job(params).unwrap();
        core.add_tenant(job, GpuIndex(gpu), true).unwrap();
    }
    let over = core.decide(Nanos::from_millis(1), &ActuatorKind::DebugTrap).overcommitted;
    assert!(over.has(GpuIndex(0)) && !over.has(GpuIndex(1)), "{over:?}");
}
