//! The one test command: what must hold before a change is accepted.

use anyhow::Result;

use crate::clients;
use crate::dependencies::dependencies;
use crate::kernel;
use crate::run::{Step, run};
use crate::setup::setup;
use crate::tidy::tidy;

const FORMAT: &[&str] = &["cargo", "fmt", "--all", "--check"];
const LINTS: &[&str] = &["cargo", "clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
const TESTS: &[&str] = &["cargo", "test", "--workspace", "--locked"];
// What needs more than Rust. Without documentation tests: `ignore` has another meaning there.
const CLIENTS: &[&str] = &["cargo", "test", "--workspace", "--locked", "--lib", "--bins", "--tests", "--", "--ignored"];
// Properties once more, over many more cases.
const MORE_CASES: &[(&str, &str)] = &[("GPREEMPT_CASES", "2000"), ("PROPTEST_CASES", "5000")];
/// The daemon's tests once more on gpus whose read index is of another kind than the profiles'; those that concern what
/// rings show are played for each kind anyway.
const DAEMON: &[&str] = &["cargo", "test", "-p", "gpreempt", "--test", "daemon", "--locked"];
const OTHER_READ_INDICES: [&[(&str, &str)]; 2] =
    [&[("GPREEMPT_TEST_READ_INDEX", "fetch-rewound-at-save")], &[("GPREEMPT_TEST_READ_INDEX", "fetch")]];
const DOCUMENTATION: &[&str] = &["cargo", "doc", "--workspace", "--no-deps", "--locked"];

/// Whole storms and a minute of stress; the tests have small ones.
const STORMS: &[(&str, &[&str])] = &[
    (
        "a storm over the corpus",
        &["cargo", "run", "--release", "--locked", "--", "vgpu", "storm", "--client", "corpus"],
    ),
    ("a storm over kernels", &["cargo", "run", "--release", "--locked", "--", "vgpu", "storm", "--client", "workload"]),
    ("a storm over HIP", &["cargo", "run", "--release", "--locked", "--", "vgpu", "storm", "--client", "hip"]),
    (
        "a storm over tinygrad",
        &["cargo", "run", "--release", "--locked", "--", "vgpu", "storm", "--client", "tinygrad"],
    ),
    ("stress", &["cargo", "run", "--release", "--locked", "--", "vgpu", "stress", "--seconds", "60"]),
];

/// Runs everything; `full` repeats the properties with larger counts, and has whole storms.
pub(crate) fn test(full: bool) -> Result<()> {
    let mut steps = vec![
        Step { name: "set-up".to_string(), action: Box::new(|| setup(false, false)) },
        Step::command("formatting", FORMAT, &[]),
        Step { name: "tidy".to_string(), action: Box::new(tidy) },
        Step { name: "dependencies".to_string(), action: Box::new(dependencies) },
        Step::command("lints", LINTS, &[]),
        Step::command("documentation", DOCUMENTATION, &[("RUSTDOCFLAGS", "-D warnings")]),
        Step::command("tests", TESTS, &[]),
        Step::command("tests with compilers and real clients", CLIENTS, &[]),
        Step { name: "some of AMD's tests of rocRAND".to_string(), action: Box::new(clients::test_some) },
        Step { name: "the package gpreempt-dkms".to_string(), action: Box::new(kernel::test_package) },
        Step {
            name: "the real driver in a virtual machine".to_string(),
            action: Box::new(move || kernel::test_scenarios(full)),
        },
    ];
    if full {
        steps.push(Step { name: "test suites of other projects".to_string(), action: Box::new(clients::test) });
        steps.push(Step::command("larger counts", TESTS, MORE_CASES));
        steps.extend(OTHER_READ_INDICES.map(|kind| Step::command("the daemon and another read index", DAEMON, kind)));
        steps.extend(STORMS.iter().map(|(name, command)| Step::command(name, command, &[])));
    }
    run(&steps)
}
