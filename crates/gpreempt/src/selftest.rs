//! `gpreempt selftest`: kernels with known results, on every gpu.

use std::io::Write;

use anyhow::{Result, bail};
use comfy_table::{Cell, Table};
use kfd::KFD;
use kfd_runtime::{Device, Error, Runtime};
use kfd_suite::Bench;
use kfd_suite::suite::{self, Test};
use serde::Serialize;

use crate::cli::Selftest;
use crate::output;

pub(crate) fn run(options: &Selftest, out: &mut impl Write) -> Result<()> {
    let runtime = Runtime::open().map_err(explain)?;
    let mut report =
        SelftestReport { schema: output::SCHEMA, gpus: Vec::new(), kernels: Vec::new(), passed: 0, failed: 0 };
    let chosen = match options.gpu {
        Some(index) => vec![(index, runtime.device(index)?)],
        None => runtime.devices().iter().enumerate().collect(),
    };
    for (index, device) in chosen {
        report.gpus.push(Gpu::new(index, device));
        report.kernels.extend(run_on(index, device, options));
    }
    report.passed = report.kernels.iter().filter(|row| row.result == PASSED).count();
    report.failed = report.kernels.len() - report.passed;
    if options.json {
        output::json(&report, out)?;
    } else {
        print(&report, out)?;
    }
    out.flush()?;
    if report.failed > 0 {
        bail!("{} of {} tests failed", report.failed, report.kernels.len());
    }
    Ok(())
}

/// Runs the tests one after the other. Sets the gpu up again after a test that broke it.
fn run_on(gpu: usize, device: &Device, options: &Selftest) -> Vec<Row> {
    let tests = if options.kernels.is_empty() { suite::ALL.iter().collect() } else { options.kernels.clone() };
    let mut bench = None;
    let mut lost = false;
    let mut rows = Vec::new();
    for test in tests {
        if lost {
            rows.push(Row::failed(gpu, test, "not run: the gpu failed before".to_string()));
            continue;
        }
        let (row, error) = run_one(gpu, test, device, &mut bench, options.seed);
        rows.push(row);
        if let Some(error) = error {
            bench = None;
            lost = !leaves_gpu_usable(&error);
        }
    }
    rows
}

fn run_one(gpu: usize, test: &Test, device: &Device, bench: &mut Option<Bench>, seed: u64) -> (Row, Option<Error>) {
    let result = match bench {
        Some(bench) => test.run(bench, seed),
        None => Bench::new(device).and_then(|fresh| test.run(bench.insert(fresh), seed)),
    };
    match result {
        Ok(outcome) => {
            let message = outcome.mismatch.map(|mismatch| mismatch.to_string());
            let result = if message.is_none() { PASSED } else { FAILED };
            let time_us = outcome.elapsed.as_nanos().try_into().map_or(f64::INFINITY, output::micros);
            (Row { gpu, name: test.name, items: outcome.items, result, time_us: Some(time_us), message }, None)
        }
        Err(error) => (Row::failed(gpu, test, error.to_string()), Some(error)),
    }
}

/// Returns whether other kernels can still run in this process after such an error.
fn leaves_gpu_usable(error: &Error) -> bool {
    !matches!(error, Error::MemoryFault { .. } | Error::Reset { .. } | Error::Timeout { .. })
}

/// Adds the remedy to the error of a missing driver.
fn explain(error: Error) -> anyhow::Error {
    match error {
        Error::Driver(kfd::Error::Open { path, error }) if path.as_os_str() == KFD => anyhow::anyhow!(
            "cannot open {KFD}: {error}. Load the driver (`modprobe amdgpu`) and join the group that owns the device \
             (`usermod -aG render $USER`), or use the virtual gpu: `gpreempt vgpu run -- gpreempt selftest`"
        ),
        other => other.into(),
    }
}

const PASSED: &str = "passed";
const FAILED: &str = "failed";

#[derive(Serialize)]
struct SelftestReport {
    schema: u32,
    gpus: Vec<Gpu>,
    kernels: Vec<Row>,
    passed: usize,
    failed: usize,
}

#[derive(Serialize)]
struct Gpu {
    gpu: usize,
    gpu_id: u32,
    name: String,
    gfx: String,
    compute_units: u32,
    xccs: u32,
}

impl Gpu {
    fn new(index: usize, device: &Device) -> Gpu {
        let gpu = &device.node().gpu;
        Gpu {
            gpu: index,
            gpu_id: gpu.id.0,
            name: gpu.name.clone(),
            gfx: gpu.gfx.to_string(),
            compute_units: gpu.cus,
            xccs: gpu.xccs,
        }
    }
}

#[derive(Serialize)]
struct Row {
    gpu: usize,
    name: &'static str,
    items: u64,
    result: &'static str,
    /// Time from the doorbell to the end; absent if the kernel did not end.
    time_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl Row {
    fn failed(gpu: usize, test: &Test, message: String) -> Row {
        Row { gpu, name: test.name, items: 0, result: FAILED, time_us: None, message: Some(message) }
    }
}

fn print(report: &SelftestReport, out: &mut impl Write) -> Result<()> {
    for gpu in &report.gpus {
        let Gpu { gpu: index, name, gfx, compute_units, xccs, .. } = gpu;
        writeln!(out, "Gpu {index}: {name}, {gfx}, {compute_units} compute units on {xccs} XCC.\n")?;
        let rows: Vec<&Row> = report.kernels.iter().filter(|row| row.gpu == *index).collect();
        writeln!(out, "{}\n", table(&rows))?;
        for row in rows {
            if let Some(message) = &row.message {
                writeln!(out, "{}: {message}", row.name)?;
            }
        }
    }
    writeln!(out, "{} passed, {} failed.", report.passed, report.failed)?;
    Ok(())
}

fn table(rows: &[&Row]) -> Table {
    let mut table = output::table(&["kernel", "items", "result", "time"]);
    for row in rows {
        let time = row.time_us.map_or_else(|| "-".to_string(), |micros| output::time((micros * 1e3) as u64));
        table.add_row([
            Cell::new(row.name),
            output::number(row.items),
            output::number(row.result),
            output::number(time),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &'static str, result: &'static str, message: Option<&str>) -> Row {
        Row { gpu: 0, name, items: 64, result, time_us: Some(1500.0), message: message.map(str::to_string) }
    }

    fn report(kernels: Vec<Row>) -> SelftestReport {
        let gpu = Gpu {
            gpu: 0,
            gpu_id: 7,
            name: "mi300x".to_string(),
            gfx: "gfx942".to_string(),
            compute_units: 304,
            xccs: 8,
        };
        SelftestReport { schema: output::SCHEMA, gpus: vec![gpu], kernels, passed: 1, failed: 1 }
    }

    #[test]
    fn the_table_names_what_failed_and_why() {
        let report = report(vec![row("vadd", PASSED, None), row("spin", FAILED, Some("element 3 is wrong"))]);
        let mut text = Vec::new();
        print(&report, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("Gpu 0: mi300x, gfx942, 304 compute units on 8 XCC."), "{text}");
        assert!(text.contains("1.50 ms") && text.contains("spin: element 3 is wrong"), "{text}");
        assert!(text.ends_with("1 passed, 1 failed.\n"), "{text}");
    }

    #[test]
    fn the_document_counts_and_lists() {
        let value = serde_json::to_value(report(vec![row("vadd", PASSED, None)])).unwrap();
        assert_eq!(value["gpus"][0]["gfx"], "gfx942");
        assert_eq!(value["kernels"][0]["result"], "passed");
        assert_eq!(value["kernels"][0]["time_us"], 1500.0);
        assert!(value["kernels"][0].get("message").is_none());
        assert_eq!((&value["passed"], &value["failed"]), (&1.into(), &1.into()));
    }

    #[test]
    fn a_refused_kernel_does_not_end_the_run_but_a_fault_does() {
        assert!(leaves_gpu_usable(&Error::Queue { code: 2 }));
        assert!(!leaves_gpu_usable(&Error::Reset { gpu_id: 1 }));
    }
}
