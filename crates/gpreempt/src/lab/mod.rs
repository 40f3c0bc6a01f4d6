//! `gpreempt lab`: experiments in virtual time.

mod compare;
mod draw;
mod list;
mod plausibility;
mod print;
mod profile;
mod run;
mod timeline;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use gpreempt_core::Nanos;
use gpreempt_lab::input::InputError;
use gpreempt_lab::{Profile, RunOutcome, Workload, mechanism, perfetto};
use serde::Serialize;

use crate::cli::Lab;
use crate::output::{self, UserError};

pub(crate) fn run(experiment: Lab, out: &mut impl Write) -> Result<()> {
    let result = match experiment {
        Lab::Compare(options) => compare::run(&options, out),
        Lab::Timeline(options) => timeline::run(&options, out),
        Lab::Run(options) => run::run(&options, out),
        Lab::Plausibility(options) => plausibility::run(&options, out),
        Lab::List { json } => list::run(json, out),
        Lab::Print { name } => print::run(&name, out),
        Lab::Profile { from } => profile::run(&from, out),
    };
    result.map_err(mark)
}

/// Marks errors in files and names that the user gave, and adds where to find the built-in ones.
fn mark(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(InputError::NotFound { .. }) => {
            UserError::new(anyhow!("{error:#}\n`gpreempt lab list` describes what is built in.")).into()
        }
        Some(_) => UserError::new(error).into(),
        None => error,
    }
}

/// Value of `kind` in every document: a reader must not take a simulated result for a measurement.
const SIMULATED: &str = "simulated";

/// Loads profile and workload of an experiment and checks that the workload fits the profile.
fn load(profile: &str, workload: &str, seconds: Option<f64>) -> Result<(Profile, Workload)> {
    let profile = Profile::load(profile)?;
    let mut workload = Workload::load(workload)?;
    workload.fits(&profile)?;
    if let Some(seconds) = seconds {
        // The parser of the option limits the value.
        workload.duration = Nanos((seconds * 1e9).round() as u64);
    }
    Ok((profile, workload))
}

/// Returns the headline of a result.
fn headline(profile: &Profile, workload: &Workload, seed: u64) -> String {
    format!(
        "Simulated: workload {} on profile {}, seed {seed}, {} s of virtual time.",
        workload.name,
        profile.name,
        seconds(workload)
    )
}

/// Names the numbers of the profile that have not been published.
fn estimates(profile: &Profile) -> String {
    let estimates = profile.estimates();
    if estimates.is_empty() {
        return format!("Every number of profile {} is published.", profile.name);
    }
    format!("Estimates in profile {}: {}.", profile.name, estimates.join(", "))
}

fn seconds(workload: &Workload) -> f64 {
    workload.duration.0 as f64 / 1e9
}

/// The first keys of every JSON document: the experiment, and that it is simulated.
#[derive(Serialize)]
struct Header<'a> {
    schema: u32,
    kind: &'static str,
    profile: &'a str,
    profile_estimates: Vec<&'static str>,
    workload: &'a str,
    seed: u64,
    seconds: f64,
}

impl<'a> Header<'a> {
    fn new(profile: &'a Profile, workload: &'a Workload, seed: u64) -> Header<'a> {
        Header {
            schema: output::SCHEMA,
            kind: SIMULATED,
            profile: &profile.name,
            profile_estimates: profile.estimates(),
            workload: &workload.name,
            seed,
            seconds: seconds(workload),
        }
    }
}

/// Returns the assumptions of a mechanism beside the profile; none for the baseline.
fn assumes(mechanism: &str) -> &'static [&'static str] {
    mechanism::find(mechanism).map_or(&[], |entry| entry.assumes)
}

/// Creates the file for the trace of a recorded run (ui.perfetto.dev). Called before the run, so that a path that
/// cannot be written fails at once.
struct TraceFile {
    path: PathBuf,
    file: File,
}

impl TraceFile {
    fn create(path: &Path) -> Result<TraceFile> {
        let file = File::create(path).with_context(|| TraceFile::failed(path))?;
        Ok(TraceFile { path: path.to_path_buf(), file })
    }

    fn write(self, outcome: &RunOutcome, workload: &Workload) -> Result<()> {
        perfetto::write(outcome, workload, BufWriter::new(self.file)).with_context(|| TraceFile::failed(&self.path))
    }

    fn failed(path: &Path) -> String {
        format!("cannot write the trace `{}`", path.display())
    }
}
