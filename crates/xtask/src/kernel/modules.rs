//! Which modules of the kernel a module needs, in the order in which they are loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::run::command;

/// A module, ready to be loaded.
pub(super) struct LoadedFile {
    /// File name, with `.ko`.
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

/// Reads modules and all modules of the kernel that they depend on, those first.
///
/// # Errors
/// If one of them is missing.
pub(super) fn with_dependencies(modules: &[PathBuf], kernel_modules: &Path) -> Result<Vec<LoadedFile>> {
    let known = index(kernel_modules)?;
    let mut order = Vec::new();
    for module in modules {
        let file = module.file_name().unwrap_or_default().to_string_lossy();
        let name = file.trim_end_matches(".xz").to_owned();
        if order.iter().all(|loaded: &LoadedFile| loaded.name != name) {
            visit(LoadedFile { name, content: read(module)? }, &known, &mut order)?;
        }
    }
    Ok(order)
}

/// Finds a module of the kernel.
///
/// # Errors
/// If the kernel has no module of this name.
pub(super) fn find(name: &str, kernel_modules: &Path) -> Result<PathBuf> {
    let known = index(kernel_modules)?;
    known.get(&normalise(name)).cloned().with_context(|| format!("this kernel has no module {name}"))
}

/// Appends what a module depends on, then the module.
fn visit(module: LoadedFile, known: &BTreeMap<String, PathBuf>, order: &mut Vec<LoadedFile>) -> Result<()> {
    for name in dependencies(&module.content) {
        let file = format!("{name}.ko");
        if order.iter().any(|module| module.name == file) {
            continue;
        }
        let path = known.get(&name).with_context(|| format!("{} needs {name}, which is no module", module.name))?;
        visit(LoadedFile { name: file, content: read(path)? }, known, order)?;
    }
    order.push(module);
    Ok(())
}

/// Returns the names in the field `depends` of a module's information: texts that end with a zero byte each.
fn dependencies(content: &[u8]) -> Vec<String> {
    const FIELD: &[u8] = b"\0depends=";
    let Some(at) = content.windows(FIELD.len()).position(|window| window == FIELD) else { return Vec::new() };
    let value = content[at + FIELD.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let value = String::from_utf8_lossy(value);
    value.split(',').filter(|name| !name.is_empty()).map(normalise).collect()
}

/// The kernel takes a dash and an underscore in a module's name for the same.
fn normalise(name: &str) -> String {
    name.replace('-', "_")
}

/// Finds all modules below a directory, by name.
fn index(directory: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut modules = BTreeMap::new();
    let mut pending = vec![directory.join("kernel")];
    while let Some(place) = pending.pop() {
        for entry in fs::read_dir(&place).with_context(|| format!("cannot read {}", place.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                pending.push(entry.path());
            } else if let Some((name, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
                modules.insert(normalise(name), entry.path());
            }
        }
    }
    Ok(modules)
}

/// Reads a module, which may be compressed.
fn read(path: &Path) -> Result<Vec<u8>> {
    if path.extension().is_none_or(|extension| extension == "ko") {
        return fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    }
    let output = command("xz").arg("-dc").arg(path).output().context("cannot start xz")?;
    ensure!(output.status.success(), "xz cannot unpack {}", path.display());
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(depends: &str) -> Vec<u8> {
        [b"\x7fELF...\0license=GPL\0depends=", depends.as_bytes(), b"\0name=x\0"].concat()
    }

    #[test]
    fn dependencies_are_loaded_first_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("kernel/drivers");
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("gpu-sched.ko"), module("drm")).unwrap();
        fs::write(place.join("drm.ko"), module("")).unwrap();
        let ours = folder.path().join("amdgpu.ko");
        fs::write(&ours, module("gpu-sched,drm")).unwrap();
        let order = with_dependencies(std::slice::from_ref(&ours), folder.path()).unwrap();
        let names: Vec<_> = order.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["drm.ko", "gpu_sched.ko", "amdgpu.ko"]);
        fs::write(&ours, module("ttm")).unwrap();
        let error =
            with_dependencies(std::slice::from_ref(&ours), folder.path()).err().expect("there is no ttm").to_string();
        assert!(error.contains("amdgpu.ko needs ttm"), "{error}");
    }
}
