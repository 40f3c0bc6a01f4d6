//! Flags of `gpreempt soak`.

use clap::Args;

/// Flags of `gpreempt soak`.
#[derive(Args)]
pub struct SoakArgs {
    /// Duration in minutes, 0.1 to 10000.
    ///
    /// The required numbers of stops and kills are those of two minutes; a longer soak finds rarer faults.
    #[arg(long, value_name = "M", default_value_t = 2.0, value_parser = minutes)]
    pub minutes: f64,

    /// Seed of all random choices. The course of events also depends on the machine.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Run although other processes use the gpu. They are disturbed, and so is the soak.
    #[arg(long)]
    pub yes: bool,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.1..=10_000.0).contains(&minutes) => Ok(minutes),
        _ => Err("minutes are a number from 0.1 to 10000".to_owned()),
    }
}
