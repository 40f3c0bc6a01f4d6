//! `gpreempt doctor`: checks whether this machine can be managed, and says what to do where it cannot.

mod actuator;
mod driver;
mod kernel;
mod modules;
mod privileges;
mod processes;
mod service;

use std::io::Write;

use anyhow::{Result, bail};
use comfy_table::{Cell, Color};
use kfd::{KernelScheduler, Switcher};
use serde::Serialize;

use crate::cli::Report;
use crate::output;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckResult {
    /// Nothing to do.
    Ok,
    /// gpreempt works, but less well.
    Warn,
    /// gpreempt cannot stop, or cannot see, anything.
    Fail,
    /// This machine does not provide the information.
    Unknown,
}

impl CheckResult {
    fn name(self) -> &'static str {
        match self {
            CheckResult::Ok => "ok",
            CheckResult::Warn => "warn",
            CheckResult::Fail => "FAIL",
            CheckResult::Unknown => "unknown",
        }
    }

    fn colour(self) -> Option<Color> {
        match self {
            CheckResult::Ok => Some(Color::Green),
            CheckResult::Warn => Some(Color::Yellow),
            CheckResult::Fail => Some(Color::Red),
            CheckResult::Unknown => None,
        }
    }
}

/// One check and its finding.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    result: CheckResult,
    found: String,
    /// What to do; absent where nothing needs doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn new(check: &'static str, result: CheckResult, found: impl Into<String>) -> Check {
        Check { check, result, found: found.into(), remedy: None }
    }

    fn ok(check: &'static str, found: impl Into<String>) -> Check {
        Check::new(check, CheckResult::Ok, found)
    }

    fn warn(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check::new(check, CheckResult::Warn, found).with(remedy)
    }

    fn fail(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check::new(check, CheckResult::Fail, found).with(remedy)
    }

    fn unknown(check: &'static str, found: impl Into<String>) -> Check {
        Check::new(check, CheckResult::Unknown, found)
    }

    fn with(self, remedy: impl Into<String>) -> Check {
        Check { remedy: Some(remedy.into()), ..self }
    }
}

#[derive(Serialize)]
struct Document {
    schema: u32,
    checks: Vec<Check>,
    failed: usize,
    warned: usize,
}

pub(crate) fn run(report: &Report, out: &mut impl Write) -> Result<()> {
    let document = Document::new(checks(report));
    if report.json {
        output::json(&document, out)?;
    } else {
        write(&document, out)?;
    }
    out.flush()?;
    if document.failed > 0 {
        bail!("{} of {} checks failed", document.failed, document.checks.len());
    }
    Ok(())
}

fn checks(report: &Report) -> Vec<Check> {
    let status = service::ask(&report.reach);
    let driver = driver::Driver::probe();
    let mut checks = driver.checks();
    checks.push(modules::check());
    checks.extend(privileges::checks());
    checks.extend(processes::checks(&driver.gpus, status.as_ref().ok()));
    let (configured, unswitchable) = (actuator::configured(&status), Switcher::open().err());
    // The list needs the rights of a claim, and has no consequences.
    let kernel = KernelScheduler::open().and_then(|kernel| kernel.gpus().map(|_| kernel.version()));
    checks.push(kernel::check(&kernel, unswitchable.is_none(), configured, modules::demands_signatures()));
    let answers = actuator::Answers { kernel: kernel.err(), switch: unswitchable };
    checks.push(actuator::check(status.as_ref().ok(), &answers, configured));
    checks.push(service::check(&status));
    checks
}

impl Document {
    fn new(checks: Vec<Check>) -> Document {
        let count = |result| checks.iter().filter(|check| check.result == result).count();
        Document { schema: output::SCHEMA, failed: count(CheckResult::Fail), warned: count(CheckResult::Warn), checks }
    }
}

fn write(document: &Document, out: &mut impl Write) -> Result<()> {
    let mut table = output::listing(&["check", "result", "found"], &[0, 1, 2]);
    for check in &document.checks {
        let result = Cell::new(check.result.name());
        let result = match check.result.colour().filter(|_| output::colours()) {
            Some(colour) => result.fg(colour),
            None => result,
        };
        table.add_row([Cell::new(check.check), result, Cell::new(&check.found)]);
    }
    output::wrap(&mut table);
    writeln!(out, "{table}")?;
    for check in &document.checks {
        if let Some(remedy) = &check.remedy {
            writeln!(out, "{}: {remedy}", check.check)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_comes_with_its_remedy() {
        let checks = vec![
            Check::ok("driver", "interface 1.17"),
            Check::fail("waves are saved", "cwsr_enable=0", "load amdgpu with cwsr_enable=1"),
            Check::unknown("lockdown", "no file"),
        ];
        let document = Document::new(checks);
        assert_eq!((document.failed, document.warned), (1, 0));
        let mut text = Vec::new();
        write(&document, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.ends_with("\nwaves are saved: load amdgpu with cwsr_enable=1\n"), "{text}");
        let value = serde_json::to_value(&document).unwrap();
        assert_eq!(value["checks"][1]["result"], "fail");
        assert!(value["checks"][0].get("remedy").is_none());
    }
}
