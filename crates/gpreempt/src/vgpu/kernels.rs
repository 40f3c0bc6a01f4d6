//! `gpreempt vgpu kernels`: which kernels' drivers there are, and where they differ.

use std::io::Write;

use anyhow::{Context, Result};
use comfy_table::Cell;
use serde::Serialize;
use serde_json::{Map, Value};
use vgpu::launch::KernelProfile;

use crate::output;

#[derive(Serialize)]
struct Row {
    name: &'static str,
    interface: String,
    evidence: &'static str,
    behaviours: Map<String, Value>,
}

fn row(kernel: KernelProfile) -> Result<Row> {
    let behaviours = kernel.behaviours();
    let interface = format!("{}.{}", kfd_abi::process::VERSION_MAJOR, behaviours.minor_version);
    let Value::Object(mut behaviours) = serde_json::to_value(behaviours)? else {
        return Err(anyhow::anyhow!("the behaviours of a kernel are no object"));
    };
    behaviours.remove("minor_version").context("a kernel has a version")?;
    Ok(Row { name: kernel.name(), interface, evidence: kernel.evidence(), behaviours })
}

pub(crate) fn run(json: bool, out: &mut impl Write) -> Result<()> {
    let rows = KernelProfile::ALL.into_iter().map(row).collect::<Result<Vec<Row>>>()?;
    if json {
        return output::json(&serde_json::json!({ "schema": output::SCHEMA, "kernels": rows }), out);
    }
    let mut table = output::listing(&["kernel", "interface", "evidence"], &[0, 1, 2]);
    for row in &rows {
        table.add_row([row.name, &row.interface, row.evidence]);
    }
    writeln!(out, "{table}\n")?;
    let names: Vec<&str> = ["behaviour"].into_iter().chain(rows.iter().map(|row| row.name)).collect();
    let mut table = output::listing(&names, &(0..names.len()).collect::<Vec<_>>());
    for name in rows.first().into_iter().flat_map(|row| row.behaviours.keys()) {
        let mut cells = vec![Cell::new(name.replace('_', " "))];
        cells.extend(rows.iter().map(|row| Cell::new(word(row.behaviours.get(name)))));
        table.add_row(cells);
    }
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "What the behaviours are: `crates/vgpu-driver/src/kernel.rs`; what is not imitated: docs/virtual-gpu.md."
    )?;
    Ok(())
}

fn word(value: Option<&Value>) -> String {
    match value {
        Some(Value::Bool(true)) => "yes".to_owned(),
        Some(Value::Bool(false)) => "no".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}
