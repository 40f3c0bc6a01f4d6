//! The package file: the same contents give the same bytes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::contents::{Contents, PackedFile, VERSION};
use crate::kernel::tree::files_below;
use crate::packages::run;
use crate::run::command;

/// Writes the package into a directory.
///
/// # Errors
/// If dpkg-deb fails.
pub(super) fn build(contents: &Contents, directory: &Path) -> Result<PathBuf> {
    let stage = directory.join("stage");
    remove(&stage)?;
    for (path, file) in &contents.files {
        write(&stage.join(path), file)?;
    }
    set_directory_modes(&stage)?;
    let package = directory.join(format!("gpreempt-dkms_{VERSION}_all.deb"));
    let mut dpkg = command("dpkg-deb");
    dpkg.args(["--root-owner-group", "-Zxz", "--build"]).arg(&stage).arg(&package);
    // Times are cut to this one. Blocks of a compressor with threads depend on the machine.
    dpkg.env("SOURCE_DATE_EPOCH", time()?).env("DPKG_DEB_THREADS_MAX", "1");
    run(&mut dpkg).context("cannot build the package")?;
    remove(&stage)?;
    Ok(package)
}

/// Unpacks the package and compares what it holds: names, bytes and modes.
///
/// # Errors
/// If something is missing, different, or more than expected.
pub(super) fn check(package: &Path, contents: &Contents, directory: &Path) -> Result<()> {
    remove(directory)?;
    run(command("dpkg-deb").arg("-R").arg(package).arg(directory))?;
    let expected: BTreeSet<PathBuf> = contents.files.keys().cloned().collect();
    let found = files_below(directory)?;
    let difference: Vec<String> =
        expected.symmetric_difference(&found).map(|path| path.display().to_string()).collect();
    ensure!(difference.is_empty(), "{} does not hold what it should: {}", package.display(), difference.join(", "));
    for (path, file) in &contents.files {
        let unpacked = directory.join(path);
        ensure!(fs::read(&unpacked)? == file.content, "{} is not what was packed", path.display());
        let mode = fs::metadata(&unpacked)?.permissions().mode() & 0o777;
        ensure!(mode == mode_of(file), "{} has the mode {mode:o}", path.display());
    }
    remove(directory)
}

/// The time that all files of the package have at most: of the last commit, unless the caller names one.
fn time() -> Result<String> {
    if let Ok(time) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(time);
    }
    let output = command("git").args(["log", "-1", "--format=%ct"]).output().context("cannot start git")?;
    ensure!(output.status.success(), "git does not know the last commit; name a time in SOURCE_DATE_EPOCH");
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn mode_of(file: &PackedFile) -> u32 {
    if file.executable { 0o755 } else { 0o644 }
}

fn write(path: &Path, file: &PackedFile) -> Result<()> {
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        fs::write(path, &file.content)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode_of(file)))
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Gives all directories one mode, whatever the caller's umask is.
fn set_directory_modes(directory: &Path) -> Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            set_directory_modes(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a directory if it is there.
fn remove(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Contents {
        let mut contents = Contents::default();
        let control = "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: y\nDescription: z\n";
        contents.add("DEBIAN/control".into(), false, control.into());
        contents.add("usr/lib/x/run".into(), true, b"#!/bin/sh\n".to_vec());
        contents
    }

    #[test]
    fn two_builds_have_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| build(&small(), &folder.path().join(name)).unwrap());
        assert_eq!(fs::read(one).unwrap(), fs::read(two).unwrap());
    }

    #[test]
    fn a_package_that_lacks_a_file_or_has_another_one_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let package = build(&small(), folder.path()).unwrap();
        let place = folder.path().join("unpacked");
        check(&package, &small(), &place).unwrap();
        let mut more = small();
        more.add("usr/lib/x/missing".into(), false, Vec::new());
        let error = check(&package, &more, &place).unwrap_err().to_string();
        assert!(error.contains("usr/lib/x/missing"), "{error}");
        let mut other = small();
        other.add("usr/lib/x/run".into(), true, b"#!/bin/dash\n".to_vec());
        let error = check(&package, &other, &place).unwrap_err().to_string();
        assert!(error.contains("not what was packed"), "{error}");
    }
}
