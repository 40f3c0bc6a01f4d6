//! What a host can rely on: reports by number and with cycles, which occupancy to sample, the lists of what exists, and
//! slots in borrowed memory.
#![allow(missing_docs, reason = "test names are the documentation")]

mod support;

use gpreempt_core::{
    Action, Activity, ActuatorKind, Entry, EntryNumber, Error, GpuIndex, GpuParams, GpuSlot, JobParams, JobSlot, Nanos,
    Observation, Parts, Patience, Permille, Report, Scheduler, TenantId, TenantSlot,
};
use support::{Heap, Stage, at_level, empty_core, ms};

/// The time after which a report counts as lost here.
const TIMEOUT: Nanos = Nanos::from_millis(100);

/// Creates a core in which an online tenant runs beside an offline one, at 1 ms. Returns the core and both tenants.
fn inversion() -> (Scheduler<Heap>, TenantId, TenantId) {
    let mut core = empty_core();
    let params = GpuParams { linger_max: Nanos::ZERO, report_timeout: TIMEOUT, ..GpuParams::default() };
    core.set_gpu(GpuIndex(0), params).expect("a slot");
    let [online, offline] = [12, 3].map(|level| {
        let job = core.add_job(at_level(level)).expect("room");
        core.add_tenant(job, GpuIndex(0), true).expect("room")
    });
    look(&mut core, online, ms(1), Activity::Running, 0);
    look(&mut core, offline, ms(1), Activity::Running, 0);
    (core, online, offline)
}

fn look(core: &mut Scheduler<Heap>, tenant: TenantId, at: Nanos, activity: Activity, stopped_queues: u16) {
    let look = Observation { at, activity, since: at, queues: 2, stopped_queues, ..Observation::default() };
    core.observe(tenant, look).expect("known");
}

/// Returns the only entry of the plan at `now`.
fn only_entry(core: &mut Scheduler<Heap>, now: Nanos) -> Entry {
    let plan = core.decide(now, &ActuatorKind::DebugTrap);
    assert_eq!(plan.entries.len(), 1, "{:?}", plan.entries);
    plan.entries[0]
}

fn stopped(at: Nanos, queues: u16) -> Report {
    Report { at, took: Nanos::from_micros(100), cycles: None, stopped_queues: Some(queues) }
}

#[test]
fn cycles_count_as_planned_until_a_report_tells_them() {
    let (mut core, online, offline) = inversion();
    let cycles = |core: &Scheduler<Heap>| core.gpu(GpuIndex(0)).map(|gpu| (gpu.cycles, gpu.cycle));
    let plan = |core: &mut Scheduler<Heap>, now| core.decide(now, &ActuatorKind::PerQueue).entries[0].number;
    let us = Nanos::from_micros;
    let stop = plan(&mut core, ms(1));
    assert_eq!(cycles(&core), Some((2, GpuParams::DEFAULT.cycle_estimate)), "one for each queue, and no time known");
    // It took four, and 100 us for each.
    let report = Report { took: us(400), cycles: Some(4), ..stopped(ms(2), 2) };
    core.report(offline, stop, report).expect("known");
    assert_eq!(cycles(&core), Some((4, us(100))));
    look(&mut core, online, ms(50), Activity::Idle, 0);
    let resume = plan(&mut core, ms(50));
    assert_eq!(cycles(&core), Some((6, us(100))));
    // The resume went along with another call: its cycles and their time are that one's.
    let report = Report { took: us(900), cycles: Some(0), ..stopped(ms(51), 0) };
    core.report(offline, resume, report).expect("known");
    assert_eq!(cycles(&core), Some((4, us(100))));
}

#[test]
fn a_late_report_of_an_entry_that_was_planned_again_is_refused_and_changes_nothing() {
    let (mut core, _, offline) = inversion();
    let first = only_entry(&mut core, ms(1));
    // The report is lost, as far as the core can tell: it plans the stop again.
    let again = only_entry(&mut core, ms(1).plus(TIMEOUT));
    assert_eq!((first.action, again.action), (Action::Preempt, Action::Preempt));
    assert!(again.number > first.number, "each entry has a number of its own");
    // The first call was refused after all. The second is still under way, and is not taken for refused.
    let refused = Report { stopped_queues: None, ..stopped(ms(102), 0) };
    assert_eq!(core.report(offline, first.number, refused), Err(Error::StaleEntry));
    assert_eq!(core.tenant(offline).and_then(|tenant| tenant.open), Some(again.number));
    assert!(core.decide(ms(150), &ActuatorKind::DebugTrap).entries.is_empty(), "the second call is waited for");
    assert_eq!(core.report(offline, again.number, stopped(ms(151), 2)), Ok(()));
    // Reported twice, never planned.
    for number in [again.number, EntryNumber(0), EntryNumber(again.number.0 + 1)] {
        assert_eq!(core.report(offline, number, refused), Err(Error::StaleEntry), "{number:?}");
    }
    assert!(core.decide(ms(152), &ActuatorKind::DebugTrap).entries.is_empty(), "it is stopped");
}

#[test]
fn a_report_is_taken_after_the_wait_for_it_ended_while_nothing_newer_was_planned() {
    let (mut core, online, offline) = inversion();
    let stop = only_entry(&mut core, ms(1));
    // The online job pauses before the report is missed, so that nothing is planned again.
    look(&mut core, online, ms(50), Activity::Idle, 0);
    assert!(core.decide(ms(1).plus(TIMEOUT), &ActuatorKind::DebugTrap).entries.is_empty());
    assert_eq!(core.report(offline, stop.number, stopped(ms(110), 2)), Ok(()));
    assert_eq!(only_entry(&mut core, ms(110)).action, Action::Resume, "what it tells is acted on");
}

#[test]
fn a_report_that_an_observation_has_overtaken_still_tells_what_the_call_took() {
    let (mut core, _, offline) = inversion();
    let stop = only_entry(&mut core, ms(1));
    look(&mut core, offline, ms(2), Activity::Wants, 2);
    assert!(core.decide(ms(2), &ActuatorKind::DebugTrap).entries.is_empty());
    assert!(core.gpu(GpuIndex(0)).is_some_and(|gpu| !gpu.measured));
    assert_eq!(core.report(offline, stop.number, stopped(ms(3), 2)), Ok(()));
    assert!(core.gpu(GpuIndex(0)).is_some_and(|gpu| gpu.measured && gpu.cycle == Nanos::from_micros(100)));
}

/// Puts two jobs with work on a gpu, at levels 12 and `below`, the higher with a patience of 5 ms. Returns the machine
/// after its first decision.
fn waiting(params: GpuParams, below: u8) -> Stage {
    let mut stage = Stage::new(1, GpuParams { linger_max: Nanos::ZERO, ..params });
    let patience = Patience::Fixed(ms(5));
    let (_, online) = stage.job(JobParams { patience, ..at_level(12) }, &[0]);
    let (_, low) = stage.job(at_level(below), &[0]);
    let (_, _idle) = stage.job(at_level(below), &[0]);
    stage.does(online, Activity::Running);
    stage.does(low, Activity::Running);
    stage.at(ms(2));
    stage
}

/// Returns for each tenant whether its occupancy is wanted: online, offline, idle.
fn wanted(stage: &Stage) -> [bool; 3] {
    [0, 1, 2].map(|actor| stage.core.wants_occupancy(stage.actors[actor].id))
}

#[test]
fn occupancy_is_wanted_while_a_stop_hangs_on_it() {
    let mut stage = waiting(GpuParams::default(), 3);
    assert_eq!(wanted(&stage), [true, true, false], "of all that run there");
    stage.at(ms(8));
    assert!(stage.is_stopped(1));
    assert_eq!(wanted(&stage), [false; 3], "the stop is made");
    stage.does(0, Activity::Idle);
    stage.at(ms(9));
    assert!(!stage.is_stopped(1));
    assert_eq!(wanted(&stage), [false; 3], "no higher job wants the gpu");
}

#[test]
fn occupancy_is_wanted_of_what_the_settings_weigh_and_of_nothing_else() {
    let default = GpuParams::default();
    assert_eq!(wanted(&waiting(GpuParams { weigh: false, ..default }, 3)), [false, true, false], "small victims only");
    let spares_nothing = GpuParams { weigh: false, small: Permille::NONE, ..default };
    assert_eq!(wanted(&waiting(spares_nothing, 3)), [false; 3]);
    assert_eq!(wanted(&waiting(default, 12)), [false; 3], "equals run together");
    assert_eq!(wanted(&waiting(GpuParams { slice: ms(50), ..default }, 12)), [false; 3], "turns are not weighed");
}

#[test]
fn a_spared_victim_is_sampled_for_as_long_as_it_is_spared() {
    let mut stage = waiting(GpuParams::default(), 3);
    stage.holds_share(0, 100);
    stage.holds_share(1, 20);
    stage.at(ms(8));
    assert!(!stage.is_stopped(1), "it holds little");
    assert_eq!(wanted(&stage), [true, true, false]);
    stage.holds_share(1, 900);
    stage.at(ms(9));
    assert!(stage.is_stopped(1), "the sample decides");
}

#[test]
fn what_exists_is_listed_and_shown() {
    let mut stage = Stage::plain(2);
    let (low, _) = stage.job(at_level(3), &[0, 1]);
    let (online, _) = stage.job(at_level(12), &[1]);
    let core = &stage.core;
    assert_eq!(core.gpus().collect::<Vec<_>>(), [GpuIndex(0), GpuIndex(1)]);
    assert_eq!(core.jobs().collect::<Vec<_>>(), [low, online]);
    let places: Vec<_> = core.tenants().filter_map(|id| core.tenant(id)).map(|t| (t.job, t.gpu.0)).collect();
    assert_eq!(places, [(low, 0), (low, 1), (online, 1)]);
    let gone = stage.actors[0].id;
    stage.core.remove_tenant(gone).expect("known");
    assert_eq!((stage.core.tenants().count(), stage.core.tenant(gone)), (2, None));
    stage.core.remove_gpu(GpuIndex(0)).expect("it has no tenants");
    assert_eq!(stage.core.gpus().collect::<Vec<_>>(), [GpuIndex(1)]);
}

#[test]
fn borrowed_slots_are_emptied_in_place() {
    let mut gpus = [GpuSlot::EMPTY; 2];
    let (mut jobs, mut tenants) = ([JobSlot::EMPTY; 3], [TenantSlot::EMPTY; 3]);
    let (mut order, mut plan) = ([0; 3], [Entry::EMPTY; 3]);
    for _ in 0..2 {
        // The second time, the slots are full of what the first core left there.
        let storage = Parts {
            gpus: &mut gpus[..],
            jobs: &mut jobs[..],
            tenants: &mut tenants[..],
            order: &mut order[..],
            plan: &mut plan[..],
        };
        let mut core = Scheduler::new(storage).expect("the parts fit");
        assert_eq!((core.gpus().count(), core.jobs().count(), core.tenants().count()), (0, 0, 0));
        core.set_gpu(GpuIndex(1), GpuParams::default()).expect("a slot");
        for _ in 0..3 {
            let job = core.add_job(at_level(3)).expect("room");
            core.add_tenant(job, GpuIndex(1), true).expect("room");
        }
        assert_eq!((core.gpus().count(), core.jobs().count(), core.tenants().count()), (1, 3, 3));
    }
}
