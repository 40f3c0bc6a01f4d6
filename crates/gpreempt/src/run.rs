//! `gpreempt run`: runs a program at a level.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use gpreempt_proto::Mode;
use gpreemptd::config::{Config, JOB_VARIABLE, LEVEL_VARIABLE, RuleMatch};
use gpreemptd::identity::Identity;
use kfd::Pid;

use crate::cli::Launch;
use crate::client;
use crate::output::UserError;

pub(crate) fn run(options: &Launch) -> Result<()> {
    let (program, arguments) = options.command.split_first().context("there is no program to run")?;
    for warning in prepare(options) {
        // With stderr closed there is no place to print it.
        let _ = writeln!(io::stderr(), "gpreempt: {warning}");
    }
    let mut command = Command::new(program);
    command.args(arguments).env(LEVEL_VARIABLE, options.level.to_string());
    // Without a name, one that was inherited holds: the program belongs to the job that starts it.
    if let Some(job) = &options.job {
        command.env(JOB_VARIABLE, job);
    }
    let error = command.exec();
    Err(UserError::new(anyhow!("cannot run `{}`: {error}", program.to_string_lossy())).into())
}

/// Permits the daemon to trace this process, which `exec` keeps, and returns warnings for the user.
fn prepare(options: &Launch) -> Vec<String> {
    let asked = client::connect(&options.reach).map_err(Into::into).and_then(|mut client| client::status(&mut client));
    let status = match asked {
        Ok(status) => status,
        Err(error) => return vec![format!("the level has no effect: {error:#}")],
    };
    // Where the system asks for no consent it refuses to take any, and none is needed.
    let _ = kfd::ptrace::allow_tracer(Pid(status.daemon_pid));
    let mut warnings = Vec::new();
    if status.mode == Mode::Observe {
        warnings.push("the daemon only observes: nothing is stopped for this program".to_owned());
    }
    // Rules that this user may not read, or that changed since the daemon read them, are the daemon's to apply.
    let config = match status.config {
        Some(path) => Config::load(Path::new(&path)).ok(),
        None => Some(Config::default()),
    };
    if let (Some(config), Ok(identity)) = (config, identity(options)) {
        warnings.extend(refused(config.match_rules(&identity)));
    }
    warnings
}

/// Returns the identity that the program will have.
fn identity(options: &Launch) -> io::Result<Identity> {
    let mut identity = Identity::read(Pid(std::process::id()), &[])?;
    identity.command = options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    identity.executable = identity.command.first().cloned().unwrap_or_default();
    identity.environment.insert(LEVEL_VARIABLE.to_owned(), options.level.to_string());
    if let Some(job) = &options.job {
        identity.environment.insert(JOB_VARIABLE.to_owned(), job.clone());
    }
    Ok(identity)
}

/// Returns warnings where the rules give the program less than it asks for.
fn refused(verdict: RuleMatch) -> Vec<String> {
    match verdict {
        RuleMatch::Managed(assignment) => {
            assignment.notes.into_iter().map(|note| format!("{note} (rule {})", assignment.rule)).collect()
        }
        RuleMatch::Exempt { rule } => {
            vec![format!("the level has no effect: rule {rule} says that this program is not managed")]
        }
        RuleMatch::Unmatched => {
            vec!["the level has no effect: no rule of the daemon's configuration matches this program".to_owned()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_rules_will_not_give_is_said_beforehand() {
        let command = ["sh".into()].into();
        let reach = crate::cli::Reach { socket: None };
        let options = Launch { level: 12, job: Some("serve".to_owned()), reach, command };
        let identity = identity(&options).unwrap();
        let said = |rules: &str| refused(Config::parse("test.toml", rules).unwrap().match_rules(&identity));
        let rule = "[[rule]]\nname = \"all\"\nuser = \"*\"\nlevel = 3\n";
        assert_eq!(said(rule), ["GPREEMPT_LEVEL=12 is above max_level of the rule: the process gets 3 (rule all)"]);
        assert_eq!(said(&format!("{rule}max_level = 15\n")), [""; 0]);
        assert!(said("").concat().contains("no rule"));
    }
}
