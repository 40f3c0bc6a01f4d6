//! Releases of ROCm beside the system: packages are unpacked into a directory of their own and run with their own
//! loader, so that a machine with another distribution can run real ROCm programs and nothing of it is changed.
//!
//! Versions are resolved when packages are fetched, and compared with the hashes of the archive's signed index.
//! `packages.lock` in the directory lists what was unpacked. `$GPREEMPT_DEBS` names a store of packages:
//! `DIRECTORY/NAME` is used if it is complete, and filled if it is not, because Debian's experimental release rotates.

mod apt;
mod lock;
mod wheels;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::run::{command, root};
use apt::PrivateApt;
use lock::{LOCK, Lock, Origin, lock_files};
use wheels::Pip;

/// A release of ROCm and the packages that it consists of.
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
    /// What is wanted, each with the version that the tests were written with; what it depends on comes with it.
    packages: &'static [(&'static str, &'static str)],
    /// Packages that come without what they depend on: a dependency is no longer in the archive.
    alone: &'static [(&'static str, &'static str)],
    /// Links to make: name, and what it refers to. They give libraries the names that programs ask for.
    links: &'static [(&'static str, &'static str)],
    /// Python packages from PyPI, with versions.
    wheels: &'static [(&'static str, &'static str)],
    /// Libraries that the archive lacks, built by us: soname and source.
    stand_ins: &'static [(&'static str, &'static str)],
    /// Lines of the script `run` that set the environment of programs.
    environment: &'static str,
}

/// Debian 13's: the first whose runtime speaks to the debug interface of the driver for gfx942.
pub(crate) static ROCM13: Release = Release {
    name: "rocm13",
    variable: "GPREEMPT_ROCM",
    origin: "Debian 13",
    suites: &["trixie"],
    pinned: "",
    packages: &[
        ("libhsa-runtime64-1", "6.1.2-3"),
        ("rocminfo", "6.1.2-2"),
        ("libamdhip64-5", "5.7.1-6+deb13u1"),
        // Kernels that print, allocate or check assertions are compiled with it.
        ("rocm-device-libs-17", "6.0+git20231212.5a852ed-2"),
    ],
    alone: &[],
    links: &[],
    wheels: &[],
    stand_ins: &[],
    environment: "",
};

/// Today's: runtime, debugger library, and AMD's own tests of the runtime and of rocRAND.
pub(crate) static ROCM72: Release = Release {
    name: "rocm72",
    variable: "GPREEMPT_ROCM72",
    origin: "Debian unstable and experimental",
    suites: &["sid", "experimental"],
    pinned: EXPERIMENTAL,
    packages: &[
        ("libhsa-runtime64-1", "7.2.4+dfsg-1~exp1"),
        ("rocminfo", "7.2.4-1"),
        ("libamdhip64-7", "7.2.4-1~exp2"),
        ("librocm-dbgapi0", "7.2.4-1~exp1"),
        ("amd-dbgapi-dev", "7.2.4-1~exp1"),
        ("libamd-smi27", "10.1-1"),
        ("libhwloc15", "2.15.0-2"),
        ("libnuma1", "2.0.19-1+b2"),
        ("librocrand1-tests", "7.2.4-1~exp1"),
    ],
    // It wants libamd-smi26, which the archive has replaced.
    alone: &[("libhsa-runtime64-tests", "7.2.4+dfsg-1~exp1")],
    links: &[("usr/lib/x86_64-linux-gnu/libamd_smi.so.26", "libamd_smi.so.27")],
    wheels: &[],
    stand_ins: &[],
    environment: "",
};

/// JAX from PyPI with the libraries of ROCm 7.2 that it calls, and a Python that its wheels are made for.
pub(crate) static JAX: Release = Release {
    name: "jax",
    variable: "GPREEMPT_JAX",
    origin: "Debian unstable and experimental, and of PyPI",
    suites: &["sid", "experimental"],
    pinned: EXPERIMENTAL,
    packages: &[
        ("libhsa-runtime64-1", "7.2.4+dfsg-1~exp1"),
        ("libamdhip64-7", "7.2.4-1~exp2"),
        ("libhipblas3", "7.2.4-1~exp1"),
        ("libhipblaslt1", "7.2.4+dfsg-1~exp1"),
        ("libhipfft0", "7.2.4-1~exp1"),
        ("libhipsolver1", "7.2.4-1~exp1"),
        ("libmiopen1", "7.2.4+dfsg-1"),
        ("librccl1", "7.2.4-1~exp3"),
        ("librocm-smi64-7", "7.2.4-1~exp1"),
        ("python3.14", "3.14.10-1"),
    ],
    alone: &[],
    links: &[
        // Debian counts the versions of this library differently from AMD, whose name JAX asks for.
        ("usr/lib/x86_64-linux-gnu/librocm_smi64.so.1", "librocm_smi64.so.7"),
        ("usr/bin/python3", "python3.14"),
    ],
    wheels: &[("jax", "0.10.2"), ("jaxlib", "0.10.2"), ("jax-rocm7-plugin", "0.10.2"), ("jax-rocm7-pjrt", "0.10.2")],
    stand_ins: &[("librocprofiler-sdk.so.1", "crates/xtask/clients/jax/rocprofiler_sdk.c")],
    environment: JAX_ENVIRONMENT,
};

/// Packages of ROCm 7.2: Debian has them in experimental only.
const EXPERIMENTAL: &str = "libhsa* libamd* librocm* rocm* amd-dbgapi* libhip* libroc* libmiopen* librccl*";

/// JAX finds Python's library, its own packages and ROCm in the directory. Memory is allocated as it is needed, because
/// other programs share the gpu. Without autotuning the same kernels are chosen in every run, so that two runs compute
/// the same bits; flags that are set already come later and win.
const JAX_ENVIRONMENT: &str = r#"export PYTHONHOME="$here/usr" PYTHONPATH="$here/python${PYTHONPATH:+:$PYTHONPATH}" ROCM_PATH="$here/usr"
export XLA_PYTHON_CLIENT_PREALLOCATE="${XLA_PYTHON_CLIENT_PREALLOCATE:-false}"
export XLA_FLAGS="--xla_gpu_autotune_level=0 $XLA_FLAGS"
"#;

/// Where libraries lie.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Where Python packages lie.
const PYTHON_PACKAGES: &str = "python";

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
@ENVIRONMENT@exec "$here/usr/lib64/ld-linux-x86-64.so.2" --library-path "$here/usr/lib/x86_64-linux-gnu" "$program" "$@"
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
        let version = self.check_directory(&directory)?;
        Ok(format!("{version} in {}", directory.canonicalize()?.display()))
    }

    /// Returns the version of what is in a directory, or what is missing.
    fn check_directory(&self, directory: &Path) -> Result<String> {
        // The last file that is written.
        let run = directory.join("run");
        ensure!(run.is_file(), "there is no {}", run.display());
        let path = directory.join(LOCK);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("made by an older version of the set-up: there is no {}", path.display()))?;
        let lock = Lock::parse(&text).with_context(|| format!("{} is not a lock report", path.display()))?;
        let lacks = lock.lacks(self.wanted());
        ensure!(lacks.is_empty(), "made with an older list of packages: {} lacks {}", path.display(), lacks.join(", "));
        let main = self.wanted().next().and_then(|name| lock.get(name));
        Ok(main.map(|package| package.version.clone()).unwrap_or_default())
    }

    /// The names of the packages that were asked for. The version of the first is that of the release.
    fn wanted(&self) -> impl Iterator<Item = &'static str> {
        [self.wheels, self.packages, self.alone].into_iter().flatten().map(|(name, _)| *name)
    }

    /// Downloads and unpacks it. What is there afterwards is complete: the directory gets its name last, and what had
    /// the name before goes then.
    pub(crate) fn install(&self) -> Result<()> {
        let directory = self.directory();
        let parent = directory.parent().context("the directory for packages has no parent")?;
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let work = parent.canonicalize()?.join(format!("{}.{}", self.name, std::process::id()));
        let result = self.unpack_all(&work).and_then(|unpacked| replace(&directory, &unpacked, &work.join("old")));
        // Nothing of use is left in it, and nothing can be done if it stays.
        let _ = fs::remove_dir_all(&work);
        result
    }

    /// Fills `work` and returns the directory in it that holds the unpacked packages.
    fn unpack_all(&self, work: &Path) -> Result<PathBuf> {
        let store = env::var_os("GPREEMPT_DEBS").map(|store| PathBuf::from(store).join(self.name));
        let stored = store.as_deref().map(|store| self.stored(store)).transpose()?.flatten();
        let from_store = stored.is_some();
        let (files, lock) = stored.map_or_else(|| self.download(work), Ok)?;
        if let Some(store) = store.filter(|_| !from_store) {
            fill(&store, &files, &lock)?;
        }
        let unpacked = work.join("unpacked");
        fs::create_dir_all(&unpacked)?;
        let (packages, wheels) = files.into_iter().partition::<Vec<_>, _>(|file| has_extension(file, "deb"));
        wheels::unpack(&wheels, &unpacked.join(PYTHON_PACKAGES))?;
        for package in packages {
            run(command("dpkg").arg("-x").arg(package).arg(&unpacked))?;
        }
        for (name, target) in self.links {
            let name = unpacked.join(name);
            std::os::unix::fs::symlink(target, &name).with_context(|| format!("cannot make {}", name.display()))?;
        }
        for (soname, source) in self.stand_ins {
            let library = unpacked.join(LIBRARIES).join(soname);
            run(command("clang-19")
                .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-nostdlib", &format!("-Wl,-soname,{soname}")])
                .arg("-o")
                .arg(library)
                .arg(root().join(source)))?;
        }
        fs::write(unpacked.join(LOCK), lock.to_string())?;
        let script = unpacked.join("run");
        fs::write(&script, RUN.replace("@ENVIRONMENT@", self.environment))?;
        run(command("chmod").arg("755").arg(&script))?;
        Ok(unpacked)
    }

    /// Downloads the packages and returns their files and hashes.
    fn download(&self, work: &Path) -> Result<(Vec<PathBuf>, Lock)> {
        let mut files = Vec::new();
        if !self.wheels.is_empty() {
            files = Pip::new(work)?.download(self.wheels, &work.join("wheels"))?;
        }
        let apt = PrivateApt::new(work, self)?;
        let packages = apt.download(self)?;
        let names = packages.iter().map(|file| Ok(lock::name_and_version(file)?.0)).collect::<Result<Vec<_>>>()?;
        let index = apt.index(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
        files.extend(packages);
        let lock = lock_files(&files, |file, name, version| {
            if has_extension(file, "deb") {
                return index.origin(name, version);
            }
            // pip has compared it with the hash of the index.
            Ok(Origin { origin: "PyPI".to_owned(), expected: None })
        })?;
        Ok((files, lock))
    }

    /// Returns the files of a store if it has all that is wanted.
    ///
    /// # Errors
    /// If a file of it is not what its lock report says.
    fn stored(&self, store: &Path) -> Result<Option<(Vec<PathBuf>, Lock)>> {
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
        let lacks = found.lacks(self.wanted());
        if !lacks.is_empty() {
            println!("note: {} lacks {}; everything is fetched again", store.display(), lacks.join(", "));
            return Ok(None);
        }
        match &lock {
            Some(lock) => lock.verify(&found).with_context(|| format!("{} was changed", store.display()))?,
            None => println!("note: {} has no {LOCK}: its packages are taken as they are", store.display()),
        }
        Ok(Some((files, found)))
    }
}

/// Copies packages into a store, with their lock report, and removes other packages from it.
fn fill(store: &Path, files: &[PathBuf], lock: &Lock) -> Result<()> {
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

/// Gives `new` the name `directory`. What had it goes to `old`.
fn replace(directory: &Path, new: &Path, old: &Path) -> Result<()> {
    if directory.exists() {
        fs::rename(directory, old).with_context(|| format!("cannot replace {}", directory.display()))?;
    }
    fs::rename(new, directory).with_context(|| format!("cannot name it {}", directory.display()))
}

/// Returns the files in a directory whose names end so, in order.
fn files_in(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| has_extension(path, extension)).collect();
    files.sort();
    files
}

fn has_extension(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|found| found == extension)
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

    fn lock_of(names: impl Iterator<Item = &'static str>) -> String {
        names.map(|name| format!("{name} 1 ab sid\n")).collect()
    }

    #[test]
    fn an_installation_that_an_older_list_made_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        let check = || ROCM72.check_directory(folder.path()).map_err(|error| format!("{error:#}"));
        assert!(check().unwrap_err().contains("there is no "));
        fs::write(folder.path().join("run"), "").unwrap();
        assert!(check().unwrap_err().contains("older version of the set-up"));
        let lock = folder.path().join(LOCK);
        fs::write(&lock, lock_of(ROCM72.wanted().filter(|name| !name.contains("rocrand")))).unwrap();
        let error = check().unwrap_err();
        assert!(error.ends_with("lacks librocrand1-tests"), "{error}");
        fs::write(&lock, lock_of(ROCM72.wanted())).unwrap();
        assert_eq!(check().unwrap(), "1");
    }

    #[test]
    fn a_store_that_lacks_a_package_or_was_changed_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        let files: Vec<_> = ROCM13.wanted().map(|name| folder.path().join(format!("{name}_1_amd64.deb"))).collect();
        for file in &files {
            fs::write(file, "contents").unwrap();
        }
        assert!(ROCM13.stored(&store).unwrap().is_none());
        let origin = |_: &Path, _: &str, _: &str| Ok(Origin { origin: "trixie".into(), expected: None });
        let lock = lock_files(&files, origin).unwrap();
        fill(&store, &files, &lock).unwrap();
        let (stored, found) = ROCM13.stored(&store).unwrap().expect("complete");
        assert_eq!((stored.len(), found), (files.len(), lock));
        fs::write(&stored[0], "others").unwrap();
        assert!(ROCM13.stored(&store).is_err());
        fs::remove_file(&stored[0]).unwrap();
        assert!(ROCM13.stored(&store).unwrap().is_none());
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
