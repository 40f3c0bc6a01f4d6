//! The form of an acceptance list, and where the lists are.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::check::Check;
use crate::run::root;

/// One file of `acceptance/`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// One sentence.
    pub(super) about: String,
    /// In order; the first failure ends the run.
    pub(super) step: Vec<Step>,
}

/// One command.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// What it shows.
    pub(super) name: String,
    /// Program and arguments, run in the root of the workspace.
    pub(super) run: Vec<String>,
    /// Expected exit code.
    #[serde(default)]
    pub(super) exit: i32,
    /// Run it again and expect the same bytes on stdout.
    #[serde(default)]
    pub(super) twice: bool,
    /// Whether it runs with `--full` only: it needs more than `cargo xtask setup` installs, or hours.
    #[serde(default)]
    pub(super) full: bool,
    /// What must be true of its output.
    #[serde(default)]
    pub(super) check: Vec<Check>,
}

fn folder() -> PathBuf {
    root().join("crates/xtask/acceptance")
}

/// The names of all lists.
pub(super) fn names() -> Result<Vec<String>> {
    let folder = folder();
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml")
            && let Some(stem) = path.file_stem()
        {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Reads a list.
pub(super) fn load(name: &str) -> Result<List> {
    let names = names()?;
    if !names.iter().any(|known| known == name) {
        bail!("there is no acceptance list `{name}`; there are: {}", names.join(", "));
    }
    let path = folder().join(name).with_extension("toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not a valid list", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_of_the_repository_can_be_read_and_does_something() {
        let names = names().expect("a folder of lists");
        assert!(names.iter().any(|name| name == "foundation"));
        for name in names {
            let list = load(&name).expect("a valid list");
            assert!(!list.step.is_empty(), "{name} has no step");
            assert!(list.step.iter().all(|step| !step.run.is_empty()), "{name} runs nothing");
        }
    }

    #[test]
    fn an_unknown_list_names_the_known_ones() {
        let Err(error) = load("../../Cargo") else {
            panic!("a file outside the folder was read");
        };
        assert!(error.to_string().contains("foundation"), "{error}");
    }

    #[test]
    fn a_misspelt_key_is_an_error_and_not_a_check_that_never_runs() {
        let text = "about = 'x'\n[[step]]\nname = 'a'\nrun = ['true']\nchecks = []\n";
        assert!(toml::from_str::<List>(text).is_err());
    }
}
