//! `cargo xtask kernel build`: the driver and our device module, compiled with Debian's kernel headers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::fetch::{Fetched, SERIES};
use super::tree::Tree;
use super::{Variant, core_object, directory, dkms, lock};
use crate::run::{command, root};

/// The driver of a machine.
const AMDGPU: &str = "drivers/gpu/drm/amd/amdgpu";
/// Lines of the compiler's output that an error repeats.
const MOST_LINES: usize = 40;

/// Compiles a variant and returns `amdgpu.ko`.
///
/// # Errors
/// If a patch does not apply, the compiler fails, or it warns about a file of ours.
pub(super) fn build(fetched: &Fetched, variant: Variant, module: &Path) -> Result<PathBuf> {
    if variant == Variant::Dkms {
        return dkms::modules(fetched);
    }
    let begin = Instant::now();
    let _lock = lock(&directory()?)?;
    let directory = fetched.work()?;
    let patches = match variant {
        Variant::Stock => PathBuf::from("/nonexistent"),
        Variant::Patched | Variant::Dkms => root().join("kernel/patch").join(SERIES),
    };
    let place = directory.join("build").join(variant.to_string());
    let tree = Tree::prepare(fetched, &place, &patches, module)?;
    make(fetched, &tree, &tree.module(), &[], &directory.join(format!("build-{variant}.log")))?;
    let built = tree.module().join("amdgpu.ko");
    ensure!(built.is_file(), "{} was compiled, but makes no amdgpu.ko: see its Kbuild", module.display());
    if variant == Variant::Patched {
        build_scheduler(fetched, &tree, &directory)?;
    }
    eprintln!("driver, {variant}: {} ({:.1} s)", built.display(), begin.elapsed().as_secs_f64());
    Ok(built)
}

/// Compiles the scheduler in the kernel, and its tests, against the symbols of a patched driver.
fn build_scheduler(fetched: &Fetched, tree: &Tree, directory: &Path) -> Result<()> {
    let objects = core_object::for_modules(directory)?;
    let (core, exercise) = (root().join("kernel/core"), root().join("kernel/core/exercise"));
    tree.add_scheduler(
        &root().join("kernel/gpreempt"),
        &[
            ("gpreempt_core.h", &core.join("gpreempt_core.h")),
            ("gpreempt_core.o_shipped", &objects.core),
            ("tests/gpreempt_core_exercise.h", &exercise.join("gpreempt_core_exercise.h")),
            ("tests/gpreempt_core_exercise.o_shipped", &objects.exercise),
        ],
    )?;
    let symbols = format!("KBUILD_EXTRA_SYMBOLS={}", tree.module().join("Module.symvers").display());
    make(fetched, tree, &tree.scheduler(), &[&symbols], &directory.join("build-gpreempt.log"))
}

/// Compiles the whole of amdgpu with the patches, for a machine and not for the guest.
///
/// # Errors
/// If a patch does not apply, the compiler fails, or it warns about a file that a patch changes.
pub(super) fn build_amdgpu(fetched: &Fetched) -> Result<()> {
    let begin = Instant::now();
    let directory = directory()?;
    let _lock = lock(&directory)?;
    let place = directory.join("build/amdgpu");
    let tree =
        Tree::prepare(fetched, &place, &root().join("kernel/patch").join(SERIES), &root().join("kernel/vmi300"))?;
    let amdgpu = place.join(AMDGPU);
    // Tracepoints are looked for at ../../drivers/gpu/drm/amd/amdgpu of a directory that is searched for headers.
    let include = place.join("include");
    let headers = format!("KCFLAGS=-I{} -I{}", include.display(), include.join("uapi").display());
    make(fetched, &tree, &amdgpu, &[&headers], &directory.join("build-amdgpu.log"))?;
    let built = amdgpu.join("amdgpu.ko");
    ensure!(built.is_file(), "amdgpu was compiled, but there is no {}", built.display());
    println!("amdgpu with the patches, for Linux {}: {}", fetched.kernel.release, built.display());
    eprintln!("{:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Runs make in a directory of the tree; its output goes to `log`.
fn make(fetched: &Fetched, tree: &Tree, module: &Path, variables: &[&str], log: &Path) -> Result<()> {
    let jobs = available_parallelism().map_or(1, usize::from);
    let output = command("make")
        .arg("-C")
        .arg(&fetched.kernel.headers)
        .arg(format!("M={}", module.display()))
        .arg(format!("-j{jobs}"))
        .args(["CONFIG_DEBUG_INFO=", "modules"])
        .args(variables)
        // Messages are searched for words.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .context("cannot start make; `cargo xtask setup` installs what modules are compiled with")?;
    let printed = [output.stdout, output.stderr].concat();
    fs::write(log, &printed).with_context(|| format!("cannot write {}", log.display()))?;
    let printed = String::from_utf8_lossy(&printed);
    let has_warnings = printed.lines().any(|line| is_warning(line, tree));
    if has_warnings {
        // Else the next run would compile nothing and see no warning.
        tree.forget_ours()?;
    }
    if !output.status.success() {
        let errors = excerpt(&printed, |line| ["error", "undefined", "Error"].iter().any(|word| line.contains(word)));
        bail!("the module cannot be compiled; {} has all of it:\n{errors}", log.display());
    }
    if has_warnings {
        let warnings = excerpt(&printed, |line| is_warning(line, tree));
        bail!("warnings about files of ours fail the build; {} has all of it:\n{warnings}", log.display());
    }
    Ok(())
}

/// Whether a line of the output is a warning about a file of ours.
fn is_warning(line: &str, tree: &Tree) -> bool {
    // modpost speaks of the module as a whole.
    if line.starts_with("WARNING: modpost:") {
        return true;
    }
    let Some((file, _)) = line.split_once(':').filter(|(_, rest)| rest.contains("warning: ")) else { return false };
    // objtool names the object.
    let file = PathBuf::from(file);
    let source = if file.extension().is_some_and(|kind| kind == "o") { file.with_extension("c") } else { file };
    tree.ours(&source).is_some()
}

/// Returns the lines that say what is wrong, or the last ones if none does.
fn excerpt(printed: &str, wanted: impl Fn(&str) -> bool) -> String {
    let lines: Vec<&str> = printed.lines().filter(|line| wanted(line)).take(MOST_LINES).collect();
    if lines.is_empty() { last_lines(printed, MOST_LINES) } else { lines.join("\n") }
}

/// Returns the last lines of a text.
pub(super) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_repeats_the_lines_that_say_what_is_wrong() {
        assert_eq!(excerpt("a\nx.c:1: error: b\nc\n", |line| line.contains("error")), "x.c:1: error: b");
        assert_eq!(excerpt("a\nb\n", |line| line.contains("error")), "a\nb");
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
    }

    #[test]
    fn warnings_count_if_they_are_about_files_of_ours() {
        let tree = Tree::at(Path::new("/t"), &["drivers/gpu/drm/amd/amdkfd/kfd_chardev.c"]);
        let amd = "/t/drivers/gpu/drm/amd";
        for ours in [
            format!("{amd}/vmi300/mec.c:12:3: warning: unused variable 'x' [-Wunused-variable]"),
            format!("{amd}/vmi300/mec.o: warning: objtool: f() falls through to next function g()"),
            format!("{amd}/vmi300/../amdkfd/kfd_chardev.c:1:2: warning: unused variable 'y'"),
            format!("{amd}/gpreempt/gpreempt_core.o: warning: objtool: gpc_init+0x1: return with modified stack frame"),
            format!(
                "{amd}/gpreempt/tests/gpreempt_core_test.o: warning: objtool: .rodata+0x8: data relocation to !ENDBR"
            ),
            "WARNING: modpost: missing MODULE_DESCRIPTION() in amdgpu.o".to_owned(),
        ] {
            assert!(is_warning(&ours, &tree), "{ours}");
        }
        for other in [
            format!("{amd}/vmi300/../amdkfd/kfd_device.c:1:2: warning: unused variable 'y'"),
            format!("{amd}/vmi300/mec.c:12:3: note: declared here"),
            "Skipping BTF generation for amdgpu.ko due to unavailability of vmlinux".to_owned(),
        ] {
            assert!(!is_warning(&other, &tree), "{other}");
        }
    }
}
