//! `gpreempt vgpu run` and `gpreempt vgpu env`.

use std::io::Write;

use anyhow::{Context, Result};
use vgpu::launch::{self, Setup, Started};
use vgpu::profile::Profile;

use crate::cli::{VgpuEnv, VgpuProfile, VgpuRun};

/// How this executable is made to be the supervisor: first leaving the launcher, then for good.
pub(super) const DETACH: &[&str] = &["vgpu", "supervise", "--detach"];
const SUPERVISE: &[&str] = &["vgpu", "supervise"];

fn start(gpu: &VgpuProfile, hold: u32) -> Result<Started> {
    let mut profile = Profile::load(&gpu.profile)?;
    if let Some(cus) = gpu.cus {
        profile = profile.with_cus(cus)?;
    }
    Ok(launch::start(&Setup::new(profile), Some(hold), DETACH)?)
}

pub(crate) fn run(options: &VgpuRun) -> Result<()> {
    let (program, arguments) = options.command.split_first().context("there is no program to run")?;
    // The program may close the connection it inherits without knowing of it, so it also holds the gpu by itself.
    let started = start(&options.gpu, std::process::id())?;
    Err(launch::exec(started, program, arguments).into())
}

pub(crate) fn env(options: &VgpuEnv, out: &mut impl Write) -> Result<()> {
    let hold = options.hold.unwrap_or_else(std::os::unix::process::parent_id);
    let started = start(&options.gpu, hold)?;
    for (name, value) in &started.environment.variables {
        let value = value.to_string_lossy().replace('\'', r"'\''");
        writeln!(out, "export {name}='{value}'")?;
    }
    Ok(())
}

pub(crate) fn supervise(detach: bool) -> Result<()> {
    if detach {
        launch::supervise_in_background(SUPERVISE).context("cannot start the supervisor")?;
        return Ok(());
    }
    vgpu::supervisor::main().context("the supervisor failed")
}
