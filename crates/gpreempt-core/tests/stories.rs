//! What the core does, told one story at a time.
#![allow(missing_docs, reason = "test names are the documentation")]

mod support;

use gpreempt_core::{
    Action, Activity, Bound, GpuIndex, GpuParams, JobParams, Level, Nanos, Patience, Permille, PolicyKind, Reason,
};
use support::{Stage, at_level, ms};

#[test]
fn a_wanting_higher_job_stops_every_lower_job_where_they_meet_and_no_other() {
    let mut stage = Stage::plain(2);
    let (online, a) = stage.job(at_level(12), &[0]);
    let (_, b) = stage.job(at_level(3), &[0]);
    let (_, c) = stage.job(at_level(3), &[0]);
    let (_, elsewhere) = stage.job(at_level(1), &[1]);
    for actor in [b, c, elsewhere] {
        stage.does(actor, Activity::Running);
    }
    assert!(stage.at(ms(2)).is_empty(), "levels alone stop no job until the higher job wants");

    stage.does(a, Activity::Wants);
    let plan = stage.at(ms(3));
    assert_eq!(plan.len(), 2);
    for entry in &plan {
        assert_eq!((entry.action, entry.gpu), (Action::Preempt, GpuIndex(0)));
        assert_eq!((entry.why.cause, entry.why.reason), (Some(online), Reason::HigherWants));
    }
    assert!(stage.is_stopped(b) && stage.is_stopped(c) && !stage.is_stopped(elsewhere));

    stage.does(a, Activity::Idle);
    let plan = stage.at(ms(4));
    assert_eq!(plan.iter().filter(|entry| entry.action == Action::Resume).count(), 2);
    assert!(stage.at(ms(5)).is_empty());
}

#[test]
fn equal_levels_coexist_unless_a_slice_is_asked_for() {
    let mut stage = Stage::plain(1);
    let (_, a) = stage.job(at_level(5), &[0]);
    let (_, b) = stage.job(at_level(5), &[0]);
    stage.does(a, Activity::Running);
    stage.does(b, Activity::Running);
    assert!(stage.at(ms(2)).is_empty());

    stage.core.set_gpu(GpuIndex(0), GpuParams { slice: ms(10), ..GpuParams::default() }).expect("known");
    let mut ran = [0u32; 2];
    for tick in 3..1003 {
        stage.at(ms(tick));
        assert!(stage.is_stopped(a) != stage.is_stopped(b), "one at a time");
        ran[usize::from(stage.is_stopped(a))] += 1;
    }
    assert!(ran[0].abs_diff(ran[1]) <= 20, "equal turns: {ran:?}");
}

#[test]
fn patience_is_waited_for_and_named() {
    let mut stage = Stage::plain(1);
    let (_, a) = stage.job(JobParams { patience: Patience::Fixed(ms(3)), ..at_level(12) }, &[0]);
    let (_, b) = stage.job(at_level(3), &[0]);
    stage.does(b, Activity::Running);
    stage.at(ms(2));
    stage.does(a, Activity::Wants);
    assert!(stage.at(ms(2)).is_empty());
    assert_eq!(stage.wake, ms(5), "the core asks for the instant at which patience ends");
    let plan = stage.at(ms(5));
    assert_eq!(plan.len(), 1);
    assert_eq!((plan[0].why.bound, plan[0].why.after), (Bound::Patience, ms(3)));
}

#[test]
fn adaptive_patience_waits_for_bursts_that_end_by_themselves_and_gives_up_on_those_that_do_not() {
    let mut stage = Stage::plain(1);
    let adaptive = JobParams { patience: Patience::Adaptive { max: ms(1) }, ..at_level(12) };
    let (_, a) = stage.job(adaptive, &[0]);
    let (_, b) = stage.job(at_level(3), &[0]);
    stage.does(b, Activity::Running);
    let mut now = ms(10);
    let mut burst = |stage: &mut Stage, length: Nanos| {
        now = now.plus(ms(20));
        stage.now = now;
        stage.does(a, Activity::Wants);
        let mut stops = stage.at(now).len();
        let ends = now.plus(length);
        while stage.wake < ends {
            let wake = stage.wake;
            stops += stage.at(wake).len();
        }
        now = ends;
        stage.now = now;
        stage.does(a, Activity::Idle);
        stage.at(now);
        stops
    };
    // Bursts of 50 us, a quarter of what a cycle costs: nothing was learned yet, so the first ones are acted on.
    let first: usize = (0..40).map(|_| burst(&mut stage, Nanos::from_micros(50))).sum();
    let later: usize = (0..40).map(|_| burst(&mut stage, Nanos::from_micros(50))).sum();
    assert!(first > 0 && later == 0, "stops: first {first}, later {later}");
    // Bursts of 10 ms do not end by themselves: after a few, the lower job is stopped at once again.
    for _ in 0..20 {
        burst(&mut stage, ms(10));
    }
    stage.now = stage.now.plus(ms(20));
    stage.does(a, Activity::Wants);
    let plan = stage.at(stage.now);
    assert_eq!(plan.iter().map(|entry| entry.why.bound).collect::<Vec<_>>(), [Bound::Detection]);
}

#[test]
fn short_gaps_are_lingered_through_and_long_ones_are_not() {
    let mut stage = Stage::new(1, GpuParams { linger_max: ms(2), ..GpuParams::default() });
    let (_, a) = stage.job(at_level(12), &[0]);
    let (_, b) = stage.job(at_level(3), &[0]);
    stage.does(b, Activity::Running);
    let mut now = ms(10);
    let mut resumes_in = |stage: &mut Stage, gap: Nanos| {
        stage.now = now;
        stage.does(a, Activity::Running);
        stage.at(now);
        now = now.plus(ms(1));
        stage.now = now;
        stage.does(a, Activity::Idle);
        let mut resumes = stage.at(now).len();
        let back = now.plus(gap);
        while stage.wake < back {
            let wake = stage.wake;
            resumes += stage.at(wake).iter().filter(|entry| entry.action == Action::Resume).count();
        }
        now = back;
        resumes
    };
    let short: usize = (0..50).map(|_| resumes_in(&mut stage, Nanos::from_micros(40))).skip(10).sum();
    assert_eq!(short, 0, "a gap of 40 us is not worth two cycles of 100 us");
    let long: usize = (0..50).map(|_| resumes_in(&mut stage, ms(20))).sum();
    assert_eq!(long, 50, "a gap of 20 ms is");
}

#[test]
fn a_job_stops_and_runs_as_a_whole_across_its_gpus() {
    let mut stage = Stage::plain(3);
    let (_, online) = stage.job(at_level(12), &[1]);
    let (_, training) = stage.job(at_level(3), &[0, 1, 2]);
    let (_, filler) = stage.job(at_level(1), &[2]);
    for actor in [training, training + 1, training + 2, filler] {
        stage.does(actor, Activity::Running);
    }
    stage.at(ms(2));
    assert!(stage.is_stopped(filler) && !stage.is_stopped(training), "the training job outranks the filler on gpu 2");

    stage.does(online, Activity::Wants);
    stage.at(ms(3));
    stage.at(ms(4));
    assert!((0..3).all(|rank| stage.is_stopped(training + rank)), "all ranks of the collective stop");
    assert!(!stage.is_stopped(filler), "what the stopped job leaves behind is used");
}

#[test]
fn a_tenant_that_cannot_be_stopped_protects_its_whole_job_and_can_be_protected() {
    let mut stage = Stage::plain(2);
    let (_, online) = stage.job(at_level(12), &[0]);
    let half = stage.core.add_job(at_level(3)).expect("room");
    let (fixed, free) = (stage.actor(half, 0, false), stage.actor(half, 1, true));
    let (_, low) = stage.job(at_level(1), &[1]);
    for actor in [online, fixed, free, low] {
        stage.does(actor, Activity::Running);
    }
    stage.at(ms(2));
    assert!(!stage.is_stopped(fixed) && !stage.is_stopped(free), "half a job is never stopped");
    assert!(stage.is_stopped(low), "and those below make room for it");
}

#[test]
fn after_max_stop_a_job_runs_for_a_turn_whatever_wants() {
    let mut stage = Stage::plain(1);
    let (_, online) = stage.job(at_level(15), &[0]);
    let patient = JobParams { max_stop: ms(100), min_run: ms(5), ..at_level(0) };
    let (_, low) = stage.job(patient, &[0]);
    stage.does(low, Activity::Running);
    stage.does(online, Activity::Running);
    stage.at(ms(2));
    assert!(stage.is_stopped(low));
    assert_eq!(stage.wake, ms(102));
    let plan = stage.at(ms(102));
    assert_eq!((plan[0].why.reason, plan[0].why.bound, plan[0].why.after), (Reason::Aged, Bound::Age, ms(100)));
    assert!(stage.at(ms(107)).is_empty(), "undisturbed for its turn, the cycle before it not counted");
    let plan = stage.at(stage.wake);
    assert_eq!((plan[0].action, plan[0].why.bound), (Action::Preempt, Bound::Exempt));
}

#[test]
fn ageing_makes_up_for_levels_sooner_the_closer_they_are() {
    for (level, due) in [(9, 20), (7, 60)] {
        let mut stage = Stage::plain(1);
        let (_, online) = stage.job(at_level(10), &[0]);
        let (_, low) = stage.job(JobParams { age_step: ms(20), ..at_level(level) }, &[0]);
        stage.does(low, Activity::Running);
        stage.does(online, Activity::Running);
        stage.at(ms(2));
        assert_eq!(stage.wake, ms(2 + due), "level {level}");
        assert_eq!(stage.at(ms(2 + due))[0].why.reason, Reason::Aged);
    }
}

#[test]
fn a_small_victim_is_left_running_until_stopping_it_pays() {
    let mut stage = Stage::plain(1);
    let (_, online) = stage.job(at_level(12), &[0]);
    let (_, small) = stage.job(at_level(3), &[0]);
    let (_, big) = stage.job(at_level(4), &[0]);
    stage.holds_share(small, 20);
    stage.holds_share(big, 900);
    stage.does(small, Activity::Running);
    stage.does(big, Activity::Running);
    stage.at(ms(2));
    stage.does(online, Activity::Running);
    stage.at(ms(3));
    assert!(stage.is_stopped(big) && !stage.is_stopped(small));
    // Two cycles of about 100 us for a fiftieth of the gpu would be worth it after 10 ms; no victim is spared for more
    // than twenty times what it costs, which is 4 ms.
    let mut now = ms(3);
    while !stage.is_stopped(small) {
        now = stage.wake;
        assert!(now < ms(40), "it pays in the end");
        let plan = stage.at(now);
        assert!(plan.iter().all(|entry| entry.why.bound == Bound::Small));
    }
    assert!(now >= ms(6), "stopped at {now:?}");
}

#[test]
fn lower_jobs_are_left_running_while_stopping_them_would_cost_the_higher_one_more() {
    let mut stage = Stage::new(1, GpuParams { cycle_estimate: ms(4), ..GpuParams::default() });
    let (_, online) = stage.job(at_level(12), &[0]);
    let (_, low) = stage.job(at_level(3), &[0]);
    stage.does(low, Activity::Running);
    stage.does(online, Activity::Running);
    stage.holds_share(low, 400);
    stage.holds_share(online, 300);
    assert!(stage.at(ms(2)).is_empty(), "beside 40 % of the gpu a millisecond takes 1.7, a cycle takes 4");
    assert!(stage.wake < ms(3), "but that may change with the next kernel");
    // The online job is waiting now, for an unknown time.
    stage.does(online, Activity::Wants);
    stage.at(stage.wake);
    assert!(!stage.is_stopped(low), "it may be between two kernels");
    stage.at(ms(3));
    assert!(stage.is_stopped(low));
}

#[test]
fn exempt_time_begins_when_the_job_really_runs_again() {
    let mut core = support::empty_core();
    core.set_gpu(GpuIndex(0), GpuParams { linger_max: Nanos::ZERO, ..GpuParams::default() }).expect("a slot");
    let online = core.add_job(at_level(12)).expect("room");
    let low = core.add_job(JobParams { min_run: ms(3), ..at_level(3) }).expect("room");
    let (a, b) = (core.add_tenant(online, GpuIndex(0), true), core.add_tenant(low, GpuIndex(0), true));
    let (a, b) = (a.expect("room"), b.expect("room"));
    let look = |at, activity, stopped_queues| gpreempt_core::Observation {
        at,
        activity,
        since: at,
        occupancy: None,
        queues: 1,
        stopped_queues,
    };
    let cost = gpreempt_core::ActuatorKind::DebugTrap;
    core.observe(a, look(ms(1), Activity::Running, 0)).expect("known");
    core.observe(b, look(ms(1), Activity::Running, 0)).expect("known");
    let stop = core.decide(ms(1), &cost).entries[0];
    let slow = |at, stopped| gpreempt_core::Report { at, took: ms(10), cycles: None, stopped_queues: Some(stopped) };
    core.report(b, stop.number, slow(ms(11), 1)).expect("known");
    // The online job pauses; the resume is decided at 20 ms and takes until 30 ms.
    core.observe(a, look(ms(20), Activity::Idle, 0)).expect("known");
    let resume = core.decide(ms(20), &cost).entries[0];
    assert_eq!((stop.action, resume.action), (Action::Preempt, Action::Resume));
    core.observe(a, look(ms(29), Activity::Running, 0)).expect("known");
    core.report(b, resume.number, slow(ms(30), 0)).expect("known");
    let plan = core.decide(ms(30), &cost);
    assert!(plan.entries.is_empty());
    assert!(plan.wake >= ms(33), "asked for {:?}", plan.wake);
}

#[test]
fn blocked_and_evicted_tenants_neither_cause_a_stop_nor_deserve_one() {
    let mut stage = Stage::plain(1);
    let (_, online) = stage.job(at_level(12), &[0]);
    let (_, low) = stage.job(at_level(3), &[0]);
    stage.does(low, Activity::Running);
    for (at, activity) in [(2, Activity::Blocked), (3, Activity::Evicted)] {
        stage.does(online, activity);
        assert!(stage.at(ms(at)).is_empty(), "{activity:?}");
    }
    stage.does(online, Activity::Running);
    stage.does(low, Activity::Blocked);
    assert!(stage.at(ms(4)).is_empty(), "there is nothing to stop");
}

#[test]
fn a_queue_born_while_its_job_is_stopped_is_stopped_too() {
    let mut stage = Stage::plain(1);
    let (online_job, online) = stage.job(at_level(12), &[0]);
    let (_, low) = stage.job(at_level(3), &[0]);
    stage.does(low, Activity::Running);
    stage.does(online, Activity::Running);
    stage.at(ms(2));
    stage.actors[low].look.queues = 2;
    let plan = stage.at(ms(3));
    assert_eq!((plan[0].action, plan[0].why.reason), (Action::Preempt, Reason::JobStopped));
    assert_eq!(plan[0].why.cause, Some(online_job));
    assert!(stage.at(ms(4)).is_empty());
}

#[test]
fn a_stop_the_driver_keeps_refusing_is_given_up_and_the_rest_of_the_job_runs_again() {
    let mut stage = Stage::plain(1);
    let (_, online) = stage.job(at_level(12), &[0]);
    let (_, low) = stage.job(at_level(3), &[0]);
    stage.does(low, Activity::Running);
    stage.does(online, Activity::Running);
    stage.refuses = true;
    let mut attempts = 0;
    let mut now = ms(2);
    for _ in 0..20 {
        attempts += stage.at(now).len();
        if stage.wake >= now.plus(ms(500)) {
            break;
        }
        now = stage.wake;
    }
    assert_eq!(attempts, 2, "tried, tried again, left alone");
    stage.refuses = false;
    let again = stage.wake;
    assert!(!stage.at(again).is_empty() && stage.is_stopped(low), "and tried anew after a while");
}

#[test]
fn the_stop_share_caps_how_long_one_job_keeps_others_stopped() {
    let mut stage = Stage::plain(1);
    let greedy = JobParams { stop_share: Permille::new(300), ..at_level(15) };
    let (_, online) = stage.job(greedy, &[0]);
    let (_, low) = stage.job(at_level(3), &[0]);
    stage.does(online, Activity::Running);
    stage.does(low, Activity::Running);
    let mut stopped = 0;
    let mut spent = false;
    for tick in 2..5002 {
        let plan = stage.at(ms(tick));
        spent |= plan.iter().any(|entry| entry.why.reason == Reason::StopShareSpent);
        stopped += u32::from(stage.is_stopped(low));
    }
    assert!(spent);
    assert!((1400..=1900).contains(&stopped), "{stopped} of 5000 ms");
}

#[test]
fn a_hold_stops_a_job_until_its_lease_ends_or_it_is_released() {
    let mut stage = Stage::plain(1);
    let (job, actor) = stage.job(at_level(3), &[0]);
    stage.does(actor, Activity::Running);
    stage.at(ms(2));
    stage.core.hold(job, ms(50)).expect("known");
    assert_eq!(stage.at(ms(3))[0].why.reason, Reason::Held);
    assert_eq!(stage.wake, ms(50));
    assert_eq!(stage.at(ms(50))[0].why.reason, Reason::Released);
    stage.core.hold(job, Nanos::NEVER).expect("known");
    stage.at(ms(60));
    assert!(stage.is_stopped(actor));
    stage.core.release(job).expect("known");
    stage.at(ms(61));
    assert!(!stage.is_stopped(actor));
}

#[test]
fn levels_and_members_change_while_jobs_are_stopped() {
    let mut stage = Stage::plain(1);
    let (online_job, online) = stage.job(at_level(12), &[0]);
    let (low_job, low) = stage.job(at_level(3), &[0]);
    stage.does(low, Activity::Running);
    stage.does(online, Activity::Running);
    stage.at(ms(2));
    assert!(stage.is_stopped(low));
    stage.core.set_job(low_job, at_level(13)).expect("known");
    stage.at(ms(3));
    stage.at(ms(4));
    assert!(!stage.is_stopped(low) && stage.is_stopped(online), "raised above its stopper");

    // A tenant changes its job under a new id, with its queues as they are.
    stage.core.remove_tenant(stage.actors[online].id).expect("known");
    stage.actors[online].id = stage.core.add_tenant(low_job, GpuIndex(0), true).expect("room");
    stage.at(ms(5));
    assert!(!stage.is_stopped(online), "a member of the running job runs");
    assert!(stage.core.remove_job(online_job).is_ok());
}

#[test]
fn nothing_is_decided_for_a_gpu_in_reset_and_all_is_well_after_it() {
    let mut stage = Stage::plain(1);
    let (_, online) = stage.job(at_level(12), &[0]);
    let (_, low) = stage.job(at_level(3), &[0]);
    stage.does(low, Activity::Running);
    stage.does(online, Activity::Running);
    stage.core.set_resetting(GpuIndex(0), true).expect("known");
    assert!(stage.at(ms(2)).is_empty());
    stage.core.set_resetting(GpuIndex(0), false).expect("known");
    assert_eq!(stage.at(ms(3)).len(), 1);
    assert!(stage.is_stopped(low));
}

#[test]
fn a_gpu_is_given_up_when_its_last_tenant_is_gone() {
    let mut stage = Stage::plain(1);
    let (job, actor) = stage.job(at_level(3), &[0]);
    stage.does(actor, Activity::Running);
    stage.at(ms(2));
    assert_eq!(stage.core.gpu(GpuIndex(0)).and_then(|gpu| gpu.holder), Some(job));
    assert!(stage.core.remove_gpu(GpuIndex(0)).is_err(), "a tenant works there");
    stage.core.remove_tenant(stage.actors[actor].id).expect("known");
    stage.core.remove_gpu(GpuIndex(0)).expect("empty");
    assert!(stage.core.gpu(GpuIndex(0)).is_none());
    assert!(stage.core.add_tenant(job, GpuIndex(0), true).is_err());
}

#[test]
fn when_the_stopper_vanishes_its_victims_resume() {
    let mut stage = Stage::plain(1);
    let (job, online) = stage.job(at_level(12), &[0]);
    let (_, low) = stage.job(at_level(3), &[0]);
    stage.does(low, Activity::Running);
    stage.does(online, Activity::Running);
    stage.at(ms(2));
    stage.core.remove_tenant(stage.actors[online].id).expect("known");
    stage.core.remove_job(job).expect("empty");
    let plan = stage.at(ms(3));
    assert_eq!((plan[0].action, plan[0].why.cause), (Action::Resume, None));
}

#[test]
fn bounds_are_reported_for_what_is_there() {
    let mut stage = Stage::plain(1);
    let (online, a) = stage.job(JobParams { patience: Patience::Fixed(ms(1)), ..at_level(12) }, &[0]);
    let (low, b) = stage.job(JobParams { min_run: ms(7), ..at_level(3) }, &[0]);
    stage.does(a, Activity::Running);
    stage.does(b, Activity::Running);
    stage.at(ms(2));
    let cost = gpreempt_core::ActuatorKind::DebugTrap;
    let inversion = stage.core.inversion_bound(GpuIndex(0), online, ms(5), &cost).expect("both exist");
    assert_eq!((inversion.detection, inversion.patience), (ms(5), ms(1)));
    assert!(inversion.exempt > ms(7), "the cycles of the plan come on top");
    assert_eq!(inversion.refill, Nanos::ZERO, "no budget, no refill");
    let starvation = stage.core.starvation_bound(low, ms(5)).expect("it exists");
    assert_eq!((starvation.age_limit, starvation.jobs_ahead), (ms(10_000), 1));
    assert!(Level::new(16).is_none());
}

#[test]
fn who_could_displace_whom_follows_the_policy_of_the_gpu() {
    let reasons = |params: GpuParams, a: JobParams, b: JobParams| {
        let mut stage = Stage::new(1, params);
        let ((a, _), (b, _)) = (stage.job(a, &[0]), stage.job(b, &[0]));
        let gpu = GpuIndex(0);
        assert_eq!(stage.core.could_displace(a, a, gpu), None, "a job does not displace itself");
        assert_eq!(stage.core.could_displace(a, b, GpuIndex(3)), None, "there is no such gpu");
        (stage.core.could_displace(a, b, gpu), stage.core.could_displace(b, a, gpu))
    };
    let (high, low) = (at_level(9), at_level(2));
    let plain = GpuParams { slice: Nanos::ZERO, ..GpuParams::default() };
    assert_eq!(reasons(plain, high, low), (Some(Reason::HigherWants), None));
    assert_eq!(reasons(plain, low, low), (None, None), "equals coexist");
    let sliced = GpuParams { slice: ms(5), ..plain };
    assert_eq!(reasons(sliced, low, low), (Some(Reason::SliceOver), Some(Reason::SliceOver)));
    let fair = GpuParams { policy: PolicyKind::Fair, ..plain };
    assert_eq!(reasons(fair, high, low), (Some(Reason::ShareDue), Some(Reason::ShareDue)));
    let deadline = GpuParams { policy: PolicyKind::Deadline, ..plain };
    let periodic = JobParams { period: ms(10), runtime: ms(2), ..low };
    assert_eq!(reasons(deadline, periodic, high), (Some(Reason::EarlierDeadline), None));
    assert_eq!(reasons(deadline, high, low), (Some(Reason::HigherWants), None));
}

#[test]
fn only_the_fair_policy_throttles_and_only_jobs_with_a_limit() {
    let limited = JobParams { limit: Permille::new(300), ..at_level(2) };
    for (policy, expected) in [(PolicyKind::Priority, false), (PolicyKind::Fair, true), (PolicyKind::Deadline, false)] {
        let mut stage = Stage::new(1, GpuParams { policy, ..GpuParams::default() });
        let ((limited, _), (free, _)) = (stage.job(limited, &[0]), stage.job(at_level(2), &[0]));
        assert_eq!(stage.core.could_throttle(limited, GpuIndex(0)), expected, "{policy:?}");
        assert!(!stage.core.could_throttle(free, GpuIndex(0)), "{policy:?}");
    }
}
