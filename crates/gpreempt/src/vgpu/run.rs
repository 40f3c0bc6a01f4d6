//! `gpreempt vgpu run`, `shell` and `env`.

use std::ffi::OsString;
use std::io::Write;

use anyhow::{Context, Result, anyhow};
use gpreempt_trials::environment::SUPERVISOR;
use vgpu::launch::{self, Explicit, Options, Setup, Started};
use vgpu::profile::Profile;

use crate::cli::{VgpuEnv, VgpuFaults, VgpuGpu, VgpuRun, VgpuShell};
use crate::output::UserError;

/// Arguments that make this executable the supervisor of a virtual gpu.
const SUPERVISE: &[&str] = &["vgpu", "supervise"];

const DEFAULT_PROFILE: &str = "mi300x";

fn setup(gpu: &VgpuGpu) -> Result<Setup> {
    let mut profile = Profile::load(gpu.profile.as_deref().unwrap_or(DEFAULT_PROFILE))?;
    if let Some(cus) = gpu.cus {
        profile = profile.with_cus(cus)?;
    }
    if let Some(gpus) = gpu.gpus {
        profile = profile.with_gpus(gpus)?;
    }
    if let Some(kind) = gpu.read_index {
        profile.read_index = kind;
    }
    let mut setup = Setup::new(profile);
    setup.name = gpu.name.clone();
    setup.shared = gpu.shared;
    setup.kernel = gpu.kernel.unwrap_or_default();
    setup.explicit = Explicit {
        profile: gpu.profile.is_some(),
        cus: gpu.cus.is_some(),
        gpus: gpu.gpus.is_some(),
        read_index: gpu.read_index.is_some(),
        kernel: gpu.kernel.is_some(),
        ..Explicit::default()
    };
    Ok(setup)
}

fn options(faults: &VgpuFaults) -> Options {
    let usual = Options::default();
    Options {
        storm: faults.storm,
        preemption_timeout_ms: faults.preemption_timeout_ms.unwrap_or(usual.preemption_timeout_ms),
        hang_at_cycle: faults.hang_at_cycle,
        sampling_after_stop_ms: faults.sampling_after_stop_ms,
        mutant: faults.mutant,
        points: None,
    }
}

fn become_program(setup: &Setup, program: &OsString, arguments: &[OsString]) -> Result<()> {
    // The program may close the connection it inherits without knowing of it, so it also holds the gpu by itself.
    let started = start(setup, std::process::id())?;
    Err(launch::exec(started, program, arguments).into())
}

fn start(setup: &Setup, hold: u32) -> Result<Started> {
    Ok(launch::start(setup, Some(hold), SUPERVISOR)?)
}

pub(crate) fn run(flags: &VgpuRun) -> Result<()> {
    let (program, arguments) = flags.command.split_first().context("there is no program to run")?;
    let mut setup = setup(&flags.gpu)?;
    setup.options = options(&flags.faults);
    setup.explicit.options = setup.options != Options::default();
    if setup.options.sampling_after_stop_ms.is_some() && !setup.kernel.behaviours().sampling_excludes_debugging {
        let kernel = setup.kernel.name();
        let error = anyhow!("the driver of {kernel} knows no sampling: --sampling-after-stop-ms needs --kernel dkms");
        return Err(UserError::new(error).into());
    }
    become_program(&setup, program, arguments)
}

pub(crate) fn shell(options: &VgpuShell) -> Result<()> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    become_program(&setup(&options.gpu)?, &shell, &options.arguments)
}

pub(crate) fn env(options: &VgpuEnv, out: &mut impl Write) -> Result<()> {
    let hold = options.hold.unwrap_or_else(std::os::unix::process::parent_id);
    let started = start(&setup(&options.gpu)?, hold)?;
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
