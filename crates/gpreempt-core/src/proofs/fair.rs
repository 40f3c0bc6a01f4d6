//! Shares and limits of the fair policy.

use proptest::prelude::*;
use std::format;
use std::string::String;
use std::vec::Vec;

use super::scenario::{Event, JobSpec, Scenario};
use super::world::World;
use super::{holds, notices};
use crate::mutant::Mutant;
use crate::{Activity, ActuatorKind, GpuParams, JobParams, Nanos, Permille, PolicyKind, bounds};

/// Returns jobs that always have work on one gpu, for five seconds.
fn shared_gpu(jobs: impl Strategy<Value = Vec<JobParams>>) -> impl Strategy<Value = Scenario> {
    (jobs, 5..40u64, 100..2_000u64, 10..200u64).prop_map(|(jobs, slice, period, cycle)| {
        let gpu = GpuParams { policy: PolicyKind::Fair, slice: Nanos::from_millis(slice), ..GpuParams::default() };
        let spec = |params| JobSpec { params, gpus: 1, stoppable: true, occupancy: None };
        let start = |job| (Nanos::from_micros(100), Event::JobTurns(job as u8, Activity::Running));
        Scenario {
            gpus: std::vec![gpu],
            actuator: ActuatorKind::DebugTrap,
            driver: None,
            period: Nanos::from_micros(period),
            cycle: Nanos::from_micros(cycle),
            events: (0..jobs.len()).map(start).collect(),
            jobs: jobs.into_iter().map(spec).collect(),
        }
    })
}

fn weights() -> impl Strategy<Value = Vec<JobParams>> {
    let job = (10..1000u16, prop_oneof![Just(0u16), 50..250u16]).prop_map(|(weight, request)| JobParams {
        weight,
        request: Permille::new(request),
        min_run: Nanos::from_millis(1),
        max_stop: Nanos::from_secs(60),
        ..JobParams::default()
    });
    prop::collection::vec(job, 2..5)
}

/// Runs the scenario and returns how long each job ran within `window` after a second of warm-up.
fn run_times(scenario: &Scenario, window: Nanos) -> Vec<Nanos> {
    let mut world = World::new(scenario);
    for (gap, event) in &scenario.events {
        world.now = world.now.plus(*gap);
        world.apply(event);
    }
    let begin = world.now.plus(Nanos::from_secs(1));
    let end = begin.plus(window);
    let mut ran = std::vec![Nanos::ZERO; scenario.jobs.len()];
    while world.now < end {
        let due = world.next_due().min(end);
        let counted = due.since(begin.max(world.now));
        for tenant in world.tenants.iter().filter(|tenant| tenant.runs()) {
            ran[tenant.job] = ran[tenant.job].plus(counted);
        }
        world.step(due);
    }
    ran
}

/// Checks that every job gets its share of the time in which the gpu ran any job, within the bound.
fn shares_are_kept(scenario: &Scenario) -> Result<(), String> {
    let ran = run_times(scenario, Nanos::from_secs(5));
    let total: u64 = ran.iter().map(|time| time.0).sum();
    let requests: u64 = scenario.jobs.iter().map(|job| u64::from(job.params.request.get())).sum();
    let weights: u64 = scenario.jobs.iter().map(|job| u64::from(job.params.weight)).sum();
    let slice = scenario.gpus[0].slice;
    let bound = bounds::share_error(scenario.jobs.len() as u32, slice, scenario.period, scenario.cycle);
    for (job, ran) in scenario.jobs.iter().zip(&ran) {
        let (weight, request) = (u64::from(job.params.weight), u64::from(job.params.request.get()));
        let share = if requests >= 1000 {
            request * 1_000_000 / requests
        } else {
            request * 1000 + weight * (1000 - requests) * 1000 / weights
        };
        // Shares are thousandths: one thousandth of the total is rounding.
        let expected = total / 1_000_000 * share;
        let off = ran.0.abs_diff(expected);
        if off > bound.0 + total / 1000 {
            return Err(format!("share {share} ppm of {total}: expected {expected}, ran {ran:?}, bound {bound:?}"));
        }
    }
    Ok(())
}

fn limited() -> impl Strategy<Value = Vec<JobParams>> {
    (100..900u16).prop_map(|limit| {
        std::vec![JobParams { limit: Permille::new(limit), min_run: Nanos::from_millis(1), ..JobParams::default() }]
    })
}

/// Checks that a job alone on a gpu stays below its limit, but not far below.
fn limits_are_kept(scenario: &Scenario) -> Result<(), String> {
    let window = Nanos::from_secs(5);
    let ran = run_times(scenario, window)[0];
    let params = scenario.jobs[0].params;
    let most = bounds::limit_time(&params, window, scenario.period.times(2), scenario.cycle);
    let least = window.permille(u64::from(params.limit.get()).saturating_sub(100));
    if ran > most || ran < least {
        return Err(format!("limit {:?}: ran {ran:?} of {window:?}, between {least:?} and {most:?}", params.limit));
    }
    Ok(())
}

#[test]
fn shares_stay_within_the_bound() {
    holds(&shared_gpu(weights()), shares_are_kept);
}

#[test]
fn shares_notice_their_mutant() {
    notices(Mutant::UnchargedShare, &shared_gpu(weights()), shares_are_kept);
}

#[test]
fn limits_hold_even_on_an_idle_gpu() {
    holds(&shared_gpu(limited()), limits_are_kept);
}

#[test]
fn limits_notice_their_mutant() {
    notices(Mutant::NoLimit, &shared_gpu(limited()), limits_are_kept);
}
