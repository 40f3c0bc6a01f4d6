//! Queues that are new, evicted or suspended.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use kfd::{Grace, Kfd, Pid, QueueId, Tracer};
use kfd_abi::queue::QueueType;
use kfd_abi::sched::QueueFlags;

use crate::Options;
use crate::interface::{ACTIVE, BORN_PREEMPTED, BY_ME, EVICTED, PREEMPT, PREEMPTED, RESUME, SUSPENDED};
use crate::sched::{Sched, all};
use crate::tenant::Tenant;

/// Fails unless all queues of a tenant have these flags.
fn must_be(sched: &Sched, tenant: &Tenant, flags: QueueFlags) -> Result<()> {
    let queues = sched.queues(tenant.pid())?;
    ensure!(queues.len() == tenant.queues.len(), "{} queues are listed, not {}", queues.len(), tenant.queues.len());
    for queue in queues {
        ensure!(queue.flags == flags, "queue {} has flags {:?}, not {flags:?}", queue.queue_id, queue.flags);
    }
    Ok(())
}

pub(super) fn queues_are_listed(_: &Options) -> Result<()> {
    let (a, b) = (Tenant::start(2)?, Tenant::start(1)?);
    let sched = Sched::new()?;
    let queues = sched.queues(0)?;
    ensure!(queues.len() == 3, "{} queues", queues.len());
    for tenant in [&a, &b] {
        let mut ids: Vec<u32> = sched.queues(tenant.pid())?.iter().map(|queue| queue.queue_id).collect();
        ids.sort_unstable();
        ensure!(ids == tenant.queues, "{ids:?}, not {:?}", tenant.queues);
    }
    let kfd = sched.queues(a.pid())?;
    for queue in kfd {
        ensure!(queue.queue_type == QueueType::COMPUTE_AQL && queue.format == 1, "no AQL queue: {queue:?}");
        ensure!(queue.ring_base != 0 && queue.ring_size.is_power_of_two(), "{queue:?}");
        ensure!(queue.read_pointer != 0 && queue.write_pointer != 0 && queue.save_area != 0, "{queue:?}");
        ensure!(queue.percent == 100 && queue.gpu_id != 0 && queue.context_id == 0xffff, "{queue:?}");
        ensure!(queue.flags == ACTIVE && queue.reserved == 0, "{queue:?}");
    }
    Ok(())
}

pub(super) fn born_preempted(_: &Options) -> Result<()> {
    let mut tenant = Tenant::start(1)?;
    let sched = Sched::new()?;
    sched.must(&[all(tenant.pid(), PREEMPT)])?;
    let new = tenant.open()?;
    must_be(&sched, &tenant, PREEMPTED | BY_ME | BORN_PREEMPTED)?;
    tenant.must_not_run()?;
    // A queue may be resumed alone; the next one is born preempted all the same.
    sched.must(&[crate::sched::one(tenant.pid(), new, RESUME)])?;
    tenant.open()?;
    let states = sched.queues(tenant.pid())?;
    let active: Vec<u32> = states.iter().filter(|queue| queue.flags.has(ACTIVE)).map(|queue| queue.queue_id).collect();
    ensure!(active == [new], "{active:?} run, not {new}");
    let done = sched.must(&[all(tenant.pid(), RESUME)])?;
    ensure!(done.changed == 2 && done.cycles == 1, "{done:?}");
    tenant.open()?;
    must_be(&sched, &tenant, ACTIVE)?;
    tenant.must_run()
}

pub(super) fn a_process_without_queues(_: &Options) -> Result<()> {
    let mut tenant = Tenant::start(0)?;
    let sched = Sched::new()?;
    let done = sched.must(&[all(tenant.pid(), PREEMPT)])?;
    ensure!(done.changed == 0 && done.cycles == 0, "{done:?}");
    tenant.open()?;
    tenant.must_not_run()?;
    tenant.close()?;
    // The mark outlives the last queue, but not the descriptor.
    drop(sched);
    tenant.open()?;
    tenant.must_run()
}

pub(super) fn evicted_queues_stay_off(_: &Options) -> Result<()> {
    let mut tenant = Tenant::start(2)?;
    let sched = Sched::new()?;
    tenant.evict()?;
    let done = sched.must(&[all(tenant.pid(), PREEMPT)])?;
    ensure!(done.changed == 2 && done.cycles == 0, "{done:?}");
    must_be(&sched, &tenant, PREEMPTED | BY_ME | BORN_PREEMPTED | EVICTED)?;
    tenant.restore()?;
    must_be(&sched, &tenant, PREEMPTED | BY_ME | BORN_PREEMPTED)?;
    tenant.must_not_run()?;
    tenant.evict()?;
    sched.must(&[all(tenant.pid(), RESUME)])?;
    must_be(&sched, &tenant, EVICTED)?;
    tenant.restore()?;
    must_be(&sched, &tenant, ACTIVE)?;
    tenant.must_run()
}

pub(super) fn a_debugger_is_independent(_: &Options) -> Result<()> {
    let mut tenant = Tenant::start(2)?;
    let sched = Sched::new()?;
    let (tracer, events) = Tracer::attach(Arc::new(Kfd::open()?), Pid(tenant.pid()))?;
    let queues: Vec<QueueId> = tenant.queues.iter().map(|id| QueueId(*id)).collect();
    tracer.snapshot().context("cannot take a snapshot")?;
    ensure!(tracer.suspend(&queues, Grace::HARDWARE)?.all_done(), "the debugger cannot suspend");
    must_be(&sched, &tenant, SUSPENDED)?;
    let done = sched.must(&[all(tenant.pid(), PREEMPT)])?;
    ensure!(done.changed == 2 && done.cycles == 0, "{done:?}");
    ensure!(tracer.resume(&queues)?.all_done(), "the debugger cannot resume");
    must_be(&sched, &tenant, PREEMPTED | BY_ME | BORN_PREEMPTED)?;
    tenant.must_not_run()?;
    ensure!(tracer.suspend(&queues, Grace::HARDWARE)?.all_done(), "the debugger cannot suspend a preempted queue");
    sched.must(&[all(tenant.pid(), RESUME)])?;
    must_be(&sched, &tenant, SUSPENDED)?;
    ensure!(tracer.resume(&queues)?.all_done(), "the debugger cannot resume");
    must_be(&sched, &tenant, ACTIVE)?;
    tenant.must_run()?;
    tracer.close()?;
    drop(events);
    Ok(())
}
