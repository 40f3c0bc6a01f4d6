//! The core can live in a kernel: no allocator, no floating point, no 128-bit division, no path to a panic, and little
//! stack.
//!
//! The tests compile the core and a host that uses its whole interface over borrowed slots with rustc, optimised as a
//! kernel would be, for a target without an operating system where that is installed and for this machine otherwise.
//! The undefined symbols of the objects are everything that the core can reach; the compiler writes the stack frame of
//! each function beside it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

#[path = "kernel/objects.rs"]
mod objects;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The objects of the core, and of a host over borrowed slots.
fn compiled() -> &'static [Vec<u8>] {
    static OBJECTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let crates = [("gpreempt_core", source("src/lib.rs"))];
    OBJECTS.get_or_init(|| objects::objects(&crates, &source("tests/kernel/host.rs")))
}

#[test]
fn the_compiled_core_calls_nothing_but_memory_routines() {
    objects::must_call_nothing_but_memory_routines(compiled(), &["gpreempt_core"]);
}

#[test]
fn no_function_of_the_core_takes_more_than_a_kibibyte_of_stack() {
    objects::must_take_little_stack(compiled(), &["kernel_new", "kernel_tick", "kernel_show"]);
}

/// Compiles a few lines for the same checks. If these found nothing there, they would prove nothing above.
fn compile_text(text: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (code, object) = (dir.path().join("probe.rs"), dir.path().join("probe.o"));
    std::fs::write(&code, text).expect("written");
    objects::compile(&code, &object, &["--crate-type", "lib", "--emit", "obj"]);
    std::fs::read(&object).expect("the object")
}

#[test]
fn the_probe_notices_a_panic() {
    let text = "#![no_std]\n#[unsafe(no_mangle)] pub fn pick(s: &[u64], i: usize) -> u64 { s[i] }\n";
    let called = objects::undefined(&compile_text(text));
    assert!(called.iter().any(|name| name.contains("panic")), "{called:?}");
}

#[test]
fn the_probe_notices_a_table_on_the_stack() {
    let text = "#![no_std]\n#[unsafe(no_mangle)] pub fn fill(f: fn(&mut [u64; 200])) { f(&mut [7; 200]) }\n";
    let frames = objects::frames(&compile_text(text));
    assert!(frames.iter().any(|(name, size)| name == "fill" && *size >= 1600), "{frames:?}");
}

#[test]
fn the_source_uses_no_allocator_no_floats_and_no_unsafe_code() {
    let read = objects::must_be_kernel_source(&source("src"), &["proofs", "mutant.rs"]);
    assert!(read > 15, "only {read} files read");
}
