//! `cargo xtask kernel check`: the patches, and our modules' sources, by the kernel's own style checker.
//!
//! The checker is that of the fetched source. It reads a patch from its input: a file that git knows would be checked
//! as source.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::fetch::Fetched;
use crate::packages::files_in;
use crate::run::{command, root};

/// The interface that programs are written for. Every series adds the same text.
const INTERFACE: &str = "include/uapi/linux/kfd_sched.h";
/// Findings that do not count. MAINTAINERS is not among the files that are unpacked; the cover letter speaks of it.
const IGNORED: &str = "FILE_PATH_CHANGES";

/// Folders with C files, and findings that do not count in each. Names of registers and packets are AMD's. Interfaces
/// that programs see cannot use the macro BIT.
const SOURCES: &[(&str, &str)] =
    &[("kernel/vmi300", "CAMELCASE"), ("kernel/gpreempt", "BIT_MACRO"), ("kernel/core", "BIT_MACRO")];

/// Checks all patches, and the C files of our modules.
///
/// # Errors
/// If the checker finds something, or the interfaces of two series differ.
pub(super) fn check(fetched: &Fetched) -> Result<()> {
    let series = series(&root().join("kernel/patch"))?;
    let mut interfaces: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut count = 0;
    for (name, patches) in &series {
        for patch in patches {
            check_style(fetched, patch)?;
            count += 1;
            let text = fs::read_to_string(patch).with_context(|| format!("cannot read {}", patch.display()))?;
            if let Some(interface) = added_file(&text, INTERFACE) {
                interfaces.entry(interface).or_default().push(name.clone());
            }
        }
    }
    let told: Vec<String> = interfaces.values().map(|names| names.join(" and ")).collect();
    ensure!(interfaces.len() == 1, "{INTERFACE} is not the same in all series: {}", told.join("; "));
    ensure!(interfaces.values().all(|names| names.len() == series.len()), "only {} add {INTERFACE}", told.join(", "));
    let mut told = Vec::new();
    for (folder, ignored) in SOURCES {
        let files = files_to_check(&root().join(folder))?;
        let options = ["--strict", "--no-tree", "--show-types", "--ignore", ignored, "--file"];
        run_checker(command("perl").arg(checker(fetched)).args(options).args(&files), folder)?;
        told.push(format!("{} files of {folder}", files.len()));
    }
    eprintln!("{count} patches, {} without findings of checkpatch", told.join(", "));
    Ok(())
}

/// Returns the C files of a folder, and of the folders in it.
fn files_to_check(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let all: Vec<PathBuf> = [folder.to_owned()].into_iter().chain(folders).collect();
    let files: Vec<PathBuf> =
        all.iter().flat_map(|folder| ["c", "h"].into_iter().flat_map(|kind| files_in(folder, kind))).collect();
    ensure!(!files.is_empty(), "there are no files in {}", folder.display());
    Ok(files)
}

fn checker(fetched: &Fetched) -> PathBuf {
    fetched.source().join("scripts/checkpatch.pl")
}

/// Returns the patches of each series, by the name of its directory.
fn series(folder: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let all = entries.flatten().filter(|entry| entry.path().is_dir()).map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, files_in(&entry.path(), "patch"))
    });
    let series: BTreeMap<_, _> = all.filter(|(_, patches)| !patches.is_empty()).collect();
    ensure!(!series.is_empty(), "there are no patches in {}", folder.display());
    Ok(series)
}

fn check_style(fetched: &Fetched, patch: &Path) -> Result<()> {
    let input = File::open(patch).with_context(|| format!("cannot read {}", patch.display()))?;
    let options = ["--strict", "--no-tree", "--show-types", "--ignore", IGNORED, "-"];
    run_checker(command("perl").arg(checker(fetched)).args(options).stdin(input), &patch.display().to_string())
}

fn run_checker(checker: &mut Command, what: &str) -> Result<()> {
    // It leaves a cache of names where it runs.
    let checker = checker.current_dir(std::env::temp_dir());
    let output = checker.output().context("cannot start perl, which the kernel's checkpatch needs")?;
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stdout);
        bail!("checkpatch finds something in {what}:\n{}", printed.trim());
    }
    Ok(())
}

/// Returns the content of a file that a patch adds.
fn added_file(patch: &str, name: &str) -> Option<String> {
    let header = format!("+++ b/{name}");
    let mut lines = patch.lines().skip_while(|line| *line != header).skip(1);
    lines.next().filter(|hunk| hunk.starts_with("@@ -0,0 "))?;
    Some(lines.map_while(|line| line.strip_prefix('+')).map(|line| format!("{line}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_added_file_is_read_out_of_a_patch() {
        let patch =
            "--- /dev/null\n+++ b/a.h\n@@ -0,0 +1,2 @@\n+one\n+\ndiff --git a/b b/b\n+++ b/b.h\n@@ -1 +1 @@\n+x\n";
        assert_eq!(added_file(patch, "a.h").as_deref(), Some("one\n\n"));
        assert_eq!(added_file(patch, "b.h"), None, "it is changed, not added");
        assert_eq!(added_file(patch, "c.h"), None);
    }

    #[test]
    fn every_c_file_of_ours_is_checked() {
        for (folder, _) in SOURCES {
            let files = files_to_check(&root().join(folder)).unwrap();
            assert!(files.iter().any(|file| file.extension().is_some_and(|kind| kind == "h")), "{files:?}");
        }
        let files = files_to_check(&root().join("kernel/core")).unwrap();
        let named = |name: &str| files.iter().any(|file| file.ends_with(name));
        assert!(named("gpreempt_core.h") && named("exercise/gpreempt_core_exercise.h"));
    }

    #[test]
    fn both_series_add_the_same_interface() {
        let series = series(&root().join("kernel/patch")).unwrap();
        let interfaces: Vec<Vec<String>> = series
            .values()
            .map(|patches| {
                let texts = patches.iter().map(|patch| fs::read_to_string(patch).unwrap());
                texts.filter_map(|text| added_file(&text, INTERFACE)).collect()
            })
            .collect();
        assert!(interfaces.iter().all(|interface| interface.len() == 1 && *interface == interfaces[0]));
        assert_eq!(series.len(), 2, "6.12 and 7.2");
    }
}
