//! One tick: a look at every tenant and a decision.
//!
//! `idle`: nothing wants, nothing changes. `busy`: every tenant of every job has work, all sixteen levels are mixed,
//! and every look differs from the last, so that every tick is a full decision; one tenant in turn goes idle and comes
//! back, so that plans are made and carried out. Tenants have four queues each (ROCm's default), so n queues are n/4
//! tenants on eight gpus; the group `one-queue-each` shows the worst case of one queue per tenant.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use gpreempt_core::{
    Action, Activity, ActuatorKind, Entry, GpuIndex, GpuParams, GpuSlot, JobParams, JobSlot, Level, Nanos, Observation,
    Parts, PolicyKind, Report, Scheduler, TenantId, TenantSlot,
};

type Heap = Parts<Vec<GpuSlot>, Vec<JobSlot>, Vec<TenantSlot>, Vec<u32>, Vec<Entry>>;

struct Bench {
    core: Scheduler<Heap>,
    tenants: Vec<TenantId>,
    stopped: Vec<u16>,
    queues_each: u16,
    now: Nanos,
    ticks: usize,
}

impl Bench {
    fn new(policy: PolicyKind, queues: usize, queues_each: u16) -> Bench {
        let count = queues.div_ceil(usize::from(queues_each));
        let gpus = count.min(8);
        let storage = Parts {
            gpus: vec![GpuSlot::EMPTY; gpus],
            jobs: vec![JobSlot::EMPTY; count],
            tenants: vec![TenantSlot::EMPTY; count],
            order: vec![0; count],
            plan: vec![Entry::EMPTY; count],
        };
        let mut core = Scheduler::new(storage).expect("sizes fit");
        let slice = if policy == PolicyKind::Fair { Nanos::from_millis(10) } else { Nanos::ZERO };
        for gpu in 0..gpus {
            let params = GpuParams { policy, slice, ..GpuParams::default() };
            core.set_gpu(GpuIndex(gpu as u8), params).expect("slot exists");
        }
        let tenants = (0..count)
            .map(|i| {
                let level = Level::new((i % 16) as u8).expect("below 16");
                let period =
                    if policy == PolicyKind::Deadline { Nanos::from_millis(10 + (i % 7) as u64) } else { Nanos::ZERO };
                let job = core.add_job(JobParams { level, period, ..JobParams::default() }).expect("room");
                core.add_tenant(job, GpuIndex((i % gpus) as u8), true).expect("room")
            })
            .collect();
        Bench { core, tenants, stopped: vec![0; count], queues_each, now: Nanos::from_secs(1), ticks: 0 }
    }

    /// Looks at every tenant, decides, and carries the plan out. Returns the length of the plan.
    fn tick(&mut self, busy: bool) -> usize {
        self.now = self.now.plus(Nanos::from_micros(50));
        self.ticks += 1;
        // One place more than there are tenants: in one round none of them rests.
        let resting = (self.ticks / 8) % (self.tenants.len() + 1);
        for (at, &tenant) in self.tenants.iter().enumerate() {
            let activity = match (busy, at == resting) {
                (false, _) | (true, true) => Activity::Idle,
                (true, false) if self.ticks.is_multiple_of(2) => Activity::Running,
                (true, false) => Activity::Wants,
            };
            let look = Observation {
                at: self.now,
                activity,
                since: Nanos::from_millis(500),
                occupancy: None,
                queues: self.queues_each,
                stopped_queues: self.stopped[at],
            };
            self.core.observe(tenant, look).expect("known");
        }
        let plan = self.core.decide(self.now, &ActuatorKind::DebugTrap);
        let entries = plan.entries.to_vec();
        for &Entry { tenant, number, action, .. } in &entries {
            let stopped = if action == Action::Preempt { self.queues_each } else { 0 };
            self.stopped[tenant.index()] = stopped;
            let report =
                Report { at: self.now, took: Nanos::from_micros(100), cycles: None, stopped_queues: Some(stopped) };
            self.core.report(tenant, number, report).expect("known");
        }
        entries.len()
    }
}

fn ticks(c: &mut Criterion) {
    for (group, queues_each) in [("tick", 4u16), ("one-queue-each", 1)] {
        for policy in [PolicyKind::Priority, PolicyKind::Fair, PolicyKind::Deadline] {
            for (name, busy) in [("idle", false), ("busy", true)] {
                let mut group = c.benchmark_group(format!("{group}/{policy:?}/{name}").to_lowercase());
                for queues in [1usize, 16, 256, 4096] {
                    group.throughput(Throughput::Elements(queues as u64));
                    group.bench_with_input(BenchmarkId::from_parameter(queues), &queues, |b, &queues| {
                        let mut bench = Bench::new(policy, queues, queues_each);
                        b.iter(|| bench.tick(busy));
                    });
                }
                group.finish();
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(100))
        .measurement_time(std::time::Duration::from_millis(400));
    targets = ticks
}
criterion_main!(benches);
