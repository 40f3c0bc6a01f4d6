//! `cargo xtask kernel test`: all scenarios, and a table of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value};

use super::fetch::Fetched;
use super::scenario::{self, GuestTime, Scenario};
use super::{Selection, Variant, boot, build, check, fetch, image, initramfs};

/// Most machines that run at once by default.
const MOST_MACHINES: usize = 2;

/// The report of all scenarios.
#[derive(Serialize)]
struct TestReport {
    /// Release of the kernel.
    kernel: String,
    passed: bool,
    /// Wall-clock time of everything, fetching and compiling included.
    seconds: f64,
    scenarios: Vec<Outcome>,
}

/// How a scenario ended.
#[derive(Serialize)]
struct Outcome {
    name: String,
    shows: String,
    variant: Variant,
    time: GuestTime,
    passed: bool,
    /// Wall-clock time of the run.
    seconds: f64,
    results: Map<String, Value>,
    failures: Vec<String>,
}

/// Fetches, builds and runs.
///
/// # Errors
/// If something is missing, or a scenario fails.
pub(super) fn test(selection: &Selection) -> Result<()> {
    let begin = Instant::now();
    let all = scenario::all()?.into_iter().filter(|scenario| scenario.debug.on_debian()).collect();
    let scenarios = scenario::select(all, &selection.scenario, selection.full)?;
    let fetched = fetch::fetch(false)?;
    check::check(&fetched)?;
    run(&fetched, &scenarios, selection, begin)
}

/// Builds the driver and programs for scenarios, runs them and prints the report.
///
/// # Errors
/// If something is missing, or a scenario fails.
pub(super) fn run(fetched: &Fetched, scenarios: &[Scenario], selection: &Selection, begin: Instant) -> Result<()> {
    let mut modules = BTreeMap::new();
    for variant in Variant::ALL {
        if scenarios.iter().any(|scenario| scenario.variant == variant) {
            modules.insert(variant, build::build(fetched, variant, &selection.module.directory())?);
        }
    }
    let programs = initramfs::build_programs(scenarios)?;
    if scenarios.iter().any(|scenario| scenario.rocm) {
        image::build()?;
    }
    let slots = selection.machines.unwrap_or_else(|| available_parallelism().map_or(1, usize::from).min(MOST_MACHINES));
    let outcomes = run_all(scenarios, slots, |scenario| run_one(fetched, scenario, &modules, &programs));
    let report = TestReport {
        kernel: fetched.kernel.release.clone(),
        passed: outcomes.iter().all(|outcome| outcome.passed),
        seconds: begin.elapsed().as_secs_f64(),
        scenarios: outcomes,
    };
    if selection.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", table(&report));
    }
    let failed: Vec<&str> =
        report.scenarios.iter().filter(|outcome| !outcome.passed).map(|outcome| outcome.name.as_str()).collect();
    if !failed.is_empty() {
        let logs = fetched.work()?.join("logs");
        bail!("scenarios failed: {}; {} has what they printed", failed.join(", "), logs.display());
    }
    Ok(())
}

/// Runs one scenario. A machine that cannot be started is a failure like others.
fn run_one(fetched: &Fetched, scenario: &Scenario, modules: &BTreeMap<Variant, PathBuf>, programs: &Path) -> Outcome {
    let begin = Instant::now();
    let module = modules.get(&scenario.variant).context("the driver was not built");
    let ended = module.and_then(|module| boot::run(fetched, scenario, module, programs, |_| ()));
    let (results, failures) = match ended {
        Ok((_, verdict)) => (verdict.results, verdict.failures),
        Err(error) => (Map::new(), vec![format!("{error:#}")]),
    };
    let outcome = Outcome {
        name: scenario.name.clone(),
        shows: scenario.shows.clone(),
        variant: scenario.variant,
        time: scenario.time,
        passed: failures.is_empty(),
        seconds: begin.elapsed().as_secs_f64(),
        results,
        failures,
    };
    eprintln!("{} {} ({:.1} s)", if outcome.passed { "passed" } else { "FAILED" }, outcome.name, outcome.seconds);
    for failure in &outcome.failures {
        eprintln!("  {}: {}", outcome.name, failure.lines().next().unwrap_or_default());
    }
    outcome
}

/// Processors that a machine keeps busy: a counted one has one thread, whatever it shows to the guest.
fn weight(scenario: &Scenario, slots: usize) -> usize {
    let threads = match scenario.time {
        GuestTime::Icount => 1,
        GuestTime::Multi => scenario.smp as usize,
    };
    threads.min(slots)
}

/// Runs scenarios at once as long as there are slots for them, those that need most slots first: mixed with others they
/// would leave slots empty while they wait. The results are in the order of the scenarios.
fn run_all(scenarios: &[Scenario], slots: usize, run: impl Fn(&Scenario) -> Outcome + Sync) -> Vec<Outcome> {
    let slots = slots.max(1);
    let free = Mutex::new(slots);
    let freed = Condvar::new();
    thread::scope(|scope| {
        let mut running = Vec::new();
        let mut queue: Vec<_> =
            scenarios.iter().map(|scenario| (weight(scenario, slots), scenario)).enumerate().collect();
        queue.sort_by_key(|(_, (weight, _))| std::cmp::Reverse(*weight));
        for (place, (weight, scenario)) in queue {
            let free_now = free.lock().unwrap_or_else(PoisonError::into_inner);
            let mut room = freed.wait_while(free_now, |free| *free < weight).unwrap_or_else(PoisonError::into_inner);
            *room -= weight;
            drop(room);
            let (run, free, freed) = (&run, &free, &freed);
            running.push(scope.spawn(move || {
                let outcome = run(scenario);
                *free.lock().unwrap_or_else(PoisonError::into_inner) += weight;
                freed.notify_all();
                (place, outcome)
            }));
        }
        let outcomes: BTreeMap<_, _> = running.into_iter().filter_map(|run| run.join().ok()).collect();
        outcomes.into_values().collect()
    })
}

/// The report for people.
fn table(report: &TestReport) -> String {
    let width = report.scenarios.iter().map(|outcome| outcome.name.len()).max().unwrap_or(0).max("scenario".len());
    let mut text = format!("\n{:width$}  driver   time    result  wall clock  shows\n", "scenario");
    for outcome in &report.scenarios {
        let Outcome { name, shows, variant, time, passed, seconds, .. } = outcome;
        let (variant, time) = (variant.to_string(), time.to_string());
        let result = if *passed { "ok" } else { "FAILED" };
        text += &format!("{name:width$}  {variant:8} {time:7} {result:7} {seconds:8.1} s  {shows}\n");
    }
    for outcome in &report.scenarios {
        if let Some(Value::Array(rows)) = outcome.results.get("table") {
            text += &format!("\n{}, {}:\n{}", outcome.name, outcome.time, rows_of(rows));
        }
    }
    for outcome in report.scenarios.iter().filter(|outcome| !outcome.passed) {
        text += &format!("\n{}:\n", outcome.name);
        for failure in &outcome.failures {
            text += &format!("  {}\n", failure.replace('\n', "\n  "));
        }
    }
    text += &format!("\nLinux {} in QEMU: {:.1} s in total\n", report.kernel, report.seconds);
    text
}

/// Prints the objects of a scenario's `table`: a column for each key of the first.
fn rows_of(rows: &[Value]) -> String {
    let cell = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let keys: Vec<&String> = rows.first().and_then(Value::as_object).into_iter().flat_map(Map::keys).collect();
    let mut lines = vec![keys.iter().map(ToString::to_string).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(|row| keys.iter().map(|key| cell(&row[key.as_str()])).collect()));
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..keys.len()).map(width).collect();
    let line = |cells: &Vec<String>| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        format!("  {}\n", padded.join("  "))
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn scenario(name: &str, more: &str) -> Scenario {
        let mut scenario: Scenario =
            toml::from_str(&format!("shows = 'x'\nscript = 'true'\n{more}")).expect("a valid scenario");
        name.clone_into(&mut scenario.name);
        scenario
    }

    fn outcome(scenario: &Scenario, passed: bool) -> Outcome {
        Outcome {
            name: scenario.name.clone(),
            shows: scenario.shows.clone(),
            variant: scenario.variant,
            time: scenario.time,
            passed,
            seconds: 1.0,
            results: Map::new(),
            failures: if passed { Vec::new() } else { vec!["no luck".to_owned()] },
        }
    }

    #[test]
    fn no_more_processors_are_used_than_there_are_slots() {
        let scenarios: Vec<_> = (0..8)
            .map(|n| scenario(&n.to_string(), if n % 3 == 0 { "time = 'multi'\nsmp = 4\n" } else { "" }))
            .collect();
        let (used, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcomes = run_all(&scenarios, 2, |scenario| {
            let weight = weight(scenario, 2);
            most.fetch_max(used.fetch_add(weight, Ordering::SeqCst) + weight, Ordering::SeqCst);
            thread::yield_now();
            used.fetch_sub(weight, Ordering::SeqCst);
            outcome(scenario, true)
        });
        assert_eq!(most.load(Ordering::SeqCst), 2);
        let names: Vec<_> = outcomes.iter().map(|outcome| outcome.name.as_str()).collect();
        assert_eq!(names, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    }

    #[test]
    fn the_table_has_the_reason_of_a_failure() {
        let scenarios = [outcome(&scenario("good", ""), true), outcome(&scenario("bad", ""), false)];
        let report = TestReport { kernel: "6.12".into(), passed: false, seconds: 2.0, scenarios: scenarios.into() };
        let text = table(&report);
        assert!(text.contains("FAILED") && text.contains("bad:\n  no luck\n") && text.contains("2.0 s"), "{text}");
    }

    #[test]
    fn a_table_of_a_scenario_has_a_column_for_each_key() {
        let rows = [
            serde_json::json!({"arm": "alone", "cycles": null, "p50": 1.5}),
            serde_json::json!({"arm": "x", "cycles": 40}),
        ];
        assert_eq!(rows_of(&rows), "    arm  cycles  p50\n  alone       -  1.5\n      x      40    -\n");
        assert_eq!(rows_of(&[]), "  \n");
    }
}
