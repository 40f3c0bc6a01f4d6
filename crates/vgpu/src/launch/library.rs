//! Finding the preload library that belongs to this executable.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Tells this build of the virtual GPU from others.
pub const BUILD_ID: &str = env!("VGPU_BUILD_ID");

/// Stands in the library, followed by the build id, where the launcher can find it.
pub const MARK: &[u8] = concat!("gpreempt-vgpu-build-id:", env!("VGPU_BUILD_ID")).as_bytes();

const MARK_PREFIX: &[u8] = b"gpreempt-vgpu-build-id:";
const FILE_NAME: &str = "libvgpu_preload.so";
const VARIABLE: &str = "GPREEMPT_VGPU_LIB";

/// Why there is no library.
#[derive(Debug, Error)]
pub enum LibraryError {
    /// None of the places has it.
    #[error(
        "cannot find {FILE_NAME}, the library that puts the virtual gpu under a program; looked at {}; build it with \
         `cargo build --release -p vgpu-preload` or name it in {VARIABLE}",
        list(.0)
    )]
    Missing(Vec<PathBuf>),
    /// Only libraries of other builds.
    #[error(
        "{} belongs to another build of the virtual gpu (this executable is build {BUILD_ID}); build both together with \
         `cargo build --release`, or name the right one in {VARIABLE}",
        list(.0)
    )]
    Stale(Vec<PathBuf>),
    /// The variable names something that is not the library.
    #[error("{VARIABLE} names {0}, which {1}")]
    Named(PathBuf, String),
    /// Where is this executable?
    #[error("cannot tell where this executable is: {0}")]
    Executable(std::io::Error),
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

enum Build {
    Ours,
    Other,
    Unreadable(String),
}

fn build_of(path: &Path) -> Build {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return Build::Unreadable(format!("cannot be read: {error}")),
    };
    // The library also holds this very code, and with it the prefix without an id after it.
    let ids = || bytes.windows(MARK.len()).filter(|window| window.starts_with(MARK_PREFIX));
    if ids().any(|window| window == MARK) {
        Build::Ours
    } else if ids().next().is_some() {
        Build::Other
    } else {
        Build::Unreadable("is not the virtual gpu's library".into())
    }
}

/// The library: what the variable names, else beside the executable (cargo's `deps` first), else where packages put it.
///
/// # Errors
/// With what was looked at and what to do.
pub fn find() -> Result<PathBuf, LibraryError> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        let named = PathBuf::from(named);
        return match build_of(&named) {
            Build::Ours => Ok(named),
            Build::Other => Err(LibraryError::Stale(vec![named])),
            Build::Unreadable(why) => Err(LibraryError::Named(named, why)),
        };
    }
    let executable = std::env::current_exe().map_err(LibraryError::Executable)?;
    find_beside(&executable)
}

fn find_beside(executable: &Path) -> Result<PathBuf, LibraryError> {
    let directory = executable.parent().unwrap_or(Path::new("/"));
    let places = ["deps", "", "../lib/gpreempt"].map(|place| directory.join(place).join(FILE_NAME));
    let mut stale = Vec::new();
    for place in &places {
        match build_of(place) {
            Build::Ours => return place.canonicalize().map_err(LibraryError::Executable),
            Build::Other => stale.push(place.clone()),
            Build::Unreadable(_) => {}
        }
    }
    Err(if stale.is_empty() { LibraryError::Missing(places.to_vec()) } else { LibraryError::Stale(stale) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(directory: &Path, name: &str, bytes: &[u8]) {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("can be made");
        std::fs::write(path, bytes).expect("can be written");
    }

    #[test]
    fn a_library_of_another_build_is_passed_over_and_named_if_it_is_the_only_one() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let executable = directory.path().join("bin/gpreempt");
        std::fs::create_dir_all(directory.path().join("bin")).expect("can be made");
        assert!(matches!(find_beside(&executable), Err(LibraryError::Missing(_))));
        let other = [MARK_PREFIX, b"0123456789abcdef"].concat();
        place(directory.path(), "bin/deps/libvgpu_preload.so", &other);
        let error = find_beside(&executable).expect_err("stale").to_string();
        assert!(error.contains("another build") && error.contains("bin/deps"), "{error}");
        place(directory.path(), "lib/gpreempt/libvgpu_preload.so", &[b"xx", MARK].concat());
        let found = find_beside(&executable).expect("there is one");
        assert!(found.ends_with("lib/gpreempt/libvgpu_preload.so"), "{found:?}");
    }
}
