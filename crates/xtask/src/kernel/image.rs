//! The image with ROCm and our HIP programs: a file system that the guest mounts read-only, because it is too large for
//! the memory of an initramfs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::directory;
use super::modules;
use crate::rocm::ROCM13;
use crate::run::{command, root, run_quietly};

/// Modules of the kernel that are needed to mount it.
const MODULES: [&str; 3] = ["virtio_blk", "crc32c_generic", "ext4"];
/// Room for the file system's own structures, in MiB.
const SPARE_MIB: u64 = 96;

/// Returns the file of the image.
///
/// # Errors
/// If there is no directory for it.
pub(super) fn path() -> Result<PathBuf> {
    Ok(directory()?.join("image/rocm.ext4"))
}

/// Returns the modules that mount the image.
///
/// # Errors
/// If the kernel lacks one.
pub(super) fn modules(kernel_modules: &Path) -> Result<Vec<PathBuf>> {
    MODULES.iter().map(|name| modules::find(name, kernel_modules)).collect()
}

/// Makes the image anew: `rocm` is ROCm 6.1 of `cargo xtask setup`, `hip` our programs. They are linked, not copied.
///
/// # Errors
/// If ROCm is not set up, or a program of the host fails.
pub(super) fn build() -> Result<()> {
    let rocm = ROCM13.directory();
    ensure!(rocm.join("run").is_file(), "there is no ROCm in {}; `cargo xtask setup` puts it there", rocm.display());
    let folder = directory()?.join("image");
    let tree = folder.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    }
    fs::create_dir_all(&tree).with_context(|| format!("cannot make {}", tree.display()))?;
    let hip = tree.join("hip");
    run_quietly(command("cp").arg("-al").arg(&rocm).arg(tree.join("rocm")))?;
    let script = root().join("crates/gpreempt/tests/clients/hip/build.sh");
    run_quietly(command("sh").arg(script).arg(&rocm).arg(&hip))?;
    // The programs know their code objects by this path.
    fs::write(hip.join("where"), hip.to_string_lossy().as_bytes()).context("cannot write into the image")?;
    let size = (size_mib(&tree)? + SPARE_MIB) * 5 / 4;
    let image = path()?;
    // mke2fs asks before it overwrites.
    let _ = fs::remove_file(&image);
    let options = ["-q", "-t", "ext4", "-m", "0", "-O", "^has_journal", "-d"];
    run_quietly(command("mke2fs").args(options).arg(&tree).arg(&image).arg(format!("{size}M")))
}

/// Returns how much room a directory takes.
fn size_mib(folder: &Path) -> Result<u64> {
    let output = command("du").args(["-sm"]).arg(folder).output().context("cannot start du")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let size = text.split_whitespace().next().and_then(|word| word.parse().ok());
    size.with_context(|| format!("du does not tell the size of {}", folder.display()))
}
