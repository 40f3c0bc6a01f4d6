//! Licences, sources and advisories of the dependencies. The policy is deny.toml.
//!
//! Licences and sources are checked here, from `cargo metadata`, so that they need no tool. Advisories need cargo-deny
//! and its database, a git repository on github.com. cargo-deny is used where it is installed. It is not installed
//! here: that takes minutes of compiling, and on a machine that reaches package registries only, the database is
//! missing still. Where advisories are not checked, one line says so and why, and the step does not fail.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use spdx::{Expression, ParseMode};

use crate::run::{command, root};

/// The one source that dependencies may come from.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The database of advisories that cargo-deny uses.
const DATABASE: &str = "https://github.com/RustSec/advisory-db";

#[derive(Deserialize)]
struct Policy {
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for the crates of this workspace.
    source: Option<String>,
}

/// Checks all dependencies.
///
/// # Errors
/// If one has a licence or a source that deny.toml does not allow, or an advisory is known for it.
pub(crate) fn dependencies() -> Result<()> {
    let policy = fs::read_to_string(root().join("deny.toml")).context("cannot read deny.toml")?;
    let policy: Policy = toml::from_str(&policy).context("deny.toml is not as expected")?;
    let output = command("cargo").args(["metadata", "--format-version", "1", "--locked"]).output()?;
    if !output.status.success() {
        bail!("`cargo metadata` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    let problems: Vec<String> =
        metadata.packages.iter().filter_map(|package| problem(package, &policy.licenses.allow)).collect();
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    println!("{} packages: licences and sources are allowed by deny.toml", metadata.packages.len());
    println!("advisories: {}", advisories(|| command("cargo"))?);
    Ok(())
}

/// Names the first thing that the policy forbids about a package.
fn problem(package: &Package, allowed: &BTreeSet<String>) -> Option<String> {
    let Package { name, version, license, source } = package;
    if let Some(source) = source
        && source != CRATES_IO
    {
        return Some(format!("{name} {version} comes from {source}, not from crates.io"));
    }
    let Some(license) = license else {
        return Some(format!("{name} {version} names no licence"));
    };
    let Ok(expression) = Expression::parse_mode(license, ParseMode::LAX) else {
        return Some(format!("{name} {version} has the licence {license:?}, which is no SPDX expression"));
    };
    let is_allowed = expression.evaluate(|term| {
        // A licence with an exception grants more than the licence alone.
        term.license.id().is_some_and(|id| allowed.contains(id.name))
    });
    (!is_allowed).then(|| format!("{name} {version} has the licence {license:?}, which deny.toml does not allow"))
}

/// Asks cargo-deny for advisories, and returns what is known then. `cargo` makes a command that starts cargo.
///
/// # Errors
/// If there is an advisory, or cargo-deny fails for another reason than its database.
fn advisories(cargo: impl Fn() -> Command) -> Result<String> {
    let is_installed = cargo().args(["deny", "--version"]).output().is_ok_and(|output| output.status.success());
    if !is_installed {
        return Ok(format!("not checked: cargo-deny is not installed; it needs {DATABASE}, to be reached by git"));
    }
    let output = cargo().args(["deny", "check", "advisories"]).output().context("cannot start cargo-deny")?;
    let printed = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok("none".to_owned())
    } else if printed.contains("failed to fetch advisory database") {
        Ok(format!("not checked: cargo-deny cannot fetch {DATABASE}, a git repository that this machine cannot reach"))
    } else {
        bail!("cargo-deny found advisories:\n{}", printed.trim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_with(license: Option<&str>, source: &str) -> Option<String> {
        let package = Package {
            name: "a".into(),
            version: "1.0.0".into(),
            license: license.map(Into::into),
            source: Some(source.into()),
        };
        problem(&package, &["MIT", "Apache-2.0"].map(String::from).into())
    }

    #[test]
    fn a_licence_is_allowed_if_one_alternative_is() {
        for license in ["MIT", "MIT OR GPL-2.0-only", "MIT/Apache-2.0", "(MIT OR Zlib) AND Apache-2.0"] {
            assert_eq!(problem_with(Some(license), CRATES_IO), None, "{license}");
        }
    }

    #[test]
    fn a_licence_that_is_forbidden_unknown_or_missing_is_a_problem() {
        for license in [Some("GPL-3.0-only"), Some("MIT AND GPL-2.0-only"), Some("mine alone"), None] {
            assert!(problem_with(license, CRATES_IO).is_some(), "{license:?}");
        }
    }

    #[test]
    fn a_package_from_elsewhere_is_a_problem() {
        let problem = problem_with(Some("MIT"), "git+https://example.org/a").expect("is forbidden");
        assert!(problem.contains("example.org"), "{problem}");
    }

    /// Asks for advisories with a cargo whose `deny` is this shell script.
    fn advisories_with(script: &str) -> Result<String> {
        let cargo = || {
            let mut shell = Command::new("sh");
            // cargo passes the subcommand's name on to the program.
            shell.args(["-c", script, "cargo"]);
            shell
        };
        advisories(cargo)
    }

    #[test]
    fn a_machine_without_cargo_deny_says_so_and_passes() {
        let said = advisories_with("echo 'error: no such command: `deny`' >&2; exit 101").expect("is no failure");
        assert!(said.starts_with("not checked: cargo-deny is not installed") && said.contains(DATABASE), "{said}");
        assert_eq!(said.lines().count(), 1);
    }

    #[test]
    fn a_machine_that_cannot_reach_the_database_says_so_and_passes() {
        let script = r#"test "$1 $2" = 'deny --version' && exit
            echo "[ERROR] failed to fetch advisory database https://github.com/RustSec/advisory-db" >&2; exit 1"#;
        let said = advisories_with(script).expect("is no failure");
        assert!(said.contains("a git repository that this machine cannot reach"), "{said}");
        assert_eq!(said.lines().count(), 1);
    }

    #[test]
    fn an_installed_cargo_deny_decides() {
        assert_eq!(advisories_with("exit 0").expect("no advisory"), "none");
        let script = r#"test "$1 $2" = 'deny --version' && exit
            test "$*" = 'deny check advisories' && echo 'error[vulnerability]: RUSTSEC-2099-0001' >&2; exit 1"#;
        let error = advisories_with(script).expect_err("there is one").to_string();
        assert!(error.contains("RUSTSEC-2099-0001"), "{error}");
    }
}
