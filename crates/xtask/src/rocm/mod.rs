//! Releases of ROCm beside the system: packages are unpacked into a directory of their own and run with their own
//! loader, so that a machine with another distribution can run real ROCm programs and nothing of it is changed.

mod wheels;

use std::path::{Path, PathBuf};
use std::{env, fmt, fs};

use anyhow::{Context, Result, ensure};

use crate::packages::{
    LOCK, Lock, Origin, PrivateApt, Sources, Store, has_extension, lock_downloads, lock_files, replace, run,
};
use crate::run::{command, root};
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
    /// What the versions of these packages begin with, if newer ones would be another release. When the archive no
    /// longer has them, the directory says so, and the tests leave the release out.
    version: &'static str,
    /// Packages that come without what they depend on: it is no longer in the archive, or is not used.
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
    version: "",
    alone: &[],
    links: &[],
    wheels: &[],
    stand_ins: &[],
    environment: "",
};

/// Debian testing's: the last of ROCm 6, whose HIP ends a program after an error of a queue.
pub(crate) static ROCM64: Release = Release {
    name: "rocm64",
    variable: "GPREEMPT_ROCM64",
    origin: "Debian testing",
    suites: &["forky"],
    pinned: "",
    packages: &[("libhsa-runtime64-1", "6.4.3+dfsg-5"), ("libamdhip64-6", "6.4.3-5")],
    version: "6.4.",
    // It wants Python for a script that is not run.
    alone: &[("rocminfo", "7.2.4-1")],
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
    version: "",
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
    version: "",
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
/// File in the directory of a release that says why there is nothing else in it.
const VANISHED: &str = "vanished";
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
        if let Ok(reason) = fs::read_to_string(directory.join(VANISHED)) {
            return Ok(reason.trim_end().to_owned());
        }
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
        let unpacked = match self.unpack_all(&work) {
            Err(error) => match error.downcast::<Vanished>() {
                Ok(vanished) => vanished.note(&work.join("vanished"), &directory),
                Err(error) => Err(error),
            },
            unpacked => unpacked,
        };
        let result = unpacked.and_then(|unpacked| replace(&directory, &unpacked, &work.join("old")));
        // Nothing of use is left in it, and nothing can be done if it stays.
        let _ = fs::remove_dir_all(&work);
        result
    }

    /// Fills `work` and returns the directory in it that holds the unpacked packages.
    fn unpack_all(&self, work: &Path) -> Result<PathBuf> {
        let store = Store::named(self.name);
        let lacks = |lock: &Lock| lock.lacks(self.wanted()).into_iter().map(str::to_owned).collect();
        let stored = store.as_ref().map(|store| store.files(lacks)).transpose()?.flatten();
        let from_store = stored.is_some();
        let (files, lock) = stored.map_or_else(|| self.download(work), Ok)?;
        if let Some(store) = store.filter(|_| !from_store) {
            store.fill(&files, &lock)?;
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
        // pip has compared them with the hashes of its index.
        let mut lock = lock_files(&files, |_, _, _| Ok(Origin { origin: "PyPI".to_owned(), expected: None }))?;
        let apt = PrivateApt::new(work, Sources::Suites { suites: self.suites, pinned: self.pinned })?;
        self.ensure_not_vanished(|name| apt.versions(name))?;
        let packages = apt.download(self.packages, self.alone)?;
        lock.extend(lock_downloads(&apt, &packages)?);
        files.extend(packages);
        Ok((files, lock))
    }

    /// Fails with [`Vanished`] if another release has taken the place of this one in the archive.
    fn ensure_not_vanished(&self, versions: impl Fn(&'static str) -> Result<Vec<String>>) -> Result<()> {
        if self.version.is_empty() {
            return Ok(());
        }
        // apt goes on without an index that it could not download.
        ensure!(!versions("libc6")?.is_empty(), "the index of {} could not be downloaded", self.origin);
        for (name, _) in self.packages {
            if !versions(name)?.iter().any(|version| version.starts_with(self.version)) {
                let vanished = Vanished { origin: self.origin, name, version: self.version };
                return Err(anyhow::Error::msg(vanished));
            }
        }
        Ok(())
    }
}

/// A release that the archive no longer has.
#[derive(Debug)]
struct Vanished {
    origin: &'static str,
    name: &'static str,
    version: &'static str,
}

impl fmt::Display for Vanished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} no longer has {} {}*", self.origin, self.name, self.version)
    }
}

impl Vanished {
    /// Makes `new`, which says so and takes the place of `directory`.
    fn note(&self, new: &Path, directory: &Path) -> Result<PathBuf> {
        fs::create_dir_all(new).with_context(|| format!("cannot make {}", new.display()))?;
        let again = format!("remove {} to try again; $GPREEMPT_DEBS may name a store that has it", directory.display());
        fs::write(new.join(VANISHED), format!("left out by the tests: {self}; {again}\n"))?;
        Ok(new.to_owned())
    }
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
    fn a_release_that_another_one_has_replaced_is_left_out_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let [new, directory] = ["new", "rocm64"].map(|name| folder.path().join(name));
        let archive = |libraries: [&'static str; 2], others: &'static [&'static str]| {
            ROCM64.ensure_not_vanished(|name| {
                let versions = match name {
                    "libhsa-runtime64-1" => &libraries[..1],
                    "libamdhip64-6" => &libraries[1..],
                    _ => others,
                };
                Ok(versions.iter().map(|&version| version.to_owned()).collect())
            })
        };
        archive(["6.4.4-1", "6.4.3-5"], &["2.43-7"]).unwrap();
        archive(["6.4.3-5", ""], &["2.43-7"]).unwrap_err().downcast::<Vanished>().unwrap();
        let vanished = archive(["7.2.4-1", "6.4.3-5"], &["2.43-7"]).unwrap_err().downcast::<Vanished>().unwrap();
        vanished.note(&new, &directory).unwrap();
        let found = fs::read_to_string(new.join(VANISHED)).unwrap();
        assert!(
            found.starts_with("left out by the tests: Debian testing no longer has libhsa-runtime64-1 6.4."),
            "{found}"
        );
        assert!(found.contains(&format!("remove {}", directory.display())), "{found}");
        // An archive that cannot be reached has not lost anything.
        assert!(archive(["", ""], &[]).unwrap_err().downcast::<Vanished>().is_err());
        // Of the other releases, the newest will do.
        ROCM72.ensure_not_vanished(|_| Ok(Vec::new())).unwrap();
    }
}
