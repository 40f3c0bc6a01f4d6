//! `cargo xtask kernel`: AMD's own driver in a Linux kernel in QEMU, on a device module of ours.
//!
//! Kernel, headers, driver source and QEMU are Debian's packages, unpacked below `target/kernel`. Nothing is installed
//! and no kernel is built, except by `debug`: amdkfd is compiled out of tree together with `kernel/vmi300`, and the
//! guest's initramfs is written here. docs/kernel.md describes the use.

mod boot;
mod build;
mod check;
mod core_object;
mod cpio;
mod debug;
mod dkms;
mod fetch;
mod image;
mod initramfs;
mod judge;
mod machine;
mod modules;
mod scenario;
mod test;
mod tree;

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::run::root;

/// A part of the work.
#[derive(Clone, Subcommand)]
pub(crate) enum Part {
    /// Download and unpack the kernel, its headers, the driver's source, QEMU and busybox.
    ///
    /// Packages of this machine's Debian, resolved now, compared with the signed index and unpacked below
    /// target/kernel (or $GPREEMPT_KERNEL): about 300 MB. Does nothing if they are there. $GPREEMPT_DEBS names a store
    /// of packages that is used before the archive.
    Fetch {
        /// Fetch again, to take up a newer kernel.
        #[arg(long)]
        update: bool,
    },

    /// Compile the driver with our device module.
    Build {
        /// Which driver to compile; without it, stock and patched.
        #[arg(long)]
        variant: Option<Variant>,

        #[command(flatten)]
        module: Module,
    },

    /// Compile the scheduling core to an object that C links into a module: target/kernel/core/gpreempt_core.o.
    Core(core_object::Options),

    /// Check the patches of kernel/patch, and the C files of kernel/, with the kernel's checkpatch.
    Check,

    /// Compile the whole of amdgpu with the patches, as a user would for a machine.
    ///
    /// 863 files, seven minutes of processor time the first time. The module is not loaded anywhere.
    Amdgpu,

    /// Build the Debian package gpreempt-dkms, which compiles patched amdgpu and gpreempt.ko on a machine.
    ///
    /// The same sources give the same bytes. The package is unpacked again and compared.
    Dkms {
        /// Also install it in a scratch root on this machine, and remove it: DKMS compiles the whole of amdgpu.
        #[arg(long)]
        full: bool,
    },

    /// Boot the guest, run one scenario and show the consoles.
    Boot {
        /// Another driver than the scenario's.
        #[arg(long)]
        variant: Option<Variant>,

        /// The scenario to run.
        #[arg(long, value_name = "NAME", default_value = "boot")]
        scenario: String,

        /// Load the modules, then give an interactive shell instead of running the scenario's script.
        ///
        /// `exit` powers the guest off. Ctrl-C goes to the guest. The script is /scenario/script.
        #[arg(long)]
        shell: bool,

        #[command(flatten)]
        module: Module,
    },

    /// Fetch, build and run all scenarios of kernel/guest/scenarios.
    Test(Selection),

    /// Run the scenarios of the timed engine on a kernel of our own that looks for mistakes.
    ///
    /// Unpacks the whole of the kernel's source (1.6 GB) below target/kernel/debug and compiles a small kernel with
    /// KASAN and PROVE_LOCKING: ten minutes of processor time, the first time. Installs flex, bison, bc and libelf-dev
    /// with apt-get if they are missing, and says so first.
    Debug {
        /// Look for data races instead of bad accesses: KCSAN instead of KASAN.
        #[arg(long)]
        kcsan: bool,

        #[command(flatten)]
        selection: Selection,
    },
}

/// Which scenarios to run.
#[derive(Clone, Default, Args)]
pub(crate) struct Selection {
    /// Also run the scenarios that take longer.
    #[arg(long)]
    pub(crate) full: bool,

    /// Print the results as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Run this scenario only; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Vec<String>,

    /// Run so many virtual machines at once. Two at most are used by default, one for each processor.
    #[arg(long, value_name = "N")]
    pub(crate) machines: Option<usize>,

    #[command(flatten)]
    pub(crate) module: Module,
}

/// The source of the device module.
#[derive(Clone, Default, Args)]
pub(crate) struct Module {
    /// Directory with a Kbuild file that makes amdgpu.ko, instead of kernel/vmi300.
    #[arg(long = "module", value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

impl Module {
    /// Returns the directory.
    fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| root().join("kernel/vmi300"))
    }
}

/// Which driver runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Variant {
    /// Debian's, unmodified.
    Stock,
    /// With the patches of kernel/patch.
    Patched,
    /// The whole of patched amdgpu without our device, as DKMS builds it on a machine.
    Dkms,
}

impl Variant {
    const ALL: [Variant; 3] = [Variant::Stock, Variant::Patched, Variant::Dkms];
    /// Those with our device.
    const QUICK: [Variant; 2] = [Variant::Stock, Variant::Patched];
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Variant::Stock => "stock",
            Variant::Patched => "patched",
            Variant::Dkms => "dkms",
        })
    }
}

/// Does a part of the work.
///
/// # Errors
/// If it cannot be done, or a scenario fails.
pub(crate) fn kernel(part: &Part) -> Result<()> {
    match part {
        Part::Fetch { update } => fetch::fetch(*update).map(|_| ()),
        Part::Build { variant, module } => {
            let fetched = fetch::fetch(false)?;
            let variants = variant.as_ref().map_or(&Variant::QUICK[..], std::slice::from_ref);
            variants.iter().try_for_each(|variant| build::build(&fetched, *variant, &module.directory()).map(|_| ()))
        }
        Part::Core(options) => core_object::core(options),
        Part::Check => check::check(&fetch::fetch(false)?),
        Part::Amdgpu => build::build_amdgpu(&fetch::fetch(false)?),
        Part::Dkms { full } => dkms::dkms(*full),
        Part::Boot { variant, scenario, shell, module } => boot::boot(scenario, *variant, *shell, &module.directory()),
        Part::Test(selection) => test::test(selection),
        Part::Debug { kcsan, selection } => debug::debug(*kcsan, selection),
    }
}

/// Runs the scenarios as a step of the tests.
///
/// # Errors
/// If QEMU cannot run, or a scenario fails.
pub(crate) fn test_scenarios(full: bool) -> Result<()> {
    test::test(&Selection { full, ..Selection::default() })
}

/// Builds the package as a step of the tests. The scenario `dkms-modules` installs it.
///
/// # Errors
/// If it is not as it should be.
pub(crate) fn test_package() -> Result<()> {
    dkms::dkms(false)
}

/// Where everything lies: what `$GPREEMPT_KERNEL` names, or `target/kernel` of the workspace.
fn directory() -> Result<PathBuf> {
    let directory = std::env::var_os("GPREEMPT_KERNEL").map_or_else(|| root().join("target/kernel"), PathBuf::from);
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory.canonicalize()?)
}

/// Waits until no other process fetches or builds below `directory`. The lock goes with the file.
fn lock(directory: &Path) -> Result<File> {
    let path = directory.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    if file.try_lock().is_err() {
        eprintln!("waiting for another `cargo xtask kernel` that uses {}", directory.display());
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}

/// Removes files and directories whose names end with the id of a process that is gone: a kill left them behind.
fn remove_left_over(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry?.path();
        let owner = path.extension().and_then(|id| id.to_str()).filter(|id| id.parse::<u32>().is_ok());
        if owner.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            // Another process may do the same at this moment.
            if let Err(error) = removed
                && path.exists()
            {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_behind_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        // Beyond the largest id that Linux gives.
        let dead = folder.path().join("initramfs.boot.4999999");
        let ours = folder.path().join(format!("console.boot.{}", std::process::id()));
        let log = folder.path().join("boot.log");
        for file in [&dead, &ours, &log] {
            fs::write(file, "").unwrap();
        }
        fs::create_dir(folder.path().join("fetch.4999998")).unwrap();
        remove_left_over(folder.path()).unwrap();
        assert!(!dead.exists() && !folder.path().join("fetch.4999998").exists());
        assert!(ours.exists() && log.exists());
    }
}
