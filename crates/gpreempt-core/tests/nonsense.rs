//! Any sequence of calls with any arguments neither panics nor hangs, and no plan names a tenant that does not exist.
#![allow(missing_docs, reason = "test names are the documentation")]

mod support;

use gpreempt_core::{
    Activity, ActuatorKind, EntryNumber, GpuIndex, GpuParams, JobId, JobParams, Level, Nanos, Observation, Patience,
    Permille, PolicyKind, Report, TenantId,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Call {
    SetGpu(u8, GpuParams),
    Resetting(u8, bool),
    RemoveGpu(u8),
    AddJob(JobParams),
    SetJob(usize, JobParams),
    RemoveJob(usize),
    AddTenant(usize, u8, bool),
    RemoveTenant(usize),
    Observe(usize, Observation),
    Report(usize, u64, Report),
    Hold(usize, Nanos),
    Decide(Nanos),
    Bounds(usize, u8),
}

/// Small times, huge times and everything between.
fn nanos() -> impl Strategy<Value = Nanos> {
    prop_oneof![0..1_000_000u64, any::<u64>(), Just(u64::MAX), Just(0)].prop_map(Nanos)
}

fn permille() -> impl Strategy<Value = Permille> {
    any::<u16>().prop_map(Permille::new)
}

fn gpu_params() -> impl Strategy<Value = GpuParams> {
    let policy = prop_oneof![Just(PolicyKind::Priority), Just(PolicyKind::Fair), Just(PolicyKind::Deadline)];
    (policy, nanos(), any::<u32>(), any::<u32>(), nanos(), permille(), any::<bool>(), nanos(), nanos()).prop_map(
        |(policy, slice, cycles_per_second, cycle_burst, linger_max, small, weigh, cycle_estimate, report_timeout)| {
            GpuParams {
                policy,
                slice,
                cycles_per_second,
                cycle_burst,
                linger_max,
                small,
                weigh,
                cycle_estimate,
                report_timeout,
            }
        },
    )
}

fn job_params() -> impl Strategy<Value = JobParams> {
    let patience = prop_oneof![nanos().prop_map(Patience::Fixed), nanos().prop_map(|max| Patience::Adaptive { max })];
    let times = (nanos(), nanos(), nanos(), nanos(), nanos(), nanos());
    (0..16u8, patience, times, permille(), any::<u16>(), permille(), permille()).prop_map(
        |(level, patience, times, stop_share, weight, request, limit)| {
            let (min_run, max_stop, age_step, period, deadline, runtime) = times;
            let level = Level::new(level).expect("below 16");
            JobParams {
                level,
                patience,
                min_run,
                max_stop,
                age_step,
                stop_share,
                weight,
                request,
                limit,
                period,
                deadline,
                runtime,
            }
        },
    )
}

fn observation() -> impl Strategy<Value = Observation> {
    let activity = prop_oneof![
        Just(Activity::Idle),
        Just(Activity::Wants),
        Just(Activity::Running),
        Just(Activity::Blocked),
        Just(Activity::Evicted)
    ];
    (nanos(), activity, nanos(), prop::option::of(permille()), any::<u16>(), any::<u16>()).prop_map(
        |(at, activity, since, occupancy, queues, stopped_queues)| Observation {
            at,
            activity,
            since,
            occupancy,
            queues,
            stopped_queues,
        },
    )
}

fn report() -> impl Strategy<Value = Report> {
    (nanos(), nanos(), prop::option::of(any::<u32>()), prop::option::of(any::<u16>()))
        .prop_map(|(at, took, cycles, stopped_queues)| Report { at, took, cycles, stopped_queues })
}

fn call() -> impl Strategy<Value = Call> {
    let n = 0..12usize;
    prop_oneof![
        1 => (0..6u8, gpu_params()).prop_map(|(gpu, params)| Call::SetGpu(gpu, params)),
        1 => (0..6u8, any::<bool>()).prop_map(|(gpu, on)| Call::Resetting(gpu, on)),
        1 => (0..6u8).prop_map(Call::RemoveGpu),
        1 => job_params().prop_map(Call::AddJob),
        1 => (n.clone(), job_params()).prop_map(|(job, params)| Call::SetJob(job, params)),
        1 => n.clone().prop_map(Call::RemoveJob),
        1 => (n.clone(), 0..6u8, any::<bool>()).prop_map(|(job, gpu, stoppable)| Call::AddTenant(job, gpu, stoppable)),
        1 => n.clone().prop_map(Call::RemoveTenant),
        3 => (n.clone(), observation()).prop_map(|(tenant, look)| Call::Observe(tenant, look)),
        2 => (n.clone(), 0..40u64, report()).prop_map(|(tenant, number, report)| Call::Report(tenant, number, report)),
        1 => (n.clone(), nanos()).prop_map(|(job, until)| Call::Hold(job, until)),
        3 => nanos().prop_map(Call::Decide),
        1 => (n, 0..6u8).prop_map(|(job, gpu)| Call::Bounds(job, gpu)),
    ]
}

fn pick<T: Copy>(from: &[T], n: usize) -> Option<T> {
    if from.is_empty() { None } else { from.get(n % from.len()).copied() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_calls_is_survived(calls in prop::collection::vec(call(), 1..120)) {
        let mut core = support::empty_core();
        let mut jobs: Vec<JobId> = Vec::new();
        let mut tenants: Vec<TenantId> = Vec::new();
        let mut gone: Vec<TenantId> = Vec::new();
        for call in calls {
            // An error is a valid answer here.
            match call {
                Call::SetGpu(gpu, params) => { let _ = core.set_gpu(GpuIndex(gpu), params); }
                Call::Resetting(gpu, on) => { let _ = core.set_resetting(GpuIndex(gpu), on); }
                Call::RemoveGpu(gpu) => { let _ = core.remove_gpu(GpuIndex(gpu)); }
                Call::AddJob(params) => jobs.extend(core.add_job(params)),
                Call::SetJob(job, params) => { let _ = pick(&jobs, job).map(|job| core.set_job(job, params)); }
                Call::RemoveJob(job) => { let _ = pick(&jobs, job).map(|job| core.remove_job(job)); }
                Call::AddTenant(job, gpu, stoppable) => {
                    if let Some(job) = pick(&jobs, job) {
                        tenants.extend(core.add_tenant(job, GpuIndex(gpu), stoppable));
                    }
                }
                Call::RemoveTenant(tenant) => {
                    if let Some(tenant) = pick(&tenants, tenant) && core.remove_tenant(tenant).is_ok() {
                        gone.push(tenant);
                    }
                }
                Call::Observe(tenant, look) => { let _ = pick(&tenants, tenant).map(|t| core.observe(t, look)); }
                Call::Report(tenant, number, report) => {
                    let _ = pick(&tenants, tenant).map(|t| core.report(t, EntryNumber(number), report));
                }
                Call::Hold(job, until) => { let _ = pick(&jobs, job).map(|job| core.hold(job, until)); }
                Call::Decide(now) => {
                    let plan = core.decide(now, &ActuatorKind::PerQueue);
                    for entry in plan.entries {
                        prop_assert!(tenants.contains(&entry.tenant) && !gone.contains(&entry.tenant));
                        prop_assert!(jobs.contains(&entry.job));
                    }
                }
                Call::Bounds(job, gpu) => {
                    if let Some(job) = pick(&jobs, job) {
                        let _ = core.inversion_bound(GpuIndex(gpu), job, Nanos::NEVER, &ActuatorKind::PerQueue);
                        let _ = core.starvation_bound(job, Nanos::NEVER);
                        let _ = (core.job(job), core.gpu(GpuIndex(gpu)));
                        let shown = core.tenants().filter(|&tenant| core.tenant(tenant).is_some());
                        prop_assert_eq!(shown.count(), core.tenants().count());
                        let _ = core.tenants().filter(|&tenant| core.wants_occupancy(tenant)).count();
                    }
                }
            }
        }
    }
}
