//! Every rule is kept by the virtual driver as it is, and every break of it is noticed by the rule that is meant to.

use std::sync::Mutex;

use vgpu::launch::Mutant;

use super::{document, on_vgpu};

/// Rules that may stay unchecked on the virtual gpu.
const UNCHECKED: u64 = 10;

#[test]
#[ignore = "it takes a minute; `cargo xtask test` runs it"]
fn the_virtual_driver_keeps_every_rule() {
    let seen = document(&on_vgpu(&[], &["--json"]));
    let unkept: Vec<_> =
        seen["rules"].as_array().into_iter().flatten().filter(|rule| rule["result"] != "kept").collect();
    assert_eq!(seen["broken"], 0, "{unkept:#?}");
    assert!(seen["unchecked"].as_u64().is_some_and(|count| count <= UNCHECKED), "{unkept:#?}");
}

/// Returns what is wrong with a mutant, if anything is.
fn unnoticed(mutant: Mutant) -> Option<String> {
    let rule = mutant.noticed_by();
    let seen = document(&on_vgpu(&["--mutant", mutant.name()], &["--rule", rule, "--json"]));
    (seen["broken"] != 1).then(|| format!("{} is not noticed by {rule}: {seen:#}", mutant.name()))
}

#[test]
#[ignore = "it takes half a minute; `cargo xtask test` runs it"]
fn every_mutant_is_noticed_by_its_rule() {
    assert!(Mutant::ALL.len() >= 25, "{} mutants", Mutant::ALL.len());
    let left = Mutex::new(Mutant::ALL.iter().copied());
    let next = || left.lock().expect("no panic holds it").next();
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(mutant) = next() {
                    let wrong = unnoticed(mutant);
                    found.lock().expect("no panic holds it").extend(wrong);
                }
            });
        }
    });
    let found = found.into_inner().expect("no panic holds it");
    assert!(found.is_empty(), "{}", found.join("\n"));
}
