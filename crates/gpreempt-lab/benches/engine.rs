//! How fast the engine is: events per second on one core, and one simulated minute of DISB's workload D under every
//! mechanism, spread over the cores.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use gpreempt_core::Nanos;
use gpreempt_lab::experiment::{compare, run};
use gpreempt_lab::mechanism::{MechanismSpec, all, find};
use gpreempt_lab::{Profile, Workload};

fn workload_d(duration: Nanos) -> Workload {
    let workload = Workload::load("disb-d").expect("a built-in workload");
    Workload { duration, ..workload }
}

fn device(name: &str) -> Profile {
    Profile::load(name).expect("a built-in profile")
}

/// A gpu with room for most of what is there, and one on which every kernel waits for slots and starts piecemeal.
fn events_per_second(criterion: &mut Criterion) {
    let workload = workload_d(Nanos::from_secs(2));
    let mut group = criterion.benchmark_group("events");
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    for (profile, mechanism) in [
        ("mi300x-spx", "none"),
        ("mi300x-spx", "xsched-lv2"),
        ("mi300x-spx", "tsg"),
        ("mi308x", "none"),
        ("mi308x", "round-robin"),
    ] {
        let device = device(profile);
        let entry = find(mechanism).expect("registered");
        let simulate = || run(&device, &workload, entry, 1, false);
        group.throughput(Throughput::Elements(simulate().events));
        group.bench_function(format!("{profile}/{mechanism}"), |bencher| {
            bencher.iter(|| black_box(simulate()));
        });
    }
    group.finish();
}

/// Once: it takes seconds, so that ten samples would tell less than they cost.
fn a_minute_under_every_mechanism(duration: Nanos) {
    let profile = device("mi300x-spx");
    let workload = workload_d(duration);
    let mechanisms: Vec<&MechanismSpec> = all().iter().collect();
    let began = Instant::now();
    let comparison = compare(&profile, &workload, &mechanisms, 1, &|_, _| {});
    let took = began.elapsed().as_secs_f64();
    let events: u64 = comparison.rows.iter().map(|row| row.events).sum();
    println!(
        "{} s of disb-d under {} mechanisms and alone: {took:.2} s, {:.1} million events, {:.1} million events/s on all cores",
        duration.0 / 1_000_000_000,
        mechanisms.len(),
        events as f64 / 1e6,
        events as f64 / 1e6 / took,
    );
}

fn main() {
    // `cargo test --benches` only wants to see that everything still runs.
    let only_try = std::env::args().any(|argument| argument == "--test");
    a_minute_under_every_mechanism(Nanos::from_secs(if only_try { 1 } else { 60 }));
    let mut criterion = Criterion::default().configure_from_args();
    events_per_second(&mut criterion);
    criterion.final_summary();
}
