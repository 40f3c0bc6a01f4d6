//! The core's promises, checked over random histories. Every check must also detect its mutants.

mod deadline;
mod fair;
mod monitor;
mod scenario;
mod stop_share;
mod strict;
mod world;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::string::String;

use crate::mutant::{self, Mutant};

/// Histories per property. `GPREEMPT_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("GPREEMPT_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(96)
}

fn runner(cases: u32, shrink: u32) -> TestRunner {
    let config = Config { cases, max_shrink_iters: shrink, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Asserts that the property holds for all inputs tried.
fn holds<S: Strategy>(inputs: &S, check: impl Fn(&S::Value) -> Result<(), String>) {
    let result = runner(cases(), 60).run(inputs, |input| check(&input).map_err(TestCaseError::fail));
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

/// Asserts that the property detects the mutant.
fn notices<S: Strategy>(mutant: Mutant, inputs: &S, check: impl Fn(&S::Value) -> Result<(), String>) {
    let result = mutant::with(mutant, || {
        runner(cases().max(96), 0).run(inputs, |input| check(&input).map_err(TestCaseError::fail))
    });
    assert!(result.is_err(), "{mutant:?} went unnoticed");
}
