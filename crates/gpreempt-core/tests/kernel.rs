//! The core can live in a kernel: no allocator, no floating point, no 128-bit division, no path to a panic, and little
//! stack.
//!
//! The tests compile the core and a host that uses its whole interface over borrowed slots with rustc, optimised as a
//! kernel would be, for a target without an operating system where that is installed and for this machine otherwise.
//! The undefined symbols of the objects are everything that the core can reach; the compiler writes the stack frame of
//! each function beside it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};

/// Symbols that a freestanding target provides: memory routines, nothing else.
const ALLOWED: &[&str] = &["memcpy", "memmove", "memset", "memcmp", "bcmp"];

/// The formatter of error messages and times belongs to Rust's core library.
const PRINTING: &str = "4core3fmt";

const BARE_METAL: &str = "x86_64-unknown-none";

/// Most bytes of stack that a function of the core may take: a kernel has 16 KiB for all of a call.
const LARGEST_FRAME: u64 = 1024;

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
    // Asks a stable compiler for what only a nightly one offers otherwise, as builds for a kernel do.
    command.env("RUSTC_BOOTSTRAP", "1").args(["-Z", "emit-stack-sizes"]);
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

/// Reads a number in LEB128 from the start of `bytes`, which it shortens by it.
fn leb128(bytes: &mut &[u8]) -> u64 {
    let length = bytes.iter().position(|byte| byte & 0x80 == 0).expect("a last byte") + 1;
    let (number, rest) = bytes.split_at(length);
    *bytes = rest;
    number.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7F))
}

/// Functions of an object with the bytes of stack that each takes.
fn frames(bytes: &[u8]) -> Vec<(String, u64)> {
    let file = object::File::parse(bytes).expect("an object file");
    let mut frames = Vec::new();
    for section in file.sections().filter(|section| section.name() == Ok(".stack_sizes")) {
        let mut data = section.data().expect("its bytes");
        // A record is the address of a function, which a relocation fills in, and the size.
        for (_, relocation) in section.relocations() {
            data = &data[8..];
            let RelocationTarget::Symbol(symbol) = relocation.target() else { panic!("a symbol") };
            let symbol = file.symbol_by_index(symbol).expect("a symbol");
            // Every function has a section of its own, which is named after it.
            let home = file.section_by_index(symbol.section_index().expect("defined here")).expect("a section");
            let name = home.name().expect("its name").trim_start_matches(".text.").to_owned();
            frames.push((name, leb128(&mut data)));
        }
    }
    frames
}

/// The objects of the core, and of a host over borrowed slots.
fn objects() -> &'static [Vec<u8>] {
    static OBJECTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (library, host) = (dir.path().join("libgpreempt_core.rlib"), dir.path().join("host.o"));
        compile(&source("src/lib.rs"), &library, &["--crate-type", "rlib", "--crate-name", "gpreempt_core"]);
        let link = format!("gpreempt_core={}", library.display());
        compile(&source("tests/kernel/host.rs"), &host, &["--crate-type", "lib", "--emit", "obj", "--extern", &link]);
        println!("compiled for {}", target().unwrap_or("this machine"));

        let library = std::fs::read(&library).expect("the library");
        let archive = object::read::archive::ArchiveFile::parse(&*library).expect("an archive");
        let members = archive.members().map(|member| member.expect("a member"));
        let mut objects: Vec<Vec<u8>> = members
            .filter(|member| member.name().ends_with(b".o"))
            .map(|member| member.data(&*library).expect("its bytes").to_vec())
            .collect();
        assert!(!objects.is_empty(), "the library holds no object");
        objects.push(std::fs::read(&host).expect("the host object"));
        objects
    })
}

#[test]
fn the_compiled_core_calls_nothing_but_memory_routines() {
    let called: Vec<String> = objects().iter().flat_map(|object| undefined(object)).collect();
    let known = |name: &str| name.contains("gpreempt_core") || name.contains(PRINTING) || ALLOWED.contains(&name);
    let reached: Vec<_> = called.iter().filter(|name| !known(name)).collect();
    assert!(reached.is_empty(), "the core can reach {reached:#?}");
}

#[test]
fn no_function_of_the_core_takes_more_than_a_kibibyte_of_stack() {
    let mut frames: Vec<(String, u64)> = objects().iter().flat_map(|object| frames(object)).collect();
    frames.sort_by_key(|(_, size)| *size);
    for entry in ["kernel_new", "kernel_tick", "kernel_show"] {
        assert!(frames.iter().any(|(name, _)| name == entry), "{entry} is missing in {frames:#?}");
    }
    println!("the largest frames: {:#?}", frames.iter().rev().take(5).collect::<Vec<_>>());
    let large: Vec<_> = frames.iter().filter(|(_, size)| *size > LARGEST_FRAME).collect();
    assert!(large.is_empty(), "frames above {LARGEST_FRAME} bytes: {large:#?}");
}

/// Compiles a few lines for the same checks. If these found nothing there, they would prove nothing above.
fn compile_text(text: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (code, object) = (dir.path().join("probe.rs"), dir.path().join("probe.o"));
    std::fs::write(&code, text).expect("written");
    compile(&code, &object, &["--crate-type", "lib", "--emit", "obj"]);
    std::fs::read(&object).expect("the object")
}

#[test]
fn the_probe_notices_a_panic() {
    let text = "#![no_std]\n#[unsafe(no_mangle)] pub fn pick(s: &[u64], i: usize) -> u64 { s[i] }\n";
    let called = undefined(&compile_text(text));
    assert!(called.iter().any(|name| name.contains("panic")), "{called:?}");
}

#[test]
fn the_probe_notices_a_table_on_the_stack() {
    let text = "#![no_std]\n#[unsafe(no_mangle)] pub fn fill(f: fn(&mut [u64; 200])) { f(&mut [7; 200]) }\n";
    let frames = frames(&compile_text(text));
    assert!(frames.iter().any(|(name, size)| name == "fill" && *size >= 1600), "{frames:?}");
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
