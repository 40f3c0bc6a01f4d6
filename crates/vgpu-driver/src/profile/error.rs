//! What can be wrong with a profile, said to whoever wrote it.

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No built-in profile has this name, and it is no path.
    #[error("there is no profile `{name}`: use one of {known}, or the path of a TOML file")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read the profile {file}; check the path and its permissions")]
    Read {
        /// The file.
        file: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not a profile.
    #[error("{file} is not a profile: {message}\nstart from the text of a built-in profile and change that")]
    Parse {
        /// The file.
        file: String,
        /// Where, which key, and what is wrong with it.
        message: String,
    },
    /// A value describes no machine.
    #[error("{file}: `{key}`: {problem}; {remedy}")]
    Invalid {
        /// The file.
        file: String,
        /// The key.
        key: &'static str,
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },
}

impl ProfileError {
    pub(super) fn invalid(file: &str, key: &'static str, problem: String, remedy: String) -> ProfileError {
        ProfileError::Invalid { file: file.to_owned(), key, problem, remedy }
    }
}
