//! `gpreempt config`: checks a configuration, prints the settings in effect, or prints a file to start from.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use gpreemptd::config::{Config as Configuration, INIT};
use gpreemptd::daemon::CONFIG;
use serde::Serialize;

use crate::cli::{Config, ConfigFile};
use crate::output::{self, BlameUser as _};

#[derive(Serialize)]
struct Checked {
    schema: u32,
    file: String,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Printed {
    schema: u32,
    file: String,
    toml: String,
}

pub(crate) fn run(action: &Config, out: &mut impl Write) -> Result<()> {
    match action {
        Config::Check(options) => check(options, out),
        Config::Print(options) => print(options, out),
        Config::Init => Ok(out.write_all(INIT.as_bytes())?),
    }
}

fn file(options: &ConfigFile) -> &Path {
    options.file.as_deref().unwrap_or_else(|| Path::new(CONFIG))
}

fn check(options: &ConfigFile, out: &mut impl Write) -> Result<()> {
    let path = file(options);
    let warnings = Configuration::load(path).blame_user()?.warnings();
    let file = path.display().to_string();
    if options.json {
        return output::json(&Checked { schema: output::SCHEMA, file, warnings }, out);
    }
    for warning in &warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let found = output::count(warnings.len() as u64, "warning", "warnings");
    writeln!(out, "{file}: valid, {found}.")?;
    Ok(())
}

fn print(options: &ConfigFile, out: &mut impl Write) -> Result<()> {
    let path = file(options);
    // Without a file at the default path the daemon runs with the defaults, so those are in effect.
    let config = match &options.file {
        None if !path.exists() => Configuration::default(),
        _ => Configuration::load(path).blame_user()?,
    };
    let toml = config.print();
    if options.json {
        let file = path.display().to_string();
        return output::json(&Printed { schema: output::SCHEMA, file, toml }, out);
    }
    Ok(out.write_all(toml.as_bytes())?)
}
