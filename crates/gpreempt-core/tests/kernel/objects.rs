//! Compiles crates as a kernel would, and reads what their objects call and how much stack they take.

use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};

/// Symbols that a freestanding target provides: memory routines, nothing else.
const ALLOWED: &[&str] = &["memcpy", "memmove", "memset", "memcmp", "bcmp"];

/// The formatter of error messages and times belongs to Rust's core library.
const PRINTING: &str = "4core3fmt";

const BARE_METAL: &str = "x86_64-unknown-none";

/// Most bytes of stack that a function may take: a kernel has 16 KiB for all of a call.
pub(crate) const LARGEST_FRAME: u64 = 1024;

fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

fn target() -> Option<&'static str> {
    let sysroot = rustc().args(["--print", "sysroot"]).output().expect("rustc runs").stdout;
    let sysroot = PathBuf::from(String::from_utf8(sysroot).expect("a path").trim());
    sysroot.join("lib/rustlib").join(BARE_METAL).join("lib").is_dir().then_some(BARE_METAL)
}

/// Compiles `source` into `out`; panics with the compiler's messages if it fails.
pub(crate) fn compile(source: &Path, out: &Path, args: &[&str]) {
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
pub(crate) fn undefined(bytes: &[u8]) -> Vec<String> {
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
pub(crate) fn frames(bytes: &[u8]) -> Vec<(String, u64)> {
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

/// Compiles crates, each with its name and the root of its source, and last a host that uses them. A crate may use
/// those before it. Returns their objects.
pub(crate) fn objects(crates: &[(&str, PathBuf)], host: &Path) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Where the libraries are that a library uses.
    let mut links = vec!["-L".to_owned(), dir.path().display().to_string()];
    let mut objects = Vec::new();
    for (name, root) in crates {
        let library = dir.path().join(format!("lib{name}.rlib"));
        let args: Vec<&str> = ["--crate-type", "rlib", "--crate-name", name]
            .into_iter()
            .chain(links.iter().map(String::as_str))
            .collect();
        compile(root, &library, &args);
        links.extend(["--extern".to_owned(), format!("{name}={}", library.display())]);
        objects.extend(members(&std::fs::read(&library).expect("the library")));
    }
    let object = dir.path().join("host.o");
    let args: Vec<&str> =
        ["--crate-type", "lib", "--emit", "obj"].into_iter().chain(links.iter().map(String::as_str)).collect();
    compile(host, &object, &args);
    println!("compiled for {}", target().unwrap_or("this machine"));
    objects.push(std::fs::read(&object).expect("the host object"));
    objects
}

/// The objects in a library.
fn members(library: &[u8]) -> Vec<Vec<u8>> {
    let archive = object::read::archive::ArchiveFile::parse(library).expect("an archive");
    let members = archive.members().map(|member| member.expect("a member"));
    let objects: Vec<Vec<u8>> = members
        .filter(|member| member.name().ends_with(b".o"))
        .map(|member| member.data(library).expect("its bytes").to_vec())
        .collect();
    assert!(!objects.is_empty(), "the library holds no object");
    objects
}

/// Fails if the objects use anything but each other's functions and memory routines.
pub(crate) fn must_call_nothing_but_memory_routines(objects: &[Vec<u8>], crates: &[&str]) {
    let called: Vec<String> = objects.iter().flat_map(|object| undefined(object)).collect();
    let known = |name: &str| {
        crates.iter().any(|known| name.contains(known)) || name.contains(PRINTING) || ALLOWED.contains(&name)
    };
    let reached: Vec<_> = called.iter().filter(|name| !known(name)).collect();
    assert!(reached.is_empty(), "the code can reach {reached:#?}");
}

/// Fails if a function takes more stack than [`LARGEST_FRAME`], or if one of `entries` is missing.
pub(crate) fn must_take_little_stack(objects: &[Vec<u8>], entries: &[&str]) {
    let mut frames: Vec<(String, u64)> = objects.iter().flat_map(|object| frames(object)).collect();
    frames.sort_by_key(|(_, size)| *size);
    for entry in entries {
        assert!(frames.iter().any(|(name, _)| name == entry), "{entry} is missing in {frames:#?}");
    }
    println!("the largest frames: {:#?}", frames.iter().rev().take(5).collect::<Vec<_>>());
    let large: Vec<_> = frames.iter().filter(|(_, size)| *size > LARGEST_FRAME).collect();
    assert!(large.is_empty(), "frames above {LARGEST_FRAME} bytes: {large:#?}");
}

/// Fails if source under `root` uses an allocator, floats or unsafe code. `skipped`: files and folders that are
/// compiled for tests only. Returns how many files were read.
pub(crate) fn must_be_kernel_source(root: &Path, skipped: &[&str]) -> usize {
    let forbidden = ["f32", "f64", "extern crate alloc", "alloc::", "u128", "i128", "unsafe {", "std::"];
    let mut files = vec![root.to_path_buf()];
    let mut read = 0;
    while let Some(path) = files.pop() {
        if skipped.iter().any(|skipped| path.ends_with(skipped)) {
            continue;
        }
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).expect("readable").map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for word in forbidden {
            assert!(!code.contains(word), "{} contains {word}", path.display());
        }
        read += 1;
    }
    read
}
