//! Descriptors: closed, copied, two of them, and of a process that is killed.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::interface::{PREEMPT, PREEMPTED, RESUME, SwitchArgs};
use crate::sched::{Sched, all, one};
use crate::tenant::Tenant;
use crate::{Options, firmware, report};

pub(super) fn closing_resumes(_: &Options) -> Result<()> {
    let (mut a, mut b) = (Tenant::start(2)?, Tenant::start(2)?);
    let sched = Sched::new()?;
    sched.must(&[all(a.pid(), PREEMPT), all(b.pid(), PREEMPT)])?;
    b.must_not_run()?;
    let runlists = firmware::settled("runlists")?;
    drop(sched);
    let runlists = firmware::settled("runlists")? - runlists;
    ensure!(runlists == 1, "{runlists} cycles for four queues");
    a.must_run()?;
    b.must_run()
}

pub(super) fn a_copy_keeps_the_stop(_: &Options) -> Result<()> {
    let mut tenant = Tenant::start(1)?;
    let sched = Sched::new()?;
    let copy = sched.duplicate()?;
    sched.must(&[all(tenant.pid(), PREEMPT)])?;
    drop(sched);
    tenant.must_not_run()?;
    // The copy is the same descriptor: it may resume.
    copy.must(&[all(tenant.pid(), RESUME)])?;
    tenant.must_run()?;
    copy.must(&[all(tenant.pid(), PREEMPT)])?;
    tenant.must_not_run()?;
    drop(copy);
    tenant.must_run()
}

pub(super) fn two_owners(_: &Options) -> Result<()> {
    let mut tenant = Tenant::start(2)?;
    let (first, second) = (Sched::new()?, Sched::new()?);
    let pid = tenant.pid();
    let busy = |sched: &Sched, entry| {
        let status = sched.status(entry)?;
        ensure!(status == -libc::EBUSY, "{entry:?}: {status}");
        Ok(())
    };
    first.must(&[all(pid, PREEMPT)])?;
    for entry in [all(pid, RESUME), all(pid, PREEMPT)] {
        busy(&second, entry)?;
        busy(&second, one(pid, tenant.queues[0], entry.action))?;
    }
    drop(second);
    tenant.must_not_run()?;
    // One queue each.
    let second = Sched::new()?;
    first.must(&[all(pid, RESUME), one(pid, tenant.queues[0], PREEMPT)])?;
    second.must(&[one(pid, tenant.queues[1], PREEMPT)])?;
    busy(&first, all(pid, RESUME))?;
    let states = second.queues(pid)?;
    ensure!(states.iter().filter(|queue| queue.flags.has(PREEMPTED)).count() == 1, "{states:?}");
    drop(first);
    tenant.must_not_run()?;
    drop(second);
    tenant.must_run()
}

/// What the owner has just done when it is killed.
const POINTS: [&str; 20] = [
    "opened the device",
    "opened a descriptor",
    "listed queues",
    "preempted one process",
    "preempted it again",
    "switched to the other",
    "switched back",
    "copied the descriptor",
    "closed the original",
    "preempted both",
    "resumed one",
    "preempted one queue of it",
    "preempted a process without queues",
    "opened a second descriptor",
    "was refused with the second",
    "closed the second",
    "preempted without grace",
    "switched with a time limit",
    "sent the longest array",
    "switches in another thread",
];

/// Is an owner: does all steps up to one, and kills itself.
pub(crate) fn be_owner(last: usize, pids: &[u32]) -> Result<()> {
    let &[a, b, empty] = pids else { bail!("three processes are needed") };
    let own = Tenant::start(1)?;
    let at = |step: usize| {
        if step == last {
            // SAFETY: ends this process, at once.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    };
    let device = crate::sched::device()?;
    at(0);
    let original = Sched::of(&device)?;
    at(1);
    original.queues(0)?;
    at(2);
    original.must(&[all(a, PREEMPT)])?;
    at(3);
    original.must(&[all(a, PREEMPT)])?;
    at(4);
    original.must(&[all(a, RESUME), all(b, PREEMPT)])?;
    at(5);
    original.must(&[all(b, RESUME), all(a, PREEMPT)])?;
    at(6);
    let sched = original.duplicate()?;
    at(7);
    drop(original);
    at(8);
    sched.must(&[all(a, PREEMPT), all(b, PREEMPT)])?;
    at(9);
    sched.must(&[all(a, RESUME)])?;
    at(10);
    let queue = sched.queues(a)?.first().context("it has no queue")?.queue_id;
    sched.must(&[one(a, queue, PREEMPT)])?;
    at(11);
    sched.must(&[all(empty, PREEMPT)])?;
    at(12);
    let second = Sched::of(&device)?;
    at(13);
    ensure!(second.status(all(b, RESUME))? == -libc::EBUSY, "two owners");
    second.must(&[all(own.pid(), PREEMPT)])?;
    at(14);
    drop(second);
    at(15);
    let switch = |entries: &[_], args| sched.switch_with(entries, args).map_err(std::io::Error::from_raw_os_error);
    switch(&[all(a, PREEMPT)], SwitchArgs { grace_period: 0, ..SwitchArgs::default() })?;
    at(16);
    let args = SwitchArgs { timeout_ns: 1_000_000_000, grace_period: u32::MAX, ..SwitchArgs::default() };
    switch(&[all(a, RESUME), all(b, PREEMPT)], args)?;
    at(17);
    let pairs: Vec<_> = (0..1024).map(|i| all(if i % 2 == 0 { a } else { b }, PREEMPT)).collect();
    sched.must(&pairs)?;
    at(18);
    thread::scope(|scope| {
        let switching = scope.spawn(|| -> Result<()> {
            loop {
                sched.must(&[all(a, PREEMPT), all(b, RESUME)])?;
                sched.must(&[all(b, PREEMPT), all(a, RESUME)])?;
            }
        });
        thread::sleep(std::time::Duration::from_millis(3));
        at(19);
        switching.join().map_err(|_| anyhow::anyhow!("the thread panicked"))?
    })
}

pub(super) fn the_owner_is_killed(_: &Options) -> Result<()> {
    let (mut a, mut b) = (Tenant::start(2)?, Tenant::start(1)?);
    let mut empty = Tenant::start(0)?;
    let watch = Sched::new()?;
    for (step, point) in POINTS.iter().enumerate() {
        let pids = [&a, &b, &empty].map(|tenant| tenant.pid().to_string());
        let status = Command::new(env::current_exe()?).arg("owner").arg(step.to_string()).args(&pids).status()?;
        ensure!(status.signal() == Some(libc::SIGKILL), "the owner that {point} ended with {status}");
        let states = watch.queues(0)?;
        ensure!(states.iter().all(|queue| !queue.flags.has(PREEMPTED)), "the owner that {point} left {states:?}");
        a.must_run().and_then(|()| b.must_run()).with_context(|| format!("the owner that {point}"))?;
        empty.open()?;
        empty.must_run().with_context(|| format!("the owner that {point}"))?;
        empty.close()?;
    }
    report("points", POINTS.len() as u64);
    Ok(())
}
