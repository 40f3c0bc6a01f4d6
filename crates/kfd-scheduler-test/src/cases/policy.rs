//! What the policy host says takes effect, at any time.

use std::fs::{self, File};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use gpreempt_kernel_abi::{
    JobArgs, ModuleEventKind, ModuleMode, ModuleSettings, ProcessArgs, ProcessFlags, RawReason, TenantFlags,
};

use super::until;
use crate::control::{Control, POLLING, at_level, start_time};
use crate::tenant::Tenant;
use crate::{Options, report};

const ONE: u64 = 11;
const TWO: u64 = 12;

/// More work than a case takes.
const ENDLESS: u32 = 1000;

/// Two tenants with endless work, each a job of its own.
fn two(control: &Control, levels: [u8; 2]) -> Result<[Tenant; 2]> {
    let mut tenants = [Tenant::start()?, Tenant::start()?];
    for ((tenant, job), level) in tenants.iter_mut().zip([ONE, TWO]).zip(levels) {
        control.job(job, level)?;
        control.process(tenant.pid(), job)?;
        tenant.send(ENDLESS, 5000)?;
    }
    Ok(tenants)
}

fn stopped(control: &Control, tenant: &Tenant) -> Result<bool> {
    let tenant = control.tenant(tenant.pid())?.context("it is no tenant")?;
    Ok(tenant.stopped_queues > 0 && tenant.stopped_queues == tenant.queues && tenant.stopped_at_ns > 0)
}

pub(super) fn levels_change_at_run_time(_: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    let [mut one, mut other] = two(&control, [9, 2])?;
    until("the lower is stopped", || stopped(&control, &other))?;
    other.must_stand(50)?;
    one.must_progress()?;
    control.job(ONE, 1)?;
    until("the other is stopped", || Ok(stopped(&control, &one)? && !stopped(&control, &other)?))?;
    one.must_stand(50)?;
    other.must_progress()?;
    control.job(ONE, 2)?;
    until("both run on one level", || Ok(!stopped(&control, &one)? && !stopped(&control, &other)?))?;
    one.must_progress()?;
    other.must_progress()
}

pub(super) fn a_job_is_held_and_released(_: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    let mut tenant = Tenant::start()?;
    control.job(ONE, 5)?;
    control.process(tenant.pid(), ONE)?;
    tenant.send(ENDLESS, 5000)?;
    tenant.must_progress()?;
    control.hold(ONE, 5, 60_000)?;
    until("it is held", || stopped(&control, &tenant))?;
    tenant.must_stand(100)?;
    let job = control.jobs()?.into_iter().find(|job| job.job == ONE).context("there is no such job")?;
    ensure!(job.phase == 1 && job.reason == RawReason::HELD && job.tenants == 1, "{job:?}");
    control.hold(ONE, 5, 0)?;
    until("it is released", || Ok(!stopped(&control, &tenant)?))?;
    tenant.must_progress()?;
    // A hold ends by itself.
    control.hold(ONE, 5, 200)?;
    until("it is held again", || stopped(&control, &tenant))?;
    until("the hold has ended", || Ok(!stopped(&control, &tenant)?))?;
    tenant.must_progress()
}

pub(super) fn holds_are_one_switch_each(options: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    let mut tenant = Tenant::start()?;
    control.job(ONE, 5)?;
    control.process(tenant.pid(), ONE)?;
    // Work for longer than all of the case.
    tenant.send(ENDLESS, 1_000_000)?;
    until("it runs", || Ok(control.tenant(tenant.pid())?.is_some_and(|tenant| tenant.job == ONE)))?;
    let before = control.gpu()?;
    for _ in 0..options.rounds {
        control.hold(ONE, 5, 60_000)?;
        soon(|| stopped(&control, &tenant))?;
        control.hold(ONE, 5, 0)?;
        soon(|| Ok(!stopped(&control, &tenant)?))?;
    }
    let after = control.gpu()?;
    let (stops, switches) = (after.preempts - before.preempts, after.switches - before.switches);
    ensure!(stops == u64::from(options.rounds), "{stops} stops in {} rounds", options.rounds);
    ensure!(switches == 2 * stops && after.failures == before.failures, "{switches} switches for {stops} stops");
    report("switches", switches);
    Ok(())
}

/// Waits until something becomes true, and looks often.
fn soon(mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..100_000 {
        if condition()? {
            return Ok(());
        }
        sleep(Duration::from_micros(100));
    }
    bail!("a hold or its end does not take effect");
}

pub(super) fn observe_mode_only_tells(_: &Options) -> Result<()> {
    let control = Control::host(ModuleSettings { mode: ModuleMode::OBSERVE, ..POLLING })?;
    let before = control.gpu()?;
    let (mut online, mut offline) = (Tenant::start()?, Tenant::start()?);
    for (tenant, job, level) in [(&online, ONE, 9), (&offline, TWO, 2)] {
        control.job(job, level)?;
        control.process(tenant.pid(), job)?;
    }
    offline.send(30, 10_000)?;
    sleep(Duration::from_millis(30));
    for _ in 0..5 {
        online.send(1, 1000)?;
        online.must_finish()?;
        sleep(Duration::from_millis(10));
    }
    let events = control.events()?;
    let would = events.iter().filter(|event| event.kind == ModuleEventKind::WOULD_PREEMPT);
    let ours = would.filter(|event| {
        event.pid == offline.pid().cast_signed()
            && (event.job, event.cause, event.reason) == (TWO, ONE, RawReason::HIGHER_WANTS)
    });
    let count = ours.count();
    ensure!(count >= 3, "{count} stops were told: {events:?}");
    let after = control.gpu()?;
    ensure!(after.switches == before.switches, "observing switches");
    ensure!(after.inversions > before.inversions, "inversions are not counted");
    // Enforced from now on, and not any more.
    control.must(&mut POLLING.clone())?;
    online.send(ENDLESS, 5000)?;
    offline.send(ENDLESS, 5000)?;
    until("the offline tenant is stopped", || stopped(&control, &offline))?;
    control.must(&mut ModuleSettings { mode: ModuleMode::OBSERVE, ..POLLING })?;
    until("it runs again", || Ok(!stopped(&control, &offline)?))?;
    offline.must_progress()
}

pub(super) fn a_cgroup_is_a_job(_: &Options) -> Result<()> {
    let root = Path::new("/sys/fs/cgroup");
    let (outer, inner) = (root.join("batch"), root.join("batch/urgent"));
    for directory in [&outer, &inner] {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    let control = Control::host(POLLING)?;
    let (mut low, mut high) = (Tenant::start()?, Tenant::start()?);
    fs::write(outer.join("cgroup.procs"), low.pid().to_string())?;
    fs::write(inner.join("cgroup.procs"), high.pid().to_string())?;
    control.job(ONE, 9)?;
    control.job(TWO, 2)?;
    let [outer, inner] = [File::open(&outer)?, File::open(&inner)?];
    ensure!(control.cgroup(&outer, 99) == Err(libc::ENOENT), "a job that there is not");
    ensure!(control.cgroup(&File::open("/proc/self")?, ONE).is_err(), "a directory that is no cgroup");
    let set = |directory: &File, job| control.cgroup(directory, job).map_err(std::io::Error::from_raw_os_error);
    set(&outer, TWO)?;
    set(&inner, ONE)?;
    low.send(ENDLESS, 5000)?;
    high.send(ENDLESS, 5000)?;
    until("the one below is stopped", || stopped(&control, &low))?;
    low.must_stand(50)?;
    high.must_progress()?;
    // What is said of a process comes first.
    control.process(low.pid(), ONE)?;
    until("it is of the other job", || Ok(!stopped(&control, &low)?))?;
    low.must_progress()?;
    // The nearer cgroup is none any more: the outer one counts.
    set(&inner, 0)?;
    until("the job has changed", || Ok(control.tenant(high.pid())?.is_some_and(|tenant| tenant.job == TWO)))?;
    until("it is stopped", || stopped(&control, &high))?;
    ensure!(control.cgroup(&inner, 0) == Err(libc::ENOENT), "it was none already");
    control.clear()?;
    until("nothing is stopped", || Ok(!stopped(&control, &high)?))?;
    ensure!(control.tenants()?.iter().all(|tenant| tenant.job == 0), "tenants have jobs after CLEAR");
    high.must_progress()
}

pub(super) fn a_job_ends(_: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    let [one, mut other] = two(&control, [9, 2])?;
    until("the lower is stopped", || stopped(&control, &other))?;
    // Its own job: it is resumed, and belongs to none.
    ensure!(control.remove_job(TWO).is_ok(), "the job cannot be removed");
    until("it runs", || Ok(!stopped(&control, &other)?))?;
    ensure!(control.tenant(other.pid())?.is_some_and(|tenant| tenant.job == 0), "it has a job");
    ensure!(control.remove_job(TWO) == Err(libc::ENOENT), "a job was removed twice");
    other.must_progress()?;
    // That of the other.
    control.job(TWO, 2)?;
    control.process(other.pid(), TWO)?;
    until("it is stopped again", || stopped(&control, &other))?;
    drop(one);
    until("its cause has ended", || Ok(!stopped(&control, &other)?))?;
    other.must_progress()?;
    // Its last queue goes while it is stopped, and another comes.
    control.hold(TWO, 2, 60_000)?;
    until("it is held", || stopped(&control, &other))?;
    other.close()?;
    until("it is no tenant", || Ok(control.tenant(other.pid())?.is_none()))?;
    control.hold(TWO, 2, 0)?;
    other.open()?;
    other.send(5, 1000)?;
    other.must_finish()
}

pub(super) fn processes_are_told_apart(_: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    let mut tenant = Tenant::start()?;
    control.job(ONE, 5)?;
    let args = ProcessArgs {
        pid: tenant.pid().cast_signed(),
        start_time: start_time(tenant.pid())?,
        job: ONE,
        flags: ProcessFlags::STOPPABLE,
        ..ProcessArgs::SIZED
    };
    let answer = |args: ProcessArgs| control.call(&mut { args });
    ensure!(answer(ProcessArgs { start_time: args.start_time + 1, ..args }) == Err(libc::ESRCH), "another start");
    ensure!(answer(ProcessArgs { pid: 4_000_000, ..args }) == Err(libc::ESRCH), "no such process");
    ensure!(answer(ProcessArgs { pid: 0, ..args }) == Err(libc::EINVAL), "no number of a process");
    ensure!(answer(ProcessArgs { job: 77, ..args }) == Err(libc::ENOENT), "no such job");
    ensure!(answer(ProcessArgs { flags: ProcessFlags(2), ..args }) == Err(libc::EINVAL), "an unknown flag");
    ensure!(answer(args) == Ok(()), "its own numbers");
    // A process that may not be stopped is not, even by a hold.
    ensure!(answer(ProcessArgs { flags: ProcessFlags(0), ..args }) == Ok(()), "no flags");
    control.hold(ONE, 5, 60_000)?;
    tenant.send(50, 1000)?;
    tenant.must_finish()?;
    tenant.kill()?;
    until("it is gone", || Ok(control.tenant(tenant.pid())?.is_none()))?;
    ensure!(answer(args) == Err(libc::ESRCH), "it has ended");
    Ok(())
}

/// For a module with room for two jobs and two tenants.
pub(super) fn without_room_nothing_is_managed(_: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    let version = control.version()?;
    ensure!((version.max_jobs, version.max_tenants) == (2, 2), "there is room for more: {version:?}");
    let [one, other] = two(&control, [9, 2])?;
    let job = JobArgs { job: 13, params: at_level(1), ..JobArgs::SIZED };
    ensure!(control.call(&mut { job }) == Err(libc::ENOSPC), "there is room for a third job");
    let mut third = Tenant::start()?;
    control.process(third.pid(), TWO)?;
    third.send(ENDLESS, 2000)?;
    until("the second is stopped", || stopped(&control, &other))?;
    let record = control.tenant(third.pid())?.context("it is no tenant")?;
    ensure!(record.flags.has(TenantFlags::NO_ROOM) && record.job == 0, "{record:?}");
    third.must_progress()?;
    // One ends, and leaves its place.
    drop(other);
    until("the third is stopped", || stopped(&control, &third))?;
    drop(one);
    third.must_progress()
}
