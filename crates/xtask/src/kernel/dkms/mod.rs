//! `cargo xtask kernel dkms`: the Debian package that builds patched amdgpu and gpreempt.ko on a machine.
//!
//! The package has no file that is made on the way but the compiled core: everything else lies in the repository.
//! `kernel/dkms` has its scripts.

mod contents;
mod machine;
mod package;
#[cfg(test)]
mod scripts;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::fetch::{self, Fetched};
use super::{core_object, directory, lock};
use contents::Contents;

/// Builds the package; `full` installs it on a machine, and removes it.
///
/// # Errors
/// If something of it is missing, or not as it should be.
pub(super) fn dkms(full: bool) -> Result<()> {
    if full {
        return modules(&fetch::fetch(false)?).map(|_| ());
    }
    let directory = directory()?;
    let _lock = lock(&directory)?;
    package(&directory).map(|_| ())
}

/// Builds the package, has DKMS build its modules on a machine, and returns the patched `amdgpu.ko`.
///
/// # Errors
/// If the package cannot be built or installed.
pub(super) fn modules(fetched: &Fetched) -> Result<PathBuf> {
    let directory = directory()?;
    let _lock = lock(&directory)?;
    let (package, contents) = package(&directory)?;
    Ok(machine::install(&package, &contents, fetched, &directory.join("dkms"))?.join("amdgpu.ko"))
}

/// Builds the package twice, checks that both have the same bytes and hold what they should.
fn package(directory: &Path) -> Result<(PathBuf, Contents)> {
    let place = &directory.join("dkms");
    fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    let contents = Contents::with_core(&core_object::for_modules(directory)?)?;
    let built = package::build(&contents, place)?;
    let again = package::build(&contents, &place.join("again"))?;
    ensure!(fs::read(&built)? == fs::read(&again)?, "two builds of {} differ", built.display());
    fs::remove_dir_all(place.join("again"))?;
    package::check(&built, &contents, &place.join("unpacked"))?;
    let size = fs::metadata(&built)?.len();
    eprintln!("{}: {} files, {} kB", built.display(), contents.files.len(), size / 1000);
    Ok((built, contents))
}
