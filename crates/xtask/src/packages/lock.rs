//! The lock report of a directory of packages: what was unpacked, in which version, with which hash, from where.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::run::command;

/// File name of the report, in a directory of unpacked packages and in a store.
pub(crate) const LOCK: &str = "packages.lock";

/// What was taken of one package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Locked {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) sha256: String,
    /// The suite of Debian whose signed index has this hash, or `PyPI`; `-` for a file of a store that says nothing.
    pub(crate) origin: String,
}

/// All packages of a directory, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lock(Vec<Locked>);

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# What was unpacked here: package, version, SHA-256, origin.")?;
        for Locked { name, version, sha256, origin } in &self.0 {
            writeln!(f, "{name} {version} {sha256} {origin}")?;
        }
        Ok(())
    }
}

impl Lock {
    pub(crate) fn new(mut packages: Vec<Locked>) -> Lock {
        packages.sort_by(|one, other| one.name.cmp(&other.name));
        Lock(packages)
    }

    /// Adds the packages of another report.
    pub(crate) fn extend(&mut self, other: Lock) {
        self.0.extend(other.0);
        self.0.sort_by(|one, other| one.name.cmp(&other.name));
    }

    /// Returns the names of all packages.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|package| package.name.as_str())
    }

    /// Reads a report.
    pub(crate) fn parse(text: &str) -> Result<Lock> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let packages = lines.map(|line| {
            let [name, version, sha256, origin] = line
                .split_whitespace()
                .collect::<Vec<_>>()
                .try_into()
                .ok()
                .with_context(|| format!("`{line}` is not package, version, hash and origin"))?;
            Ok(Locked {
                name: str::to_owned(name),
                version: str::to_owned(version),
                sha256: str::to_owned(sha256),
                origin: str::to_owned(origin),
            })
        });
        Ok(Lock::new(packages.collect::<Result<_>>()?))
    }

    /// Returns a package.
    pub(crate) fn get(&self, name: &str) -> Option<&Locked> {
        self.0.iter().find(|package| package.name == name)
    }

    /// Returns those of the names that are not in it.
    pub(crate) fn lacks<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
        names.filter(|name| self.get(name).is_none()).collect()
    }

    /// Fails if a file is not what the report says it is.
    pub(crate) fn verify(&self, files: &Lock) -> Result<()> {
        for file in &files.0 {
            let expected = self.get(&file.name).with_context(|| format!("{LOCK} does not name {}", file.name))?;
            ensure!(
                expected.version == file.version && expected.sha256 == file.sha256,
                "{} {} has the SHA-256 {}; {LOCK} has {} with {}",
                file.name,
                file.version,
                file.sha256,
                expected.version,
                expected.sha256
            );
        }
        Ok(())
    }
}

/// Hashes package files. `origin` says where the package of a file, a name and a version comes from, and which hash an
/// index has for it.
///
/// # Errors
/// If a file cannot be read, or is not what the index says.
pub(crate) fn lock_files(files: &[PathBuf], origin: impl Fn(&Path, &str, &str) -> Result<Origin>) -> Result<Lock> {
    let mut sums = sha256(files)?;
    let mut packages = Vec::new();
    for file in files {
        let (name, version) = name_and_version(file)?;
        let sha256 = sums.remove(file).with_context(|| format!("sha256sum left out {}", file.display()))?;
        let Origin { origin, expected } = origin(file, &name, &version)?;
        ensure!(
            expected.is_none_or(|expected| expected == sha256),
            "{} is not what the signed index of {origin} says",
            file.display()
        );
        packages.push(Locked { name, version, sha256, origin });
    }
    Ok(Lock::new(packages))
}

/// Where a package comes from.
pub(crate) struct Origin {
    pub(crate) origin: String,
    /// The hash in the index.
    pub(crate) expected: Option<String>,
}

/// Reads name and version from the name of a package file: `NAME_VERSION_ARCHITECTURE.deb` or a wheel's
/// `NAME-VERSION-TAGS.whl`.
pub(crate) fn name_and_version(file: &Path) -> Result<(String, String)> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let parts = match name.strip_suffix(".whl") {
        Some(wheel) => wheel.split_once('-').and_then(|(name, rest)| Some((name, rest.split('-').next()?))),
        None => name.split_once('_').and_then(|(name, rest)| Some((name, rest.split('_').next()?))),
    };
    let (name, version) = parts.with_context(|| format!("{} names no version", file.display()))?;
    // apt escapes the colon after an epoch; wheels have underscores where PyPI has dashes.
    let name = if file.extension().is_some_and(|extension| extension == "whl") {
        name.replace('_', "-")
    } else {
        name.to_owned()
    };
    Ok((name, version.replace("%3a", ":")))
}

fn sha256(files: &[PathBuf]) -> Result<BTreeMap<PathBuf, String>> {
    // Without a file, sha256sum would read the standard input.
    if files.is_empty() {
        return Ok(BTreeMap::new());
    }
    let output = command("sha256sum").arg("--").args(files).output().context("cannot start sha256sum")?;
    ensure!(output.status.success(), "sha256sum: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.split_once("  ")).map(|(sum, file)| (file.into(), sum.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked(name: &str, version: &str, sha256: &str) -> Locked {
        Locked { name: name.into(), version: version.into(), sha256: sha256.into(), origin: "sid".into() }
    }

    #[test]
    fn a_report_can_be_read_again() {
        let lock = Lock::new(vec![locked("zlib1g", "1:1.3", "ab"), locked("libc6", "2.43-7", "cd")]);
        assert_eq!(Lock::parse(&lock.to_string()).unwrap(), lock);
        assert_eq!(lock.get("zlib1g").unwrap().version, "1:1.3");
        assert!(Lock::parse("libc6 2.43\n").is_err());
    }

    #[test]
    fn what_is_missing_is_named() {
        let lock = Lock::new(vec![locked("libc6", "2.43-7", "cd")]);
        assert_eq!(lock.lacks(["libc6", "librocrand1-tests"].into_iter()), ["librocrand1-tests"]);
    }

    #[test]
    fn names_and_versions_are_read_from_package_files() {
        let read = |name: &str| name_and_version(Path::new(name)).unwrap();
        assert_eq!(read("/a/zlib1g_1%3a1.3.dfsg-4_amd64.deb"), ("zlib1g".into(), "1:1.3.dfsg-4".into()));
        assert_eq!(read("ml_dtypes-0.6.0-cp314-cp314-linux.whl"), ("ml-dtypes".into(), "0.6.0".into()));
        assert!(name_and_version(Path::new("notes.deb")).is_err());
    }

    #[test]
    fn a_file_that_was_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libc6_2.43-7_amd64.deb");
        std::fs::write(&file, "contents").unwrap();
        let index = |expected: Option<&str>| {
            let expected = expected.map(str::to_owned);
            lock_files(std::slice::from_ref(&file), move |_, _, _| {
                Ok(Origin { origin: "sid".into(), expected: expected.clone() })
            })
        };
        let lock = index(None).unwrap();
        let sum = lock.get("libc6").unwrap().sha256.clone();
        assert_eq!(index(Some(&sum)).unwrap(), lock);
        let error = index(Some("00")).unwrap_err().to_string();
        assert!(error.contains("signed index of sid"), "{error}");
        std::fs::write(&file, "others").unwrap();
        let error = lock.verify(&index(None).unwrap()).unwrap_err().to_string();
        assert!(error.contains(&sum) && error.contains("libc6 2.43-7"), "{error}");
    }
}
