//! `gpreempt lab profile`: a profile with the numbers of a conformance report.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use gpreempt_lab::Profile;
use serde::Deserialize;

use crate::output::{self, UserError};

/// Largest report that is read.
const LARGEST: u64 = 16 << 20;

/// What is read of a report; `docs/conformance.md` describes it.
#[derive(Deserialize)]
struct Report {
    schema: u32,
    kind: String,
    kernel: String,
    virtual_gpu: bool,
    gpu: Gpu,
    measurements: Vec<Measured>,
}

#[derive(Deserialize)]
struct Gpu {
    name: String,
    compute_units: u32,
    xccs: u32,
    waves_per_cu: u32,
    hardware_queues: u32,
}

#[derive(Deserialize)]
struct Measured {
    name: String,
    status: String,
    value: Option<f64>,
    reason: Option<String>,
}

pub(crate) fn run(from: &Path, out: &mut impl Write) -> Result<()> {
    let text = read(from).and_then(|text| profile(&text, from));
    out.write_all(text.map_err(UserError::new)?.as_bytes())?;
    Ok(())
}

fn read(from: &Path) -> Result<String> {
    let size = std::fs::metadata(from).with_context(|| format!("cannot read `{}`", from.display()))?.len();
    if size > LARGEST {
        bail!("`{}` has {size} bytes; a report has at most {LARGEST}", from.display());
    }
    std::fs::read_to_string(from).with_context(|| format!("cannot read `{}`", from.display()))
}

/// Makes a profile: a built-in one of the same family, with what the report knows better.
fn profile(text: &str, from: &Path) -> Result<String> {
    let file = from.display();
    let report: Report = serde_json::from_str(text).with_context(|| {
        format!("`{file}` is no conformance report; `gpreempt conformance --report FILE` writes one")
    })?;
    if report.kind != crate::conformance::REPORT || report.schema != output::SCHEMA {
        bail!(
            "`{file}` is a `{}` of schema {}, not a `{}` of schema {}",
            report.kind,
            report.schema,
            crate::conformance::REPORT,
            output::SCHEMA
        );
    }
    let base = if report.gpu.xccs == 1 { "mi300x-cpx" } else { "mi300x-spx" };
    let base = Profile::builtins().iter().find(|builtin| builtin.name == base).context("a built-in profile is gone")?;
    let place = if report.virtual_gpu { "a virtual gpu: an emulated time" } else { "this machine" };
    let by = |what: &str| format!("measured by gpreempt conformance ({what}) on {place}, Linux {}", report.kernel);
    let gpu = &report.gpu;
    let topology = "topology of the driver, by gpreempt conformance".to_owned();
    let changes = [
        ("cus", whole(gpu.compute_units, 4096, "compute_units")?, topology.clone()),
        ("waves_per_cu", whole(gpu.waves_per_cu, 256, "waves_per_cu")?, topology.clone()),
        ("hqds", whole(gpu.hardware_queues, 4096, "hardware_queues")?, topology),
        ("firmware_us", measured(&report, "cycle_idle_us", 1e6)?, by("cycle_idle_us: a cycle without resident waves")),
        ("ioctl_us", measured(&report, "ioctl_us", 1e5)?, by("ioctl_us")),
    ];
    let mut lines = vec![
        format!(
            "# Made by `gpreempt lab profile` from a conformance report of {} on Linux {}.",
            gpu.name, report.kernel
        ),
        format!("# Numbers that the report does not have are those of {}, with their sources.", base.name),
    ];
    for line in base.text.lines().filter(|line| !line.starts_with('#')) {
        let key = line.split(" = ").next().unwrap_or_default();
        let change = changes.iter().find(|(name, ..)| *name == key);
        lines.push(match (key, change) {
            ("name", _) => "name = \"measured\"".to_owned(),
            ("about", _) => {
                format!("about = {:?}", format!("{} as gpreempt conformance measured it", plain(&gpu.name)))
            }
            (_, Some((_, value, source))) => format!("{key} = {{ value = {value}, source = {:?} }}", plain(source)),
            _ => line.to_owned(),
        });
    }
    lines.push(String::new());
    Ok(lines.join("\n"))
}

/// Leaves out what a TOML string cannot hold as it is.
fn plain(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control() && *letter != '"' && *letter != '\\').collect()
}

fn whole(value: u32, most: u32, name: &str) -> Result<f64> {
    if value == 0 || value > most {
        bail!("the report says {name} = {value}; expected is 1 to {most}");
    }
    Ok(value.into())
}

fn measured(report: &Report, name: &str, most: f64) -> Result<f64> {
    let Some(found) = report.measurements.iter().find(|measured| measured.name == name) else {
        bail!("the report has no measurement `{name}`; write it again with this version of gpreempt");
    };
    match found.value {
        Some(value) if found.status == "measured" && (0.0..=most).contains(&value) => Ok((value * 10.0).round() / 10.0),
        Some(value) if found.status == "measured" => bail!("the report says {name} = {value}; expected is 0 to {most}"),
        _ => bail!("`{name}` was not measured: {}", found.reason.as_deref().unwrap_or("the report does not say why")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> serde_json::Value {
        serde_json::json!({
            "schema": output::SCHEMA, "kind": crate::conformance::REPORT, "kernel": "6.12", "virtual_gpu": false,
            "gpu": { "name": "mi300x", "compute_units": 304, "xccs": 8, "waves_per_cu": 32, "hardware_queues": 24 },
            "measurements": [
                { "name": "cycle_idle_us", "status": "measured", "value": 123.45 },
                { "name": "ioctl_us", "status": "measured", "value": 7.0 },
            ],
        })
    }

    fn made(report: &serde_json::Value) -> Result<String> {
        profile(&report.to_string(), Path::new("r.json"))
    }

    #[test]
    fn a_report_becomes_a_profile_that_the_laboratory_reads() {
        let text = made(&report()).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &text).unwrap();
        let read = Profile::load(&file.path().to_string_lossy()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!((read.cycle.firmware_us.value, read.compute.cus.value), (123.5, 304.0));
        assert!(read.cycle.firmware_us.source.contains("measured") && !read.cycle.firmware_us.is_estimate());
        assert!(read.cycle.host_gb_s.is_estimate(), "what was not measured keeps its source");
    }

    #[test]
    fn a_bad_report_is_refused_with_its_mistake() {
        let said = |change: fn(&mut serde_json::Value)| {
            let mut report = report();
            change(&mut report);
            format!("{:#}", made(&report).unwrap_err())
        };
        assert!(said(|report| report["kind"] = "demo".into()).contains("`demo`"));
        assert!(said(|report| report["gpu"]["compute_units"] = 0.into()).contains("compute_units = 0"));
        assert!(said(|report| report["measurements"] = serde_json::json!([])).contains("`cycle_idle_us`"));
        assert!(said(|report| report["measurements"][0]["value"] = (-1).into()).contains("-1"));
        let unavailable = serde_json::json!({ "name": "cycle_idle_us", "status": "unavailable", "reason": "no root" });
        let mut missing = report();
        missing["measurements"][0] = unavailable;
        assert!(format!("{:#}", made(&missing).unwrap_err()).contains("no root"));
        let nonsense = profile("{", Path::new("r.json")).unwrap_err();
        assert!(format!("{nonsense:#}").contains("--report FILE"));
    }
}
