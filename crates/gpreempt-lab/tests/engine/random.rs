//! Random workloads with fixed seeds: whatever happens, nothing is lost, doubled or left behind.
//!
//! The machine's own assertions run along: slots never go below zero and all come back, nothing is fetched beyond the
//! write pointer, a request begins on an idle queue.

use gpreempt_core::Nanos;
use gpreempt_lab::experiment::run;
use gpreempt_lab::mechanism::all;
use gpreempt_lab::outcome::TraceKind;
use gpreempt_lab::workload::{Kernel, Load, Task, Workload};
use rand_core::Rng;
use rand_pcg::Pcg64;

use crate::support::*;

fn below(rng: &mut Pcg64, n: u64) -> u64 {
    rng.next_u64() % n
}

fn random_kernel(rng: &mut Pcg64) -> Kernel {
    Kernel {
        workgroups: below(rng, 300) as u32,
        duration: Nanos(below(rng, 60_000)),
        waves: below(rng, 9) as u32,
        vgprs: below(rng, 65) as u32,
        lds: (below(rng, 3) * 4_000) as u32,
        collective: false,
    }
}

fn random_task(rng: &mut Pcg64, gpus: usize, name: usize) -> Task {
    let kernels = (0..=below(rng, 12)).map(|_| random_kernel(rng)).collect();
    let load = match below(rng, 4) {
        0 => Load::Closed { think: Nanos(below(rng, 3) * 50_000) },
        1 => Load::Poisson { mean: us(800) },
        2 => Load::Uniform { interval: us(700), offset: Nanos(below(rng, 90_000)) },
        _ => at(&(0..20).map(|i| us(300 * i)).collect::<Vec<_>>()),
    };
    let mut task = if below(rng, 2) == 0 { online(load, kernels) } else { offline(load, kernels) };
    task.level = below(rng, 16) as u8;
    task.name = format!("task {name}");
    task.gpus = (0..gpus).filter(|_| below(rng, 2) == 0).collect();
    if task.gpus.is_empty() {
        task.gpus = vec![0];
    }
    if task.gpus.len() > 1 && below(rng, 2) == 0 {
        // A collective small enough that the ranks of all tasks fit beside each other: otherwise two such jobs could
        // hold parts of each other's gpus, as real ones do.
        let mut all_reduce = kernel(2, us(30));
        all_reduce.collective = true;
        task.kernels = task.kernels.iter().cloned().chain([all_reduce]).collect();
    }
    task
}

fn random_workload(seed: u64) -> Workload {
    let mut rng = Pcg64::new(u128::from(seed), 1);
    let gpus = 1 + below(&mut rng, 3) as usize;
    let tasks = (0..2 + below(&mut rng, 6) as usize).map(|name| random_task(&mut rng, gpus, name)).collect();
    Workload { gpus, ..workload(Nanos::from_millis(10), tasks) }
}

#[test]
fn two_runs_with_the_same_seed_are_equal_and_with_another_they_are_not() {
    let profile = profile();
    let mut differed = false;
    for seed in 0..10 {
        let workload = random_workload(seed);
        for entry in all() {
            let [a, b, c] = [7, 7, 8].map(|seed| run(&profile, &workload, entry, seed, true));
            assert_eq!(a.trace, b.trace, "{} {seed}", entry.name);
            assert_eq!((a.events, a.cycles, a.cycle_time), (b.events, b.cycles, b.cycle_time));
            differed |= a.trace != c.trace;
        }
    }
    assert!(differed);
}

#[test]
fn recording_changes_nothing() {
    for seed in 0..10 {
        let workload = random_workload(seed);
        for entry in all() {
            let [a, b] = [true, false].map(|record| run(&profile(), &workload, entry, 7, record));
            assert!(b.trace.is_empty());
            let figures = |outcome: &gpreempt_lab::RunOutcome| {
                let tasks: Vec<_> = outcome.tasks.iter().map(|task| (task.kernels, task.busy, task.skipped)).collect();
                (outcome.events, outcome.cycles, outcome.longest_starved, tasks)
            };
            assert_eq!(figures(&a), figures(&b));
        }
    }
}

#[test]
fn every_request_runs_all_its_kernels_and_nothing_more() {
    let mut repeated = 0;
    for seed in 0..60 {
        let workload = random_workload(seed);
        let mut profile = profile();
        // Over-subscribed every other time.
        profile.queues.vmids.value = if seed % 2 == 0 { 8.0 } else { 2.0 };
        profile.queues.quantum_us.value = 150.0;
        for entry in all() {
            let outcome = run(&profile, &workload, entry, seed, true);
            repeated += outcome.repeated_kernels;
            for (index, (task, spec)) in outcome.tasks.iter().zip(&workload.tasks).enumerate() {
                let per_request = spec.kernels.len() as u64;
                let whole = task.completed * per_request;
                let context = format!("{} {seed} {}", entry.name, task.name);
                assert!((whole..=whole + per_request).contains(&task.kernels), "{context}");
                assert!(task.busy.0 <= workload.duration.0 * spec.gpus.len() as u64, "{context}");
                // In each completed request every kernel appears on every gpu.
                let mut seen: Vec<(u64, u32, usize)> = outcome
                    .trace
                    .iter()
                    .filter(|event| event.task == Some(index))
                    .filter_map(|event| match event.what {
                        TraceKind::Kernel { request, index, .. } => Some((request, index, event.gpu)),
                        _ => None,
                    })
                    .collect();
                seen.sort_unstable();
                seen.dedup();
                seen.retain(|(request, _, _)| *request < task.completed);
                assert_eq!(seen.len() as u64, whole * spec.gpus.len() as u64, "{context}");
            }
        }
    }
    assert!(repeated > 0, "no case exercised a repetition");
}

#[test]
fn a_mechanism_that_never_interrupts_serves_everybody() {
    for seed in 0..30 {
        let mut workload = random_workload(seed);
        for task in &mut workload.tasks {
            // Nothing reserves room for a workgroup that takes a tenth of the gpu, and smaller ones may always be
            // faster.
            task.kernels = task.kernels.iter().map(|kernel| Kernel { waves: 1, ..kernel.clone() }).collect();
        }
        for name in ["none", "round-robin"] {
            let outcome = record(&profile(), &workload, name);
            assert_eq!(outcome.preemptions, 0);
            for task in &outcome.tasks {
                assert!(task.kernels > 0, "{name} {seed} {}", task.name);
            }
        }
    }
}
