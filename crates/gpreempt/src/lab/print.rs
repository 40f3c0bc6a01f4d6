//! `gpreempt lab print`: prints a built-in file, to copy and edit.

use std::io::Write;

use anyhow::Result;
use gpreempt_lab::input::InputError;
use gpreempt_lab::{Profile, Workload};

pub(crate) fn run(name: &str, out: &mut impl Write) -> Result<()> {
    let builtins = Workload::builtins().iter().chain(Profile::builtins());
    let Some(builtin) = builtins.clone().find(|builtin| builtin.name == name) else {
        return Err(InputError::NotFound {
            kind: "built-in workload or profile",
            name: name.to_string(),
            reason: "nothing of that name ships with the laboratory".to_string(),
            known: builtins.map(|builtin| builtin.name).collect(),
        }
        .into());
    };
    out.write_all(builtin.text.as_bytes())?;
    Ok(())
}
