//! Why a configuration is refused.

use toml_source::{InvalidDocument, ReadError};

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{file}: {error}{}", remedy(error))]
    Unreadable {
        /// The path as given.
        file: String,
        /// What is in the way.
        error: ReadError,
    },
    /// The file has mistakes: all of them, with their positions.
    #[error(transparent)]
    Invalid(#[from] InvalidDocument),
}

/// What to do about a file that cannot be read, where the error itself does not say it.
fn remedy(error: &ReadError) -> &'static str {
    match error {
        ReadError::NotFound => "; `gpreempt config init` prints one to start from",
        ReadError::TooLarge { .. } => "; is it a configuration at all?",
        _ => "",
    }
}
