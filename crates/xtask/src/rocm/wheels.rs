//! Python packages from PyPI, unpacked beside the packages of Debian whose Python they are made for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::packages::{files_in, run};
use crate::run::command;

/// The Python of the packages, which is not that of the system.
const PYTHON: &[&str] = &["--python-version", "3.14", "--implementation", "cp", "--abi", "cp314"];
/// Systems whose wheels run with Debian's C library.
const PLATFORMS: &[&str] = &["manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64"];

/// A pip that takes wheels for the other Python.
pub(super) struct Pip(PathBuf);

impl Pip {
    /// Makes a virtual environment in `work`: Debian's Python has no pip.
    pub(super) fn new(work: &Path) -> Result<Pip> {
        let venv = work.join("venv");
        run(command("python3").args(["-m", "venv"]).arg(&venv))?;
        Ok(Pip(venv.join("bin/pip")))
    }

    fn command(&self, verb: &str) -> Command {
        let mut pip = Command::new(&self.0);
        pip.args([verb, "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]).args(PYTHON);
        for platform in PLATFORMS {
            pip.args(["--platform", platform]);
        }
        pip
    }

    /// Downloads packages and what they depend on, and returns their files.
    pub(super) fn download(&self, packages: &[(&str, &str)], directory: &Path) -> Result<Vec<PathBuf>> {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let words: Vec<_> = packages.iter().map(|(name, version)| format!("{name}=={version}")).collect();
        println!("downloading {} and what they depend on from PyPI, 300 MB", words.join(", "));
        let download = || {
            let mut pip = self.command("download");
            pip.arg("--dest").arg(directory);
            pip
        };
        if let Err(error) = run(download().args(&words)) {
            println!("note: the named versions cannot be had, taking the newest: {error:#}");
            run(download().args(packages.iter().map(|(name, _)| name)))?;
        }
        Ok(files_in(directory, "whl"))
    }
}

/// Unpacks wheels, which are archives of what they install, into a directory.
pub(super) fn unpack(wheels: &[PathBuf], directory: &Path) -> Result<()> {
    for wheel in wheels {
        run(command("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(directory))?;
    }
    Ok(())
}
