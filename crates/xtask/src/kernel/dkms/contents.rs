//! The files of the package, and where they lie on a machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::kernel::core_object::{Objects, recipe};
use crate::kernel::fetch::SERIES;
use crate::kernel::tree::files_below;
use crate::run::root;

/// Version of the package, of DKMS's module and of this workspace.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Stands for the version in files of `kernel/dkms`.
const VERSION_MARK: &str = "@VERSION@";
/// Files of `kernel/dkms` that DKMS runs.
const SCRIPTS: [&str; 6] = ["dkms.conf", "Makefile", "check.sh", "prepare.sh", "pre-install.sh", "initramfs.sh"];
/// Where the source of the core lies.
pub(super) const CORE_SOURCE: &str = "usr/share/gpreempt-dkms/core";
/// What dpkg runs and reads.
const CONTROL: [&str; 5] = ["control", "postinst", "prerm", "triggers", "conffiles"];

/// A file of the package.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct PackedFile {
    pub(super) executable: bool,
    pub(super) content: Vec<u8>,
}

/// All files of the package, by their path on a machine without the first slash. Those of dpkg are in `DEBIAN`.
#[derive(Debug, Default, Hash)]
pub(super) struct Contents {
    pub(super) files: BTreeMap<PathBuf, PackedFile>,
}

impl Contents {
    /// Collects the files of the repository and the compiled core.
    ///
    /// # Errors
    /// If one is missing.
    pub(super) fn with_core(objects: &Objects) -> Result<Contents> {
        let mut contents = Contents::of_repository()?;
        let source = PathBuf::from(format!("usr/src/gpreempt-{VERSION}/gpreempt"));
        let content = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        contents.add(source.join("gpreempt_core.o_shipped"), false, content(&objects.core)?);
        contents.add(source.join("gpreempt_core.NOTICE"), false, content(&objects.core.with_extension("NOTICE"))?);
        let place = Path::new(CORE_SOURCE);
        contents.add(place.join("build.sh"), true, recipe::script(&objects.core)?.into_bytes());
        contents.complete_control();
        Ok(contents)
    }

    /// Collects the files of the repository.
    ///
    /// # Errors
    /// If one is missing.
    pub(super) fn of_repository() -> Result<Contents> {
        let mut contents = Contents::default();
        let source = PathBuf::from(format!("usr/src/gpreempt-{VERSION}"));
        for name in SCRIPTS {
            contents.script(&format!("kernel/dkms/{name}"), &source.join(name))?;
        }
        contents.tree(&format!("kernel/patch/{SERIES}"), &source.join("patches").join(SERIES))?;
        contents.tree("kernel/gpreempt", &source.join("gpreempt"))?;
        contents.script("kernel/core/gpreempt_core.h", &source.join("gpreempt/gpreempt_core.h"))?;
        for file in recipe::sources()? {
            contents.add(Path::new(CORE_SOURCE).join(&file), false, read(&file.to_string_lossy())?);
        }
        contents.script("kernel/dkms/debian/install.sh", Path::new("usr/lib/gpreempt-dkms/install"))?;
        for hook in ["header_postinst.d", "postinst.d"] {
            let path = Path::new("etc/kernel").join(hook).join("gpreempt-dkms");
            contents.script("kernel/dkms/debian/kernel-hook.sh", &path)?;
        }
        contents.documentation()?;
        for name in CONTROL {
            contents.script(&format!("kernel/dkms/debian/{name}"), &Path::new("DEBIAN").join(name))?;
        }
        Ok(contents)
    }

    /// Adds licences and the description of the package.
    fn documentation(&mut self) -> Result<()> {
        let place = Path::new("usr/share/doc/gpreempt-dkms");
        let mut copyright = read("kernel/dkms/debian/copyright")?;
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            copyright.extend_from_slice(b"\n");
            copyright.extend(read(licence)?);
        }
        self.add(place.join("copyright"), false, copyright);
        self.add(place.join("README.md"), false, read("kernel/dkms/README.md")?);
        Ok(())
    }

    /// Adds a file in which the version is filled in. It is executable if it begins as a script does.
    fn script(&mut self, from: &str, to: &Path) -> Result<()> {
        let text = String::from_utf8(read(from)?).with_context(|| format!("{from} is no text"))?;
        self.add(to.to_owned(), text.starts_with("#!"), text.replace(VERSION_MARK, VERSION).into_bytes());
        Ok(())
    }

    /// Adds all files of a directory of the repository but its tests, as they are.
    fn tree(&mut self, from: &str, to: &Path) -> Result<()> {
        let files = files_below(&root().join(from))?;
        ensure!(!files.is_empty(), "there are no files in {from}");
        for file in files.into_iter().filter(|file| !file.starts_with("tests")) {
            let content = read(&Path::new(from).join(&file).to_string_lossy())?;
            self.add(to.join(&file), false, content);
        }
        Ok(())
    }

    pub(super) fn add(&mut self, path: PathBuf, executable: bool, content: Vec<u8>) {
        self.files.insert(path, PackedFile { executable, content });
    }

    /// Fills in the size.
    fn complete_control(&mut self) {
        let installed = self.files.iter().filter(|(path, _)| !path.starts_with("DEBIAN"));
        let kilobytes = installed.map(|(_, file)| file.content.len().div_ceil(1024)).sum::<usize>();
        if let Some(control) = self.files.get_mut(Path::new("DEBIAN/control")) {
            let text = String::from_utf8_lossy(&control.content).replace("@SIZE@", &kilobytes.to_string());
            control.content = text.into_bytes();
        }
    }
}

/// Reads a file of the repository.
fn read(path: &str) -> Result<Vec<u8>> {
    fs::read(root().join(path)).with_context(|| format!("cannot read {path}, which the package holds"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::core_object;

    #[test]
    fn every_placeholder_is_filled_in() {
        for (path, file) in Contents::of_repository().unwrap().files {
            let text = String::from_utf8_lossy(&file.content).into_owned();
            let ours = path.starts_with("DEBIAN") || path.starts_with("etc") || path.ends_with("dkms.conf");
            assert!(!ours || !text.contains(VERSION_MARK), "{}", path.display());
        }
    }

    #[test]
    fn the_package_holds_what_a_build_needs() {
        let files = Contents::of_repository().unwrap().files;
        let source = PathBuf::from(format!("usr/src/gpreempt-{VERSION}"));
        for path in ["dkms.conf", "check.sh", "gpreempt/Kbuild", "gpreempt/gpreempt_core.h", "gpreempt/uapi/gpreempt.h"]
        {
            assert!(files.contains_key(&source.join(path)), "{path}");
        }
        let patches = files.keys().filter(|path| path.starts_with(source.join("patches/6.12")));
        assert_eq!(patches.count(), 3, "three patches");
        assert!(files.keys().all(|path| !path.starts_with(source.join("gpreempt/tests"))), "tests stay here");
        assert!(files.contains_key(&Path::new(CORE_SOURCE).join("kernel/core/src/lib.rs")));
        for script in ["DEBIAN/postinst", "DEBIAN/prerm", "usr/lib/gpreempt-dkms/install"] {
            assert!(files[Path::new(script)].executable, "{script}");
        }
    }

    #[test]
    #[ignore = "compiles the core twice"]
    fn the_core_can_be_made_of_the_sources_in_the_package() {
        let folder = tempfile::tempdir().unwrap();
        let objects = core_object::for_modules(folder.path()).unwrap();
        let contents = Contents::with_core(&objects).unwrap();
        for (path, file) in contents.files.iter().filter(|(path, _)| path.starts_with(CORE_SOURCE)) {
            let path = folder.path().join("unpacked").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &file.content).unwrap();
        }
        let place = folder.path().join("unpacked").join(CORE_SOURCE);
        let built = std::process::Command::new("sh").arg(place.join("build.sh")).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let [one, two] = [place.join("build/gpreempt_core.o"), objects.core].map(|path| fs::read(path).unwrap());
        assert!(one == two, "the objects differ");
    }
}
