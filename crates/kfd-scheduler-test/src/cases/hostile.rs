//! Processes that hide or rewrite what the scheduler reads, and callers that call anything.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gpreempt_kernel_abi::{Argument, COMMANDS, Claim, JobArgs, ProcessArgs, Request};

use super::deaths::Random;
use super::until;
use crate::Options;
use crate::control::{Control, DOORBELLS, POLLING, at_level, start_time};
use crate::tenant::Tenant;

const HOSTILE: u64 = 51;
const ONLINE: u64 = 52;
const OFFLINE: u64 = 53;

/// A hostile process of the highest level: the others go on, those in the middle with what they are due.
fn beside(way: &str) -> Result<()> {
    // Many queues take long to open.
    let both = if way == "many" { &[DOORBELLS][..] } else { &[POLLING, DOORBELLS] };
    for &settings in both {
        let control = Control::host(settings)?;
        for (job, level) in [(HOSTILE, 12), (ONLINE, 9), (OFFLINE, 2)] {
            control.job(job, level)?;
        }
        let mut hostile = Tenant::start_as(&["hostile", way])?;
        let (mut online, mut offline) = (Tenant::start()?, Tenant::start()?);
        control.process(hostile.pid(), HOSTILE)?;
        control.process(online.pid(), ONLINE)?;
        control.process(offline.pid(), OFFLINE)?;
        hostile.ask("begin")?;
        offline.send(300, 2000)?;
        // Whatever it shows, it may keep the others waiting only as long as its own level allows.
        if way != "rewritten" {
            offline.must_progress().with_context(|| format!("{way}: the lowest"))?;
            for _ in 0..5 {
                online.send(1, 1000)?;
                online.must_finish().with_context(|| format!("{way}: the one in the middle"))?;
                sleep(Duration::from_millis(10));
            }
        } else {
            sleep(Duration::from_secs(2));
        }
        ensure!(control.gpu()?.watchdog == 0, "{way}: a worker hung");
        hostile.kill()?;
        until("it is gone", || Ok(control.tenant(hostile.pid())?.is_none()))?;
        online.send(1, 1000)?;
        online.must_finish().with_context(|| format!("{way}: afterwards"))?;
        offline.send(200, 2000)?;
        offline.must_progress().with_context(|| format!("{way}: afterwards"))?;
    }
    Ok(())
}

pub(super) fn rings_are_rewritten(_: &Options) -> Result<()> {
    beside("rewritten")
}

pub(super) fn indices_are_unmapped(_: &Options) -> Result<()> {
    beside("unmapped")
}

pub(super) fn indices_are_protected(_: &Options) -> Result<()> {
    beside("protected")
}

pub(super) fn faults_are_never_resolved(_: &Options) -> Result<()> {
    beside("unresolved")
}

pub(super) fn pages_are_absent(_: &Options) -> Result<()> {
    beside("absent")
}

pub(super) fn there_are_255_queues(_: &Options) -> Result<()> {
    beside("many")
}

/// Calls everything with anything, and with almost right arguments.
pub(super) fn calls_are_random(options: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    let gpu_id = control.gpu()?.gpu_id;
    let mut tenants = [Tenant::start()?, Tenant::start()?];
    for tenant in &mut tenants {
        tenant.send(900, 2000)?;
    }
    let mut random = Random(3);
    let begin = Instant::now();
    let mut calls = 0_u64;
    while begin.elapsed() < Duration::from_millis(u64::from(options.rounds) * 300) {
        for _ in 0..50 {
            call_anything(&control, &mut random, gpu_id, &tenants)?;
            calls += 1;
        }
    }
    crate::report("random_calls", calls);
    // It is the policy host still, whatever was called; everything can be cleared, and runs.
    control.must(&mut Claim { keep_ms: 1000, ..Claim::SIZED })?;
    control.clear()?;
    for tenant in &mut tenants {
        // The first ones may have ended.
        tenant.send(50, 2000)?;
        tenant.must_progress()?;
    }
    Ok(())
}

fn call_anything(control: &Control, random: &mut Random, gpu_id: u32, tenants: &[Tenant; 2]) -> Result<()> {
    let tenant = if random.below(2) == 0 { &tenants[0] } else { &tenants[1] };
    let job = 1 + random.below(4);
    match random.below(4) {
        0 => {
            let hold_until_ns = if random.below(4) == 0 { random.below(u64::MAX) } else { 0 };
            let params = at_level(random.below(16) as u8);
            // Any answer will do.
            let _ = control.call(&mut JobArgs { job, hold_until_ns, params, ..JobArgs::SIZED });
        }
        1 => {
            let pid = tenant.pid();
            let flags = gpreempt_kernel_abi::ProcessFlags(random.below(2) as u32);
            let start_time = start_time(pid)?;
            let pid = pid.cast_signed();
            let _ = control.call(&mut ProcessArgs { pid, start_time, job, flags, ..ProcessArgs::SIZED });
        }
        2 if random.below(8) == 0 => {
            let _ = control.remove_job(job);
        }
        _ => {
            // Words that are likely to mean something.
            let mut words = [0_u32; 64];
            for word in &mut words {
                *word = match random.below(8) {
                    0 => gpu_id,
                    1 => tenant.pid(),
                    2 => random.below(u64::MAX) as u32,
                    3 => random.below(128) as u32,
                    _ => random.below(2) as u32,
                };
            }
            let command = &COMMANDS[random.below(COMMANDS.len() as u64) as usize];
            if let Some(size) = words.first_mut() {
                *size = if random.below(4) == 0 { random.below(300) as u32 } else { u32::from(command.size) };
            }
            let Request(request) = command.request();
            // Lists would be written to where the words say.
            if request != gpreempt_kernel_abi::QueryArgs::COMMAND.request().0 {
                let _ = control.raw(request, words.as_mut_ptr().expose_provenance());
            }
        }
    }
    Ok(())
}
