//! Firmware that fails, as parameters of the device make it.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kfd_abi::sched::QueueFlags;

use crate::Options;
use crate::firmware::count;
use crate::interface::{ACTIVE, BORN_PREEMPTED, PREEMPT, PREEMPTED, RESET, RESUME};
use crate::sched::{Sched, all, one};
use crate::tenant::Tenant;

fn inject(name: &str) -> Result<()> {
    fs::write(format!("/sys/module/amdgpu/parameters/inject_{name}"), "1").context("the device injects no faults")
}

pub(super) fn a_reset_queue_stays_off(_: &Options) -> Result<()> {
    let (mut tenant, other) = (Tenant::start(1)?, Tenant::start(1)?);
    let sched = Sched::new()?;
    tenant.send_long(Duration::from_secs(20))?;
    inject("unpreemptable")?;
    sched.must(&[all(other.pid(), PREEMPT)])?;
    let flags = |when: &str, expected: QueueFlags| -> Result<()> {
        let queues = sched.queues(tenant.pid())?;
        let flags = queues.first().context("its queue is gone")?.flags;
        ensure!(flags == expected, "{when}: flags {flags:?}, not {expected:?}");
        Ok(())
    };
    flags("after the hang", RESET)?;
    let status = sched.status(one(tenant.pid(), tenant.queues[0], PREEMPT))?;
    ensure!(status == -libc::EIO, "a reset queue can be preempted: {status}");
    // Of all queues it does not count.
    let done = sched.must(&[all(tenant.pid(), PREEMPT), all(tenant.pid(), RESUME)])?;
    ensure!(done.changed == 0 && done.cycles == 0, "{done:?}");
    let (pid, queue) = (tenant.pid(), tenant.queues[0]);
    tenant.evict()?;
    tenant.restore()?;
    let queues = sched.queues(pid)?;
    let state = queues.iter().find(|state| state.queue_id == queue).context("its queue is gone")?;
    ensure!(state.flags == RESET, "after an eviction: flags {:?}", state.flags);
    Ok(())
}

pub(super) fn a_failed_cycle_is_undone(_: &Options) -> Result<()> {
    let (a, b) = (Tenant::start(2)?, Tenant::start(1)?);
    let sched = Sched::new()?;
    sched.must(&[all(b.pid(), PREEMPT)])?;
    let resets = count("resets")?;
    inject("lost_fence")?;
    let done =
        sched.switch(&[all(a.pid(), PREEMPT), all(b.pid(), RESUME)]).map_err(std::io::Error::from_raw_os_error)?;
    ensure!(done.changed == 0, "{done:?}");
    ensure!(done.entries.iter().all(|entry| entry.status == -libc::ETIME && entry.num_changed == 0), "{done:?}");
    for (tenant, preempted) in [(&a, QueueFlags::EMPTY), (&b, PREEMPTED | BORN_PREEMPTED)] {
        for queue in sched.queues(tenant.pid())? {
            let flags = queue.flags.both(PREEMPTED | BORN_PREEMPTED);
            ensure!(flags == preempted, "flags {:?}, not {preempted:?}", queue.flags);
        }
    }
    let begin = Instant::now();
    while count("resets")? == resets {
        ensure!(begin.elapsed() < Duration::from_secs(60), "the device is not reset");
        sleep(Duration::from_millis(20));
    }
    drop((a, b));
    // The descriptor outlives it all.
    let mut new = Tenant::start(1)?;
    ensure!(sched.queues(new.pid())?.iter().all(|queue| queue.flags == ACTIVE), "a new queue does not run");
    new.must_run()?;
    sched.must(&[all(new.pid(), PREEMPT)])?;
    new.must_not_run()?;
    drop(sched);
    new.must_run()
}
