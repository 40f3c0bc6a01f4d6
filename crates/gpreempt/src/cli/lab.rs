//! Flags of `gpreempt lab`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueHint};
use gpreempt_lab::mechanism::{self, MechanismSpec};

#[derive(Subcommand)]
pub(crate) enum Lab {
    /// Run a workload under every mechanism and compare latency, throughput and side effects.
    ///
    /// The first row is the yardstick: the online tasks without the offline ones, and the reverse. "x alone" is the
    /// latency of online requests divided by that of their task in the first row; "of alone" is the share of its
    /// throughput that the offline side keeps.
    Compare(Compare),

    /// Show one inference request against a training job of 100 kernels, at kernel 25.
    ///
    /// The shortest way to see what a mechanism does: when it notices, what it stops, what the gpu loses to cycles, and
    /// which kernels run twice.
    Timeline(Timeline),

    /// Run one workload and report each of its tasks.
    Run(Run),

    /// Compare the laboratory with published measurements.
    ///
    /// XSched published how long it takes to get a task off a GV100, over the length of its kernels. Two of those
    /// figures calibrate the model and are marked; the others are predictions, printed with their deviation.
    Plausibility(Plausibility),

    /// List and describe mechanisms, workloads, profiles and models.
    List {
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
    },

    /// Print a profile made of a conformance report.
    ///
    /// The numbers that `gpreempt conformance --report FILE` measured replace those of a built-in profile; each says
    /// where it comes from. For example `gpreempt lab profile --from report.json > mine.toml`.
    Profile {
        /// The report.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        from: PathBuf,
    },

    /// Print the file of a built-in workload or profile, to copy and edit.
    ///
    /// For example `gpreempt lab print mi300x-spx > mine.toml`, then `--profile mine.toml`.
    Print {
        /// Name of a built-in workload or profile; `gpreempt lab list` shows them.
        name: String,
    },
}

#[derive(Args)]
pub(crate) struct Compare {
    /// What to run: a built-in workload, a TOML file, or a JSON file of DISB.
    ///
    /// The default is short and shows the point: training kernels that fill the gpu beside inference. The DISB
    /// workloads (disb-a to disb-e) are the published benchmark; their small kernels leave room on a large gpu, so
    /// mechanisms differ less there than on a partition.
    #[arg(long, value_name = "NAME|FILE", default_value = "quick", value_hint = ValueHint::FilePath)]
    pub(crate) workload: String,

    /// Only these mechanisms, in this order. May be repeated.
    ///
    /// `gpreempt lab list` describes them.
    #[arg(long = "mechanism", value_name = "NAME", value_parser = mechanism_by_name(), hide_possible_values = true)]
    pub(crate) mechanisms: Vec<&'static MechanismSpec>,

    /// Simulated seconds, instead of what the workload says.
    ///
    /// Longer runs make high percentiles more reliable.
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,

    #[command(flatten)]
    pub(crate) setting: Setting,
}

#[derive(Args)]
pub(crate) struct Timeline {
    /// The mechanism to watch; `gpreempt lab list` describes them.
    #[arg(long, value_name = "NAME", value_parser = mechanism_by_name(), hide_possible_values = true)]
    pub(crate) mechanism: &'static MechanismSpec,

    /// Also write a trace for ui.perfetto.dev.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) setting: Setting,
}

#[derive(Args)]
pub(crate) struct Run {
    /// What to run: a built-in workload, a TOML file, or a JSON file of DISB.
    #[arg(value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) workload: String,

    /// The mechanisms to run it under, in this order. May be repeated.
    ///
    /// `gpreempt lab list` describes them.
    #[arg(
        long = "mechanism",
        value_name = "NAME",
        value_parser = mechanism_by_name(),
        hide_possible_values = true,
        default_value = "cwsr-watch"
    )]
    pub(crate) mechanisms: Vec<&'static MechanismSpec>,

    /// Also write a trace for ui.perfetto.dev. Needs a single mechanism.
    ///
    /// A trace has one entry per kernel: choose a short --seconds.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,

    /// Simulated seconds, instead of what the workload says.
    ///
    /// Longer runs make high percentiles more reliable.
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,

    #[command(flatten)]
    pub(crate) setting: Setting,
}

#[derive(Args)]
pub(crate) struct Plausibility {
    /// Device to calibrate and compare: a built-in profile or a TOML file.
    #[arg(long, value_name = "NAME|FILE", default_value = "gv100", value_hint = ValueHint::FilePath)]
    pub(crate) profile: String,

    /// Seed of the instants at which the experiment suspends.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What all experiments have in common.
#[derive(Args)]
pub(crate) struct Setting {
    /// Device to simulate: a built-in profile or a TOML file.
    ///
    /// Every number of a profile carries its source; unpublished ones are marked as estimates, in the file and
    /// beside each result. To try another value, `gpreempt lab print NAME`, edit, and pass the file.
    #[arg(long, value_name = "NAME|FILE", default_value = "mi300x-spx", value_hint = ValueHint::FilePath)]
    pub(crate) profile: String,

    /// Seed of the random arrivals.
    ///
    /// All mechanisms see the same arrivals, and the same seed gives the same bytes of JSON.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Print JSON instead of a table.
    ///
    /// Keys carry their unit (`online_p99_us`) and do not change within a schema version.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Takes the names of all mechanisms, which completion offers, too.
fn mechanism_by_name() -> impl TypedValueParser<Value = &'static MechanismSpec> {
    let name = |entry: &MechanismSpec| PossibleValue::new(entry.name).help(entry.about);
    PossibleValuesParser::new(mechanism::all().iter().map(name))
        .try_map(|name| mechanism::find(&name).ok_or("there is no such mechanism"))
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number from 0.001 to 3600".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_bounded() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for text in ["0", "-1", "nan", "inf", "1e9", "soon"] {
            assert!(seconds(text).is_err(), "{text} was accepted");
        }
    }
}
