//! The cap on the share of time one job may keep others stopped.

use proptest::prelude::*;
use std::collections::VecDeque;
use std::format;
use std::string::String;

use super::scenario::{Event, JobSpec, Scenario};
use super::world::World;
use super::{holds, notices};
use crate::mutant::Mutant;
use crate::{Activity, ActuatorKind, GpuParams, JobParams, Level, Nanos, Patience, Permille, bounds};

/// Returns a job with a cap that always has work, above one that always has work.
fn greedy() -> impl Strategy<Value = Scenario> {
    (100..900u16, 100..2_000u64, 10..200u64).prop_map(|(share, period, cycle)| {
        let upper = JobParams {
            level: Level::MAX,
            patience: Patience::Fixed(Nanos::ZERO),
            stop_share: Permille::new(share),
            ..JobParams::default()
        };
        let lower = JobParams { max_stop: Nanos::from_secs(60), ..JobParams::default() };
        let spec = |params| JobSpec { params, gpus: 1, stoppable: true, occupancy: None };
        let start = |job| (Nanos::from_millis(1), Event::JobTurns(job, Activity::Running));
        Scenario {
            gpus: std::vec![GpuParams::default()],
            actuator: ActuatorKind::DebugTrap,
            driver: None,
            period: Nanos::from_micros(period),
            cycle: Nanos::from_micros(cycle),
            jobs: std::vec![spec(upper), spec(lower)],
            events: std::vec![start(0), start(1)],
        }
    })
}

/// Checks that in no window of two seconds the lower job is stopped for longer than the cap allows.
fn cap_is_kept(scenario: &Scenario) -> Result<(), String> {
    let window = Nanos::from_secs(2);
    let most = bounds::stop_time(&scenario.jobs[0].params, window, scenario.period.times(2), scenario.cycle.times(2));
    let mut world = World::new(scenario);
    for (gap, event) in &scenario.events {
        world.now = world.now.plus(*gap);
        world.apply(event);
    }
    let end = world.now.plus(Nanos::from_secs(8));
    let mut spans: VecDeque<(Nanos, Nanos)> = VecDeque::new();
    let mut total = Nanos::ZERO;
    while world.now < end {
        let (from, due) = (world.now, world.next_due());
        if world.tenants[1].stopped > 0 {
            spans.push_back((due, due.since(from)));
            total = total.plus(due.since(from));
        }
        world.step(due);
        while let Some(&(at, length)) = spans.front().filter(|span| span.0.plus(window) < world.now) {
            let _ = at;
            total = total.since(length);
            spans.pop_front();
        }
        if total > most {
            return Err(format!("stopped for {total:?} of the last {window:?}, at most {most:?}"));
        }
    }
    if spans.is_empty() { Err("never stopped: the cap was not tried".into()) } else { Ok(()) }
}

#[test]
fn a_job_keeps_others_stopped_no_longer_than_its_share() {
    holds(&greedy(), cap_is_kept);
}

#[test]
fn the_cap_notices_its_mutant() {
    notices(Mutant::UncountedStopShare, &greedy(), cap_is_kept);
}
