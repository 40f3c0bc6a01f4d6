//! `gpreempt vgpu storm`: a program is preempted thousands of times and must not notice.
//!
//! The client first runs undisturbed. Then it runs again and again while the device stops its waves at random
//! instructions and a tracer takes its queues away at random moments; each time it has to print the same.

mod args;
mod attempt;
mod client;
mod lines;
mod program;
mod report;

use std::io::Write;

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use vgpu::launch::{Setup, Storm};
use vgpu::profile::Profile;

use crate::output;
pub use args::{RocmRelease, StormArgs, StormClient, StormProgram};
use attempt::Trace;
pub use client::run as run_program;
use lines::Lines;
use program::Program;
pub(crate) use program::hip_programs;
pub use program::python;
use report::StormReport;

/// The gpu that the client gets.
const PROFILE: &str = "mi300x";
/// Runs without a single preemption of a kind that is still wanted after which the storm gives up.
const MAX_RUNS_WITHOUT_PROGRESS: u64 = 3;

/// Runs the storm and prints its report.
///
/// # Errors
/// If the client cannot be prepared, a result differs, or too few preemptions happened.
pub fn run(options: &StormArgs, out: &mut impl Write) -> Result<()> {
    let mut setup = Setup::new(Profile { read_index: options.read_index, ..Profile::load(PROFILE)? });
    setup.kernel = options.kernel;
    let bar = output::progress(options.json, "preemptions");
    let program = Program::prepare(options.client, options.rocm)?;
    let reference = undisturbed(&program, &setup)?;
    let mut report = StormReport::new(name(options.client), options.seed);
    storm(options, &program, setup, &reference, &mut report, &bar)?;
    bar.finish_and_clear();
    report.write(options.json, out)?;
    out.flush()?;
    match report.failures.first() {
        Some(failure) => bail!("the storm was noticed, or did not come: {failure}"),
        None => Ok(()),
    }
}

/// As it is given on the command line.
fn name(client: StormClient) -> &'static str {
    match client {
        StormClient::Corpus => "corpus",
        StormClient::Workload => "workload",
        StormClient::Hip => "hip",
        StormClient::Tinygrad => "tinygrad",
    }
}

/// What the client prints when nothing disturbs it.
fn undisturbed(program: &Program, setup: &Setup) -> Result<Lines> {
    let attempt = attempt::run(program, setup, None)?;
    if let Some(failure) = attempt.failures.first() {
        bail!("without a storm already: {failure}");
    }
    if attempt.lines.is_empty() {
        bail!("the client printed nothing");
    }
    Ok(attempt.lines)
}

/// What is still to be done.
struct Wanted {
    preemptions: u64,
    suspends: u64,
}

impl Wanted {
    fn left(options: &StormArgs, suspendable: bool, report: &StormReport) -> Wanted {
        let suspends = if suspendable { options.suspends } else { 0 };
        Wanted {
            preemptions: options.preemptions.saturating_sub(report.executor_preemptions),
            suspends: suspends.saturating_sub(report.suspends),
        }
    }

    fn is_nothing(&self) -> bool {
        self.preemptions == 0 && self.suspends == 0
    }

    /// Whether a run brought something of everything that was wanted.
    fn was_served(&self, before: (u64, u64), report: &StormReport) -> bool {
        (self.preemptions == 0 || report.executor_preemptions > before.0)
            && (self.suspends == 0 || report.suspends > before.1)
    }
}

/// Lets the client run until it was preempted often enough, or did something else than undisturbed.
fn storm(
    options: &StormArgs,
    program: &Program,
    mut setup: Setup,
    reference: &Lines,
    report: &mut StormReport,
    bar: &ProgressBar,
) -> Result<()> {
    let all = Wanted::left(options, program.suspendable, report);
    bar.set_length(all.preemptions + all.suspends);
    let mut fruitless = 0;
    loop {
        let wanted = Wanted::left(options, program.suspendable, report);
        if wanted.is_nothing() || report.failed() {
            return Ok(());
        }
        let seed = options.seed.wrapping_add(report.runs);
        let mean_instructions = options.mean_instructions;
        setup.options.storm = (wanted.preemptions > 0).then_some(Storm { seed, mean_instructions });
        let trace = (wanted.suspends > 0).then_some(Trace { suspends: wanted.suspends, seed });
        let before = (report.executor_preemptions, report.suspends);
        report.add(attempt::run(program, &setup, trace)?, reference, seed);
        bar.set_position((report.executor_preemptions + report.suspends).min(all.preemptions + all.suspends));
        fruitless = if wanted.was_served(before, report) { 0 } else { fruitless + 1 };
        if fruitless == MAX_RUNS_WITHOUT_PROGRESS {
            let Wanted { preemptions, suspends } = Wanted::left(options, program.suspendable, report);
            report.fail(format!(
                "{MAX_RUNS_WITHOUT_PROGRESS} runs brought no preemption of a kind that is still missing: {preemptions} by the device, \
                 {suspends} by the tracer"
            ));
        }
    }
}
