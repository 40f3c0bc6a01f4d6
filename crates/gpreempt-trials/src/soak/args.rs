//! Flags of `gpreempt soak`.

use clap::Args;

/// Flags of `gpreempt soak`.
#[derive(Args)]
pub struct SoakArgs {
    /// How long to go on.
    ///
    /// Counts of stops and kills have to be reached in the first two minutes' worth of it; longer finds rarer faults.
    #[arg(long, value_name = "M", default_value_t = 2.0, value_parser = minutes)]
    pub minutes: f64,

    /// Seed of everything that is random. What happens also depends on the machine.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Run although others use the gpu. They will be disturbed, and so will the soak.
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
