//! How many runlist cycles a switch costs, by the count of the firmware.

use anyhow::{Result, ensure};

use crate::interface::{ACTIVE, PREEMPT, RESUME, SwitchArgs};
use crate::sched::{Sched, all, one};
use crate::tenant::Tenant;
use crate::{Options, firmware, report};

pub(super) fn a_switch_is_one_cycle(options: &Options) -> Result<()> {
    let (mut a, mut b) = (Tenant::start(1)?, Tenant::start(1)?);
    let sched = Sched::new()?;
    sched.must(&[all(b.pid(), PREEMPT)])?;
    a.must_run()?;
    b.must_not_run()?;
    let unmaps = firmware::count("unmaps")?;
    let (mut cycles, mut time) = (0, 0);
    for turn in 0..options.switches {
        let (to, from) = if turn % 2 == 0 { (&b, &a) } else { (&a, &b) };
        let done = sched.must(&[all(from.pid(), PREEMPT), all(to.pid(), RESUME)])?;
        ensure!(done.changed == 2 && done.cycles == 1, "switch {turn}: {done:?}");
        cycles += u64::from(done.cycles);
        time += done.duration_ns;
    }
    let unmaps = firmware::count("unmaps")? - unmaps;
    let wanted = u64::from(options.switches);
    ensure!(unmaps == wanted && cycles == wanted, "{wanted} switches: {cycles} cycles, {unmaps} unmaps");
    report("switches", wanted);
    report("unmaps", unmaps);
    report("switch_mean_ns", time / wanted);
    let (mut running, mut stopped) = if wanted % 2 == 0 { (a, b) } else { (b, a) };
    running.must_run()?;
    stopped.must_not_run()?;
    sched.must(&[all(stopped.pid(), RESUME)])?;
    stopped.must_run()
}

pub(super) fn what_changes_nothing_costs_nothing(_: &Options) -> Result<()> {
    let (a, b) = (Tenant::start(2)?, Tenant::start(1)?);
    let sched = Sched::new()?;
    sched.must(&[all(a.pid(), PREEMPT)])?;
    let runlists = firmware::settled("runlists")?;
    let unmaps = firmware::count("unmaps")?;
    for entries in [
        vec![all(a.pid(), PREEMPT)],
        vec![all(b.pid(), RESUME)],
        vec![all(a.pid(), PREEMPT), all(b.pid(), RESUME)],
        // There and back.
        vec![all(a.pid(), RESUME), all(a.pid(), PREEMPT)],
        vec![all(b.pid(), PREEMPT), all(b.pid(), RESUME)],
        vec![all(1, PREEMPT)],
        vec![],
    ] {
        let done = sched.switch(&entries).map_err(std::io::Error::from_raw_os_error)?;
        ensure!(done.cycles == 0, "{entries:?}: {done:?}");
    }
    sched.queues(0)?;
    drop(Sched::new()?);
    let (unmaps, runlists) = (firmware::count("unmaps")? - unmaps, firmware::settled("runlists")? - runlists);
    ensure!(unmaps == 0 && runlists == 0, "{unmaps} unmaps, {runlists} runlists");
    Ok(())
}

pub(super) fn one_queue_of_many(_: &Options) -> Result<()> {
    let mut tenant = Tenant::start(3)?;
    let sched = Sched::new()?;
    let queue = tenant.queues[1];
    let done = sched.must(&[one(tenant.pid(), queue, PREEMPT)])?;
    ensure!(done.changed == 1 && done.cycles == 1, "{done:?}");
    let off: Vec<u32> = sched
        .queues(tenant.pid())?
        .iter()
        .filter(|queue| !queue.flags.has(ACTIVE))
        .map(|queue| queue.queue_id)
        .collect();
    ensure!(off == [queue], "{off:?} are off, not {queue}");
    tenant.must_not_run()?;
    let done = sched.must(&[all(tenant.pid(), PREEMPT)])?;
    ensure!(done.changed == 2 && done.cycles == 1, "the other two: {done:?}");
    let done = sched.must(&[all(tenant.pid(), RESUME), one(tenant.pid(), queue, PREEMPT)])?;
    ensure!(done.changed == 4 && done.cycles == 1, "all but one: {done:?}");
    let done = sched.must(&[one(tenant.pid(), queue, RESUME)])?;
    ensure!(done.changed == 1 && done.cycles == 1, "the one: {done:?}");
    tenant.must_run()
}

pub(super) fn a_late_switch_is_not_begun(_: &Options) -> Result<()> {
    let mut tenant = Tenant::start(1)?;
    let sched = Sched::new()?;
    let entry = all(tenant.pid(), PREEMPT);
    let switch = |timeout_ns, grace_period| {
        sched
            .switch_with(&[entry], SwitchArgs { timeout_ns, grace_period, ..SwitchArgs::default() })
            .map_err(std::io::Error::from_raw_os_error)
    };
    let done = switch(1, u32::MAX)?;
    ensure!(done.entries[0].status == -libc::ETIME && done.changed == 0 && done.cycles == 0, "{done:?}");
    tenant.must_run()?;
    let done = switch(u64::MAX, 0)?;
    ensure!(done.entries[0].status == 0 && done.cycles == 1, "no grace: {done:?}");
    tenant.must_not_run()
}
