//! The source tree that modules are compiled in: Debian's driver, our patches, our device module.
//!
//! Files are written only when their content changes, so that make compiles no more than it has to. Debian's files are
//! hard links to the unpacked source, hence a file is never written in place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::fetch::Fetched;
use crate::packages::{files_in, has_extension, run};
use crate::run::command;

/// Where the device module goes.
pub(super) const MODULE: &str = "drivers/gpu/drm/amd/vmi300";
/// Where the scheduler goes.
pub(super) const SCHEDULER: &str = "drivers/gpu/drm/amd/gpreempt";
/// Notes the version of the source.
const VERSION: &str = ".source-version";
/// Notes which files patches have changed.
const PATCHED: &str = ".patched-files";
/// Notes which files of a folder were copied; the folder's name is appended.
const COPIED: &str = ".copied-files";

/// A tree that is ready to be compiled.
#[derive(Debug)]
pub(super) struct Tree {
    directory: PathBuf,
    /// Files that patches have changed or made.
    patched: BTreeSet<PathBuf>,
}

impl Tree {
    /// Makes a tree, or brings one up to date: Debian's source, `patches` in order, and the device module.
    ///
    /// # Errors
    /// If a patch does not apply, or there is no device module.
    pub(super) fn prepare(fetched: &Fetched, directory: &Path, patches: &Path, module: &Path) -> Result<Tree> {
        let source = fetched.source();
        if fs::read_to_string(directory.join(VERSION)).ok().as_deref() != Some(&fetched.version) {
            link_source(&source, directory)?;
            fs::write(directory.join(VERSION), &fetched.version)?;
        }
        let patched = apply(&files_in(patches, "patch"), &source, directory)?;
        if !module.join("Kbuild").is_file() {
            bail!(
                "there is no {}: the device module is kernel/vmi300, or what --module names",
                module.join("Kbuild").display()
            );
        }
        copy_folder(module, &[], directory, MODULE)?;
        Ok(Tree { directory: directory.to_owned(), patched })
    }

    /// Claims that a directory is a tree.
    #[cfg(test)]
    pub(super) fn at(directory: &Path, patched: &[&str]) -> Tree {
        Tree { directory: directory.to_owned(), patched: patched.iter().map(PathBuf::from).collect() }
    }

    /// Returns the directory of the device module in the tree.
    pub(super) fn module(&self) -> PathBuf {
        self.directory.join(MODULE)
    }

    /// Puts the scheduler into the tree: a folder, and files from elsewhere with the names that they have in it.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub(super) fn add_scheduler(&self, folder: &Path, files: &[(&str, &Path)]) -> Result<()> {
        copy_folder(folder, files, &self.directory, SCHEDULER)
    }

    /// Returns the directory of the scheduler in the tree.
    pub(super) fn scheduler(&self) -> PathBuf {
        self.directory.join(SCHEDULER)
    }

    /// Returns the path within the tree of a file that is ours: of the device module or the scheduler, or changed by a
    /// patch.
    pub(super) fn ours(&self, file: &Path) -> Option<PathBuf> {
        let file = normalise(file);
        let within = file.strip_prefix(&self.directory).ok()?;
        let is_ours = [MODULE, SCHEDULER].iter().any(|folder| within.starts_with(folder));
        (is_ours || self.patched.contains(within)).then(|| within.to_owned())
    }

    /// Removes what was compiled of our files, so that they are compiled again.
    pub(super) fn forget_ours(&self) -> Result<()> {
        for file in &self.patched {
            remove(&self.directory.join(file).with_extension("o"))?;
        }
        for folder in [self.module(), self.scheduler()].iter().filter(|folder| folder.is_dir()) {
            for object in files_below(folder)?.iter().filter(|file| has_extension(file, "o")) {
                remove(&folder.join(object))?;
            }
        }
        Ok(())
    }
}

/// Resolves `..` and `.` in a path without a look at the disk.
fn normalise(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Makes a tree of hard links to the source. What had the name before goes.
fn link_source(source: &Path, directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    run(command("cp").arg("-al").arg(source.join(".")).arg(directory))
}

/// Brings the files that patches change, or no longer change, up to date. Returns those that are changed.
fn apply(patches: &[PathBuf], source: &Path, directory: &Path) -> Result<BTreeSet<PathBuf>> {
    let staging = directory.with_extension("staging");
    if staging.exists() {
        fs::remove_dir_all(&staging).with_context(|| format!("cannot remove {}", staging.display()))?;
    }
    let mut changed = BTreeSet::new();
    for patch in patches {
        let text = fs::read_to_string(patch).with_context(|| format!("cannot read {}", patch.display()))?;
        changed.extend(files_of_patch(&text));
    }
    for file in &changed {
        if let Ok(content) = fs::read(source.join(file)) {
            write(&staging.join(file), &content)?;
        }
    }
    for patch in patches {
        let mut program = command("patch");
        program.args(["-p1", "--batch", "--forward", "--no-backup-if-mismatch", "-d"]).arg(&staging);
        let output = program.arg("-i").arg(patch).output().context("cannot start patch; install the package patch")?;
        if !output.status.success() {
            let printed = String::from_utf8_lossy(&output.stdout);
            bail!("{} does not apply to the driver's source:\n{}", patch.display(), printed.trim());
        }
    }
    let noted = fs::read_to_string(directory.join(PATCHED)).unwrap_or_default();
    let before: BTreeSet<PathBuf> = noted.lines().map(PathBuf::from).collect();
    // Noted before the first file changes: a run that is interrupted leaves no file that is not looked at again.
    note(&directory.join(PATCHED), before.union(&changed))?;
    for file in before.union(&changed) {
        let wanted = if changed.contains(file) { staging.join(file) } else { source.join(file) };
        match fs::read(wanted) {
            Ok(content) => write_if_different(&directory.join(file), &content).map(|_| ())?,
            Err(_) => remove(&directory.join(file))?,
        }
    }
    note(&directory.join(PATCHED), &changed)?;
    if staging.exists() {
        fs::remove_dir_all(&staging)?;
    }
    Ok(changed)
}

/// Returns the files that a patch names, without the first part of their paths.
fn files_of_patch(text: &str) -> BTreeSet<PathBuf> {
    let name = |line: &str| {
        let path = line.strip_prefix("--- ").or_else(|| line.strip_prefix("+++ "))?;
        let path = path.split('\t').next().unwrap_or(path).trim_end();
        let (_, path) = path.split_once('/').filter(|_| path != "/dev/null")?;
        Some(PathBuf::from(path))
    };
    // A removed line may look like a header: headers come in pairs, before a hunk.
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines
        .windows(3)
        .filter(|lines| lines[0].starts_with("--- ") && lines[1].starts_with("+++ ") && lines[2].starts_with("@@ "));
    pairs.flat_map(|lines| [name(lines[0]), name(lines[1])]).flatten().collect()
}

/// Copies a folder, and files from elsewhere, into the tree. Files that it has no more are removed.
fn copy_folder(folder: &Path, more: &[(&str, &Path)], directory: &Path, within: &str) -> Result<()> {
    let target = directory.join(within);
    let mut files: BTreeMap<PathBuf, PathBuf> =
        files_below(folder)?.into_iter().map(|file| (file.clone(), folder.join(file))).collect();
    files.extend(more.iter().map(|(name, path)| (PathBuf::from(name), path.to_path_buf())));
    let noted_in = directory.join(format!("{COPIED}-{}", target.file_name().unwrap_or_default().display()));
    let noted = fs::read_to_string(&noted_in).unwrap_or_default();
    for gone in noted.lines().map(PathBuf::from).filter(|file| !files.contains_key(file)) {
        remove(&target.join(gone))?;
    }
    note(&noted_in, files.keys())?;
    for (name, path) in &files {
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        write_if_different(&target.join(name), &content)?;
    }
    Ok(())
}

/// Returns all files below a directory, relative to it.
pub(super) fn files_below(directory: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(within) = pending.pop() {
        let place = directory.join(&within);
        for entry in fs::read_dir(&place).with_context(|| format!("cannot read {}", place.display()))? {
            let entry = entry?;
            let path = within.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                pending.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    Ok(files)
}

/// Writes names, one in a line.
fn note<'f>(path: &Path, files: impl IntoIterator<Item = &'f PathBuf>) -> Result<()> {
    let text: String = files.into_iter().map(|file| format!("{}\n", file.display())).collect();
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Gives a file this content, unless it has it, and returns whether it was written.
fn write_if_different(path: &Path, content: &[u8]) -> Result<bool> {
    if fs::read(path).is_ok_and(|found| found == content) {
        return Ok(false);
    }
    write(path, content)?;
    Ok(true)
}

/// Writes a new file in the place of another one, whose other names keep the old content.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        let new = path.with_added_extension("new");
        fs::write(&new, content)?;
        fs::rename(&new, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Removes a file if it is there.
fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const DRIVER: &str = "drivers/gpu/drm/amd/amdkfd/kfd_device.c";

    /// A source of one file, a device module of one file, and an empty directory of patches.
    struct Scene {
        folder: tempfile::TempDir,
        version: String,
    }

    impl Scene {
        fn new() -> Scene {
            let scene = Scene { folder: tempfile::tempdir().unwrap(), version: "6.12.9-1".into() };
            write(&scene.path("packages/source").join(DRIVER), b"one\ntwo\nthree\n").unwrap();
            write(&scene.path("module/Kbuild"), b"obj-m := amdgpu.o\n").unwrap();
            write(&scene.path("module/sub/mec.c"), b"int mec;\n").unwrap();
            scene
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn prepare(&self) -> Result<Tree> {
            let fetched = Fetched::at(&self.path("packages"), "6.12.9-amd64", &self.version);
            Tree::prepare(&fetched, &self.path("tree"), &self.path("patch"), &self.path("module"))
        }

        fn patch(&self, name: &str, from: &str, to: &str) {
            let text = format!(
                "A reason.\n---\n--- a/{DRIVER}\n+++ b/{DRIVER}\n@@ -1,3 +1,3 @@\n one\n-{from}\n+{to}\n three\n\
                 --- /dev/null\n+++ b/drivers/gpu/drm/amd/amdkfd/{name}.h\n@@ -0,0 +1 @@\n+new\n"
            );
            write(&self.path("patch").join(name).with_extension("patch"), text.as_bytes()).unwrap();
        }

        fn driver(&self) -> String {
            fs::read_to_string(self.path("tree").join(DRIVER)).unwrap()
        }

        fn has_header(&self, name: &str) -> bool {
            self.path("tree/drivers/gpu/drm/amd/amdkfd").join(name).with_extension("h").exists()
        }
    }

    /// A file that is written anew has another inode.
    fn inode(path: &Path) -> u64 {
        fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn patches_are_applied_in_order_and_taken_back() {
        let scene = Scene::new();
        scene.prepare().unwrap();
        assert_eq!(scene.driver(), "one\ntwo\nthree\n");
        scene.patch("0001", "two", "2");
        scene.patch("0002", "2", "zwei");
        let tree = scene.prepare().unwrap();
        assert_eq!(scene.driver(), "one\nzwei\nthree\n");
        assert!(scene.has_header("0001") && scene.has_header("0002"));
        assert!(tree.ours(&scene.path("tree").join(DRIVER)).is_some());
        fs::remove_file(scene.path("patch/0002.patch")).unwrap();
        scene.prepare().unwrap();
        assert_eq!(scene.driver(), "one\n2\nthree\n");
        assert!(scene.has_header("0001") && !scene.has_header("0002"));
        fs::remove_file(scene.path("patch/0001.patch")).unwrap();
        scene.prepare().unwrap();
        assert_eq!(scene.driver(), "one\ntwo\nthree\n");
        let pristine = fs::read_to_string(scene.path("packages/source").join(DRIVER)).unwrap();
        assert_eq!(pristine, "one\ntwo\nthree\n", "the unpacked source is never written to");
    }

    #[test]
    fn a_patch_that_does_not_apply_is_named() {
        let scene = Scene::new();
        scene.patch("0001", "something else", "2");
        let error = scene.prepare().unwrap_err().to_string();
        assert!(error.contains("0001.patch does not apply"), "{error}");
    }

    #[test]
    fn files_are_written_only_when_their_content_differs() {
        let scene = Scene::new();
        scene.patch("0001", "two", "2");
        let tree = scene.prepare().unwrap();
        let files = [scene.path("tree").join(DRIVER), tree.module().join("sub/mec.c"), tree.module().join("Kbuild")];
        let before = files.each_ref().map(|file| inode(file));
        scene.prepare().unwrap();
        assert_eq!(files.each_ref().map(|file| inode(file)), before);
        fs::write(scene.path("module/sub/mec.c"), "int changed;\n").unwrap();
        scene.prepare().unwrap();
        assert_eq!(fs::read_to_string(&files[1]).unwrap(), "int changed;\n");
        let after = files.each_ref().map(|file| inode(file));
        assert_eq!((after[0], after[2]), (before[0], before[2]));
    }

    #[test]
    fn files_that_the_module_has_no_more_go_and_compiled_ones_stay() {
        let scene = Scene::new();
        let tree = scene.prepare().unwrap();
        fs::write(tree.module().join("mec.o"), "").unwrap();
        fs::remove_file(scene.path("module/sub/mec.c")).unwrap();
        scene.prepare().unwrap();
        assert!(!tree.module().join("sub/mec.c").exists() && tree.module().join("mec.o").exists());
        tree.forget_ours().unwrap();
        assert!(!tree.module().join("mec.o").exists());
    }

    #[test]
    fn the_scheduler_is_copied_with_files_from_elsewhere_and_is_ours() {
        let scene = Scene::new();
        let tree = scene.prepare().unwrap();
        write(&scene.path("gpreempt/Kbuild"), b"obj-m += tests/\n").unwrap();
        write(&scene.path("gpreempt/tests/old.c"), b"int old;\n").unwrap();
        write(&scene.path("core.o"), b"code").unwrap();
        let core = scene.path("core.o");
        tree.add_scheduler(&scene.path("gpreempt"), &[("tests/core.o_shipped", &core)]).unwrap();
        assert_eq!(fs::read(tree.scheduler().join("tests/core.o_shipped")).unwrap(), b"code");
        fs::write(tree.scheduler().join("tests/old.o"), "").unwrap();
        fs::remove_file(scene.path("gpreempt/tests/old.c")).unwrap();
        tree.add_scheduler(&scene.path("gpreempt"), &[]).unwrap();
        assert!(tree.scheduler().join("Kbuild").exists() && tree.module().join("Kbuild").exists());
        assert!(
            !tree.scheduler().join("tests/old.c").exists() && !tree.scheduler().join("tests/core.o_shipped").exists()
        );
        assert!(tree.ours(&tree.scheduler().join("tests/old.c")).is_some());
        tree.forget_ours().unwrap();
        assert!(!tree.scheduler().join("tests/old.o").exists());
    }

    #[test]
    fn another_version_of_the_source_makes_the_tree_anew() {
        let mut scene = Scene::new();
        let tree = scene.prepare().unwrap();
        fs::write(tree.module().join("mec.o"), "").unwrap();
        scene.version = "6.12.10-1".into();
        scene.prepare().unwrap();
        assert!(!tree.module().join("mec.o").exists() && tree.module().join("Kbuild").exists());
    }

    #[test]
    fn a_device_module_without_a_kbuild_file_is_an_error() {
        let scene = Scene::new();
        fs::remove_file(scene.path("module/Kbuild")).unwrap();
        assert!(scene.prepare().unwrap_err().to_string().contains("--module"));
    }

    #[test]
    fn files_of_amd_are_not_ours() {
        let scene = Scene::new();
        let tree = scene.prepare().unwrap();
        assert!(tree.ours(&tree.module().join("mec.c")).is_some());
        assert!(tree.ours(&tree.module().join("../amdkfd/kfd_device.c")).is_none());
    }
}
