//! Reading profiles and workloads.
//!
//! Every mistake is reported with file, line and column, its key, what was found and what is expected. No file can make
//! the laboratory panic, and the size of a file is limited because it is read whole.

mod json;

use std::ops::RangeInclusive;
use std::path::Path;

use gpreempt_core::Nanos;
use toml_source::{Field, InvalidDocument, ReadError, ReadLimits, Source};

pub(crate) use self::json::JsonDocument;

/// Largest file that is read.
pub const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Pipes are allowed, so that a shell can generate a workload.
const LIMITS: ReadLimits = ReadLimits { max_bytes: MAX_FILE_BYTES, regular_only: false };

/// Why a profile or a workload cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Neither a built-in nor a file has this name.
    #[error("no {kind} `{name}`: {reason}; the built-in ones are {}", known.join(", "))]
    NotFound {
        /// "workload", "profile", ...
        kind: &'static str,
        /// The name as given.
        name: String,
        /// Why the search failed.
        reason: String,
        /// Names of the built-in ones.
        known: Vec<&'static str>,
    },
    /// The file cannot be read.
    #[error("cannot read {kind} `{file}`: {error}")]
    Unreadable {
        /// "workload", "profile", ...
        kind: &'static str,
        /// The path as given.
        file: String,
        /// What is in the way.
        error: ReadError,
    },
    /// The file has mistakes: all of them, with their positions.
    #[error(transparent)]
    Invalid(#[from] InvalidDocument),
    /// A compute unit of the profile cannot hold a workgroup of some kernels.
    #[error("{}", reasons.iter().map(|reason| format!("{workload}: {reason}")).collect::<Vec<_>>().join("\n"))]
    DoesNotFit {
        /// Name of the workload.
        workload: String,
        /// Task, kernel and what is lacking; at least one.
        reasons: Vec<String>,
    },
}

/// A profile or workload that ships with the laboratory.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// The name options take.
    pub name: &'static str,
    /// The file, to copy and edit.
    pub text: &'static str,
}

impl Builtin {
    /// Returns its text under the name that messages use.
    pub(crate) fn source(&self) -> Source {
        Source::new(&format!("{} (built-in)", self.name), self.text)
    }
}

/// Finds what an option named: a built-in first, else a file. `./NAME` is the file when both exist.
pub(crate) fn open(kind: &'static str, name: &str, builtins: &[Builtin]) -> Result<Source, InputError> {
    if let Some(builtin) = builtins.iter().find(|builtin| builtin.name == name) {
        return Ok(builtin.source());
    }
    if !Path::new(name).exists() {
        return Err(InputError::NotFound {
            kind,
            name: name.to_string(),
            reason: "there is no such file and no built-in of that name".to_string(),
            known: builtins.iter().map(|builtin| builtin.name).collect(),
        });
    }
    let unreadable = |error| InputError::Unreadable { kind, file: name.to_string(), error };
    Source::read(Path::new(name), LIMITS).map_err(unreadable)
}

/// Reads a time in the unit that the key ends with; zero if it is absent or wrong.
pub(crate) fn time(field: Field<'_, '_>, range: RangeInclusive<f64>) -> Nanos {
    field.duration(range).map_or(Nanos::ZERO, Nanos::from)
}

/// Returns the time between two arrivals at a rate per second.
pub(crate) fn interval(rate: f64) -> Nanos {
    nanos(1.0 / rate, 1e9)
}

/// Rounds a number of `unit` nanoseconds. The cast saturates, so no number can wrap.
fn nanos(value: f64, unit: f64) -> Nanos {
    Nanos((value * unit).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_becomes_the_time_between_arrivals() {
        assert_eq!(interval(100.0), Nanos::from_millis(10));
    }
}
