//! `cargo xtask kernel core`: the scheduling core as one object that C links into a kernel module.
//!
//! The stock compiler makes it, asked for what only a nightly one offers otherwise, as the kernel's own Rust support
//! does. Only generic code of Rust's core library is instantiated: no other target and no source of the library is
//! needed. What no function of `gpreempt_core.h` reaches is left out by the linker.

mod facts;
mod judge;
pub(super) mod recipe;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::{directory, lock};
use crate::packages::{files_in, has_extension};
use crate::run::{command, root, run_quietly};
use facts::Facts;
use judge::Check;

/// An object and the header that declares its functions.
struct Product {
    name: &'static str,
    header: &'static str,
    /// What the linker takes its functions from.
    parts: &'static [Part],
}

const CORE: Product = Product { name: "gpreempt_core.o", header: "kernel/core/gpreempt_core.h", parts: PARTS };
/// Calls the functions of the core: a test, for a module of its own.
const EXERCISE: Product = Product {
    name: "gpreempt_core_exercise.o",
    header: "kernel/core/exercise/gpreempt_core_exercise.h",
    parts: &[Part("gpreempt_core_exercise", "kernel/core/exercise", &["gpreempt_kernel_abi", "gpreempt_kernel_core"])],
};

/// A crate that is part of the object: name, folder, and the crates that it uses.
struct Part(&'static str, &'static str, &'static [&'static str]);

/// In the order in which they are compiled.
const PARTS: &[Part] = &[
    Part("gpreempt_core", "crates/gpreempt-core", &[]),
    Part("kfd_abi", "crates/kfd-abi", &[]),
    Part("gpreempt_kernel_abi", "crates/gpreempt-kernel-abi", &["gpreempt_core", "kfd_abi"]),
    Part("gpreempt_observe", "crates/gpreempt-observe", &["gpreempt_core", "kfd_abi"]),
    Part("gpreempt_kernel_core", "kernel/core", &["gpreempt_core", "gpreempt_kernel_abi", "gpreempt_observe"]),
];

/// How code of a kernel is compiled: no registers but the general ones, no red zone, addresses in the upper 2 GiB,
/// mitigations of speculation by the kernel's thunks, marks at the targets of indirect calls, no unwinding.
const FLAGS: &[&str] = &[
    "--edition=2024",
    "-Copt-level=3",
    "-Cpanic=abort",
    "-Ccodegen-units=1",
    "-Cdebuginfo=0",
    "-Cembed-bitcode=no",
    "-Ctarget-feature=-sse,-sse2,-avx",
    "-Cno-redzone=yes",
    "-Ccode-model=kernel",
    "-Crelocation-model=static",
    "-Cforce-unwind-tables=no",
    "-Cforce-frame-pointers=yes",
    "-Cjump-tables=no",
    "-Cunsafe-allow-abi-mismatch=retpoline,retpoline-external-thunk",
    "-Zplt=yes",
    "-Zfunction-return=thunk-extern",
    "-Zcf-protection=branch",
    "-Zretpoline-external-thunk=yes",
    "-Zemit-stack-sizes",
];

/// The objects, which lie beside each other.
pub(super) struct Objects {
    pub(super) core: PathBuf,
    pub(super) exercise: PathBuf,
}

/// What to do beyond building.
#[derive(Clone, Default, Args)]
pub(crate) struct Options {
    /// Read the object, and fail unless it is fit for a kernel.
    #[arg(long)]
    check: bool,

    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// What was built, and what is known of it.
#[derive(Serialize)]
struct CoreReport {
    object: PathBuf,
    passed: bool,
    /// Bytes of code.
    text_bytes: u64,
    /// Bytes of constants.
    data_bytes: u64,
    /// The function that takes most stack, and how much.
    largest_frame: (String, u64),
    checks: Vec<Check>,
}

/// Builds the object, checks it and prints what was found.
///
/// # Errors
/// If it cannot be built, or is not fit for a kernel.
pub(super) fn core(options: &Options) -> Result<()> {
    let object = {
        let directory = directory()?;
        let _lock = lock(&directory)?;
        build(&directory)?.core
    };
    let report = examine(&CORE, &object)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        if options.check {
            report.checks.iter().for_each(|check| println!("{check}"));
        }
        let (function, bytes) = &report.largest_frame;
        println!("{}: {} bytes of code, {} of constants", object.display(), report.text_bytes, report.data_bytes);
        println!("largest frame: {bytes} bytes ({function})");
    }
    if options.check { report.verdict() } else { Ok(()) }
}

/// Builds the objects for modules, and returns them if they are fit for a kernel. The caller has the lock of
/// `directory`.
///
/// # Errors
/// If they cannot be built, or are not fit.
pub(super) fn for_modules(directory: &Path) -> Result<Objects> {
    let objects = build(directory)?;
    examine(&CORE, &objects.core)?.verdict()?;
    examine(&EXERCISE, &objects.exercise)?.verdict()?;
    Ok(objects)
}

impl Product {
    /// Returns the functions that its header declares.
    fn functions(&self) -> Result<Vec<String>> {
        let header = fs::read_to_string(root().join(self.header));
        Ok(judge::functions(&header.with_context(|| format!("cannot read {}", self.header))?))
    }
}

impl CoreReport {
    fn verdict(&self) -> Result<()> {
        let failed: Vec<String> =
            self.checks.iter().filter(|check| !check.passed).map(|check| format!("  {check}")).collect();
        ensure!(self.passed, "{} is not fit for a kernel:\n{}", self.object.display(), failed.join("\n"));
        Ok(())
    }
}

/// Reads an object and its stack frames.
fn examine(product: &Product, object: &Path) -> Result<CoreReport> {
    let mut facts = Facts::read(object, &with_frames(object))?;
    if product.name != CORE.name {
        // Both are linked into one module.
        let core = CORE.functions()?;
        facts.undefined.retain(|name| !core.contains(name));
    }
    let checks = judge::judge(&facts, &product.functions()?);
    Ok(CoreReport {
        object: object.to_owned(),
        passed: checks.iter().all(|check| check.passed),
        text_bytes: facts.text_bytes,
        data_bytes: facts.data_bytes,
        largest_frame: facts.frames.iter().max_by_key(|(_, bytes)| *bytes).cloned().unwrap_or_default(),
        checks,
    })
}

/// The object as the linker made it, which has the sizes of stack frames still.
fn with_frames(object: &Path) -> PathBuf {
    object.with_extension("linked")
}

/// Compiles and links, unless that was done for these sources.
fn build(directory: &Path) -> Result<Objects> {
    let begin = Instant::now();
    let place = directory.join("core");
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    let objects = Objects { core: place.join(CORE.name), exercise: place.join(EXERCISE.name) };
    let (stamp, inputs) = (place.join("inputs"), inputs()?);
    let is_there = |object: &PathBuf| object.is_file() && with_frames(object).is_file();
    let are_there = is_there(&objects.core) && is_there(&objects.exercise);
    if are_there && fs::read_to_string(&stamp).ok().as_deref() == Some(&inputs) {
        return Ok(objects);
    }
    for (product, object) in [(&CORE, &objects.core), (&EXERCISE, &objects.exercise)] {
        for part in product.parts {
            compile(part, &place)?;
        }
        let libraries: Vec<PathBuf> = product.parts.iter().map(|part| library(&place, part.0)).collect();
        link(&libraries, &product.functions()?, object)?;
    }
    let notice = objects.core.with_extension("NOTICE");
    fs::write(&notice, notice_text()?).with_context(|| format!("cannot write {}", notice.display()))?;
    fs::write(&stamp, &inputs).with_context(|| format!("cannot write {}", stamp.display()))?;
    eprintln!("core: {} ({:.1} s)", objects.core.display(), begin.elapsed().as_secs_f64());
    Ok(objects)
}

/// Says what the object is made of: another text for other sources, another compiler or other flags.
fn inputs() -> Result<String> {
    let version = command("rustc").arg("-vV").output().context("cannot start rustc")?.stdout;
    let mut hasher = DefaultHasher::new();
    FLAGS.hash(&mut hasher);
    let mut files = vec![root().join("kernel/core/link.lds"), root().join("LICENSE-MIT")];
    for product in [&CORE, &EXERCISE] {
        files.push(root().join(product.header));
        for Part(_, folder, _) in product.parts {
            add_sources(&root().join(folder).join("src"), &mut files)?;
        }
    }
    files.sort();
    for file in files {
        file.hash(&mut hasher);
        fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?.hash(&mut hasher);
    }
    Ok(format!("{}{:016x}\n", String::from_utf8_lossy(&version), hasher.finish()))
}

fn add_sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            add_sources(&path, files)?;
        } else if has_extension(&path, "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn library(place: &Path, name: &str) -> PathBuf {
    place.join(format!("lib{name}.rlib"))
}

/// Starts the compiler with the flags for kernel code.
fn rustc() -> std::process::Command {
    let mut rustc = command("rustc");
    rustc.env("RUSTC_BOOTSTRAP", "1").args(FLAGS).args(["--crate-type", "lib"]);
    rustc
}

/// Compiles a part to a library.
fn compile(Part(name, folder, uses): &Part, place: &Path) -> Result<()> {
    let mut rustc = rustc();
    rustc.arg(format!("--remap-path-prefix={}=gpreempt", root().display()));
    rustc.args(["--crate-name", name, "-L"]).arg(format!("dependency={}", place.display()));
    for used in *uses {
        rustc.arg("--extern").arg(format!("{used}={}", library(place, used).display()));
    }
    let source = root().join(folder).join("src/lib.rs");
    run_quietly(rustc.arg(source).arg("-o").arg(library(place, name)))
}

/// Links libraries to one object that exports these functions.
fn link(libraries: &[PathBuf], functions: &[String], object: &Path) -> Result<()> {
    let place = object.with_extension("parts");
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    fs::create_dir_all(&place)?;
    for library in libraries {
        run_quietly(command("ar").arg("x").arg(library).current_dir(&place))?;
    }
    let linked = with_frames(object);
    let mut ld = command("ld");
    ld.args(["-r", "--gc-sections", "-T"]).arg(root().join("kernel/core/link.lds"));
    for function in functions {
        ld.arg("-u").arg(function);
    }
    run_quietly(ld.arg("-o").arg(&linked).args(files_in(&place, "o")))?;
    fs::remove_dir_all(&place)?;

    let mut objcopy = command("objcopy");
    objcopy.args(["-R", ".stack_sizes"]);
    // The linker keeps the names that left out functions used.
    for name in facts::unused_symbols(&linked)? {
        objcopy.arg("-N").arg(name);
    }
    for function in functions {
        objcopy.arg("-G").arg(function);
    }
    run_quietly(objcopy.args([&linked, object]))
}

/// Returns the terms under which the object may be copied.
fn notice_text() -> Result<String> {
    let licence = fs::read_to_string(root().join("LICENSE-MIT")).context("cannot read LICENSE-MIT")?;
    Ok(format!(
        "{} is compiled from crates of gpreempt and from parts of Rust's core library (libcore).\n\
         All of gpreempt in it may be used under the MIT licence below; kernel/core alternatively under\n\
         version 2 of the GNU General Public License, the other crates under the Apache License 2.0.\n\
         Rust's core library is Copyright (c) The Rust Project Contributors and licensed under\n\
         MIT OR Apache-2.0; it is used here under the MIT licence, whose terms are the same.\n\n\
         {licence}",
        CORE.name
    ))
}

#[cfg(test)]
mod tests;
