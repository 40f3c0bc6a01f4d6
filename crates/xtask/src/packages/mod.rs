//! Packages beside the system: downloaded, compared with the hashes of signed indexes, kept in a store, and unpacked
//! into directories of ours. Nothing is installed.
//!
//! Versions are resolved when packages are fetched; `packages.lock` lists what came. `$GPREEMPT_DEBS` names a store:
//! `DIRECTORY/NAME` is used if it is complete, and filled if it is not, because archives drop old versions.

mod apt;
mod lock;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};

pub(crate) use apt::{PrivateApt, Sources};
pub(crate) use lock::{LOCK, Lock, Origin, lock_files, name_and_version};

/// The directory of a store that `$GPREEMPT_DEBS` names.
pub(crate) struct Store(PathBuf);

impl Store {
    /// Returns the part of the store that has this name; `None` if no store is named.
    pub(crate) fn named(name: &str) -> Option<Store> {
        env::var_os("GPREEMPT_DEBS").map(|store| Store(PathBuf::from(store).join(name)))
    }

    /// Returns the files of the store if it has all that is wanted. `lacks` returns the names of what is missing.
    ///
    /// # Errors
    /// If a file of it is not what its lock report says.
    pub(crate) fn files(&self, lacks: impl Fn(&Lock) -> Vec<String>) -> Result<Option<(Vec<PathBuf>, Lock)>> {
        let Store(store) = self;
        let files: Vec<PathBuf> = ["deb", "whl"].into_iter().flat_map(|kind| files_in(store, kind)).collect();
        if files.is_empty() {
            return Ok(None);
        }
        let lock = match fs::read_to_string(store.join(LOCK)) {
            Ok(text) => Some(Lock::parse(&text).with_context(|| format!("{}/{LOCK}", store.display()))?),
            Err(_) => None,
        };
        let origin = |name: &str| lock.as_ref().and_then(|lock| lock.get(name)).map_or("-", |locked| &locked.origin);
        let found = lock_files(&files, |_, name, _| Ok(Origin { origin: origin(name).to_owned(), expected: None }))?;
        let missing = lacks(&found);
        if !missing.is_empty() {
            eprintln!("note: {} lacks {}; everything is fetched again", store.display(), missing.join(", "));
            return Ok(None);
        }
        match &lock {
            Some(lock) => lock.verify(&found).with_context(|| format!("{} was changed", store.display()))?,
            None => eprintln!("note: {} has no {LOCK}: its packages are taken as they are", store.display()),
        }
        Ok(Some((files, found)))
    }

    /// Copies packages into the store, with their lock report, and removes other packages from it.
    pub(crate) fn fill(&self, files: &[PathBuf], lock: &Lock) -> Result<()> {
        let Store(store) = self;
        fs::create_dir_all(store).with_context(|| format!("cannot make {}", store.display()))?;
        for old in ["deb", "whl"].into_iter().flat_map(|kind| files_in(store, kind)) {
            fs::remove_file(&old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
        for file in files {
            fs::copy(file, store.join(file.file_name().unwrap_or_default()))
                .with_context(|| format!("cannot store {}", file.display()))?;
        }
        fs::write(store.join(LOCK), lock.to_string()).with_context(|| format!("cannot write to {}", store.display()))
    }
}

/// Hashes package files and compares them with the indexes that they were downloaded by.
///
/// # Errors
/// If a file is not what the index says.
pub(crate) fn lock_downloads(apt: &PrivateApt, files: &[PathBuf]) -> Result<Lock> {
    let names = files.iter().map(|file| Ok(name_and_version(file)?.0)).collect::<Result<Vec<_>>>()?;
    let index = apt.index(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    lock_files(files, |_, name, version| index.origin(name, version))
}

/// Gives `new` the name `directory`. What had it goes to `old`.
pub(crate) fn replace(directory: &Path, new: &Path, old: &Path) -> Result<()> {
    if directory.exists() {
        fs::rename(directory, old).with_context(|| format!("cannot replace {}", directory.display()))?;
    }
    fs::rename(new, directory).with_context(|| format!("cannot name it {}", directory.display()))
}

/// Returns the files in a directory whose names end so, in order.
pub(crate) fn files_in(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| has_extension(path, extension)).collect();
    files.sort();
    files
}

/// Returns whether the name of a file ends so.
pub(crate) fn has_extension(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|found| found == extension)
}

/// Runs a command; the error names it and repeats what it printed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{:?} ended with {}: {}", command.get_program(), output.status, said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_lacks_a_package_or_was_changed_is_not_used() {
        const WANTED: [&str; 2] = ["rocminfo", "libhsa-runtime64-1"];
        let folder = tempfile::tempdir().unwrap();
        let store = Store(folder.path().join("store"));
        let stored = || store.files(|lock| lock.lacks(WANTED.into_iter()).into_iter().map(str::to_owned).collect());
        let files: Vec<_> = WANTED.iter().map(|name| folder.path().join(format!("{name}_1_amd64.deb"))).collect();
        for file in &files {
            fs::write(file, "contents").unwrap();
        }
        assert!(stored().unwrap().is_none());
        let origin = |_: &Path, _: &str, _: &str| Ok(Origin { origin: "trixie".into(), expected: None });
        let lock = lock_files(&files, origin).unwrap();
        store.fill(&files, &lock).unwrap();
        let (found_files, found) = stored().unwrap().expect("complete");
        assert_eq!((found_files.len(), found), (files.len(), lock));
        fs::write(&found_files[0], "others").unwrap();
        assert!(stored().is_err());
        fs::remove_file(&found_files[0]).unwrap();
        assert!(stored().unwrap().is_none());
    }

    #[test]
    fn what_is_installed_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let [directory, new, old] = ["rocm", "new", "old"].map(|name| folder.path().join(name));
        fs::create_dir(&new).unwrap();
        replace(&directory, &new, &old).unwrap();
        fs::write(directory.join("file"), "").unwrap();
        fs::create_dir(&new).unwrap();
        replace(&directory, &new, &old).unwrap();
        assert!(!directory.join("file").exists() && old.join("file").exists());
    }
}
