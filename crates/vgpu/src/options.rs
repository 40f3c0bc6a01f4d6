//! Options of a virtual gpu beside its profile and its kernel: injected faults.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
pub use vgpu_driver::Mutant;

/// How long the real driver waits for a preemption before it considers the gpu hung.
pub const DEFAULT_PREEMPTION_TIMEOUT_MS: u32 = 9000;

/// Preemption by the device itself, at random instruction counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storm {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Instructions that a workgroup executes between two preemptions, on average.
    pub mean_instructions: u64,
}

/// Reasons for which a text describes no storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected SEED:MEAN, two whole numbers, the second at least 1; for example 7:500")]
pub struct StormError;

impl FromStr for Storm {
    type Err = StormError;

    fn from_str(text: &str) -> Result<Self, StormError> {
        let (seed, mean) = text.split_once(':').ok_or(StormError)?;
        let seed = seed.parse().map_err(|_| StormError)?;
        match mean.parse() {
            Ok(mean_instructions) if mean_instructions > 0 => Ok(Storm { seed, mean_instructions }),
            _ => Err(StormError),
        }
    }
}

/// Options of a virtual gpu at its start, beside its profile and its kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Preemption at random instruction counts.
    pub storm: Option<Storm>,
    /// How long the driver waits for queues to leave the device.
    pub preemption_timeout_ms: u32,
    /// The device does not answer the driver in this cycle, counted from 1 over all gpus, or in the next one that finds
    /// a process on its gpu.
    pub hang_at_cycle: Option<u64>,
    /// How long a process samples program counters after each stop of its queues by a debugger, in milliseconds; the
    /// driver of a kernel that excludes debugging meanwhile answers EBUSY.
    pub sampling_after_stop_ms: Option<u32>,
    /// What is broken in the driver on purpose.
    pub mutant: Option<Mutant>,
    /// Path of a page of [kill points](crate::kill_points).
    pub points: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            storm: None,
            preemption_timeout_ms: DEFAULT_PREEMPTION_TIMEOUT_MS,
            hang_at_cycle: None,
            sampling_after_stop_ms: None,
            mutant: None,
            points: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_a_seed_and_a_mean() {
        assert_eq!("7:500".parse(), Ok(Storm { seed: 7, mean_instructions: 500 }));
        for text in ["", "7", "7:", ":5", "7:0", "7:-1", "a:b", "7:5:3"] {
            assert_eq!(text.parse::<Storm>(), Err(StormError), "{text}");
        }
    }

    #[test]
    fn what_an_options_text_leaves_out_has_its_default() {
        let options: Options = serde_json::from_str(r#"{ "hang_at_cycle": 3 }"#).expect("options");
        assert_eq!(options, Options { hang_at_cycle: Some(3), ..Options::default() });
    }
}
