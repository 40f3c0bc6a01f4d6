//! Processes end, gpus are reset, workers hang, the module goes: nothing stays stopped.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gpreempt_kernel_abi::{GpuFlags, ModuleEventKind};

use super::lives::start_host;
use super::until;
use crate::control::{Control, DOORBELLS, POLLING};
use crate::tenant::Tenant;
use crate::{Options, report};

const UPPER: u64 = 41;
const LOWER: u64 = 42;

/// More work than a round takes.
const ENDLESS: u32 = 900;

/// Numbers without a pattern, the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).checked_rem(limit).unwrap_or(0)
    }
}

fn is_stopped(control: &Control, tenant: &Tenant) -> Result<bool> {
    Ok(control.tenant(tenant.pid())?.is_some_and(|tenant| tenant.stopped_queues > 0))
}

/// Whether some process on a gpu is stopped.
fn any_stopped(control: &Control) -> Result<bool> {
    Ok(control.tenants()?.iter().any(|tenant| tenant.stopped_queues > 0))
}

pub(super) fn tenants_are_killed(options: &Options) -> Result<()> {
    let mut random = Random(1);
    for round in 0..options.rounds {
        let control = Control::host(if round % 2 == 0 { POLLING } else { DOORBELLS })?;
        control.job(UPPER, 9)?;
        control.job(LOWER, 2)?;
        let mut lower = [Tenant::start()?, Tenant::start()?, Tenant::start()?];
        let mut upper = Tenant::start()?;
        for tenant in &mut lower {
            control.process(tenant.pid(), LOWER)?;
            tenant.send(ENDLESS, 2000)?;
        }
        control.process(upper.pid(), UPPER)?;
        upper.send(1 + random.below(3) as u32, 4000)?;
        sleep(Duration::from_micros(random.below(12_000)));
        let [one, other, last] = &mut lower;
        match random.below(4) {
            0 => upper.kill()?,
            1 => one.kill()?,
            2 => {
                one.kill()?;
                upper.kill()?;
            }
            _ => {
                one.kill()?;
                other.kill()?;
            }
        }
        // The rest of the upper one's work ends, or it has ended.
        last.must_progress().with_context(|| format!("round {round}"))?;
        drop(upper);
        drop(lower);
        until("no tenant is left", || Ok(control.tenants()?.is_empty()))?;
    }
    Ok(())
}

pub(super) fn hosts_are_killed(options: &Options) -> Result<()> {
    let mut tenant = Tenant::start()?;
    tenant.send(ENDLESS, 2000)?;
    let watcher = Control::open()?;
    for round in 0..options.rounds {
        if tenant.left()? < 200 {
            tenant.send(500, 2000)?;
        }
        let mut host = start_host(round % 3 * 20, &[tenant.pid()])?;
        if round % 2 == 0 {
            until("it is held", || is_stopped(&watcher, &tenant))?;
        }
        host.kill()?;
        host.wait()?;
        tenant.must_progress().with_context(|| format!("round {round}"))?;
        until("the policy has expired", || Ok(watcher.jobs()?.is_empty()))?;
    }
    Ok(())
}

fn command(program: &str, argument: &str) -> Result<bool> {
    Ok(Command::new(program).arg(argument).status().with_context(|| format!("cannot start {program}"))?.success())
}

pub(super) fn the_module_goes_under_load(options: &Options) -> Result<()> {
    let mut tenants = [Tenant::start()?, Tenant::start()?];
    for round in 0..options.rounds.min(2) {
        let pids = tenants.each_ref().map(Tenant::pid);
        for tenant in &mut tenants {
            tenant.send(200, 2000)?;
        }
        let mut host = start_host(60_000, &pids)?;
        let watcher = Control::open()?;
        until("one is held", || any_stopped(&watcher))?;
        ensure!(!command("rmmod", "gpreempt")?, "it goes although it is in use");
        drop(watcher);
        host.kill()?;
        host.wait()?;
        ensure!(command("rmmod", "gpreempt")?, "the module cannot be removed");
        ensure!(!Path::new("/dev/gpreempt").exists(), "its device stays");
        for tenant in &mut tenants {
            tenant.must_finish().with_context(|| format!("round {round}"))?;
        }
        ensure!(command("insmod", "/lib/modules/gpreempt.ko")?, "the module cannot be loaded");
    }
    Ok(())
}

/// Writes a parameter of a module.
fn parameter(module: &str, name: &str, value: &str) -> Result<()> {
    let path = format!("/sys/module/{module}/parameters/{name}");
    fs::write(&path, value).with_context(|| format!("cannot write {path}"))
}

pub(super) fn a_reset_is_survived(_: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    control.job(UPPER, 9)?;
    control.job(LOWER, 2)?;
    let (mut upper, mut lower) = (Tenant::start()?, Tenant::start()?);
    control.process(upper.pid(), UPPER)?;
    control.process(lower.pid(), LOWER)?;
    lower.send(ENDLESS, 2000)?;
    upper.send(ENDLESS, 2000)?;
    until("the lower is stopped", || is_stopped(&control, &lower))?;
    control.events()?;
    parameter("amdgpu", "inject_lost_fence", "1")?;
    // The next cycle hangs: that of the resume, or that of the death.
    upper.kill()?;
    let mut seen = Vec::new();
    until("the reset is over", || {
        seen.extend(control.events()?);
        Ok(seen.iter().any(|event| event.kind == ModuleEventKind::RECOVERED))
    })?;
    ensure!(seen.iter().any(|event| event.kind == ModuleEventKind::RESET), "its beginning was not told");
    drop(lower);
    until("no tenant is left", || Ok(control.tenants()?.is_empty()))?;
    ensure!(!control.gpu()?.flags.has(GpuFlags::RESETTING), "it is still being reset");
    // Everything works as before.
    let (mut upper, mut lower) = (Tenant::start()?, Tenant::start()?);
    control.process(upper.pid(), UPPER)?;
    control.process(lower.pid(), LOWER)?;
    lower.send(50, 2000)?;
    upper.send(50, 2000)?;
    until("the lower is stopped again", || is_stopped(&control, &lower))?;
    upper.must_finish()?;
    lower.must_finish()
}

pub(super) fn a_worker_that_hangs_is_overruled(_: &Options) -> Result<()> {
    parameter("gpreempt", "watchdog_ms", "100")?;
    let control = Control::host(POLLING)?;
    control.job(UPPER, 9)?;
    control.job(LOWER, 2)?;
    let (mut held, mut other) = (Tenant::start()?, Tenant::start()?);
    control.process(held.pid(), LOWER)?;
    control.process(other.pid(), UPPER)?;
    held.send(ENDLESS, 2000)?;
    other.send(ENDLESS, 2000)?;
    until("one is stopped", || is_stopped(&control, &held))?;
    control.events()?;
    // The worker waits in the driver for as long as that.
    parameter("amdgpu", "inject_late_unmap_ms", "1500")?;
    let begin = Instant::now();
    control.hold(UPPER, 9, 60_000)?;
    until("the watchdog has barked", || {
        Ok(control.events()?.iter().any(|event| event.kind == ModuleEventKind::WATCHDOG))
    })?;
    report("watchdog_after_ms", u64::try_from(begin.elapsed().as_millis())?);
    ensure!(control.gpu()?.watchdog > 0, "that was not counted");
    parameter("gpreempt", "watchdog_ms", "3000")?;
    // The hold goes on, and everything works as before.
    until("it is held", || Ok(is_stopped(&control, &other)? && !is_stopped(&control, &held)?))?;
    held.must_progress()?;
    control.clear()?;
    other.must_progress()
}
