//! `cargo xtask kernel fetch`: Debian's packages, unpacked beside the system.
//!
//! Debian keeps several versions of the series and drops old ones, so no version is written down here: the package
//! that always depends on the newest headers says which one it is, and image, headers and source have to be of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::{directory, lock, remove_left_over};
use crate::packages::{
    LOCK, Lock, PrivateApt, Sources, Store, files_in, has_extension, lock_downloads, name_and_version, replace, run,
};
use crate::run::command;

/// The kernel series whose driver is tested.
pub(super) const SERIES: &str = "6.12";
/// Packages that depend on the newest headers of a series: by its name, and the distribution's default.
const META_PACKAGES: [&str; 2] = ["linux-headers-6.12-amd64", "linux-headers-amd64"];
/// Packages that come with what they depend on and this machine lacks.
const PROGRAMS: [&str; 2] = ["qemu-system-x86", "busybox-static"];
/// Data of QEMU. Named apart because a machine that has QEMU has them, too, and they are needed below our directory.
const QEMU_DATA: [&str; 4] = ["qemu-system-common", "qemu-system-data", "seabios", "ipxe-qemu"];
/// What is unpacked of the kernel's source.
const SOURCES: [&str; 5] = [
    "*/drivers/gpu/drm/amd",
    "*/include/uapi/linux/kfd*",
    "*/scripts/checkpatch.pl",
    "*/scripts/spelling.txt",
    "*/scripts/const_structs.checkpatch",
];

/// What was fetched, and the kernel that guests boot.
#[derive(Debug)]
pub(super) struct Fetched {
    directory: PathBuf,
    /// The one that was fetched, unless another was put in its place.
    pub(super) kernel: GuestKernel,
    /// Version of the packages.
    pub(super) version: String,
}

/// A kernel that guests boot and modules are compiled for.
#[derive(Debug)]
pub(super) struct GuestKernel {
    /// As `uname -r` prints it.
    pub(super) release: String,
    pub(super) image: PathBuf,
    /// What modules are compiled with.
    pub(super) headers: PathBuf,
    /// Its modules: those below `kernel` of this directory.
    pub(super) modules: PathBuf,
    /// Where modules are compiled for it, and the logs of its guests go; `None` for where everything lies.
    pub(super) work: Option<PathBuf>,
}

impl Fetched {
    /// Reads what is in a directory.
    ///
    /// # Errors
    /// If something is missing, or the packages of the kernel are of different versions.
    fn open(directory: &Path) -> Result<Fetched> {
        let path = directory.join(LOCK);
        let text = fs::read_to_string(&path).with_context(|| format!("there is no {}", path.display()))?;
        let lock = Lock::parse(&text).with_context(|| format!("{} is not a lock report", path.display()))?;
        let lacks = lacks(&lock);
        ensure!(lacks.is_empty(), "{} lacks {}", path.display(), lacks.join(", "));
        let release = release_of(&lock).context("there is no kernel")?.to_owned();
        let version = lock.get(&source_package()).map(|package| package.version.clone()).unwrap_or_default();
        for name in kernel_packages(&release) {
            let found = lock.get(&name).map(|package| package.version.as_str());
            ensure!(found == Some(&version), "{name} is not of version {version}, as the source is");
        }
        Ok(Fetched { directory: directory.to_owned(), kernel: GuestKernel::unpacked(directory, release), version })
    }

    /// Claims that a directory holds a kernel.
    #[cfg(test)]
    pub(super) fn at(directory: &Path, release: &str, version: &str) -> Fetched {
        let kernel = GuestKernel::unpacked(directory, release.to_owned());
        Fetched { directory: directory.to_owned(), kernel, version: version.to_owned() }
    }

    /// Returns the package with the whole of the kernel's source.
    ///
    /// # Errors
    /// If it is not there.
    pub(super) fn source_package(&self) -> Result<PathBuf> {
        let debs = self.directory.join("debs");
        let name = format!("{}_", source_package());
        let is_source = |file: &PathBuf| file.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&name));
        let found = files_in(&debs, "deb").into_iter().find(is_source);
        found.with_context(|| format!("there is no {} in {}", source_package(), debs.display()))
    }

    /// Returns where modules are compiled for the kernel, and the logs of its guests go.
    ///
    /// # Errors
    /// If there is no directory for it.
    pub(super) fn work(&self) -> Result<PathBuf> {
        self.kernel.work.clone().map_or_else(directory, Ok)
    }

    /// Returns the packages of the kernel and its source.
    pub(super) fn kernel_debs(&self) -> Result<Vec<PathBuf>> {
        let wanted: Vec<String> = kernel_packages(&self.kernel.release).into_iter().chain([source_package()]).collect();
        let mut debs = files_in(&self.directory.join("debs"), "deb");
        debs.retain(|deb| name_and_version(deb).is_ok_and(|(name, _)| wanted.contains(&name)));
        ensure!(debs.len() == wanted.len(), "{} lacks packages of the kernel", self.directory.join("debs").display());
        Ok(debs)
    }

    /// Returns the part of the kernel's source that was unpacked.
    pub(super) fn source(&self) -> PathBuf {
        self.directory.join("source")
    }

    /// Returns the busybox of the guest.
    pub(super) fn busybox(&self) -> PathBuf {
        let [new, old] = ["qemu/usr/bin/busybox", "qemu/bin/busybox"].map(|path| self.directory.join(path));
        if new.is_file() { new } else { old }
    }

    /// Returns a command that starts QEMU with its own libraries and data. QEMU ends with this process.
    pub(super) fn qemu(&self) -> Command {
        let root = self.directory.join("qemu");
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|path| root.join(path));
        let mut qemu = Command::new("setpriv");
        qemu.args(["--pdeathsig", "KILL", "--"]).arg(root.join("usr/bin/qemu-system-x86_64"));
        qemu.env("LD_LIBRARY_PATH", libraries.map(|path| path.display().to_string()).join(":"));
        for data in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
            qemu.arg("-L").arg(root.join(data));
        }
        qemu
    }
}

impl GuestKernel {
    /// Finds the kernel among unpacked packages.
    fn unpacked(directory: &Path, release: String) -> GuestKernel {
        let modules = |root: &str| directory.join(root).join(&release);
        let (new, old) = (modules("kernel/usr/lib/modules"), modules("kernel/lib/modules"));
        GuestKernel {
            image: directory.join("kernel/boot").join(format!("vmlinuz-{release}")),
            headers: directory.join("kernel/usr/src").join(format!("linux-headers-{release}")),
            modules: if new.is_dir() { new } else { old },
            work: None,
            release,
        }
    }
}

/// Returns what was fetched, and fetches it if it is missing or `update` asks for it.
///
/// # Errors
/// If packages cannot be downloaded or unpacked, or QEMU does not run.
pub(super) fn fetch(update: bool) -> Result<Fetched> {
    let directory = directory()?;
    let _lock = lock(&directory)?;
    let place = directory.join("packages");
    match Fetched::open(&place) {
        Ok(fetched) if !update => {
            eprintln!("kernel {} and QEMU: found in {}", fetched.kernel.release, place.display());
            return Ok(fetched);
        }
        Ok(fetched) => eprintln!("kernel {} is there; looking for a newer one", fetched.kernel.release),
        Err(reason) => eprintln!("kernel and QEMU: missing ({reason:#})"),
    }
    eprintln!("about to unpack packages of this machine's Debian into {}; nothing is installed", place.display());
    remove_left_over(&directory)?;
    let work = directory.join(format!("fetch.{}", std::process::id()));
    let result = fill(&work).and_then(|new| replace(&place, &new, &work.join("old")));
    // Nothing of use is left in it, and nothing can be done if it stays.
    let _ = fs::remove_dir_all(&work);
    result?;
    let fetched = Fetched::open(&place)?;
    check_qemu(&fetched)?;
    eprintln!("kernel {} and QEMU: unpacked in {}", fetched.kernel.release, place.display());
    Ok(fetched)
}

/// Fails if QEMU cannot be started.
fn check_qemu(fetched: &Fetched) -> Result<()> {
    let mut qemu = fetched.qemu();
    run(qemu.arg("--version").stdin(Stdio::null())).context(
        "QEMU does not run on this machine; if a library is missing, `cargo xtask kernel fetch --update` fetches what \
         the machine lacks now",
    )
}

/// Downloads and unpacks all packages below `work`, and returns the directory that holds them.
fn fill(work: &Path) -> Result<PathBuf> {
    let new = work.join("new");
    let debs = new.join("debs");
    fs::create_dir_all(&debs).with_context(|| format!("cannot make {}", debs.display()))?;
    let store = Store::named("kernel");
    let stored = store.as_ref().map(|store| store.files(lacks)).transpose()?.flatten();
    let from_store = stored.is_some();
    let (files, lock) = stored.map_or_else(|| download(work), Ok)?;
    if let Some(store) = store.filter(|_| !from_store) {
        store.fill(&files, &lock)?;
    }
    let kernel = kernel_packages(release_of(&lock).context("no kernel was downloaded")?);
    for file in files.iter().filter(|file| has_extension(file, "deb")) {
        let copy = debs.join(file.file_name().unwrap_or_default());
        keep(file, &copy, from_store)?;
        let (name, _) = name_and_version(&copy)?;
        if name == source_package() {
            unpack_source(&copy, &new.join("source"), &SOURCES)?;
        } else {
            let root = new.join(if kernel.contains(&name) { "kernel" } else { "qemu" });
            run(command("dpkg-deb").arg("-x").arg(&copy).arg(root))?;
        }
    }
    let release = release_of(&lock).context("no kernel was downloaded")?;
    make_headers_relocatable(&new.join("kernel/usr/src").join(format!("linux-headers-{release}")))?;
    fs::write(new.join(LOCK), lock.to_string())?;
    Ok(new)
}

/// Gives a package another place; one of a store stays there, too.
fn keep(file: &Path, copy: &Path, from_store: bool) -> Result<()> {
    let renamed = !from_store && fs::rename(file, copy).is_ok();
    if !renamed {
        fs::copy(file, copy).with_context(|| format!("cannot keep {}", file.display()))?;
    }
    Ok(())
}

/// Downloads the packages and returns their files and hashes.
fn download(work: &Path) -> Result<(Vec<PathBuf>, Lock)> {
    let apt = PrivateApt::new(work, Sources::System)?;
    let mut newest = None;
    for name in META_PACKAGES {
        newest = newest.or(apt.dependencies(name)?.as_deref().and_then(headers_in));
    }
    let Some((release, version)) = newest else {
        bail!(
            "no package source of this machine has Linux {SERIES} ({}); Debian 12 has it in bookworm-security",
            META_PACKAGES.join(", ")
        );
    };
    let mut kernel = kernel_packages(&release).to_vec();
    kernel.push(source_package());
    apt.download_alone(&kernel.iter().map(|name| format!("{name}={version}")).collect::<Vec<_>>())?;
    apt.install(&PROGRAMS.iter().chain(&QEMU_DATA).map(ToString::to_string).collect::<Vec<_>>())?;
    let files = apt.files();
    let lock = lock_downloads(&apt, &files)?;
    Ok((files, lock))
}

/// Finds the headers of the series among the dependencies of a package: kernel release and version of the package.
fn headers_in(dependencies: &str) -> Option<(String, String)> {
    dependencies.split(',').find_map(|dependency| {
        let (name, version) = dependency.trim().split_once(" (= ")?;
        let release = name.strip_prefix("linux-headers-")?;
        let in_series = release.strip_prefix(SERIES)?.starts_with('.');
        in_series.then(|| (release.to_owned(), version.trim_end_matches(')').to_owned()))
    })
}

/// Returns the names of the packages of a kernel.
fn kernel_packages(release: &str) -> [String; 4] {
    let common = release.strip_suffix("-amd64").unwrap_or(release);
    [
        format!("linux-image-{release}-unsigned"),
        format!("linux-headers-{release}"),
        format!("linux-headers-{common}-common"),
        format!("linux-kbuild-{common}"),
    ]
}

fn source_package() -> String {
    format!("linux-source-{SERIES}")
}

/// Returns the release of the kernel that was fetched.
fn release_of(lock: &Lock) -> Option<&str> {
    lock.names().find_map(|name| name.strip_prefix("linux-image-")?.strip_suffix("-unsigned"))
}

/// Returns the names of what is missing.
fn lacks(lock: &Lock) -> Vec<String> {
    let Some(release) = release_of(lock) else {
        return vec![format!("linux-image-{SERIES}.*-amd64-unsigned")];
    };
    let programs = PROGRAMS.iter().chain(&QEMU_DATA).map(ToString::to_string);
    let wanted = kernel_packages(release).into_iter().chain([source_package()]).chain(programs);
    wanted.filter(|name| lock.get(name).is_none()).collect()
}

/// Unpacks files out of the archive that the source package holds: those that match a pattern, or all without patterns.
///
/// # Errors
/// If the package is damaged, or there is no room.
pub(super) fn unpack_source(package: &Path, target: &Path, patterns: &[&str]) -> Result<()> {
    fs::create_dir_all(target).with_context(|| format!("cannot make {}", target.display()))?;
    let script = r#"set -e
        package=$1 name=$2 target=$3
        shift 3
        dpkg-deb --fsys-tarfile "$package" | tar -xO "./usr/src/$name.tar.xz" | xz -dc -T0 |
            tar -x -C "$target" --strip-components=1 --wildcards "$@""#;
    let mut shell = command("sh");
    shell.args(["-c", script, "sh"]).arg(package).arg(source_package()).arg(target).args(patterns);
    run(&mut shell).with_context(|| format!("cannot unpack {}", package.display()))
}

/// Changes the headers so that they work where they lie: their one absolute path becomes relative, and `vmlinux`, for
/// whose sake the build would ask for pahole, gets another name.
fn make_headers_relocatable(headers: &Path) -> Result<()> {
    let makefile = headers.join("Makefile");
    let text = fs::read_to_string(&makefile).with_context(|| format!("cannot read {}", makefile.display()))?;
    let relative = text.replace("/usr/src/", "$(dir $(lastword $(MAKEFILE_LIST)))../");
    fs::write(&makefile, relative).with_context(|| format!("cannot write {}", makefile.display()))?;
    match fs::rename(headers.join("vmlinux"), headers.join("vmlinux.btf")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("cannot rename vmlinux"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock_of(packages: &[(&str, &str)]) -> Lock {
        let lines: String = packages.iter().map(|(name, version)| format!("{name} {version} ab sid\n")).collect();
        Lock::parse(&lines).expect("a report")
    }

    const COMPLETE: [(&str, &str); 11] = [
        ("linux-image-6.12.9+deb12-amd64-unsigned", "6.12.9-1"),
        ("linux-headers-6.12.9+deb12-amd64", "6.12.9-1"),
        ("linux-headers-6.12.9+deb12-common", "6.12.9-1"),
        ("linux-kbuild-6.12.9+deb12", "6.12.9-1"),
        ("linux-source-6.12", "6.12.9-1"),
        ("qemu-system-x86", "7"),
        ("qemu-system-common", "7"),
        ("qemu-system-data", "7"),
        ("seabios", "1"),
        ("ipxe-qemu", "1"),
        ("busybox-static", "1"),
    ];

    #[test]
    fn the_newest_headers_of_the_series_are_found_among_dependencies() {
        let found = headers_in("linux-headers-6.12.9+deb12-amd64 (= 6.12.9-1~deb12u1)");
        assert_eq!(found, Some(("6.12.9+deb12-amd64".into(), "6.12.9-1~deb12u1".into())));
        let found = headers_in("gcc-12, linux-headers-6.12.9-amd64 (= 6.12.9-1)");
        assert_eq!(found, Some(("6.12.9-amd64".into(), "6.12.9-1".into())));
        assert_eq!(headers_in("linux-headers-6.1.0-amd64 (= 6.1.0-1), linux-headers-6.123.1-amd64 (= 1)"), None);
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(lacks(&lock_of(&COMPLETE)).is_empty());
        for (index, (name, _)) in COMPLETE.iter().enumerate().skip(1) {
            let mut packages = COMPLETE.to_vec();
            packages.remove(index);
            assert_eq!(lacks(&lock_of(&packages)), [*name]);
        }
        assert_eq!(lacks(&lock_of(&[])).len(), 1);
    }

    #[test]
    fn a_source_of_another_version_than_the_kernel_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = |packages: &[(&str, &str)]| {
            fs::write(folder.path().join(LOCK), lock_of(packages).to_string()).unwrap();
            Fetched::open(folder.path())
        };
        assert_eq!(open(&COMPLETE).unwrap().kernel.release, "6.12.9+deb12-amd64");
        let mut other = COMPLETE;
        other[4].1 = "6.12.8-1";
        let error = open(&other).unwrap_err().to_string();
        assert!(error.contains("is not of version 6.12.8-1"), "{error}");
    }

    #[test]
    fn a_package_of_a_store_stays_there() {
        let folder = tempfile::tempdir().unwrap();
        let [file, first, second] = ["a.deb", "first", "second"].map(|name| folder.path().join(name));
        fs::write(&file, "package").unwrap();
        keep(&file, &first, true).unwrap();
        assert!(file.exists() && fs::read_to_string(first).unwrap() == "package");
        keep(&file, &second, false).unwrap();
        assert!(!file.exists() && second.exists());
    }

    #[test]
    fn headers_work_where_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let makefile = folder.path().join("Makefile");
        fs::write(&makefile, "include /usr/src/linux-headers-6.12.9-common/Makefile\n").unwrap();
        fs::write(folder.path().join("vmlinux"), "").unwrap();
        make_headers_relocatable(folder.path()).unwrap();
        assert!(!fs::read_to_string(makefile).unwrap().contains(" /usr"));
        assert!(!folder.path().join("vmlinux").exists());
    }
}
