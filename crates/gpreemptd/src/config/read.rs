//! The text of a file, or why there is none.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::{ConfigError, Position};

/// The largest file that is read.
const LARGEST: u64 = 1024 * 1024;

/// Reads a file of bounded size as text.
pub(super) fn file(path: &Path) -> Result<String, ConfigError> {
    let file = path.display().to_string();
    let unreadable = |reason: String| ConfigError::Unreadable { file: file.clone(), reason };
    let failed = |error: std::io::Error| unreadable(reason(&error));
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if metadata.is_dir() {
        return Err(unreadable("it is a directory; name the file in it".to_string()));
    }
    // Opening a pipe waits for a writer, and a device has no end.
    if !metadata.is_file() {
        return Err(unreadable("it is a device, a pipe or a socket; give a regular file".to_string()));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|opened| opened.take(LARGEST + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(unreadable(format!(
            "it is larger than {} KiB, the most that is read; is it a configuration at all?",
            LARGEST >> 10
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..good]).into_owned();
        let Position { line, column } = super::Problem::new(&before, &(good..good), String::new()).at;
        unreadable(format!("it is not UTF-8 text (line {line}, column {column}); save it as UTF-8"))
    })?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_string(),
        None => text,
    })
}

/// A failure of the system, with the remedy where there is one.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file; `gpreempt config init` prints one to start from".to_string(),
        ErrorKind::PermissionDenied => "this user may not read it; change its permissions or run as root".to_string(),
        _ => format!("it cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &Path) -> String {
        let error = file(path).expect_err("not readable").to_string();
        error.replace(&path.display().to_string(), "FILE")
    }

    #[test]
    fn what_is_no_text_file_is_named_for_what_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("gpreempt.toml");
        assert_eq!(said(&path), "FILE: there is no such file; `gpreempt config init` prints one to start from");
        assert_eq!(said(directory.path()), "FILE: it is a directory; name the file in it");
        assert_eq!(said(Path::new("/dev/zero")), "FILE: it is a device, a pipe or a socket; give a regular file");
        std::fs::write(&path, b"mode = \"observe\"\nx = \xff").expect("written");
        assert_eq!(said(&path), "FILE: it is not UTF-8 text (line 2, column 5); save it as UTF-8");
        File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
        assert!(said(&path).starts_with("FILE: it is larger than 1024 KiB"));
    }
}
