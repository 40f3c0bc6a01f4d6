//! Check of the kernel modules that the package gpreempt-dkms builds: loaded, installed, or held back unsigned.

use std::fs;
use std::path::{Path, PathBuf};

use super::Check;

/// How patched amdgpu names its version; the kernel's own has none.
const PATCHED: &str = "gpreempt-";
/// Where DKMS keeps what it builds of the package.
const DKMS: &str = "var/lib/dkms/gpreempt";

pub(super) fn check() -> Check {
    let root = Path::new("/");
    match read(root, "proc/sys/kernel/osrelease") {
        Some(release) => check_at(root, &release),
        None => Check::unknown("kernel modules", "the kernel does not tell its release"),
    }
}

fn check_at(root: &Path, release: &str) -> Check {
    const NAME: &str = "kernel modules";
    let signatures = signatures_demanded_at(root);
    if let Some(version) = read(root, "sys/module/amdgpu/version").filter(|version| version.starts_with(PATCHED)) {
        let trusted = signatures.map(|reason| format!("; {reason}, and its signature is trusted")).unwrap_or_default();
        let has_scheduler = root.join("sys/module/gpreempt").exists();
        let scheduler = if has_scheduler { "gpreempt.ko is loaded" } else { "gpreempt.ko is not loaded" };
        let check = Check::ok(NAME, format!("amdgpu is patched ({version}){trusted}; {scheduler}"));
        return if has_scheduler { check } else { check.with("to schedule in the kernel: `modprobe gpreempt`") };
    }
    if is_installed(root, release) {
        let found = "DKMS has installed patched amdgpu for this kernel, and another amdgpu is loaded";
        return Check::warn(NAME, found, "restart the machine");
    }
    let Some(version) = built_version(root, release) else {
        return Check::ok(NAME, "the kernel's own amdgpu; gpreempt-dkms has built none for this kernel");
    };
    let install = format!("dkms install gpreempt/{version} -k {release}");
    let found = "DKMS has built patched amdgpu for this kernel, and not installed it";
    match signatures {
        Some(reason) => Check::warn(
            NAME,
            format!("{found}: {reason}, and takes modules with an enrolled key only"),
            format!(
                "enroll the key of DKMS: `mokutil --import /var/lib/dkms/mok.pub`, restart, choose \"Enroll MOK\", \
                 then `{install}`"
            ),
        ),
        None => Check::warn(NAME, found, format!("`{install}`, and restart the machine")),
    }
}

/// Says why the machine takes signed modules only; `None` if it takes any, as far as it tells.
pub(super) fn demands_signatures() -> Option<&'static str> {
    signatures_demanded_at(Path::new("/"))
}

fn signatures_demanded_at(root: &Path) -> Option<&'static str> {
    let variables = fs::read_dir(root.join("sys/firmware/efi/efivars")).into_iter().flatten().flatten();
    let mut secure = variables.filter(|entry| entry.file_name().to_string_lossy().starts_with("SecureBoot-"));
    // Four bytes of attributes come before the value.
    if secure.any(|variable| fs::read(variable.path()).is_ok_and(|bytes| bytes.get(4) == Some(&1))) {
        return Some("Secure Boot is on");
    }
    let lockdown = read(root, "sys/kernel/security/lockdown").unwrap_or_default();
    if ["[integrity]", "[confidentiality]"].iter().any(|mode| lockdown.contains(mode)) {
        return Some("the kernel is locked down");
    }
    let enforced = read(root, "sys/module/module/parameters/sig_enforce").is_some_and(|value| value == "Y");
    enforced.then_some("the kernel was started with module.sig_enforce")
}

/// Whether DKMS notes the modules as installed for a kernel: a link with its name.
fn is_installed(root: &Path, release: &str) -> bool {
    let link = format!("kernel-{release}-");
    names(&root.join(DKMS)).any(|name| name.starts_with(&link))
}

/// The version of the package whose modules DKMS has built for a kernel.
fn built_version(root: &Path, release: &str) -> Option<String> {
    let architectures = |version: &str| -> PathBuf { root.join(DKMS).join(version).join(release) };
    let has_modules = |version: &String| {
        names(&architectures(version)).any(|arch| architectures(version).join(arch).join("module").is_dir())
    };
    names(&root.join(DKMS)).find(has_modules)
}

fn names(directory: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

fn read(root: &Path, path: &str) -> Option<String> {
    Some(fs::read_to_string(root.join(path)).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::CheckResult;
    use super::*;

    const RELEASE: &str = "6.12.9+deb12-amd64";

    fn machine(files: &[(&str, &[u8])]) -> Check {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        check_at(folder.path(), RELEASE)
    }

    const BUILT: (&str, &[u8]) = ("var/lib/dkms/gpreempt/0.1.0/6.12.9+deb12-amd64/x86_64/module/amdgpu.ko", b"");
    const SECURE: (&str, &[u8]) = ("sys/firmware/efi/efivars/SecureBoot-8be4df61", &[6, 0, 0, 0, 1]);

    #[test]
    fn a_patched_driver_that_runs_is_said_to() {
        let check = machine(&[("sys/module/amdgpu/version", b"gpreempt-0.1.0\n"), SECURE]);
        assert_eq!(check.result, CheckResult::Ok);
        assert!(check.found.contains("gpreempt-0.1.0") && check.found.contains("its signature is trusted"));
        assert!(check.remedy.unwrap().contains("modprobe gpreempt"));
        let check = machine(&[("sys/module/amdgpu/version", b"gpreempt-0.1.0\n"), ("sys/module/gpreempt/x", b"")]);
        assert!(check.found.contains("gpreempt.ko is loaded") && check.remedy.is_none());
    }

    #[test]
    fn modules_that_secure_boot_or_lockdown_held_back_come_with_the_way_to_enroll_the_key() {
        let lockdown: (&str, &[u8]) = ("sys/kernel/security/lockdown", b"none [integrity] confidentiality\n");
        let enforced: (&str, &[u8]) = ("sys/module/module/parameters/sig_enforce", b"Y\n");
        for (file, reason) in [(SECURE, "Secure Boot"), (lockdown, "locked down"), (enforced, "sig_enforce")] {
            let check = machine(&[BUILT, file]);
            assert_eq!(check.result, CheckResult::Warn);
            assert!(check.found.contains(reason), "{}", check.found);
            let remedy = check.remedy.unwrap();
            assert!(remedy.contains("mokutil --import") && remedy.contains("dkms install gpreempt/0.1.0"), "{remedy}");
        }
    }

    #[test]
    fn modules_that_are_built_or_installed_and_not_loaded_come_with_what_is_left_to_do() {
        let check = machine(&[BUILT]);
        assert!(check.remedy.unwrap().starts_with("`dkms install gpreempt/0.1.0 -k 6.12.9+deb12-amd64`"));
        let installed = "var/lib/dkms/gpreempt/kernel-6.12.9+deb12-amd64-x86_64";
        let check = machine(&[BUILT, (installed, b"")]);
        assert_eq!(check.remedy.as_deref(), Some("restart the machine"));
    }

    #[test]
    fn a_machine_without_the_package_has_nothing_to_do() {
        let other = "var/lib/dkms/gpreempt/0.1.0/6.12.8+deb12-amd64/x86_64/module/amdgpu.ko";
        for files in [&[][..], &[(other, &b""[..])], &[("sys/module/amdgpu/version", &b"6.12.12\n"[..]), SECURE]] {
            let check = machine(files);
            assert!(check.result == CheckResult::Ok && check.remedy.is_none(), "{check:?}");
        }
    }
}
