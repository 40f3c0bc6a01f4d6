//! Shell completions and manual pages, generated from the description of the command line.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli;

/// Prints the completion script of a shell.
pub(crate) fn completions(shell: Shell, out: &mut impl Write) -> Result<()> {
    // The generator panics when it cannot write, so it writes to memory first.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "gpreempt", &mut script);
    out.write_all(&script)?;
    Ok(())
}

/// Writes gpreempt.1, gpreempt-lab.1, ... into an existing directory.
pub(crate) fn write_pages(directory: &Path) -> Result<()> {
    let written = clap_mangen::generate_to(cli::command(), directory)
        .and_then(|()| fs::write(directory.join("gpreempt.1"), overview()?));
    written.with_context(|| format!("cannot write manual pages into `{}`", directory.display()))
}

/// Returns the page of the command itself, with a section for each group of subcommands as in `--help`.
fn overview() -> io::Result<Vec<u8>> {
    let command = cli::command();
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    for group in &cli::GROUPS {
        writeln!(text, ".SH {}", group.heading.to_uppercase())?;
        for (name, about) in cli::summaries(&command, group) {
            writeln!(text, ".TP\n\\fBgpreempt\\-{name}\\fR(1)\n{}", about.replace('-', "\\-"))?;
        }
    }
    page.render_options_section(&mut text)?;
    page.render_version_section(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_page_has_the_groups_of_the_help() {
        let page = String::from_utf8(overview().unwrap()).unwrap();
        for group in &cli::GROUPS {
            let (_, section) = page.split_once(&format!(".SH {}\n", group.heading.to_uppercase())).expect("a section");
            let section = section.split(".SH ").next().unwrap_or_default();
            for name in group.names {
                assert!(section.contains(&format!("gpreempt\\-{name}\\fR(1)")), "{name} in {section}");
            }
        }
    }
}
