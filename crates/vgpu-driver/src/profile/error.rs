//! Errors of profiles.

use toml_source::{InvalidDocument, ReadError};

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No built-in profile has this name, and it is no path.
    #[error("there is no profile `{name}`: use one of {known}, or the path of a TOML file")]
    Unknown {
        /// The name as given.
        name: String,
        /// Names of the built-in profiles.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read the profile {file}: {error}")]
    Unreadable {
        /// The path as given.
        file: String,
        /// What is in the way.
        error: ReadError,
    },
    /// The file has mistakes: all of them, with their positions.
    #[error("{0}\nstart from the text of a built-in profile and change that")]
    Invalid(#[from] InvalidDocument),
    /// An option asks for a machine that cannot exist.
    #[error("{profile}: {key}: {mismatch}")]
    Impossible {
        /// Name of the profile.
        profile: String,
        /// The key that the option changed.
        key: &'static str,
        /// What does not fit, and the remedy.
        mismatch: String,
    },
}
