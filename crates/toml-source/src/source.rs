//! The text of a file, or the reason why there is none.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::Position;

/// A text and its name in messages.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
}

/// What [`Source::read`] accepts.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Largest file, in bytes.
    pub max_bytes: u64,
    /// Refuse devices, pipes and sockets: opening a pipe waits for a writer.
    pub regular_only: bool,
}

/// Why a file has no usable text. Messages continue "FILE: ".
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No file has this path.
    #[error("there is no such file")]
    NotFound,
    /// The permissions of the file or of a directory on the way refuse this user.
    #[error("this user may not read it; change its permissions or run as root")]
    PermissionDenied,
    /// The path names a directory.
    #[error("it is a directory; name the file in it")]
    Directory,
    /// The path names something that may have no end.
    #[error("it is a device, a pipe or a socket; give a regular file")]
    NotRegular,
    /// The file is larger than [`ReadLimits::max_bytes`].
    #[error("it is larger than {} MiB, the most that is read", .limit >> 20)]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Some bytes are no UTF-8.
    #[error("it is not UTF-8 text (line {}, column {}); save it as UTF-8", .0.line, .0.column)]
    NotUtf8(Position),
    /// The system failed otherwise.
    #[error("it cannot be read: {0}")]
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => ReadError::NotFound,
            ErrorKind::PermissionDenied => ReadError::PermissionDenied,
            _ => ReadError::Io(error),
        }
    }
}

impl Source {
    /// Makes a source of a text. A byte order mark is dropped.
    #[must_use]
    pub fn new(name: &str, text: &str) -> Source {
        Source { name: name.to_owned(), text: text.strip_prefix('\u{feff}').unwrap_or(text).to_owned() }
    }

    /// Reads a file as UTF-8 text. The path is its name in messages.
    ///
    /// # Errors
    /// If the file cannot be read, is beyond the limits or is no UTF-8 text.
    pub fn read(path: &Path, limits: ReadLimits) -> Result<Source, ReadError> {
        let metadata = std::fs::metadata(path)?;
        if metadata.is_dir() {
            return Err(ReadError::Directory);
        }
        if limits.regular_only && !metadata.is_file() {
            return Err(ReadError::NotRegular);
        }
        let mut bytes = Vec::new();
        // Read through a limit and not by the size that the file claims: pipes and devices claim none.
        File::open(path)?.take(limits.max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limits.max_bytes {
            return Err(ReadError::TooLarge { limit: limits.max_bytes });
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(&error.as_bytes()[..valid]);
            ReadError::NotUtf8(Position::of(&before, valid))
        })?;
        Ok(Source::new(&path.display().to_string(), &text))
    }

    /// The name in messages: the path as given, or what [`Source::new`] was told.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The contents, without a byte order mark.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ReadLimits = ReadLimits { max_bytes: 1 << 20, regular_only: true };

    fn message(path: &Path) -> String {
        Source::read(path, LIMITS).expect_err("is not readable").to_string()
    }

    #[test]
    fn what_is_no_text_file_is_named_for_what_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.toml");
        assert_eq!(message(&path), "there is no such file");
        assert_eq!(message(directory.path()), "it is a directory; name the file in it");
        assert_eq!(message(Path::new("/dev/zero")), "it is a device, a pipe or a socket; give a regular file");
        std::fs::write(&path, b"mode = \"observe\"\nx = \xff").expect("is written");
        assert_eq!(message(&path), "it is not UTF-8 text (line 2, column 5); save it as UTF-8");
        File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
        assert_eq!(message(&path), "it is larger than 1 MiB, the most that is read");
    }

    #[test]
    fn devices_are_read_up_to_the_limit_where_they_are_allowed() {
        let limits = ReadLimits { regular_only: false, ..LIMITS };
        assert!(matches!(Source::read(Path::new("/dev/zero"), limits), Err(ReadError::TooLarge { .. })));
        assert_eq!(Source::read(Path::new("/dev/null"), limits).expect("is empty").text(), "");
    }

    #[test]
    fn a_byte_order_mark_is_dropped() {
        assert_eq!(Source::new("x", "\u{feff}a = 1").text(), "a = 1");
    }
}
