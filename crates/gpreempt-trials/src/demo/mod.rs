//! `gpreempt demo`: what gpreempt is worth, with separate real processes.
//!
//! An online program answers requests that arrive at random, an offline program fills the gpu. Blocks of each alone, of
//! both, and of both with gpreempt take turns, so that a machine that gets slower does so for all arms. Every block has
//! processes of its own, and the requests of a round arrive at the same instants in all arms.

mod args;
mod print;
mod report;
#[cfg(test)]
mod tests;
mod trace;

use std::io::Write;

use anyhow::{Context, Result, bail};

use crate::environment::block::{Arm, Setting};
use crate::environment::gpu_under_test::GpuUnderTest;
use crate::environment::interrupt::Interrupt;
use crate::environment::other_work::OtherWorkMeter;
use crate::environment::training::Training;
use crate::environment::workload::{self, Workload};
use crate::output;
use crate::storm::{RocmRelease, hip_programs};
pub use args::{DemoArgs, DemoClient};
use report::{About, DemoReport};

/// Every round has a block of each.
const ARMS: [Arm; 4] = [Arm::OfflineAlone, Arm::Alone, Arm::Without, Arm::With];

/// Runs the demonstration and prints its report.
///
/// # Errors
/// If the workload is unusable, a program fails, a result is wrong, or the run shows nothing.
pub fn run(options: &DemoArgs, out: &mut impl Write) -> Result<()> {
    if options.print_config {
        out.write_all(workload::BUILT_IN.as_bytes())?;
        return Ok(());
    }
    let mut workload = Workload::load(options.config.as_deref())?;
    if let Some(requests) = options.requests {
        workload.blocks.requests = requests;
    }
    // Compiled before anything is measured; the files go with the demo.
    let training = (options.client == DemoClient::Jax).then(Training::prepare).transpose()?;
    let hip = match options.client {
        DemoClient::Workload => None,
        DemoClient::Hip => Some(hip_programs(RocmRelease::default())?),
        DemoClient::Jax => Some(hip_programs(RocmRelease::V7_2)?),
    };
    let hip = hip.as_ref().map(|(run, files)| (run.clone(), files.path().join("hip_load")));
    let place = GpuUnderTest::find(&workload.virtual_gpu, options.yes)?;
    let gpu = place.describe()?;
    if !options.json {
        writeln!(out, "{gpu}")?;
        out.flush()?;
    }
    let interrupt = Interrupt::watch()?;
    let other_work = OtherWorkMeter::start(&place);
    let setting = Setting {
        place: &place,
        workload: &workload,
        interrupt: &interrupt,
        other_work: &other_work,
        seed: options.seed,
        settings: String::new(),
        online_arguments: Vec::new(),
        hip,
        training: training.as_ref(),
    };
    let arms: Vec<Arm> = ARMS.into_iter().filter(|arm| *arm != Arm::With || !options.without_daemon).collect();
    let bar = output::progress(options.json, "requests {msg}");
    bar.set_length(u64::from(workload.block_requests() * workload.blocks.rounds) * (arms.len() as u64 - 1));
    bar.set_message("(measuring kernels)");
    let calibration = setting.calibrate()?;
    let mut measured = Vec::new();
    for round in 0..workload.blocks.rounds {
        for &arm in &arms {
            bar.set_message(format!("({}, round {} of {})", arm.name(), round + 1, workload.blocks.rounds));
            let outcome = setting.run(arm, round, &calibration, || bar.inc(1))?;
            measured.push((arm, round, outcome));
        }
    }
    bar.finish_and_clear();
    let about = About {
        hardware: place.is_hardware(),
        gpu,
        client: options.client,
        seed: options.seed,
        calibration: &calibration,
        busy: other_work.report(),
    };
    let report = DemoReport::of(about, &measured);
    if let Some(path) = &options.trace {
        let block = measured.iter().find(|(arm, ..)| *arm == Arm::With);
        let (_, _, outcome) = block.context("there is no block with gpreempt to write a trace of")?;
        trace::write(path, report.kind, &report.gpu, outcome)?;
    }
    if options.json {
        output::json(&report, out)?;
    } else {
        print::print(&report, out)?;
        match &options.trace {
            Some(path) => writeln!(out, "Timeline of one block: {}, for ui.perfetto.dev.", path.display())?,
            None => writeln!(out, "Timeline of one block, for ui.perfetto.dev: gpreempt demo --trace FILE.")?,
        }
    }
    out.flush()?;
    match report.faults.first() {
        Some(fault) => bail!("{fault}"),
        None => Ok(()),
    }
}
