//! `gpreempt conformance`: the rules of the driver that gpreempt relies on, tested on this machine's driver.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use comfy_table::Cell;
use kfd_conformance::{
    Checked, Conformance as Outcome, ConformanceOptions, DriverKind, DriverRule, Layer, Measurement, Standing,
    TestedGpu,
};
use serde::Serialize;
use vgpu::launch::{KernelProfile, Running};

use crate::cli::Conformance;
use crate::output::{self, UserError};

/// Arguments that make this executable a process of a test.
const ACTOR: &[&str] = &["conformance-actor"];

/// Kind of the document that `--report` writes.
pub(crate) const REPORT: &str = "conformance-report";

/// What the run is about to do, for a machine that others may use.
const PLAN: &str = "Tests the rules of the driver. It starts processes of its own, which create, stop and destroy \
queues and debug each other, and makes some hundred cycles of the runlist; nothing of other processes is touched.";

pub(crate) fn run(options: &Conformance, out: &mut impl Write) -> Result<()> {
    if options.list {
        return list(options, out);
    }
    let chosen = ConformanceOptions {
        rules: options.rules.clone(),
        actor: ACTOR,
        beside_others: options.beside_others,
        measure: options.report.is_some(),
        driver: driver_under_test()?,
    };
    // Before the run, so that a path that cannot be written fails at once.
    let mut report = options.report.as_deref().map(create).transpose()?;
    let mut transcript = options.transcript.as_deref().map(create).transpose()?;
    if !options.json {
        // With stderr closed there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "{PLAN}");
    }
    let outcome = kfd_conformance::run(&chosen, |_| {})?;
    let checked = &outcome.checked;
    let document = Document::new(checked);
    if let Some(file) = &mut report {
        output::json(&Report::new(&outcome), file)?;
    }
    if let Some(file) = &mut transcript {
        outcome.transcript.iter().try_for_each(|line| writeln!(file, "{line}"))?;
    }
    if options.json {
        output::json(&document, out)?;
    } else {
        print(checked, &document, out)?;
    }
    out.flush()?;
    if document.broken > 0 {
        bail!("{} of {} rules are broken", document.broken, checked.len());
    }
    Ok(())
}

/// Creates a file that the user named.
fn create(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot write `{}`", path.display()));
    file.map_err(|error| UserError::new(error).into())
}

/// Returns the driver that is tested: a virtual gpu says which it imitates.
fn driver_under_test() -> Result<DriverKind> {
    if std::env::var_os(vgpu::protocol::SOCKET_VARIABLE).is_none() {
        return Ok(DriverKind::of_this_machine());
    }
    Ok(match Running::own()?.status()?.kernel {
        KernelProfile::Linux6_12_107 => DriverKind::Before6_12_115,
        KernelProfile::Linux6_12_115 | KernelProfile::Linux7_2 => DriverKind::Linux,
        KernelProfile::Dkms => DriverKind::Dkms,
    })
}

/// The JSON document; `docs/conformance.md` describes it.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    rules: Vec<Row<'a>>,
    kept: usize,
    broken: usize,
    unchecked: usize,
}

#[derive(Serialize)]
struct Row<'a> {
    id: &'static str,
    about: &'static str,
    source: &'static str,
    layer: Layer,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Standing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

impl<'a> Row<'a> {
    fn of(rule: &'static DriverRule) -> Row<'a> {
        let DriverRule { id, about, source, layer, .. } = *rule;
        Row { id, about, source, layer, result: None, reason: None, seconds: None }
    }

    fn checked(checked: &'a Checked) -> Row<'a> {
        Row {
            result: Some(checked.standing),
            reason: checked.reason.as_deref(),
            seconds: Some(checked.seconds),
            ..Row::of(checked.rule)
        }
    }
}

impl<'a> Document<'a> {
    fn new(checked: &'a [Checked]) -> Document<'a> {
        let count = |standing| checked.iter().filter(|checked| checked.standing == standing).count();
        Document {
            schema: output::SCHEMA,
            rules: checked.iter().map(Row::checked).collect(),
            kept: count(Standing::Kept),
            broken: count(Standing::Broken),
            unchecked: count(Standing::Unchecked),
        }
    }
}

/// The document of `--report`.
#[derive(Serialize)]
struct Report<'a> {
    kind: &'static str,
    version: &'static str,
    kernel: String,
    driver: &'a str,
    virtual_gpu: bool,
    gpu: &'a TestedGpu,
    cycles_counted_by: &'a str,
    measurements: &'a [Measurement],
    #[serde(flatten)]
    rules: Document<'a>,
}

impl<'a> Report<'a> {
    fn new(outcome: &'a Outcome) -> Report<'a> {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Report {
            kind: REPORT,
            version: env!("CARGO_PKG_VERSION"),
            kernel: kernel.trim().to_owned(),
            driver: &outcome.driver,
            virtual_gpu: std::env::var_os(vgpu::protocol::SOCKET_VARIABLE).is_some(),
            gpu: &outcome.gpu,
            cycles_counted_by: &outcome.cycles_counted_by,
            measurements: &outcome.measurements,
            rules: Document::new(&outcome.checked),
        }
    }
}

fn list(options: &Conformance, out: &mut impl Write) -> Result<()> {
    let chosen: Vec<&'static DriverRule> =
        if options.rules.is_empty() { kfd_conformance::all().collect() } else { options.rules.clone() };
    if options.json {
        let rules: Vec<Row<'_>> = chosen.iter().map(|rule| Row::of(rule)).collect();
        return output::json(&serde_json::json!({ "schema": output::SCHEMA, "rules": rules }), out);
    }
    for layer in Layer::ALL {
        let of_layer: Vec<_> = chosen.iter().filter(|rule| rule.layer == layer).collect();
        writeln!(out, "{} ({} rules)\n", layer.name(), of_layer.len())?;
        for DriverRule { id, about, source, .. } in of_layer {
            writeln!(out, "  {id}\n      {about}\n      {source}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn print(checked: &[Checked], document: &Document<'_>, out: &mut impl Write) -> Result<()> {
    let mut table = output::table(&["layer", "rules", "kept", "broken", "unchecked"]);
    for layer in Layer::ALL {
        let of_layer: Vec<_> = checked.iter().filter(|checked| checked.rule.layer == layer).collect();
        let count = |standing| of_layer.iter().filter(|checked| checked.standing == standing).count();
        table.add_row([
            Cell::new(layer.name()),
            output::number(of_layer.len()),
            output::number(count(Standing::Kept)),
            output::number(count(Standing::Broken)),
            output::number(count(Standing::Unchecked)),
        ]);
    }
    writeln!(out, "{table}\n")?;
    for (standing, word) in [(Standing::Broken, "broken"), (Standing::Unchecked, "unchecked")] {
        for found in checked.iter().filter(|checked| checked.standing == standing) {
            let DriverRule { id, about, source, .. } = found.rule;
            let reason = found.reason.as_deref().unwrap_or_default();
            writeln!(out, "{word}: {id}: {reason}\n    {about}\n    {source}\n")?;
        }
    }
    let Document { kept, broken, unchecked, .. } = document;
    writeln!(out, "{kept} kept, {broken} broken, {unchecked} unchecked.")?;
    Ok(())
}
