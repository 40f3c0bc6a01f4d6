//! Flags of `gpreempt conformance`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use kfd_conformance::DriverRule;

#[derive(Args)]
pub(crate) struct Conformance {
    /// Only these rules. May be repeated.
    #[arg(long = "rule", value_name = "ID", value_parser = rule_by_id(), hide_possible_values = true)]
    pub(crate) rules: Vec<&'static DriverRule>,

    /// List the rules with their sources and test nothing.
    #[arg(long)]
    pub(crate) list: bool,

    /// Test although other processes have queues on the gpu. Each test stops their work for moments.
    #[arg(long)]
    pub(crate) beside_others: bool,

    /// Write a report with rules, versions and measurements to this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "list")]
    pub(crate) report: Option<PathBuf>,

    /// Write what the driver answered, call by call, to this file: without addresses, pids and times, to be compared
    /// with that of another driver.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "list")]
    pub(crate) transcript: Option<PathBuf>,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Takes the ids of all rules, which completion offers, too.
fn rule_by_id() -> impl TypedValueParser<Value = &'static DriverRule> {
    let id = |rule: &'static DriverRule| PossibleValue::new(rule.id).help(rule.about);
    PossibleValuesParser::new(kfd_conformance::all().map(id))
        .try_map(|id| kfd_conformance::find(&id).ok_or("there is no such rule"))
}
