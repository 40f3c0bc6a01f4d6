//! Shell completions and manual pages, made from the command line's own description.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

/// Prints the completion script of a shell.
pub(crate) fn completions(shell: Shell, out: &mut impl Write) -> Result<()> {
    // The generator panics when it cannot write, so it writes to memory first.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "gpreempt", &mut script);
    out.write_all(&script)?;
    Ok(())
}

/// Writes gpreempt.1, gpreempt-lab.1, ... into an existing directory.
pub(crate) fn write_pages(directory: &Path) -> Result<()> {
    clap_mangen::generate_to(Cli::command(), directory)
        .with_context(|| format!("cannot write manual pages into `{}`", directory.display()))
}
