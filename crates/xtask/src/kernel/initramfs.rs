//! The guest's root: busybox, the programs of this workspace with their libraries, modules, and a scenario.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::cpio::Archive;
use super::fetch::Fetched;
use super::image;
use super::modules::with_dependencies;
use super::scenario::Scenario;
use super::tree::SCHEDULER;
use crate::run::{command, root};

/// The program that every guest has.
const PROGRAM: &str = "gpreempt";
/// The library of the virtual gpu, which `gpreempt` looks for beside itself.
const PRELOAD: &str = "libvgpu_preload.so";
/// Users of the guest: root, and one that may use nothing.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nguest:x:1000:1000:guest:/tmp:/bin/sh\n";
const GROUP: &str = "root:x:0:\nvideo:x:44:\nrender:x:104:\nguest:x:1000:\n";

/// Compiles the programs that scenarios need. Returns the directory that has them.
///
/// # Errors
/// If one cannot be compiled.
pub(super) fn build_programs<'s>(scenarios: impl IntoIterator<Item = &'s Scenario>) -> Result<PathBuf> {
    let named = scenarios.into_iter().flat_map(|scenario| &scenario.programs).map(String::as_str);
    let programs: BTreeSet<&str> = named.chain([PROGRAM]).collect();
    let mut cargo = command("cargo");
    cargo.args(["build", "--release", "--quiet", "--locked"]);
    for program in &programs {
        cargo.args(["-p", program]);
    }
    // What cargo prints must not mix with a report on stdout.
    let status = cargo.stdout(std::io::stderr()).status().context("cannot start cargo")?;
    let list = programs.iter().copied().collect::<Vec<_>>().join(", ");
    ensure!(status.success(), "the guest's programs ({list}) cannot be built: cargo ended with {status}");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release"))
}

/// Writes the archive that the kernel unpacks as its root.
///
/// # Errors
/// If a file of it cannot be read.
pub(super) fn write(
    path: &Path,
    fetched: &Fetched,
    scenario: &Scenario,
    module: &Path,
    programs: &Path,
    shell: bool,
) -> Result<()> {
    let mut archive = Archive::default();
    // The scenario's files come first: of two files with the same name, the first counts.
    for (name, content) in &scenario.files {
        archive.file(name, content.starts_with("#!"), content.as_bytes());
    }
    for name in ["proc", "sys", "dev", "tmp", "root", "run"] {
        archive.directory(name);
    }
    archive.device("dev/console", 5, 1);
    add_busybox(&mut archive, &fetched.busybox())?;
    let names = scenario.programs.iter().map(String::as_str).chain([PROGRAM]);
    for name in names {
        add_program(&mut archive, &programs.join(name))?;
    }
    if let Ok(content) = fs::read(programs.join(PRELOAD)) {
        archive.file(&format!("bin/{PRELOAD}"), true, &content);
    }
    let init = root().join("kernel/guest/init");
    archive.file("init", true, &fs::read(&init).with_context(|| format!("cannot read {}", init.display()))?);
    archive.file("etc/passwd", false, PASSWD.as_bytes());
    archive.file("etc/group", false, GROUP.as_bytes());
    add_scenario(&mut archive, fetched, scenario, module, shell)?;
    fs::write(path, archive.finish()).with_context(|| format!("cannot write {}", path.display()))
}

/// Adds the scenario's script and the modules, with a list of them in the order in which they are loaded.
fn add_scenario(
    archive: &mut Archive,
    fetched: &Fetched,
    scenario: &Scenario,
    module: &Path,
    shell: bool,
) -> Result<()> {
    let mut roots: Vec<PathBuf> = Vec::new();
    if scenario.rocm {
        roots.extend(image::modules(&fetched.kernel.modules)?);
    }
    roots.push(module.to_owned());
    let modules = with_dependencies(&roots, &fetched.kernel.modules)?;
    let ours = module.file_name().unwrap_or_default().to_string_lossy();
    let mut list = String::new();
    for file in &modules {
        archive.file(&format!("lib/modules/{}", file.name), false, &file.content);
        list += &file.name;
        if file.name == ours {
            for parameter in &scenario.module {
                list += " ";
                list += parameter;
            }
        }
        list += "\n";
    }
    for name in &scenario.modules {
        let path = built_module(module, name);
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        archive.file(&format!("lib/modules/{file}"), false, &content);
    }
    archive.file("scenario/modules", false, list.as_bytes());
    archive.file("scenario/script", false, scenario.script.as_bytes());
    archive.file("scenario/release", false, format!("{}\n", fetched.kernel.release).as_bytes());
    if shell {
        archive.file("scenario/shell", false, b"");
    }
    Ok(())
}

/// Returns the file of a module that was compiled beside the driver, or in the folder of the scheduler.
fn built_module(driver: &Path, name: &str) -> PathBuf {
    let folder = driver.parent().unwrap_or(driver);
    let scheduler = folder.with_file_name(Path::new(SCHEDULER).file_name().unwrap_or_default());
    let [beside, other] = [folder, &scheduler].map(|folder| folder.join(name).with_added_extension("ko"));
    if beside.is_file() || !other.is_file() { beside } else { other }
}

/// Adds busybox and a link for each of its commands.
fn add_busybox(archive: &mut Archive, busybox: &Path) -> Result<()> {
    let content = fs::read(busybox).with_context(|| format!("cannot read {}", busybox.display()))?;
    let output = command(&busybox.to_string_lossy()).arg("--list").output().context("cannot start busybox")?;
    archive.file("bin/busybox", true, &content);
    for name in String::from_utf8_lossy(&output.stdout).lines() {
        archive.link(&format!("bin/{name}"), "busybox");
    }
    Ok(())
}

/// Adds a program, and its libraries where its loader looks for them.
fn add_program(archive: &mut Archive, program: &Path) -> Result<()> {
    let content = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    archive.file(&format!("bin/{}", program.file_name().unwrap_or_default().display()), true, &content);
    let output = command("ldd").arg(program).output().context("cannot start ldd")?;
    ensure!(output.status.success(), "ldd cannot read {}", program.display());
    for library in libraries(&String::from_utf8_lossy(&output.stdout))? {
        let content = fs::read(&library).with_context(|| format!("cannot read {}", library.display()))?;
        archive.file(&library.to_string_lossy()[1..], true, &content);
    }
    Ok(())
}

/// Reads the paths in the output of ldd: `NAME => PATH (ADDRESS)` or `PATH (ADDRESS)`.
fn libraries(text: &str) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for line in text.lines().map(str::trim) {
        ensure!(!line.ends_with("not found"), "a library is missing: {line}");
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        if let Some(path) = path.split(' ').next().filter(|path| path.starts_with('/')) {
            paths.push(PathBuf::from(path));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_beside_the_driver_and_in_the_folder_of_the_scheduler() {
        let folder = tempfile::tempdir().unwrap();
        let (driver, other) = (folder.path().join("vmi300/amdgpu.ko"), folder.path().join("gpreempt/tests/a.ko"));
        assert_eq!(built_module(&driver, "tests/a"), driver.with_file_name("tests/a.ko"));
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::write(&other, "").unwrap();
        assert_eq!(built_module(&driver, "tests/a"), other);
    }

    #[test]
    fn libraries_are_read_from_the_output_of_ldd() {
        let text = "\tlinux-vdso.so.1 (0x7ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f1)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x7f2)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(libraries(text).unwrap(), expected);
        assert!(libraries("\tstatically linked\n").unwrap().is_empty());
        let error = libraries("\tlibx.so.1 => not found\n").unwrap_err().to_string();
        assert!(error.contains("libx.so.1"), "{error}");
    }
}
