//! Releases of ROCm beside the system: packages are unpacked into a directory of their own and run with their own
//! loader, so that a machine with another distribution can run real ROCm programs and nothing of it is changed.
//!
//! Versions are resolved when packages are fetched, with the hashes of the archive's signed index. `packages.txt` in
//! the directory lists what was unpacked. `$GPREEMPT_DEBS` names a store of packages: `DIRECTORY/NAME/*.deb` is used if
//! it is there, and filled if it is not, because Debian's experimental release rotates.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::run::{command, root};

/// A release of ROCm and the Debian packages that it consists of.
pub(crate) struct Release {
    /// Name of its directory below `target/`.
    name: &'static str,
    /// Environment variable that names another directory.
    variable: &'static str,
    /// Where the packages come from, for people.
    origin: &'static str,
    /// Debian releases.
    suites: &'static [&'static str],
    /// Packages, as apt patterns, that are taken from the last of them even if another one has them, too.
    pinned: &'static str,
    /// What is wanted; what it depends on comes with it.
    packages: &'static [&'static str],
    /// Packages that come without what they depend on: a dependency is no longer in the archive.
    alone: &'static [&'static str],
    /// Links to make: name, and what it refers to. They replace dependencies whose version has moved on.
    links: &'static [(&'static str, &'static str)],
    /// A package and the beginning of its version with which the tests were written.
    expected: (&'static str, &'static str),
}

/// Debian 13's: the first whose runtime speaks to the debug interface of the driver for gfx942.
pub(crate) static ROCM13: Release = Release {
    name: "rocm13",
    variable: "GPREEMPT_ROCM",
    origin: "Debian 13",
    suites: &["trixie"],
    pinned: "",
    packages: &["rocminfo", "libamdhip64-5", "libhsa-runtime64-1", "rocm-device-libs-17"],
    alone: &[],
    links: &[],
    expected: ("libhsa-runtime64-1", "6.1"),
};

/// Today's: runtime, debugger library, and AMD's own tests of the runtime.
pub(crate) static ROCM72: Release = Release {
    name: "rocm72",
    variable: "GPREEMPT_ROCM72",
    origin: "Debian unstable and experimental",
    suites: &["sid", "experimental"],
    pinned: "libhsa* libamd* librocm* rocm* amd-dbgapi*",
    packages: &[
        "rocminfo",
        "libamdhip64-7",
        "libhsa-runtime64-1",
        "librocm-dbgapi0",
        "amd-dbgapi-dev",
        "libamd-smi27",
        "libhwloc15",
        "libnuma1",
    ],
    // It wants libamd-smi26, which the archive has replaced.
    alone: &["libhsa-runtime64-tests"],
    links: &[("usr/lib/x86_64-linux-gnu/libamd_smi.so.26", "libamd_smi.so.27")],
    expected: ("libhsa-runtime64-1", "7.2"),
};

/// Signs the archive; comes with the package debian-archive-keyring.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Runs a program with the libraries of the directory it lies in.
const RUN: &str = r#"#!/bin/sh
# run PROGRAM ARGUMENTS: with the loader and the libraries of this directory, whatever the system has.
# A PROGRAM without a slash is one of this directory's own.
here=$(cd "$(dirname "$0")" && pwd) || exit
case $1 in
    '') echo "usage: $0 PROGRAM ARGUMENTS" >&2; exit 2 ;;
    */*) program=$1 ;;
    *) program=$here/usr/bin/$1 ;;
esac
shift
exec "$here/usr/lib64/ld-linux-x86-64.so.2" --library-path "$here/usr/lib/x86_64-linux-gnu" "$program" "$@"
"#;

impl Release {
    /// Where it lies: what its variable names, or a directory below `target/` of the workspace.
    pub(crate) fn directory(&self) -> PathBuf {
        env::var_os(self.variable).map_or_else(|| root().join("target").join(self.name), PathBuf::from)
    }

    /// Says where it comes from and where it goes.
    pub(crate) fn description(&self) -> String {
        format!("packages of {} into {}, unpacked there", self.origin, self.directory().display())
    }

    /// Says what is there, or what is missing.
    pub(crate) fn check(&self) -> Result<String> {
        let directory = self.directory();
        // The last file that is written.
        let run = directory.join("run");
        ensure!(run.is_file(), "there is no {}", run.display());
        let (package, _) = self.expected;
        let list = fs::read_to_string(directory.join(PACKAGES)).unwrap_or_default();
        let version = version_of(&list, package).map(|version| format!("{version} "));
        Ok(format!("{}in {}", version.unwrap_or_default(), directory.canonicalize()?.display()))
    }

    /// Downloads and unpacks it. What is there afterwards is complete: the directory gets its name last.
    pub(crate) fn install(&self) -> Result<()> {
        let directory = self.directory();
        let parent = directory.parent().context("the directory for ROCm has no parent")?;
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let work = parent.canonicalize()?.join(format!("{}.{}", self.name, std::process::id()));
        let result = self.unpack_all(&work).and_then(|unpacked| {
            fs::rename(&unpacked, &directory)
                .with_context(|| format!("cannot name it {}; remove what is there", directory.display()))
        });
        // Nothing of use is left in it, and nothing can be done if it stays.
        let _ = fs::remove_dir_all(&work);
        result
    }

    /// Fills `work` and returns the directory in it that holds the unpacked packages.
    fn unpack_all(&self, work: &Path) -> Result<PathBuf> {
        let store = env::var_os("GPREEMPT_DEBS").map(|store| PathBuf::from(store).join(self.name));
        let stored = store.as_deref().map(packages_in).unwrap_or_default();
        let packages = if stored.is_empty() { self.download(work)? } else { stored };
        if let Some(store) = store.filter(|store| packages_in(store).is_empty()) {
            fs::create_dir_all(&store).with_context(|| format!("cannot make {}", store.display()))?;
            for package in &packages {
                fs::copy(package, store.join(package.file_name().unwrap_or_default()))
                    .with_context(|| format!("cannot store {}", package.display()))?;
            }
        }
        let unpacked = work.join("unpacked");
        fs::create_dir_all(&unpacked)?;
        let mut list = String::new();
        for package in &packages {
            run(command("dpkg").arg("-x").arg(package).arg(&unpacked))?;
            list += &format!("{}\n", package.file_stem().unwrap_or_default().to_string_lossy());
        }
        for (name, target) in self.links {
            let name = unpacked.join(name);
            std::os::unix::fs::symlink(target, &name).with_context(|| format!("cannot make {}", name.display()))?;
        }
        self.compare_version(&list);
        fs::write(unpacked.join(PACKAGES), list)?;
        let script = unpacked.join("run");
        fs::write(&script, RUN)?;
        run(command("chmod").arg("755").arg(&script))?;
        Ok(unpacked)
    }

    /// Downloads the packages and returns their files.
    fn download(&self, work: &Path) -> Result<Vec<PathBuf>> {
        let private = PrivateApt::new(work, self)?;
        private.apt_get(&["update"])?;
        let mut words = vec!["install", "--download-only", "--no-install-recommends", "-y"];
        words.extend(self.packages);
        private.apt_get(&words)?;
        let archives = work.join("cache/archives");
        for package in self.alone {
            run(private.command().current_dir(&archives).args(["download", package]))?;
        }
        let packages = packages_in(&archives);
        let wanted = self.packages.len() + self.alone.len();
        ensure!(packages.len() >= wanted, "only {} packages were downloaded", packages.len());
        Ok(packages)
    }

    /// Says if the archive has moved on since the tests were written.
    fn compare_version(&self, list: &str) {
        let (package, expected) = self.expected;
        match version_of(list, package) {
            Some(version) if version.starts_with(expected) => {}
            Some(version) => println!("note: {package} is {version}; the tests were written with {expected}"),
            None => println!("note: {package} is not among the packages of {}", self.name),
        }
    }
}

/// List of the unpacked packages, in the directory of a release.
const PACKAGES: &str = "packages.txt";

/// Returns the Debian packages in a directory, in order.
fn packages_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut packages: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "deb")).collect();
    packages.sort();
    packages
}

/// Returns the version of a package in a list of file names, `NAME_VERSION_ARCHITECTURE` each.
fn version_of<'l>(list: &'l str, package: &str) -> Option<&'l str> {
    list.lines().find_map(|line| line.strip_prefix(package)?.strip_prefix('_')?.split('_').next())
}

/// An apt that has its own lists, cache and state, and believes that nothing is installed.
struct PrivateApt {
    options: Vec<String>,
}

impl PrivateApt {
    fn new(work: &Path, release: &Release) -> Result<PrivateApt> {
        for part in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(work.join(part)).with_context(|| format!("cannot make {part}"))?;
        }
        let status = work.join("status");
        fs::write(&status, "")?;
        let sources = work.join("sources.list");
        let archives = query_archives()?;
        let address = archive(&archives)?;
        let line = |suite: &&str| format!("deb [signed-by={KEYRING} arch=amd64] {address} {suite} main\n");
        fs::write(&sources, release.suites.iter().map(line).collect::<String>())?;
        let preferences = work.join("preferences");
        fs::write(&preferences, pin(release))?;
        let options = vec![
            format!("Dir::State={}", work.join("state").display()),
            format!("Dir::State::status={}", status.display()),
            format!("Dir::Cache={}", work.join("cache").display()),
            format!("Dir::Etc::sourcelist={}", sources.display()),
            "Dir::Etc::sourceparts=-".to_string(),
            "Dir::Etc::preferencesparts=-".to_string(),
            format!("Dir::Etc::preferences={}", preferences.display()),
            "APT::Sandbox::User=root".to_string(),
            "APT::Architectures::=amd64".to_string(),
            "Acquire::Languages=none".to_string(),
        ];
        Ok(PrivateApt { options })
    }

    fn command(&self) -> Command {
        let mut apt = command("apt-get");
        apt.arg("-qq");
        for option in &self.options {
            apt.args(["-o", option]);
        }
        apt
    }

    fn apt_get(&self, words: &[&str]) -> Result<()> {
        run(self.command().args(words))
    }
}

/// Returns apt's preferences for a release.
fn pin(release: &Release) -> String {
    match release.suites.last() {
        Some(suite) if !release.pinned.is_empty() => {
            format!("Package: {}\nPin: release a={suite}\nPin-Priority: 900\n", release.pinned)
        }
        _ => String::new(),
    }
}

/// The archives that this machine's apt is configured for: an address and a label in each line.
fn query_archives() -> Result<String> {
    let output = command("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI) $(LABEL)", "Created-By: Packages"])
        .output()
        .context("cannot start apt-get")?;
    ensure!(output.status.success(), "`apt-get indextargets` ended with {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The address of the main Debian archive among them: by its label, or by its path while nothing has been downloaded
/// yet.
fn archive(lines: &str) -> Result<&str> {
    let archives = || lines.lines().filter_map(|line| line.split_once(' '));
    let labelled = archives().find(|(_, label)| *label == "Debian");
    let named = || archives().find(|(address, _)| address.trim_end_matches('/').ends_with("/debian"));
    match labelled.or_else(named) {
        Some((address, _)) => Ok(address),
        None => bail!("apt on this machine is configured for no Debian archive"),
    }
}

fn run(command: &mut Command) -> Result<()> {
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
    fn packages_are_pinned_to_the_last_suite_of_a_release() {
        assert_eq!(pin(&ROCM13), "");
        let pinned = pin(&ROCM72);
        assert!(
            pinned.starts_with("Package: libhsa* ") && pinned.contains("\nPin: release a=experimental\n"),
            "{pinned}"
        );
    }

    #[test]
    fn the_version_of_a_package_is_read_from_the_list_of_files() {
        let list = "libhsa-runtime64-1-dbg_9_amd64\nlibhsa-runtime64-1_7.2.4+dfsg-1~exp1_amd64\n";
        assert_eq!(version_of(list, "libhsa-runtime64-1"), Some("7.2.4+dfsg-1~exp1"));
        assert_eq!(version_of(list, "rocminfo"), None);
    }

    #[test]
    fn the_main_archive_is_found_by_label_or_by_path() {
        let lines = "http://a/debian-security/ Debian-Security\nhttp://b/mirror/ Debian\n";
        assert_eq!(archive(lines).expect("one"), "http://b/mirror/");
        let lines = "http://a/debian-security/ \nhttp://b/debian/ \n";
        assert_eq!(archive(lines).expect("one"), "http://b/debian/");
        assert!(archive("http://c/ubuntu/ Ubuntu\n").is_err());
        assert!(archive("").is_err());
    }
}
