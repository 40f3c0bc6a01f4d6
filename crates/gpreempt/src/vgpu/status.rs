//! `gpreempt vgpu status`: what happens on a virtual gpu.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;
use vgpu::launch::Running;
use vgpu::protocol::{GpuStatus, ProcessStatus, QueueState, Status};

use crate::cli::VgpuStatus;
use crate::output::{self, bytes, number, time};

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    #[serde(flatten)]
    status: &'a Status,
}

pub(crate) fn run(options: &VgpuStatus, out: &mut impl Write) -> Result<()> {
    let gpu = match &options.name {
        Some(name) => Running::named(name, options.shared)?,
        None => Running::own()?,
    };
    let status = gpu.status()?;
    if options.json {
        return output::json(&Document { schema: output::SCHEMA, status: &status }, out);
    }
    let name = status.name.as_deref().map_or_else(String::new, |name| format!(" {name}"));
    writeln!(
        out,
        "virtual gpu{name}: {}, driver of {}, read index {}, supervisor {}, {} launched, tokens {} of {}",
        status.profile,
        status.kernel.name(),
        status.read_index.name(),
        status.supervisor,
        status.holders,
        status.tokens.held,
        status.tokens.total
    )?;
    write_gpus(&status.gpus, out)?;
    write_processes(&status, out)?;
    write_cycles(&status.gpus, out)
}

fn write_gpus(gpus: &[GpuStatus], out: &mut impl Write) -> Result<()> {
    let mut table = output::table(&["gpu", "queues", "waves", "VRAM", "saves", "restores", "moved", "saved", "resets"]);
    for gpu in gpus {
        let preemption = &gpu.preemption;
        let numbers = [
            gpu.queues.to_string(),
            format!("{} of {}", gpu.waves, gpu.wave_slots),
            format!("{} of {}", bytes(gpu.vram_used_bytes), bytes(gpu.vram_bytes)),
            preemption.saves.to_string(),
            preemption.restores.to_string(),
            format!("{} of {}", preemption.workgroups_moved, preemption.workgroups_back),
            bytes(preemption.bytes_saved),
            gpu.resets.to_string(),
        ];
        let mut cells = vec![comfy_table::Cell::new(gpu.gpu_id)];
        cells.extend(numbers.iter().map(number));
        table.add_row(cells);
    }
    writeln!(out, "{table}")?;
    Ok(())
}

fn write_processes(status: &Status, out: &mut impl Write) -> Result<()> {
    if status.processes.is_empty() {
        return Ok(());
    }
    let mut table = output::table(&["process", "VRAM", "waves", "mapped", "suspended", "evicted", "off", "debugger"]);
    for process in &status.processes {
        let states = [QueueState::Mapped, QueueState::Suspended, QueueState::Evicted, QueueState::Off];
        let mut cells = vec![
            comfy_table::Cell::new(process.pid),
            number(bytes(process.gpus.iter().map(|gpu| gpu.vram_bytes).sum())),
            number(process.gpus.iter().map(|gpu| gpu.waves).sum::<u32>()),
        ];
        cells.extend(states.map(|state| number(queues(process, state))));
        cells.push(number(process.debugger.map_or_else(|| "-".to_owned(), |pid| pid.to_string())));
        table.add_row(cells);
    }
    writeln!(out, "{table}")?;
    Ok(())
}

/// Ids of a process's queues that are in this state.
fn queues(process: &ProcessStatus, state: QueueState) -> String {
    let ids: Vec<String> =
        process.queues.iter().filter(|queue| queue.state == state).map(|queue| queue.id.to_string()).collect();
    if ids.is_empty() { "-".to_owned() } else { ids.join(" ") }
}

fn write_cycles(gpus: &[GpuStatus], out: &mut impl Write) -> Result<()> {
    if gpus.iter().all(|gpu| gpu.cycles.is_empty()) {
        return Ok(());
    }
    let mut table = output::table(&[
        "cycles",
        "cause",
        "count",
        "total",
        "longest",
        "longest stop",
        "modelled",
        "waves saved",
        "saved",
    ]);
    for gpu in gpus {
        for (cause, cycles) in &gpu.cycles {
            let numbers = [
                cause.clone(),
                cycles.count.to_string(),
                time(cycles.total_ns),
                time(cycles.max_ns),
                time(cycles.stop_max_ns),
                time(cycles.modelled_ns),
                cycles.waves.to_string(),
                bytes(cycles.bytes),
            ];
            let mut cells = vec![comfy_table::Cell::new(gpu.gpu_id)];
            cells.extend(numbers.iter().map(number));
            table.add_row(cells);
        }
    }
    writeln!(out, "{table}")?;
    Ok(())
}
