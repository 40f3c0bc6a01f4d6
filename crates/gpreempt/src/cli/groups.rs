//! The subcommands by audience, for `--help` and the manual page. clap knows no headings among subcommands.

use clap::builder::styling::Styles;
use clap::{Command, CommandFactory};

use super::Cli;

/// Subcommands under one heading.
pub(crate) struct Group {
    /// The heading: what the reader is about to do.
    pub(crate) heading: &'static str,
    /// The subcommands, most used first.
    pub(crate) names: &'static [&'static str],
}

/// Every subcommand that is not hidden, in exactly one group.
pub(crate) const GROUPS: [Group; 4] = [
    Group {
        heading: "Operate",
        names: &[
            "ps", "set", "hold", "release", "unmanage", "manage", "log", "watch", "stats", "reload", "config",
            "doctor", "daemon",
        ],
    },
    Group { heading: "Run", names: &["run", "notify"] },
    Group { heading: "Evaluate", names: &["demo", "bench", "lab", "selftest", "conformance", "soak"] },
    Group { heading: "Develop", names: &["vgpu", "completions", "man"] },
];

/// Returns the command line with its subcommands grouped in the help text.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let template = template(&command);
    command.help_template(template)
}

/// Returns name and summary of each subcommand of a group.
pub(crate) fn summaries<'a>(command: &'a Command, group: &Group) -> impl Iterator<Item = (&'a str, String)> {
    let find = |name: &&str| command.get_subcommands().find(|found| found.get_name() == *name);
    group.names.iter().filter_map(find).map(|found| {
        let about = found.get_about().map(ToString::to_string).unwrap_or_default();
        (found.get_name(), about.trim_end_matches('.').to_owned())
    })
}

fn template(command: &Command) -> String {
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let width = GROUPS.iter().flat_map(|group| group.names).map(|name| name.len()).max().unwrap_or_default();
    let mut text = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for group in &GROUPS {
        text.push_str(&format!("\n{header}{}:{header:#}\n", group.heading));
        for (name, about) in summaries(command, group) {
            text.push_str(&format!("  {literal}{name:width$}{literal:#}  {about}\n"));
        }
    }
    text.push_str(&format!("\n{header}Options:{header:#}\n{{options}}{{after-help}}"));
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_subcommand_is_in_exactly_one_group() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.names).copied().collect();
        let distinct: BTreeSet<&str> = grouped.iter().copied().collect();
        assert_eq!(grouped.len(), distinct.len(), "a subcommand is in two groups");
        let command = Cli::command();
        let visible: BTreeSet<&str> =
            command.get_subcommands().filter(|found| !found.is_hide_set()).map(Command::get_name).collect();
        assert_eq!(distinct, visible);
    }

    #[test]
    fn the_help_shows_the_groups_and_fits_eighty_columns() {
        let help = command().render_help().to_string();
        for group in &GROUPS {
            assert!(help.contains(&format!("\n{}:\n", group.heading)), "{help}");
            for name in group.names {
                let lines = help.lines().filter(|line| line.split_whitespace().next() == Some(name));
                assert_eq!(lines.count(), 1, "{name} in {help}");
            }
        }
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}
