//! The rules of observation can live in a kernel, as the core can: no allocator, no floating point, no path to a panic,
//! and little stack.
//!
//! The checks are those of the core (`gpreempt-core/tests/kernel.rs`, which shows that they notice what they look for),
//! with a host that uses the whole interface over borrowed slots and reads memory through a function of another
//! language.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gpreempt_observe::{RingState, Scratch, TenantProbe};

#[allow(dead_code, reason = "the tests of the core check the checks as well")]
#[path = "../../gpreempt-core/tests/kernel/objects.rs"]
mod objects;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn compiled() -> &'static [Vec<u8>] {
    static OBJECTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let crates = [
        ("gpreempt_core", source("../gpreempt-core/src/lib.rs")),
        ("kfd_abi", source("../kfd-abi/src/lib.rs")),
        ("gpreempt_observe", source("src/lib.rs")),
    ];
    OBJECTS.get_or_init(|| objects::objects(&crates, &source("tests/kernel/host.rs")))
}

#[test]
fn the_compiled_rules_call_nothing_but_memory_routines() {
    let known = ["gpreempt_core", "gpreempt_observe", "kfd_abi", "host_read"];
    objects::must_call_nothing_but_memory_routines(compiled(), &known);
}

#[test]
fn no_function_of_the_rules_takes_more_than_a_kibibyte_of_stack() {
    let entries = ["kernel_fill", "kernel_set_rings", "kernel_poll", "kernel_sampled"];
    objects::must_take_little_stack(compiled(), &entries);
}

#[test]
fn the_source_uses_no_allocator_no_floats_and_no_unsafe_code() {
    let read = objects::must_be_kernel_source(&source("src"), &[]);
    assert!(read >= 12, "only {read} files read");
}

/// Every slot lies in memory that the host allocates, and the probe may lie on a stack.
#[test]
fn a_ring_takes_a_page_and_a_probe_few_words() {
    type Probe<'a> = TenantProbe<&'a mut [RingState]>;
    let sizes = [size_of::<RingState>(), size_of::<Scratch>(), size_of::<Probe<'_>>()];
    println!("ring {}, scratch {}, probe {} bytes", sizes[0], sizes[1], sizes[2]);
    assert!(sizes[0] <= 4096 && sizes[1] <= 7 * 1024 && sizes[2] <= 256, "{sizes:?}");
}
