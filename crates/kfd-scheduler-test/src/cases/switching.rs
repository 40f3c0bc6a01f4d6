//! Requests of a higher job stop packets of a lower one, in one cycle each way.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gpreempt_kernel_abi::{GpuFlags, GpuRecord, ModuleSettings, TenantFlags, Times};

use super::until;
use crate::control::{Control, DOORBELLS, POLLING};
use crate::tenant::Tenant;
use crate::{Options, firmware, report};

const ONLINE: u64 = 1;
const OFFLINE: u64 = 2;

/// Both tenants of the scenes below, with their jobs.
fn pair(control: &Control) -> Result<(Tenant, Tenant)> {
    let (online, offline) = (Tenant::start()?, Tenant::start()?);
    control.job(ONLINE, 12)?;
    control.job(OFFLINE, 3)?;
    control.process(online.pid(), ONLINE)?;
    control.process(offline.pid(), OFFLINE)?;
    until("both are managed", || Ok(control.tenants()?.iter().filter(|tenant| tenant.job > 0).count() == 2))?;
    Ok((online, offline))
}

fn requests_stop_packets(settings: ModuleSettings, rounds: u32) -> Result<(GpuRecord, GpuRecord)> {
    let control = Control::host(settings)?;
    let (mut online, mut offline) = pair(&control)?;
    let packets = rounds * 3;
    offline.send(packets, 10_000)?;
    sleep(Duration::from_millis(30));
    let (before, unmaps) = (control.gpu()?, firmware::count("unmaps")?);
    let mut latencies: Vec<u128> = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        online.send(1, 1000)?;
        online.must_finish()?;
        latencies.push(begin.elapsed().as_micros());
        sleep(Duration::from_millis(15));
    }
    until("the offline tenant is resumed", || {
        Ok(control.tenant(offline.pid())?.is_some_and(|tenant| tenant.stopped_queues == 0))
    })?;
    let (after, unmaps) = (control.gpu()?, firmware::count("unmaps")? - unmaps);
    let stops = after.preempts - before.preempts;
    // On a slow kernel a request may be over before the scheduler has looked.
    let least = if std::env::var_os("SLOW_KERNEL").is_some() { 1 } else { u64::from(rounds) };
    ensure!(stops >= least, "{stops} stops for {rounds} requests");
    ensure!(after.resumes - before.resumes == stops, "{stops} stops, {} resumes", after.resumes - before.resumes);
    let (switches, cycles) = (after.switches - before.switches, after.cycles - before.cycles);
    ensure!(switches == 2 * stops, "{switches} switches for {stops} stops");
    ensure!(cycles == switches && cycles == unmaps, "{switches} switches, {cycles} cycles, {unmaps} unmaps");
    ensure!(after.failures == before.failures, "{} entries failed", after.failures - before.failures);
    ensure!(after.inversions - before.inversions >= least, "inversions are missing: {after:?}");
    offline.must_finish()?;
    latencies.sort_unstable();
    let median = latencies.get(latencies.len() / 2).copied().unwrap_or_default();
    report("median_us", u64::try_from(median)?);
    Ok((before, after))
}

/// The mean of the times between two queries.
fn mean(before: Times, after: Times) -> u64 {
    (after.sum_ns - before.sum_ns).checked_div(after.count - before.count).unwrap_or(0)
}

pub(super) fn requests_stop_packets_by_polling(options: &Options) -> Result<()> {
    let (before, after) = requests_stop_packets(POLLING, options.rounds)?;
    ensure!(after.armed == 0, "doorbells were armed");
    ensure!(after.wakeups_period > before.wakeups_period, "no period was over");
    report("polling_detection_mean_ns", mean(before.detection, after.detection));
    Ok(())
}

pub(super) fn requests_stop_packets_by_doorbell(options: &Options) -> Result<()> {
    let (before, after) = requests_stop_packets(DOORBELLS, options.rounds)?;
    let told = after.wakeups_doorbell - before.wakeups_doorbell;
    ensure!(told >= u64::from(options.rounds) / 2, "{told} doorbells were told, {after:?}");
    report("doorbells", told);
    report("missed_by_doorbell", after.missed_by_doorbell - before.missed_by_doorbell);
    report("doorbell_detection_mean_ns", mean(before.detection, after.detection));
    report("decision_mean_ns", mean(before.decision, after.decision));
    report("look_mean_ns", mean(before.look, after.look));
    report("preempt_mean_ns", mean(before.preempt, after.preempt));
    report("resume_mean_ns", mean(before.resume, after.resume));
    Ok(())
}

/// Counts wake-ups of all workers in so many seconds.
fn wakeups(control: &Control, seconds: u64) -> Result<u64> {
    let count = || Ok::<u64, anyhow::Error>(control.gpus()?.iter().map(|gpu| gpu.wakeups).sum());
    let before = count()?;
    sleep(Duration::from_secs(seconds));
    Ok(count()? - before)
}

pub(super) fn nothing_contends_nothing_wakes(_: &Options) -> Result<()> {
    for settings in [POLLING, DOORBELLS] {
        let control = Control::host(settings)?;
        let (mut one, mut other, mut stranger) = (Tenant::start()?, Tenant::start()?, Tenant::start()?);
        control.job(ONLINE, 5)?;
        control.job(OFFLINE, 5)?;
        control.process(one.pid(), ONLINE)?;
        control.process(other.pid(), OFFLINE)?;
        for tenant in [&mut one, &mut other, &mut stranger] {
            tenant.send(80, 10_000)?;
        }
        sleep(Duration::from_millis(200));
        let gpu = control.gpu()?;
        ensure!(!gpu.flags.has(GpuFlags::CONTESTED), "jobs of one level compete");
        let woken = wakeups(&control, 2)?;
        ensure!(woken == 0, "{woken} wake-ups although nothing contends");
        ensure!(control.gpu()?.looks == gpu.looks, "somebody looked");
        for tenant in [&mut one, &mut other, &mut stranger] {
            tenant.must_finish()?;
        }
    }
    Ok(())
}

pub(super) fn a_job_stops_on_all_its_gpus(_: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    ensure!(control.gpus()?.len() > 1, "there is one gpu only");
    let mut online = Tenant::start()?;
    let mut offline = [Tenant::start()?, Tenant::start_as(&["tenant", "1"])?];
    control.job(ONLINE, 12)?;
    control.job(OFFLINE, 3)?;
    control.process(online.pid(), ONLINE)?;
    for tenant in &mut offline {
        control.process(tenant.pid(), OFFLINE)?;
        tenant.send(60, 5000)?;
        tenant.must_progress()?;
    }
    let stopped = || {
        let tenants = control.tenants()?;
        Ok::<usize, anyhow::Error>(tenants.iter().filter(|tenant| tenant.stopped_queues > 0).count())
    };
    online.send(60, 5000)?;
    until("it is stopped on both", || Ok(stopped()? == 2))?;
    for tenant in &mut offline {
        tenant.must_stand(50)?;
    }
    let gpus: std::collections::BTreeSet<u32> = control.tenants()?.iter().map(|tenant| tenant.gpu_id).collect();
    ensure!(gpus.len() == 2, "the tenants are on {gpus:?}");
    online.must_finish()?;
    offline.iter_mut().try_for_each(Tenant::must_finish)?;
    ensure!(stopped()? == 0, "something is stopped");
    Ok(())
}

pub(super) fn idle_tenants_are_not_looked_at(_: &Options) -> Result<()> {
    let control = Control::host(DOORBELLS)?;
    let (online, mut offline) = pair(&control)?;
    offline.send(400, 10_000)?;
    until("the doorbells of the idle tenant are armed", || {
        let flags = control.tenant(online.pid())?.context("it is not known")?.flags;
        Ok(flags.has(TenantFlags::ARMED))
    })?;
    let gpu = control.gpu()?;
    ensure!(gpu.flags.has(GpuFlags::CONTESTED), "jobs of two levels do not compete");
    // The net is due every second.
    let woken = wakeups(&control, 3)?;
    ensure!(woken <= 4, "{woken} wake-ups in three seconds of an idle tenant");
    report("idle_wakeups", woken);
    Ok(())
}
