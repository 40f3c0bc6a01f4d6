//! Licences, sources and advisories of the dependencies. The policy is deny.toml.
//!
//! Licences and sources are checked here, from `cargo metadata`, so that they need no tool. Advisories need cargo-deny
//! and its database; where one of them is not to be had, the step says so and does not fail.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use spdx::{Expression, ParseMode};

use crate::run::{command, root};

/// The one source that dependencies may come from.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

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
    advisories()
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

/// Asks cargo-deny for advisories, where it is installed and its database can be fetched.
fn advisories() -> Result<()> {
    if !command("cargo").args(["deny", "--version"]).output().is_ok_and(|output| output.status.success()) {
        println!("advisories: not checked, cargo-deny is not installed (`cargo install cargo-deny`)");
        return Ok(());
    }
    let output = command("cargo").args(["deny", "check", "advisories"]).output()?;
    let printed = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        println!("advisories: none");
    } else if printed.contains("failed to fetch advisory database") {
        println!("advisories: not checked, cargo-deny cannot fetch its database");
    } else {
        bail!("cargo-deny found advisories:\n{printed}");
    }
    Ok(())
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
}
