//! The core can live in a kernel: no allocator, no floating point, no 128-bit division, no path to a panic.
//!
//! The test compiles the core and a host that uses its whole interface with rustc, optimised as a kernel would be, for
//! a target without an operating system where that is installed and for this machine otherwise. The undefined symbols
//! of the objects are everything that the core can reach.

use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol};

/// Symbols that a freestanding target provides: memory routines, nothing else.
const ALLOWED: &[&str] = &["memcpy", "memmove", "memset", "memcmp", "bcmp"];

/// The formatter of error messages and times belongs to Rust's core library.
const PRINTING: &str = "4core3fmt";

const BARE_METAL: &str = "x86_64-unknown-none";

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

fn target() -> Option<&'static str> {
    let sysroot = rustc().args(["--print", "sysroot"]).output().expect("rustc runs").stdout;
    let sysroot = PathBuf::from(String::from_utf8(sysroot).expect("a path").trim());
    sysroot.join("lib/rustlib").join(BARE_METAL).join("lib").is_dir().then_some(BARE_METAL)
}

/// Compiles `source` into `out`; panics with the compiler's messages if it fails.
fn compile(source: &Path, out: &Path, args: &[&str]) {
    let mut command = rustc();
    command.args(["--edition", "2024", "-C", "opt-level=3", "-C", "panic=abort", "-C", "codegen-units=1"]);
    command.args(args).arg(source).arg("-o").arg(out);
    if let Some(target) = target() {
        command.args(["--target", target]);
    }
    let result = command.output().expect("rustc runs");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
}

/// Symbols that the objects use and do not define.
fn undefined(bytes: &[u8]) -> Vec<String> {
    let file = object::File::parse(bytes).expect("an object file");
    file.symbols()
        .filter(ObjectSymbol::is_undefined)
        .filter_map(|symbol| symbol.name().ok().map(String::from))
        .collect()
}

#[test]
fn the_compiled_core_calls_nothing_but_memory_routines() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (library, host) = (dir.path().join("libgpreempt_core.rlib"), dir.path().join("host.o"));
    compile(&source("src/lib.rs"), &library, &["--crate-type", "rlib", "--crate-name", "gpreempt_core"]);
    let link = format!("gpreempt_core={}", library.display());
    compile(&source("tests/kernel/host.rs"), &host, &["--crate-type", "lib", "--emit", "obj", "--extern", &link]);

    let mut called = undefined(&std::fs::read(&host).expect("the host object"));
    let archive = std::fs::read(&library).expect("the library");
    let archive = object::read::archive::ArchiveFile::parse(&*archive).expect("an archive");
    let mut objects = 0;
    for member in archive.members() {
        let member = member.expect("a member");
        if member.name().ends_with(b".o") {
            let data = std::fs::read(&library).expect("the library");
            called.extend(undefined(member.data(&*data).expect("its bytes")));
            objects += 1;
        }
    }
    assert!(objects > 0, "the library holds no object");
    let known = |name: &str| name.contains("gpreempt_core") || name.contains(PRINTING) || ALLOWED.contains(&name);
    let reached: Vec<_> = called.iter().filter(|name| !known(name)).collect();
    assert!(reached.is_empty(), "the core can reach {reached:#?}");
    println!("checked for {}", target().unwrap_or("this machine"));
}

#[test]
fn the_probe_notices_a_panic() {
    // The same check on code that can panic: if it found nothing there, it would prove nothing above.
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (code, object) = (dir.path().join("panics.rs"), dir.path().join("panics.o"));
    let text = "#![no_std]\n#[unsafe(no_mangle)] pub fn pick(s: &[u64], i: usize) -> u64 { s[i] }\n";
    std::fs::write(&code, text).expect("written");
    compile(&code, &object, &["--crate-type", "lib", "--emit", "obj"]);
    let called = undefined(&std::fs::read(&object).expect("the object"));
    assert!(called.iter().any(|name| name.contains("panic")), "{called:?}");
}

#[test]
fn the_source_uses_no_allocator_no_floats_and_no_unsafe_code() {
    let forbidden = ["f32", "f64", "extern crate alloc", "alloc::", "u128", "i128", "unsafe {", "std::"];
    let mut files = vec![source("src")];
    let mut read = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            // Proofs and mutants are compiled for tests only.
            if !path.ends_with("proofs") {
                files.extend(std::fs::read_dir(&path).expect("readable").map(|entry| entry.expect("an entry").path()));
            }
            continue;
        }
        if path.ends_with("mutant.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for word in forbidden {
            assert!(!code.contains(word), "{} contains {word}", path.display());
        }
        read += 1;
    }
    assert!(read > 15, "only {read} files read");
}
