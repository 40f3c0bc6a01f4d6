//! The one test command: what must hold before a change is accepted.

use anyhow::Result;

use crate::run::{Step, run};
use crate::setup::setup;

const FORMAT: &[&str] = &["cargo", "fmt", "--all", "--check"];
const LINTS: &[&str] = &["cargo", "clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
const TESTS: &[&str] = &["cargo", "test", "--workspace", "--locked"];
// Without documentation tests: `ignore` has another meaning there.
const LONG_TESTS: &[&str] =
    &["cargo", "test", "--workspace", "--locked", "--lib", "--bins", "--tests", "--", "--ignored"];
const DOCUMENTATION: &[&str] = &["cargo", "doc", "--workspace", "--no-deps", "--locked"];

/// Runs everything; `full` adds the tests that are ignored by default.
pub(crate) fn test(full: bool) -> Result<()> {
    let mut steps = vec![
        Step { name: "set-up".to_string(), action: Box::new(setup) },
        Step::command("formatting", FORMAT, &[]),
        Step::command("lints", LINTS, &[]),
        Step::command("tests", TESTS, &[]),
    ];
    if full {
        steps.push(Step::command("long tests", LONG_TESTS, &[]));
    }
    let documentation = Step::command("documentation", DOCUMENTATION, &[("RUSTDOCFLAGS", "-D warnings")]);
    steps.push(documentation);
    run(&steps)
}
