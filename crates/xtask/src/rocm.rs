//! Debian 13's ROCm beside the system: its packages are unpacked into a directory of their own and run with their own
//! loader, so that a machine with another release can run real ROCm programs and nothing of it is changed.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::run::{command, root};

/// What is wanted; what it depends on comes with it.
const PACKAGES: &[&str] = &["rocminfo", "libamdhip64-5", "libhsa-runtime64-1"];

/// The release they are taken from: the first whose runtime speaks to the debug interface of the driver for gfx942.
const SUITE: &str = "trixie";

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

/// Where it lies: `$GPREEMPT_ROCM`, or `target/rocm13` of the workspace.
pub(crate) fn directory() -> PathBuf {
    env::var_os("GPREEMPT_ROCM").map_or_else(|| root().join("target/rocm13"), PathBuf::from)
}

/// Says what is there, or what is missing.
pub(crate) fn check() -> Result<String> {
    let directory = directory();
    // The last file that is written.
    let run = directory.join("run");
    ensure!(run.is_file(), "there is no {}", run.display());
    Ok(format!("in {}", directory.canonicalize()?.display()))
}

/// Downloads and unpacks it. What is there afterwards is complete: the directory gets its name last.
pub(crate) fn install() -> Result<()> {
    let directory = directory();
    let parent = directory.parent().context("the directory for ROCm has no parent")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let work = parent.canonicalize()?.join(format!("rocm13.{}", std::process::id()));
    let result = unpack_all(&work).and_then(|unpacked| {
        fs::rename(&unpacked, &directory)
            .with_context(|| format!("cannot name it {}; remove what is there", directory.display()))
    });
    // Nothing of use is left in it, and nothing can be done if it stays.
    let _ = fs::remove_dir_all(&work);
    result
}

/// Fills `work` and returns the directory in it that holds the unpacked packages.
fn unpack_all(work: &Path) -> Result<PathBuf> {
    let private = PrivateApt::new(work)?;
    private.apt_get(&["update"])?;
    let mut words = vec!["install", "--download-only", "--no-install-recommends", "-y"];
    words.extend(PACKAGES);
    private.apt_get(&words)?;

    let unpacked = work.join("unpacked");
    fs::create_dir_all(&unpacked)?;
    let mut count = 0;
    for entry in fs::read_dir(work.join("cache/archives"))? {
        let package = entry?.path();
        if package.extension().is_some_and(|extension| extension == "deb") {
            run(command("dpkg").arg("-x").arg(&package).arg(&unpacked))?;
            count += 1;
        }
    }
    ensure!(count >= PACKAGES.len(), "only {count} packages were downloaded");
    let script = unpacked.join("run");
    fs::write(&script, RUN)?;
    run(command("chmod").arg("755").arg(&script))?;
    Ok(unpacked)
}

/// An apt that has its own lists, cache and state, and believes that nothing is installed.
struct PrivateApt {
    options: Vec<String>,
}

impl PrivateApt {
    fn new(work: &Path) -> Result<PrivateApt> {
        for part in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(work.join(part)).with_context(|| format!("cannot make {part}"))?;
        }
        let status = work.join("status");
        fs::write(&status, "")?;
        let sources = work.join("sources.list");
        let archives = query_archives()?;
        let address = archive(&archives)?;
        fs::write(&sources, format!("deb [signed-by={KEYRING} arch=amd64] {address} {SUITE} main\n"))?;
        let options = vec![
            format!("Dir::State={}", work.join("state").display()),
            format!("Dir::State::status={}", status.display()),
            format!("Dir::Cache={}", work.join("cache").display()),
            format!("Dir::Etc::sourcelist={}", sources.display()),
            "Dir::Etc::sourceparts=-".to_string(),
            "Dir::Etc::preferencesparts=-".to_string(),
            "Dir::Etc::preferences=-".to_string(),
            "APT::Sandbox::User=root".to_string(),
            "APT::Architectures::=amd64".to_string(),
            "Acquire::Languages=none".to_string(),
        ];
        Ok(PrivateApt { options })
    }

    fn apt_get(&self, words: &[&str]) -> Result<()> {
        let mut apt = command("apt-get");
        apt.arg("-qq");
        for option in &self.options {
            apt.args(["-o", option]);
        }
        run(apt.args(words))
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

fn run(command: &mut std::process::Command) -> Result<()> {
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
    fn the_main_archive_is_found_by_label_or_by_path() {
        let lines = "http://a/debian-security/ Debian-Security\nhttp://b/mirror/ Debian\n";
        assert_eq!(archive(lines).expect("one"), "http://b/mirror/");
        let lines = "http://a/debian-security/ \nhttp://b/debian/ \n";
        assert_eq!(archive(lines).expect("one"), "http://b/debian/");
        assert!(archive("http://c/ubuntu/ Ubuntu\n").is_err());
        assert!(archive("").is_err());
    }
}
