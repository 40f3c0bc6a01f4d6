//! `gpreempt vgpu`: programs on a virtual gpu.

mod isa;
mod kernels;
mod list;
mod profiles;
mod run;
mod status;

use std::io::Write;

use anyhow::Result;
use gpreempt_trials::{storm, stress};
use vgpu::launch::LaunchError;
use vgpu::profile::ProfileError;

use crate::cli::Vgpu;
use crate::output::UserError;

pub(crate) fn run(action: Vgpu, out: &mut impl Write) -> Result<()> {
    let result = match action {
        Vgpu::Run(options) => run::run(&options),
        Vgpu::Env(options) => run::env(&options, out),
        Vgpu::Shell(options) => run::shell(&options),
        Vgpu::List { json } => list::run(json, out),
        Vgpu::Status(options) => status::run(&options, out),
        Vgpu::Profiles { name, json } => profiles::run(name.as_deref(), json, out),
        Vgpu::Kernels { json } => kernels::run(json, out),
        Vgpu::Isa { target, json } => isa::run(target.into(), json, out),
        Vgpu::Storm(options) => storm::run(&options, out),
        Vgpu::Client { client } => storm::run_program(client, out),
        Vgpu::Stress(options) => stress::run(&options, out),
        Vgpu::StressClient(options) => stress::run_client(&options, out),
        Vgpu::StressTracer(options) => stress::run_tracer(&options, out),
        Vgpu::Supervise { detach } => run::supervise(detach),
    };
    result.map_err(mark)
}

/// Marks errors about a profile, a program or a name that the user gave.
fn mark(error: anyhow::Error) -> anyhow::Error {
    use LaunchError::{NotShared, Outside, Profile, Program, Unknown};
    let of_launch =
        matches!(error.downcast_ref(), Some(Profile(_) | Program { .. } | Unknown(_) | NotShared(_) | Outside));
    if of_launch || error.is::<ProfileError>() { UserError::new(error).into() } else { error }
}
