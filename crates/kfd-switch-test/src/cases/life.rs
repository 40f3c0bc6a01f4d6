//! Preempted queues and processes that end.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::Options;
use crate::firmware::{self, await_no_queue};
use crate::interface::{PREEMPT, RESUME};
use crate::sched::{Sched, all};
use crate::tenant::Tenant;

pub(super) fn a_preempted_queue_is_destroyed_at_once(_: &Options) -> Result<()> {
    let mut tenant = Tenant::start(2)?;
    let sched = Sched::new()?;
    tenant.must_run()?;
    sched.must(&[all(tenant.pid(), PREEMPT)])?;
    tenant.must_not_run()?;
    let unmaps = firmware::count("unmaps")?;
    let time = tenant.close()?;
    ensure!(time < Duration::from_secs(5), "it took {time:?}");
    ensure!(firmware::count("unmaps")? == unmaps, "a queue that was off cost a cycle");
    ensure!(sched.queues(tenant.pid())?.len() == 1, "it is still listed");
    tenant.close()?;
    ensure!(sched.queues(tenant.pid())?.is_empty(), "it is still listed");
    // The process is still stopped, and can be let go.
    tenant.open()?;
    tenant.must_not_run()?;
    let done = sched.must(&[all(tenant.pid(), RESUME)])?;
    ensure!(done.changed == 1, "{done:?}");
    tenant.must_run()
}

pub(super) fn a_preempted_process_is_killed(options: &Options) -> Result<()> {
    let sched = Sched::new()?;
    for round in 0..options.rounds {
        let mut tenant = Tenant::start(2)?;
        sched.must(&[all(tenant.pid(), PREEMPT)])?;
        let pid = tenant.pid();
        if round % 2 == 0 {
            tenant.must_not_run()?;
        }
        tenant.kill()?;
        ensure!(sched.status(all(pid, RESUME))? == -libc::ESRCH, "the process is gone, but can be resumed");
        ensure!(sched.queues(pid)?.is_empty(), "its queues are listed");
    }
    drop(sched);
    await_no_queue()
}
