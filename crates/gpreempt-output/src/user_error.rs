//! Errors that the user can correct: wrong usage and wrong input. The command ends with code 2 for these, 1 for all
//! others.

use std::error::Error;
use std::fmt;

/// Marks an error as wrong usage or wrong input. Reads like the error itself.
///
/// Made where the error arises, because only there it is known that the user's input is the cause; `main` looks for
/// nothing else.
#[derive(Debug)]
pub struct UserError(anyhow::Error);

impl UserError {
    /// Marks an error.
    pub fn new(error: impl Into<anyhow::Error>) -> UserError {
        UserError(error.into())
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for UserError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Marks the error of a result as the user's to correct.
pub trait BlameUser<T> {
    /// Marks the error, if there is one.
    ///
    /// # Errors
    ///
    /// As before, as a [`UserError`].
    fn blame_user(self) -> Result<T, UserError>;
}

impl<T, E: Into<anyhow::Error>> BlameUser<T> for Result<T, E> {
    fn blame_user(self) -> Result<T, UserError> {
        self.map_err(UserError::new)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_marked_error_reads_as_before_and_is_found_below_context() {
        let plain = || Err::<(), _>(std::io::Error::other("no such file")).context("cannot read gpu.toml");
        let marked: anyhow::Error = plain().blame_user().unwrap_err().into();
        assert_eq!(format!("{marked:#}"), format!("{:#}", plain().unwrap_err()));
        assert!(marked.is::<UserError>() && marked.context("demo").is::<UserError>());
        assert!(!plain().unwrap_err().is::<UserError>());
    }
}
