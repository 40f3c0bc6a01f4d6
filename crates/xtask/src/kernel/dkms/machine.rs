//! `cargo xtask kernel dkms --full`: the package on a machine, which is a scratch root on this one.
//!
//! `kernel/dkms/tests` has what happens there. DKMS compiles the whole of amdgpu; what it built is kept, and compiled
//! again only if the package or the kernel changed.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::contents::Contents;
use crate::kernel::build::last_lines;
use crate::kernel::fetch::Fetched;
use crate::packages::{
    LOCK, Lock, PrivateApt, Sources, Store, files_in, has_extension, lock_downloads, name_and_version, run,
};
use crate::run::{command, root};

/// What a machine has that installs the package, beside its kernel and a compiler.
const TOOLS: [&str; 8] =
    ["dkms", "kmod", "lsb-release", "initramfs-tools", "initramfs-tools-core", "klibc-utils", "libklibc", "cpio"];
/// Lines of the log that a failure repeats.
const MOST_LINES: usize = 40;

/// Installs and removes a package, unless that was done, and returns the directory with the modules that DKMS built.
/// The caller has the lock of the directory above `place`.
///
/// # Errors
/// If something on the machine is not as it should be.
pub(super) fn install(package: &Path, contents: &Contents, fetched: &Fetched, place: &Path) -> Result<PathBuf> {
    let modules = place.join("modules");
    let stamp = stamp(contents, fetched)?;
    if fs::read_to_string(modules.join("stamp")).ok().as_deref() == Some(&stamp) {
        eprintln!("what DKMS built of this package: found in {}", modules.display());
        return Ok(modules);
    }
    let begin = Instant::now();
    let machine = place.join("machine");
    remove_machine(&machine)?;
    let packages = machine.join("packages");
    fs::create_dir_all(&packages).with_context(|| format!("cannot make {}", packages.display()))?;
    let mut files = fetch_tools(&place.join("debs"))?;
    files.extend(fetched.kernel_debs()?);
    files.push(package.to_owned());
    for file in &files {
        let copy = packages.join(file.file_name().unwrap_or_default());
        fs::copy(file, copy).with_context(|| format!("cannot copy {}", file.display()))?;
    }
    let log = place.join("machine.log");
    eprintln!(
        "DKMS compiles amdgpu for Linux {}, for minutes; {} has what it says",
        fetched.kernel.release,
        log.display()
    );
    play(&machine, &log)?;
    if modules.exists() {
        fs::remove_dir_all(&modules).with_context(|| format!("cannot remove {}", modules.display()))?;
    }
    fs::rename(machine.join("root/output"), &modules).context("DKMS left nothing")?;
    fs::copy(&log, modules.join("machine.log"))?;
    fs::write(modules.join("stamp"), stamp)?;
    remove_machine(&machine)?;
    eprintln!("installed and removed in {:.0} s; the modules: {}", begin.elapsed().as_secs_f64(), modules.display());
    Ok(modules)
}

/// Says what was installed on which kernel by which scripts. The package itself has another time after each commit.
fn stamp(contents: &Contents, fetched: &Fetched) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    for file in [script("root.sh"), script("machine.sh")] {
        fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?.hash(&mut hasher);
    }
    Ok(format!("{} {} {:016x}\n", fetched.kernel.release, fetched.version, hasher.finish()))
}

fn script(name: &str) -> PathBuf {
    root().join("kernel/dkms/tests").join(name)
}

/// Runs the scripts in a name space of their own, whose mounts end with them.
fn play(machine: &Path, log: &Path) -> Result<()> {
    let output = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
    let is_root = command("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let mut unshare = command("unshare");
    unshare.arg("--mount").args((!is_root).then_some("--map-root-user"));
    unshare.arg("sh").arg(script("root.sh")).arg(machine);
    unshare.env("LC_ALL", "C").stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
    let status = unshare.status().context("cannot start unshare")?;
    if !status.success() {
        let printed = fs::read_to_string(log).unwrap_or_default();
        bail!("the package fails on a machine; {} has all of it:\n{}", log.display(), last_lines(&printed, MOST_LINES));
    }
    Ok(())
}

/// Removes the root of a machine. Directories that an overlay worked in can be entered by nobody but their owner.
fn remove_machine(machine: &Path) -> Result<()> {
    run(command("rm").arg("-rf").arg(machine)).with_context(|| format!("cannot remove {}", machine.display()))
}

/// Returns the packages of `TOOLS`: those that are there, or a store's, or downloaded ones.
fn fetch_tools(directory: &Path) -> Result<Vec<PathBuf>> {
    let lacks = |lock: &Lock| lock.lacks(TOOLS.into_iter()).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let there = files_in(directory, "deb");
    let names = there.iter().map(|file| Ok(name_and_version(file)?.0)).collect::<Result<Vec<_>>>()?;
    if TOOLS.iter().all(|tool| names.iter().any(|name| name == tool)) {
        return Ok(there);
    }
    let work = directory.join("work");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let store = Store::named("dkms");
    let stored = store.as_ref().map(|store| store.files(lacks)).transpose()?.flatten();
    let (files, lock) = match stored {
        Some(stored) => stored,
        None => {
            let apt = PrivateApt::new(&work, Sources::System)?;
            apt.download_alone(&TOOLS.map(str::to_owned))?;
            let files = apt.files();
            let lock = lock_downloads(&apt, &files)?;
            if let Some(store) = &store {
                store.fill(&files, &lock)?;
            }
            (files, lock)
        }
    };
    for file in files.iter().filter(|file| has_extension(file, "deb")) {
        let copy = directory.join(file.file_name().unwrap_or_default());
        fs::copy(file, copy).with_context(|| format!("cannot keep {}", file.display()))?;
    }
    fs::write(directory.join(LOCK), lock.to_string())?;
    fs::remove_dir_all(&work)?;
    Ok(files_in(directory, "deb"))
}
