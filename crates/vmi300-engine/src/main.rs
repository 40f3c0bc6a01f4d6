//! The executing engine of `kernel/vmi300`: executes the code of GPU programs in the guest of `cargo xtask kernel`.
//!
//! The guest's init starts it. Without a subcommand it waits for programs that use the gpu and starts itself once for
//! each of them, as `serve`.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use vgpu::vmi300::{self, AddressSpace, DEVICE};

/// Executes GPU programs of this machine below AMD's driver, on the virtual device of kernel/vmi300.
///
/// The module amdgpu.ko of `cargo xtask kernel` has to be loaded with `engine=executing`. Runs until a signal ends it.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// The device file of the module.
    #[arg(long, value_name = "FILE", default_value = DEVICE, global = true)]
    device: PathBuf,

    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// Execute the code of one program. Started by vmi300-engine itself; the standard input is the chip.
    #[command(hide = true)]
    Serve(Serve),
}

#[derive(Args)]
struct Serve {
    #[arg(long)]
    id: u64,
    #[arg(long)]
    gpu: u32,
    #[arg(long)]
    read_index: u32,
    #[arg(long)]
    slot: u32,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    match &cli.role {
        Some(Role::Serve(Serve { id, gpu, read_index, slot })) => {
            let space = AddressSpace { id: *id, gpu: *gpu, read_index: *read_index, slot: *slot };
            vmi300::serve(&cli.device, &space).context("cannot execute for a program")
        }
        None => {
            let program = std::env::current_exe().context("cannot find this executable")?;
            let command = |space: &AddressSpace| {
                let mut command = Command::new(&program);
                command.arg("--device").arg(&cli.device).arg("serve");
                for (name, value) in [
                    ("--id", space.id),
                    ("--gpu", space.gpu.into()),
                    ("--read-index", space.read_index.into()),
                    ("--slot", space.slot.into()),
                ] {
                    command.args([name, &value.to_string()]);
                }
                command
            };
            vmi300::supervise(&cli.device, command)
                .context("cannot wait for programs; is amdgpu.ko loaded with engine=executing?")
        }
    }
}
