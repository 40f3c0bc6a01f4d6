//! Properties of several gpus and jobs under strict priority, and properties that hold under every policy.

use std::collections::{BTreeSet, VecDeque};
use std::format;
use std::string::String;
use std::vec::Vec;

use super::monitor::{Monitor, Property, at_rest};
use super::scenario::{Scenario, Trouble, history};
use super::world::{Done, World};
use super::{holds, notices};
use crate::Nanos;
use crate::mutant::Mutant;

const CALM: Trouble = Trouble { failures: false, churn: false, mixed: false };
const CHURN: Trouble = Trouble { failures: false, churn: true, mixed: false };
const FAILING: Trouble = Trouble { failures: true, churn: true, mixed: false };
const MIXED: Trouble = Trouble { failures: false, churn: true, mixed: true };
const MIXED_FAILING: Trouble = Trouble { failures: true, churn: true, mixed: true };

/// Runs a history; calls `see` with every plan and every state.
fn unfold(
    scenario: &Scenario,
    mut see: impl FnMut(&mut World, Option<&[Done]>) -> Result<(), String>,
) -> Result<World, String> {
    let mut world = World::new(scenario);
    let mut until = world.now;
    for (gap, event) in &scenario.events {
        until = until.plus(*gap);
        run_until(&mut world, until, &mut see)?;
        world.now = until;
        world.apply(event);
        see(&mut world, None)?;
    }
    Ok(world)
}

fn run_until(
    world: &mut World,
    until: Nanos,
    see: &mut impl FnMut(&mut World, Option<&[Done]>) -> Result<(), String>,
) -> Result<(), String> {
    loop {
        let due = world.next_due();
        if due > until {
            return Ok(());
        }
        let plan = world.step(due);
        see(world, Some(&plan))?;
        see(world, None)?;
    }
}

fn check(property: Property, scenario: &Scenario) -> Result<(), String> {
    let mut monitor = Monitor::new(property, scenario.gpus.len());
    let mut recent: VecDeque<String> = VecDeque::new();
    unfold(scenario, |world, plan| match plan {
        Some(plan) => {
            for done in plan {
                recent.push_back(format!("{:?} {:?}", world.now, done.entry));
                if recent.len() > 12 {
                    recent.pop_front();
                }
            }
            monitor.plan(world, plan)
        }
        None => monitor.state(world),
    })
    .map(|_| ())
    .map_err(|violation| format!("{violation}\nlast entries:\n{}\n", Vec::from(recent).join("\n")))
}

/// Runs the machine without events after a history with failures, then checks that it comes to rest.
fn converges(scenario: &Scenario) -> Result<(), String> {
    let mut world = unfold(scenario, |_, _| Ok(()))?;
    for gpu in 0..scenario.gpus.len() {
        world.apply(&super::scenario::Event::Reset(gpu as u8, false));
    }
    world.apply(&super::scenario::Event::Refusals(0));
    world.apply(&super::scenario::Event::LostReports(0));
    // Long enough for lost reports, retries, a job whose stop was given up, and the longest turn of an aged job.
    let quiet = world.now.plus(Nanos::from_secs(3));
    run_until(&mut world, quiet, &mut |_, _| Ok(()))?;
    // A turn of an aged job may be in progress at any instant, so rest at some instant of the next seconds is enough.
    // Every job must run at some instant of them, under every policy: no age limit here is longer than 200 ms.
    let mut last = Err(String::new());
    let mut ran: BTreeSet<usize> = BTreeSet::new();
    let end = quiet.plus(Nanos::from_secs(2));
    run_until(&mut world, end, &mut |world, _| {
        if last.is_err() {
            last = at_rest(world);
        }
        ran.extend((0..world.jobs.len()).filter(|&job| world.members(job).all(|tenant| tenant.stopped == 0)));
        Ok(())
    })?;
    last?;
    match (0..world.jobs.len()).find(|job| !ran.contains(job)) {
        Some(job) => Err(format!("job {job} did not run: {:?}", world.core.job(world.jobs[job].id))),
        None => Ok(()),
    }
}

/// Returns the plans of a history as text.
fn transcript(scenario: &Scenario) -> String {
    let mut text = String::new();
    let result = unfold(scenario, |world, plan| {
        for done in plan.unwrap_or(&[]) {
            text.push_str(&format!("{:?} {:?}\n", world.now, done.entry));
        }
        Ok(())
    });
    assert!(result.is_ok());
    text
}

fn is_deterministic(scenario: &Scenario) -> Result<(), String> {
    let runs: Vec<String> = (0..2).map(|_| transcript(scenario)).collect();
    if runs[0] == runs[1] { Ok(()) } else { Err("Determinism: two runs differ".into()) }
}

macro_rules! property {
    ($name:ident, $property:ident, $trouble:expr, [$($mutant:ident),+]) => {
        mod $name {
            use super::*;

            #[test]
            fn holds_over_random_histories() {
                holds(&history($trouble), |scenario| check(Property::$property, scenario));
            }

            #[test]
            fn notices_its_mutants() {
                $(notices(Mutant::$mutant, &history($trouble), |scenario| check(Property::$property, scenario));)+
            }
        }
    };
}

property!(inversion_never_lasts_longer_than_the_bound, Inversion, CHURN, [EndlessPatience]);
property!(nothing_starves_beyond_the_bound, Starvation, CHURN, [NoAgeing]);
property!(no_tenant_is_asked_to_stop_that_cannot, Stoppable, MIXED, [StopsUnstoppable]);
property!(no_entry_of_a_plan_is_a_no_op, NoNoOp, MIXED, [RepeatedStop]);
property!(everything_stopped_resumes_when_nothing_above_wants, Resumes, CHURN, [ForgottenResume, VictimsReserve]);
property!(no_job_is_partly_stopped_for_longer_than_a_plan, Whole, MIXED, [PartialStop]);
property!(no_two_jobs_hold_parts_of_each_other, NoMutualHold, MIXED, [HoldsParts]);
property!(blocked_and_evicted_cause_no_preemption, Causes, CALM, [BlockedWants, EvictedWants]);
property!(the_cycle_budget_is_kept, Budget, MIXED, [UnchargedCycles]);
property!(a_resumed_job_is_exempt_for_min_run, Exempt, CALM, [NoExemptTime]);
property!(turns_of_aged_jobs_keep_their_distance, Gate, CALM, [OpenGate]);

mod bigger_victims_go_first {
    use super::super::scenario::Event;
    use super::*;
    use crate::{Activity, Permille};
    use proptest::strategy::Strategy;

    /// Returns histories in which every tenant with work runs and its occupancy is known.
    fn measured() -> impl Strategy<Value = Scenario> {
        history(CALM).prop_map(|mut scenario| {
            for (index, job) in scenario.jobs.iter_mut().enumerate() {
                let share = 997 * (index as u16 + 1) % 1000;
                job.occupancy = job.occupancy.or(Some(share));
            }
            for gpu in &mut scenario.gpus {
                (gpu.small, gpu.weigh) = (Permille::NONE, false);
            }
            for (_, event) in &mut scenario.events {
                if let Event::Turns(_, activity) | Event::JobTurns(_, activity) = event
                    && *activity == Activity::Wants
                {
                    *activity = Activity::Running;
                }
            }
            scenario
        })
    }

    #[test]
    fn holds_over_random_histories() {
        holds(&measured(), |scenario| check(Property::Order, scenario));
    }

    #[test]
    fn notices_its_mutant() {
        notices(Mutant::SmallestFirst, &measured(), |scenario| check(Property::Order, scenario));
    }
}

/// Drivers whose cycles reports tell, and the cost function may not know.
mod reported_cycles {
    use super::super::scenario::actuator;
    use super::super::world::heap;
    use super::*;
    use crate::mutant;
    use crate::storage::Storage as _;
    use crate::{Activity, ActuatorKind, GpuIndex, GpuParams, JobParams, Level, Observation, Patience, Report};
    use proptest::strategy::{Just, Strategy};

    /// Without churn, no tenant leaves while its report is still to come.
    const STEADY: Trouble = Trouble { mixed: true, ..CALM };

    fn reported(trouble: Trouble, driver: impl Strategy<Value = ActuatorKind>) -> impl Strategy<Value = Scenario> {
        (history(trouble), driver).prop_map(|(scenario, driver)| Scenario { driver: Some(driver), ..scenario })
    }

    #[test]
    fn keep_the_budget() {
        holds(&reported(STEADY, actuator()), |scenario| check(Property::Budget, scenario));
    }

    #[test]
    fn are_noticed_when_they_are_not_charged() {
        notices(Mutant::BelievesCosts, &reported(STEADY, actuator()), |scenario| check(Property::Budget, scenario));
    }

    /// Stops two tenants of four queues, for four cycles each of a budget of eight. That is full again before the
    /// second stop, and the report of the first says after it that no cycle was spent. Returns when eight cycles can be
    /// spent.
    fn full_again() -> Nanos {
        let mut core = heap(1);
        let gpu = GpuParams { cycles_per_second: 1000, cycle_burst: 8, ..GpuParams::default() };
        core.set_gpu(GpuIndex(0), gpu).unwrap();
        let tenants = [15, 3, 2].map(|level| {
            let (level, patience) = (Level::new(level).unwrap(), Patience::Fixed(Nanos::ZERO));
            let job = core.add_job(JobParams { level, patience, ..JobParams::default() }).unwrap();
            core.add_tenant(job, GpuIndex(0), true).unwrap()
        });
        let mut stop = |tenant: usize, now: Nanos| {
            for &id in [&tenants[0], &tenants[tenant]] {
                let work = Observation { at: now, since: now, activity: Activity::Wants, ..Observation::NONE };
                core.observe(id, Observation { queues: 4, ..work }).unwrap();
            }
            let plan = core.decide(now, &ActuatorKind::PerQueue);
            assert_eq!((plan.entries.len(), plan.entries[0].tenant), (1, tenants[tenant]));
            plan.entries[0].number
        };
        let first = stop(1, Nanos::from_millis(1));
        let now = Nanos::from_millis(50);
        stop(2, now);
        let report = Report { at: now, took: Nanos::ZERO, cycles: Some(0), stopped_queues: Some(4) };
        core.report(tenants[1], first, report).unwrap();
        core.storage.view().gpus[0].bucket.ready_at(&gpu, 8, now).since(now)
    }

    #[test]
    fn are_given_back_only_as_far_as_the_budget_was_not_full_since() {
        assert_eq!(full_again(), Nanos::from_millis(4));
        assert_eq!(mutant::with(Mutant::GivesBackTwice, full_again), Nanos::ZERO);
    }

    #[test]
    fn keep_the_bound_of_inversions_where_they_are_fewer_than_the_cost_function_says() {
        let cheap = reported(CHURN, Just(ActuatorKind::Combined));
        holds(&cheap, |scenario| check(Property::Inversion, scenario));
    }
}

/// Messages that come late, as the only trouble of a history.
mod late_messages {
    use super::super::scenario::Event;
    use super::*;
    use proptest::strategy::Strategy;

    /// Returns histories in which `late` takes the place of refused and lost calls.
    fn late(late: fn(u8) -> Event) -> impl Strategy<Value = Scenario> {
        history(FAILING).prop_map(move |mut scenario| {
            // A tenant that moves leaves its calls behind under the old id.
            scenario.events.retain(|(_, event)| {
                !matches!(
                    event,
                    Event::Slow(_) | Event::Reset(..) | Event::OldLook(_) | Event::OldReport(_) | Event::Moves { .. }
                )
            });
            for (_, event) in &mut scenario.events {
                if let Event::Refusals(n) | Event::LostReports(n) = *event {
                    *event = late(n);
                }
            }
            scenario
        })
    }

    #[test]
    fn old_looks_are_ignored() {
        holds(&late(Event::OldLook), |scenario| check(Property::NoNoOp, scenario));
    }

    #[test]
    fn old_looks_are_noticed_when_they_are_not() {
        notices(Mutant::AcceptsOldLooks, &late(Event::OldLook), |scenario| check(Property::NoNoOp, scenario));
    }

    #[test]
    fn old_reports_are_ignored() {
        holds(&late(Event::OldReport), |scenario| check(Property::NoOverlap, scenario));
    }

    #[test]
    fn old_reports_are_noticed_when_they_are_not() {
        notices(Mutant::AcceptsOldReports, &late(Event::OldReport), |scenario| check(Property::NoOverlap, scenario));
    }
}

mod convergence {
    use super::*;

    #[test]
    fn after_failures_everything_comes_to_rest() {
        holds(&history(MIXED_FAILING), converges);
    }

    #[test]
    fn notices_its_mutants() {
        for mutant in [Mutant::NoRetry, Mutant::WaitsForever] {
            notices(mutant, &history(MIXED_FAILING), converges);
        }
    }
}

mod determinism {
    use super::*;

    #[test]
    fn the_same_history_gives_the_same_plans() {
        holds(&history(MIXED_FAILING), is_deterministic);
    }

    #[test]
    fn notices_its_mutant() {
        notices(Mutant::CountsCalls, &history(FAILING), is_deterministic);
    }
}

mod coverage {
    use super::*;
    use crate::{Bound, Reason};
    use proptest::strategy::{Strategy, ValueTree};
    use std::collections::BTreeMap;

    /// Shows that the histories cover the core: every reason and every bound occurs in their plans.
    #[test]
    fn histories_reach_every_rule_and_every_bound() {
        let mut reasons: BTreeMap<String, u32> = BTreeMap::new();
        let mut bounds: BTreeMap<String, u32> = BTreeMap::new();
        let mut runner = super::super::runner(1, 0);
        for trouble in [FAILING, MIXED_FAILING] {
            for _ in 0..150 {
                let scenario = history(trouble).new_tree(&mut runner).unwrap().current();
                let result = unfold(&scenario, |_, plan| {
                    for done in plan.unwrap_or(&[]) {
                        *reasons.entry(format!("{:?}", done.entry.why.reason)).or_default() += 1;
                        *bounds.entry(format!("{:?}", done.entry.why.bound)).or_default() += 1;
                    }
                    Ok(())
                });
                assert!(result.is_ok());
            }
        }
        let wanted = [
            Reason::HigherWants,
            Reason::SliceOver,
            Reason::ShareDue,
            Reason::LimitReached,
            Reason::EarlierDeadline,
            Reason::Held,
            Reason::JobStopped,
            Reason::NothingAbove,
            Reason::TurnDue,
            Reason::Aged,
            Reason::Released,
            Reason::GaveUp,
        ];
        for reason in wanted {
            assert!(reasons.get(&format!("{reason:?}")).is_some_and(|&n| n >= 5), "{reason:?} too rare: {reasons:?}");
        }
        let wanted = [
            Bound::Detection,
            Bound::Patience,
            Bound::Exempt,
            Bound::Budget,
            Bound::Small,
            Bound::Linger,
            Bound::Slice,
            Bound::Age,
            Bound::Retry,
        ];
        for bound in wanted {
            assert!(bounds.get(&format!("{bound:?}")).is_some_and(|&n| n >= 5), "{bound:?} too rare: {bounds:?}");
        }
    }
}
