//! The project's chores: `cargo xtask setup`, `test`, `tidy`, `clients`, `kernel`, `accept NAME` and `record`.
#![forbid(unsafe_code)]

mod accept;
mod clients;
mod dependencies;
mod kernel;
mod loaded;
mod packages;
mod record;
mod rocm;
mod run;
mod setup;
mod test;
mod tidy;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// The chores of the gpreempt repository.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check that this machine has what the tests need, and install what is missing.
    ///
    /// Prints first what it is about to install and where. Installs nothing that is already there. Python packages and
    /// ROCm go below target/; compilers and debuggers are installed with apt-get.
    Setup {
        /// Only print what would be installed.
        #[arg(long)]
        plan: bool,

        /// Also install JAX below target/jax: 2 GB of Debian's and PyPI's packages, 5 GB unpacked.
        ///
        /// For examples/jax_train.py and `gpreempt demo --client jax`. $GPREEMPT_JAX names another directory.
        #[arg(long)]
        jax: bool,
    },

    /// Set up, then check formatting, lints, all tests and the documentation.
    ///
    /// Stops at the first failure. This is what continuous integration runs.
    Test {
        /// Also repeat the properties over many more cases, and run whole storms and a minute of stress.
        #[arg(long)]
        full: bool,
    },

    /// Repeat the tests that watch processes and clocks, and the stress test, beside busy processes.
    Loaded {
        /// How often to run them.
        #[arg(long, value_name = "N", default_value_t = 3)]
        times: u32,

        /// How many processes spin meanwhile.
        #[arg(long, value_name = "N", default_value_t = 2)]
        busy: u32,

        /// How long the rounds may take together, building excluded.
        #[arg(long, value_name = "N", default_value_t = 20)]
        minutes: u32,
    },

    /// Run an acceptance list: commands, and what must be true of their results.
    ///
    /// The lists are the files of crates/xtask/acceptance.
    Accept {
        /// The list to run; without it, the lists are named.
        name: Option<String>,

        /// Only print the steps of the list.
        #[arg(long)]
        list: bool,

        /// Also run the steps that need more than `cargo xtask setup` installs, or hours.
        #[arg(long)]
        full: bool,
    },

    /// Run a test suite of another project on the virtual gpu.
    Clients {
        #[command(subcommand)]
        suite: clients::Suite,
    },

    /// Run AMD's own driver in a Linux kernel in QEMU, on a device module of ours.
    Kernel {
        #[command(subcommand)]
        part: kernel::Part,
    },

    /// Check the house rules of CONTRIBUTING.md: names, lengths, prose, lint exceptions.
    Tidy,

    /// Run the product and put what it prints into the documentation.
    Record {
        /// What to record.
        what: Recording,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Recording {
    /// The demo, as a picture and a caption in the README. Measured, so best done on a quiet machine.
    Demo,
    /// The table of `gpreempt lab compare` in docs/lab.md. Simulated: a test compares it.
    Lab,
}

fn main() -> ExitCode {
    let result = match Cli::parse().chore {
        Chore::Setup { plan, jax } => setup::setup(plan, jax),
        Chore::Test { full } => test::test(full),
        Chore::Loaded { times, busy, minutes } => {
            loaded::loaded(times, busy, Duration::from_secs(60 * u64::from(minutes)))
        }
        Chore::Accept { name, list, full } => accept::accept(name.as_deref(), list, full),
        Chore::Clients { suite } => clients::clients(&suite),
        Chore::Kernel { part } => kernel::kernel(&part),
        Chore::Tidy => tidy::tidy(),
        Chore::Record { what: Recording::Demo } => record::demo(),
        Chore::Record { what: Recording::Lab } => record::lab(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
