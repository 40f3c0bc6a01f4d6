//! How the core is made without this program: its sources, and a shell script of the commands that were run.

use super::{CORE, FLAGS, Part, add_sources, facts, with_frames};
use crate::run::{command, root};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Returns the sources of the core, relative to the root of the workspace.
///
/// # Errors
/// If a folder cannot be read.
pub(in crate::kernel) fn sources() -> Result<Vec<PathBuf>> {
    let root = root();
    let mut files = vec![root.join("kernel/core/link.lds"), root.join(CORE.header), root.join("LICENSE-MIT")];
    for Part(_, folder, _) in CORE.parts {
        files.push(root.join(folder).join("Cargo.toml"));
        add_sources(&root.join(folder).join("src"), &mut files)?;
    }
    files.sort();
    files.iter().map(|file| Ok(file.strip_prefix(&root)?.to_owned())).collect()
}

/// Returns a script that makes the core out of a copy of its sources, in which it lies: what was done for `object`.
///
/// # Errors
/// If the object cannot be read, or the compiler does not tell its version.
pub(in crate::kernel) fn script(object: &Path) -> Result<String> {
    let version = command("rustc").arg("--version").output().context("cannot start rustc")?.stdout;
    let version = String::from_utf8_lossy(&version).trim().to_owned();
    let functions = CORE.functions()?;
    let mut text = format!(
        "#!/bin/sh\n\
         # Makes build/{name} out of these sources. Needs binutils and {version}:\n\
         # another compiler makes another object, which `cargo xtask kernel core --check` has to read.\n\
         set -eu\n\
         cd \"$(dirname \"$0\")\"\n\
         export LC_ALL=C RUSTC_BOOTSTRAP=1\n\
         rm -rf build\n\
         mkdir -p build/parts\n\
         compile() {{\n\
         \trustc {flags} \\\n\
         \t\t--crate-type lib -L dependency=build --remap-path-prefix=\"$PWD\"=gpreempt \"$@\"\n\
         }}\n",
        name = CORE.name,
        flags = FLAGS.join(" \\\n\t\t"),
    );
    for Part(name, folder, uses) in CORE.parts {
        let used: String = uses.iter().map(|used| format!(" --extern {used}=build/lib{used}.rlib")).collect();
        writeln!(
            text,
            "compile --crate-name {name}{used} \
             \"$PWD/{folder}/src/lib.rs\" -o build/lib{name}.rlib\n\
             (cd build/parts && ar x ../lib{name}.rlib)"
        )?;
    }
    let unused = facts::unused_symbols(&with_frames(object))?;
    let words = |option: &str, names: &[String]| {
        names.iter().map(|name| format!(" \\\n\t{option} '{name}'")).collect::<String>()
    };
    writeln!(
        text,
        "ld -r --gc-sections -T kernel/core/link.lds{} \\\n\t-o build/linked build/parts/*.o\n\
         objcopy -R .stack_sizes{}{} \\\n\tbuild/linked build/{}",
        words("-u", &functions),
        words("-N", &unused),
        words("-G", &functions),
        CORE.name,
    )?;
    Ok(text)
}
