//! `cargo xtask clients`: test suites of other projects on the virtual gpu.

mod dbgapi;
mod gtest;
mod process;

use anyhow::{Context, Result, ensure};
use clap::Subcommand;

use crate::run::{command, root};

/// A test suite of another project.
#[derive(Clone, Subcommand)]
pub(crate) enum Suite {
    /// AMD's debugger library (ROCdbgapi), which judges what waves leave in their save area.
    ///
    /// Our debugger attaches to a HIP program with it, lists, stops, reads and writes waves, steps through them, stops
    /// them at a breakpoint, and leaves. Ends with 0 if all of that works and the program computes the same as without.
    Dbgapi {
        /// Print the results as JSON.
        #[arg(long)]
        json: bool,

        /// Use the debug build of the command, which the tests have built already.
        #[arg(long)]
        debug: bool,
    },

    /// AMD's tests of the HSA runtime, each in a process of its own with a time limit.
    ///
    /// Ends with 0 if every test that upstream enables passes, except those that crates/xtask/clients/rocrtst.toml
    /// leaves out. Tests that upstream disables are run and counted apart.
    Rocrtst(gtest::Options),

    /// AMD's tests of rocRAND, each in a process of its own with a time limit.
    ///
    /// As rocrtst; crates/xtask/clients/rocrand.toml has what is known.
    Rocrand(gtest::Options),
}

/// Runs a suite.
///
/// # Errors
/// If the suite cannot run, or its tests do not pass.
pub(crate) fn clients(suite: &Suite) -> Result<()> {
    match suite {
        Suite::Dbgapi { json, debug } => dbgapi::run(*json, &build(*debug)?),
        Suite::Rocrtst(options) => gtest::run(&gtest::ROCRTST, options, &build(options.debug)?),
        Suite::Rocrand(options) => gtest::run(&gtest::ROCRAND, options, &build(options.debug)?),
    }
}

/// Runs the suites as part of the tests: with the debug build, and judged by what is known to fail.
///
/// # Errors
/// If the results are not the known ones.
pub(crate) fn test() -> Result<()> {
    clients(&Suite::Rocrtst(known("mi300x", "")))?;
    clients(&Suite::Rocrand(known("mi300x", "")))
}

/// Runs tests of one program, which takes seconds, on a gpu of each target: its kernels are compiled for both.
///
/// # Errors
/// If one of them fails.
pub(crate) fn test_some() -> Result<()> {
    ["mi300x", "mi210"]
        .into_iter()
        .try_for_each(|profile| clients(&Suite::Rocrand(known(profile, "test_rocrand_kernel_xorwow"))))
}

fn known(profile: &str, filter: &str) -> gtest::Options {
    let (profile, filter) = (profile.to_owned(), filter.to_owned());
    gtest::Options { json: false, known: true, filter, profile, debug: true }
}

/// Builds the command and returns the path of the executable.
fn build(debug: bool) -> Result<std::path::PathBuf> {
    let mut cargo = command("cargo");
    cargo.args(["build", "--quiet", "--locked", "-p", "gpreempt"]);
    if !debug {
        cargo.arg("--release");
    }
    let status = cargo.status().context("cannot start cargo")?;
    ensure!(status.success(), "the command cannot be built: cargo ended with {status}");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    Ok(target.join(if debug { "debug" } else { "release" }).join("gpreempt"))
}
