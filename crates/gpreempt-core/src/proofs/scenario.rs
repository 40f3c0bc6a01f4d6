//! Random histories: a machine, its jobs, and the events that happen to them.

use proptest::prelude::*;
use std::vec::Vec;

use crate::{Activity, ActuatorKind, GpuParams, JobParams, Level, Nanos, Patience, Permille, PolicyKind};

/// A machine and its history.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) gpus: Vec<GpuParams>,
    pub(super) actuator: ActuatorKind,
    /// The actuator whose cycles the driver spends, and reports tell. `None` if those of the cost function are spent
    /// and reports tell none.
    pub(super) driver: Option<ActuatorKind>,
    /// Time between two observations of the host, and the true time of a cycle.
    pub(super) period: Nanos,
    pub(super) cycle: Nanos,
    pub(super) jobs: Vec<JobSpec>,
    pub(super) events: Vec<(Nanos, Event)>,
}

impl Scenario {
    /// Returns the actuator whose cycles are spent.
    pub(super) fn spends(&self) -> ActuatorKind {
        self.driver.unwrap_or(self.actuator)
    }
}

/// A job at the start: a tenant on every gpu of the mask.
#[derive(Clone, Debug)]
pub(super) struct JobSpec {
    pub(super) params: JobParams,
    pub(super) gpus: u8,
    pub(super) stoppable: bool,
    pub(super) occupancy: Option<u16>,
}

/// An event. Numbers select among the tenants, jobs and gpus that exist then.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A tenant changes its activity.
    Turns(u8, Activity),
    /// All tenants of a job change their activity.
    JobTurns(u8, Activity),
    /// A tenant creates a queue.
    QueueBorn(u8),
    /// A tenant of an existing job appears.
    TenantBorn { job: u8, gpu: u8 },
    /// A tenant's process ends.
    Vanishes(u8),
    /// A tenant changes its job.
    Moves { tenant: u8, job: u8 },
    /// A job changes its level.
    Level(u8, u8),
    /// The next calls to the driver are refused.
    Refusals(u8),
    /// The next reports are lost, though the driver executed the entries.
    LostReports(u8),
    /// The next call takes long.
    Slow(u16),
    /// A gpu enters or leaves reset.
    Reset(u8, bool),
    /// An old observation of a tenant arrives late.
    OldLook(u8),
    /// The last report of a tenant arrives once more.
    OldReport(u8),
    /// The operator holds a job for some milliseconds; zero releases it.
    Hold(u8, u8),
}

/// Kinds of trouble that a history contains.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trouble {
    /// Refusals, lost reports, slow calls, resets, late observations and reports.
    pub(super) failures: bool,
    /// New tenants, tenants that vanish or move, and new levels.
    pub(super) churn: bool,
    /// Gpus with any policy, slices and limits; holds.
    pub(super) mixed: bool,
}

fn activity() -> impl Strategy<Value = Activity> {
    prop_oneof![
        3 => Just(Activity::Idle),
        3 => Just(Activity::Wants),
        3 => Just(Activity::Running),
        1 => Just(Activity::Blocked),
        1 => Just(Activity::Evicted),
    ]
}

fn event(trouble: Trouble) -> BoxedStrategy<Event> {
    let calm = prop_oneof![
        3 => (any::<u8>(), activity()).prop_map(|(t, a)| Event::Turns(t, a)),
        2 => (any::<u8>(), activity()).prop_map(|(t, a)| Event::JobTurns(t, a)),
        1 => any::<u8>().prop_map(Event::QueueBorn),
    ];
    let churn = prop_oneof![
        (any::<u8>(), any::<u8>()).prop_map(|(job, gpu)| Event::TenantBorn { job, gpu }),
        any::<u8>().prop_map(Event::Vanishes),
        (any::<u8>(), any::<u8>()).prop_map(|(tenant, job)| Event::Moves { tenant, job }),
        (any::<u8>(), 0..16u8).prop_map(|(job, level)| Event::Level(job, level)),
    ];
    let failures = prop_oneof![
        (1..4u8).prop_map(Event::Refusals),
        (1..3u8).prop_map(Event::LostReports),
        (1..2000u16).prop_map(Event::Slow),
        (any::<u8>(), any::<bool>()).prop_map(|(gpu, on)| Event::Reset(gpu, on)),
        any::<u8>().prop_map(Event::OldLook),
        any::<u8>().prop_map(Event::OldReport),
    ];
    let holds = (any::<u8>(), any::<u8>()).prop_map(|(job, time)| Event::Hold(job, time));
    prop_oneof![
        8 => calm,
        u32::from(trouble.churn) * 2 => churn,
        u32::from(trouble.failures) * 2 => failures,
        u32::from(trouble.mixed) => holds,
    ]
    .boxed()
}

fn micros(range: std::ops::Range<u64>) -> impl Strategy<Value = Nanos> {
    range.prop_map(Nanos::from_micros)
}

fn patience() -> impl Strategy<Value = Patience> {
    prop_oneof![
        Just(Patience::Fixed(Nanos::ZERO)),
        micros(0..3000).prop_map(Patience::Fixed),
        micros(0..1000).prop_map(|max| Patience::Adaptive { max }),
    ]
}

fn job_spec() -> impl Strategy<Value = JobSpec> {
    let params =
        (0..16u8, patience(), micros(0..8000), micros(30_000..200_000), prop_oneof![Just(0), 5_000..50_000u64]);
    (params, 1..8u8, prop::bool::weighted(0.9), prop::option::of(0..1000u16)).prop_map(
        |((level, patience, min_run, max_stop, age_step), gpus, stoppable, occupancy)| JobSpec {
            params: JobParams {
                level: Level::new(level).unwrap(),
                patience,
                min_run,
                max_stop,
                age_step: Nanos::from_micros(age_step),
                ..JobParams::default()
            },
            gpus,
            stoppable,
            occupancy,
        },
    )
}

fn gpu_params() -> impl Strategy<Value = GpuParams> {
    (prop_oneof![2 => Just(0u32), 1 => 10..300u32], 1..24u32, micros(0..4000), 0..400u16, any::<bool>()).prop_map(
        |(cycles_per_second, cycle_burst, linger_max, small, weigh)| GpuParams {
            cycles_per_second,
            cycle_burst,
            linger_max,
            small: Permille::new(small),
            weigh,
            // Longer than all calls of a plan together.
            report_timeout: Nanos::from_millis(500),
            ..GpuParams::default()
        },
    )
}

pub(super) fn actuator() -> impl Strategy<Value = ActuatorKind> {
    prop_oneof![Just(ActuatorKind::DebugTrap), Just(ActuatorKind::Combined), Just(ActuatorKind::PerQueue)]
}

fn policy() -> impl Strategy<Value = PolicyKind> {
    prop_oneof![Just(PolicyKind::Priority), Just(PolicyKind::Fair), Just(PolicyKind::Deadline)]
}

/// Adds settings that matter only under other policies than strict priority.
fn mix((gpus, jobs): (&mut [GpuParams], &mut [JobSpec]), seed: &[(PolicyKind, u64, u16)]) {
    let mut seed = seed.iter().cycle();
    for (gpu, &(policy, number, _)) in gpus.iter_mut().zip(&mut seed) {
        (gpu.policy, gpu.slice) = (policy, Nanos::from_micros(number));
    }
    for (job, &(policy, number, share)) in jobs.iter_mut().zip(&mut seed) {
        job.params.weight = share;
        job.params.request = Permille::new(share / 4);
        job.params.limit = Permille::new(share.max(200));
        if policy == PolicyKind::Deadline {
            job.params.period = Nanos::from_micros(number);
            job.params.runtime = Nanos::from_micros(number / 4);
        }
    }
}

/// Returns histories of two to three gpus and three to six jobs, under strict priority unless mixed.
pub(super) fn history(trouble: Trouble) -> impl Strategy<Value = Scenario> {
    let gap = prop_oneof![3 => micros(0..2_000), 2 => micros(0..20_000), 1 => micros(0..150_000)];
    (
        prop::collection::vec(gpu_params(), 2..4),
        actuator(),
        micros(50..2_000),
        prop_oneof![4 => micros(20..400), 1 => micros(400..5_000)],
        prop::collection::vec(job_spec(), 3..7),
        prop::collection::vec((gap, event(trouble)), 60..160),
        prop::collection::vec((policy(), 0..30_000u64, 0..1000u16), 9),
    )
        .prop_map(move |(mut gpus, actuator, period, cycle, mut jobs, events, seed)| {
            if trouble.mixed {
                mix((&mut gpus, &mut jobs), &seed);
            }
            Scenario { gpus, actuator, driver: None, period, cycle, jobs, events }
        })
}
