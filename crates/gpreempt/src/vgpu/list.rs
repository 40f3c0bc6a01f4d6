//! `gpreempt vgpu list`: named gpus that run.

use std::io::Write;

use anyhow::{Context, Result};
use serde::Serialize;
use vgpu::launch::Running;
use vgpu::protocol::Status;

use crate::output;

#[derive(Serialize)]
struct Row {
    name: String,
    profile: String,
    gpus: usize,
    cus: u32,
    /// Programs launched on it.
    programs: u32,
    /// Processes that have it open.
    processes: usize,
    queues: u32,
    supervisor: u32,
}

fn row(name: String, status: &Status) -> Row {
    Row {
        name,
        profile: status.profile.clone(),
        gpus: status.gpus.len(),
        cus: status.cus,
        programs: status.holders,
        processes: status.processes.len(),
        queues: status.gpus.iter().map(|gpu| gpu.queues).sum(),
        supervisor: status.supervisor,
    }
}

pub(crate) fn run(json: bool, out: &mut impl Write) -> Result<()> {
    let names = Running::names().context("cannot read the system's table of sockets")?;
    // One that ended meanwhile, or belongs to another build, has nothing to say.
    let ask = |name: &vgpu::launch::Name| Running::named(name, false).and_then(|gpu| gpu.status()).ok();
    let rows: Vec<Row> = names.iter().filter_map(|name| Some(row(name.to_string(), &ask(name)?))).collect();
    if json {
        return output::json(&serde_json::json!({ "schema": output::SCHEMA, "gpus": rows }), out);
    }
    if rows.is_empty() {
        writeln!(out, "No named virtual gpu runs; `gpreempt vgpu run --name NAME -- CMD` starts one.")?;
        return Ok(());
    }
    let mut table = output::listing(
        &["name", "profile", "gpus", "CUs", "programs", "with the gpu open", "queues", "supervisor"],
        &[0, 1],
    );
    for row in &rows {
        let numbers = [
            row.gpus.to_string(),
            row.cus.to_string(),
            row.programs.to_string(),
            row.processes.to_string(),
            row.queues.to_string(),
            row.supervisor.to_string(),
        ];
        let mut cells = vec![comfy_table::Cell::new(&row.name), comfy_table::Cell::new(&row.profile)];
        cells.extend(numbers.iter().map(output::number));
        table.add_row(cells);
    }
    writeln!(out, "{table}")?;
    Ok(())
}
