//! The package's scripts, each refusal of them, in scratch roots: `$GPREEMPT_ROOT` stands before their paths.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::contents::{Contents, VERSION};

const RELEASE: &str = "6.12.9+deb12-amd64";
const CONFIG: &str = "CONFIG_X86_64=y\nCONFIG_DRM_AMDGPU=m\nCONFIG_HSA_AMD=y\nCONFIG_ARCH_SUPPORTS_CFI_CLANG=y\n";
const DRIVER: &str = "drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c";
const PATCH: &str = "--- a/drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c\n+++ b/drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c\n\
                     @@ -1,2 +1,2 @@\n one\n-two\n+patched\n";
const SIGNATURE: &str = "module~Module signature appended~\n";

/// A machine that is fit: kernel, headers, source, DKMS's directories. Programs that change a machine are replaced by
/// scripts that note their arguments.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { folder: tempfile::tempdir().unwrap() };
        for (path, file) in Contents::of_repository().unwrap().files {
            let path = machine.path(&path.to_string_lossy());
            put(&path, &file.content);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::remove_dir_all(machine.source().join("patches/6.12")).unwrap();
        put(&machine.source().join("patches/6.12/0001.patch"), PATCH.as_bytes());
        machine.headers(6, 12, CONFIG);
        machine.archive("SUBLEVEL = 9");
        machine.file("etc/os-release", "ID=debian\n");
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn file(&self, path: &str, content: &str) {
        put(&self.path(path), content.as_bytes());
    }

    /// A program that is found before the system's.
    fn program(&self, name: &str, script: &str) {
        self.file(&format!("programs/{name}"), &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(self.path("programs").join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn source(&self) -> PathBuf {
        self.path(&format!("usr/src/gpreempt-{VERSION}"))
    }

    fn headers(&self, major: u32, minor: u32, config: &str) {
        let build = format!("lib/modules/{RELEASE}/build");
        self.file(&format!("{build}/.config"), config);
        let version = format!(
            "#define LINUX_VERSION_CODE 1\n#define LINUX_VERSION_MAJOR {major}\n\
             #define LINUX_VERSION_PATCHLEVEL {minor}\n#define LINUX_VERSION_SUBLEVEL 9\n"
        );
        self.file(&format!("{build}/include/generated/uapi/linux/version.h"), &version);
    }

    /// Packs the distribution's source.
    fn archive(&self, sublevel: &str) {
        let tree = self.path("packed/linux-source-6.12");
        put(&tree.join("Makefile"), format!("VERSION = 6\nPATCHLEVEL = 12\n{sublevel}\nEXTRAVERSION =\n").as_bytes());
        put(&tree.join(DRIVER), b"one\ntwo\n");
        put(&tree.join("include/uapi/linux/kfd_ioctl.h"), b"");
        let archive = self.path("usr/src/linux-source-6.12.tar.xz");
        let mut tar = Command::new("tar");
        tar.arg("-cJf").arg(archive).arg("-C").arg(self.path("packed")).arg("linux-source-6.12");
        assert!(tar.status().unwrap().success());
    }

    fn run(&self, script: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let path = format!("{}:{}", self.path("programs").display(), std::env::var("PATH").unwrap());
        Command::new("sh")
            .arg(self.source().join(script))
            .args(arguments)
            .current_dir(self.source())
            .env("GPREEMPT_ROOT", self.folder.path())
            .env("PATH", path)
            .env_remove("GPREEMPT_LINUX_SOURCE")
            .envs(environment.iter().copied())
            .output()
            .unwrap()
    }

    /// Runs the check and returns the message with which it refuses.
    fn refusal(&self) -> String {
        refused(&self.run("check.sh", &[RELEASE], &[]))
    }

    /// Runs DKMS's PRE_INSTALL.
    fn pre_install(&self) -> Output {
        self.run("pre-install.sh", &[RELEASE, &self.path("modules").to_string_lossy()], &[])
    }

    /// Puts modules where DKMS leaves them.
    fn modules(&self, content: &str) {
        for name in ["amdgpu.ko", "gpreempt.ko"] {
            self.file(&format!("modules/{name}"), content);
        }
    }

    fn secure_boot(&self, state: u8) {
        put(&self.path("sys/firmware/efi/efivars/SecureBoot-8be4df61"), &[6, 0, 0, 0, state]);
    }
}

fn put(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// The one message of a script that refuses with 2.
fn refused(output: &Output) -> String {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(message.lines().count(), 1, "one message: {message}");
    assert!(message.starts_with("gpreempt: nothing is ") && message.contains(RELEASE), "{message}");
    message
}

fn accepted(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_machine_with_the_source_of_its_kernel_is_accepted() {
    let machine = Machine::new();
    let found = accepted(&machine.run("check.sh", &[RELEASE], &[]));
    assert!(found.trim().ends_with("/usr/src/linux-source-6.12.tar.xz"), "{found}");
}

#[test]
fn a_kernel_without_headers_is_refused() {
    let machine = Machine::new();
    fs::remove_dir_all(machine.path("lib/modules")).unwrap();
    assert!(machine.refusal().contains(&format!("install linux-headers-{RELEASE}")));
}

#[test]
fn a_missing_source_is_refused_with_what_was_looked_for() {
    let machine = Machine::new();
    fs::remove_file(machine.path("usr/src/linux-source-6.12.tar.xz")).unwrap();
    let message = machine.refusal();
    assert!(message.contains("usr/src/linux-source-6.12.tar.xz") && message.contains("GPREEMPT_LINUX_SOURCE"));
}

#[test]
fn a_source_of_another_version_is_refused() {
    let machine = Machine::new();
    machine.archive("SUBLEVEL = 8");
    let message = machine.refusal();
    assert!(message.contains("Linux 6.12.8") && message.contains("6.12.9"), "{message}");
}

#[test]
fn a_source_package_of_another_revision_is_refused() {
    let machine = Machine::new();
    let package = |name: &str, version: &str| {
        format!(
            "Package: {name}\nStatus: install ok installed\nArchitecture: all\nMaintainer: x\nVersion: {version}\n\
             Description: x\n\n"
        )
    };
    let headers = package(&format!("linux-headers-{RELEASE}"), "6.12.9-2");
    machine.file("var/lib/dpkg/status", &(package("linux-source-6.12", "6.12.9-1") + &headers));
    let message = machine.refusal();
    assert!(message.contains("6.12.9-1") && message.contains("6.12.9-2"), "{message}");
}

#[test]
fn a_directory_with_the_source_may_be_named() {
    let machine = Machine::new();
    fs::remove_file(machine.path("usr/src/linux-source-6.12.tar.xz")).unwrap();
    let tree = machine.path("packed/linux-source-6.12").display().to_string();
    let named = |tree: &str| machine.run("check.sh", &[RELEASE], &[("GPREEMPT_LINUX_SOURCE", tree)]);
    assert_eq!(accepted(&named(&tree)).trim(), tree);
    assert!(refused(&named("/nowhere")).contains("GPREEMPT_LINUX_SOURCE=/nowhere"));
    let prepared = machine.run("prepare.sh", &[RELEASE], &[("GPREEMPT_LINUX_SOURCE", &tree)]);
    accepted(&prepared);
    assert!(fs::read_to_string(machine.source().join("linux").join(DRIVER)).unwrap().contains("patched"));
}

#[test]
fn a_series_without_patches_is_refused() {
    let machine = Machine::new();
    machine.headers(6, 1, CONFIG);
    let message = machine.refusal();
    assert!(message.contains("no patches for Linux 6.1, only for: 6.12"), "{message}");
}

#[test]
fn a_kernel_that_checks_indirect_calls_is_refused() {
    for option in ["CONFIG_CFI_CLANG=y", "CONFIG_CFI=y"] {
        let machine = Machine::new();
        machine.headers(6, 12, &format!("{CONFIG}{option}\n"));
        assert!(machine.refusal().contains("CONFIG_CFI_CLANG"));
    }
}

#[test]
fn a_kernel_without_amdgpu_as_a_module_is_refused() {
    let machine = Machine::new();
    machine.headers(6, 12, "CONFIG_X86_64=y\n# CONFIG_DRM_AMDGPU is not set\n");
    assert!(machine.refusal().contains("CONFIG_DRM_AMDGPU=m"));
}

#[test]
fn another_architecture_is_refused() {
    let machine = Machine::new();
    machine.headers(6, 12, "CONFIG_ARM64=y\nCONFIG_DRM_AMDGPU=m\nCONFIG_HSA_AMD=y\n");
    assert!(machine.refusal().contains("x86-64"));
}

#[test]
fn the_driver_of_rocm_is_refused() {
    for place in ["usr/src/amdgpu-6.12.12-2164967.24.04/dkms.conf", "var/lib/dkms/amdgpu/6.12.12/source"] {
        let machine = Machine::new();
        machine.file(place, "");
        let message = machine.refusal();
        assert!(message.contains("remove the package amdgpu-dkms"), "{message}");
    }
    let machine = Machine::new();
    machine.file("var/lib/dkms/amdgpu/original_module/x", "");
    accepted(&machine.run("check.sh", &[RELEASE], &[]));
}

#[test]
fn the_driver_is_unpacked_and_patched_and_has_a_version() {
    let machine = Machine::new();
    accepted(&machine.run("prepare.sh", &[RELEASE], &[]));
    let driver = fs::read_to_string(machine.source().join("linux").join(DRIVER)).unwrap();
    assert_eq!(driver, format!("one\npatched\n\nMODULE_VERSION(\"gpreempt-{VERSION}\");\n"));
    assert!(machine.source().join("prepared").exists());
}

#[test]
fn what_was_refused_or_cannot_be_patched_is_not_compiled() {
    let machine = Machine::new();
    let make = || Command::new("make").current_dir(machine.source()).arg("HEADERS=/nowhere").output().unwrap();
    put(&machine.source().join("patches/6.12/0002.patch"), PATCH.as_bytes());
    let output = machine.run("prepare.sh", &[RELEASE], &[]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("0002.patch does not apply"), "{message}");
    assert!(String::from_utf8_lossy(&make().stderr).contains("0002.patch does not apply"));
    machine.headers(6, 1, CONFIG);
    refused(&machine.run("prepare.sh", &[RELEASE], &[]));
    let made = make();
    assert!(!made.status.success() && String::from_utf8_lossy(&made.stderr).contains("no patches for Linux 6.1"));
}

#[test]
fn the_modules_are_compiled_on_all_processors() {
    let machine = Machine::new();
    accepted(&machine.run("prepare.sh", &[RELEASE], &[]));
    let headers = machine.path("headers");
    put(&headers.join("Makefile"), b"modules:\n\t@echo compiles $(M) with $(MAKEFLAGS)\n");
    let mut make = Command::new("make");
    make.current_dir(machine.source()).arg("-j2").arg(format!("HEADERS={}", headers.display()));
    let output = make.env_remove("MAKEFLAGS").output().unwrap();
    let (printed, complaints) = (accepted(&output), String::from_utf8_lossy(&output.stderr).into_owned());
    let compiled: Vec<&str> = printed.lines().filter(|line| line.starts_with("compiles ")).collect();
    assert_eq!(compiled.len(), 2, "{printed}");
    assert!(compiled[0].contains("amd/amdgpu with") && compiled[1].contains("amd/gpreempt with"), "{printed}");
    assert!(compiled.iter().all(|line| line.contains("jobserver")) && complaints.is_empty(), "{printed}{complaints}");
}

#[test]
fn modules_are_installed_unsigned_where_nothing_asks_for_signatures() {
    let machine = Machine::new();
    machine.modules("module\n");
    machine.secure_boot(0);
    machine.file("sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
    machine.file("sys/module/module/parameters/sig_enforce", "N\n");
    accepted(&machine.pre_install());
    machine.secure_boot(1);
    machine.program("mokutil", "echo SecureBoot enabled; echo SecureBoot validation is disabled in shim");
    accepted(&machine.pre_install());
}

#[test]
fn nothing_is_installed_unsigned_where_signatures_are_asked_for() {
    type Stage = fn(&Machine);
    let stages: [(Stage, &str); 4] = [
        (|machine| machine.secure_boot(1), "Secure Boot is on"),
        (|machine| machine.file("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"), "locked down"),
        (|machine| machine.file("sys/module/module/parameters/sig_enforce", "Y\n"), "module.sig_enforce"),
        (|machine| machine.headers(6, 12, "CONFIG_MODULE_SIG_FORCE=y\n"), "CONFIG_MODULE_SIG_FORCE"),
    ];
    for (stage, reason) in stages {
        let machine = Machine::new();
        machine.program("mokutil", "exit 1");
        machine.modules("module\n");
        stage(&machine);
        let message = refused(&machine.pre_install());
        assert!(message.contains(reason) && message.contains("has not signed"), "{message}");
    }
}

#[test]
fn signed_modules_are_installed_once_the_key_is_enrolled() {
    let machine = Machine::new();
    machine.modules(SIGNATURE);
    machine.secure_boot(1);
    machine.file("var/lib/dkms/mok.pub", "");
    machine.program("mokutil", "[ \"$1\" = --test-key ] && echo \"$2 is not enrolled\"");
    let message = refused(&machine.pre_install());
    let key = machine.path("var/lib/dkms/mok.pub").display().to_string();
    assert!(message.contains(&format!("mokutil --import {key}")) && message.contains("dkms install gpreempt/"));
    machine.program("mokutil", "[ \"$1\" = --test-key ] && echo \"$2 is already enrolled\"; exit 1");
    assert!(accepted(&machine.pre_install()).contains("signed with the enrolled key"));
    machine.program("mokutil", "echo EFI variables are not supported on this system >&2; exit 1");
    assert!(refused(&machine.pre_install()).contains("install mokutil"));
}

#[test]
fn the_key_may_be_named_in_the_configuration_of_dkms() {
    let machine = Machine::new();
    machine.modules(SIGNATURE);
    machine.secure_boot(1);
    let key = machine.path("etc/keys/own.der").display().to_string();
    machine.file("etc/keys/own.der", "");
    machine.file("etc/dkms/framework.conf", &format!("mok_certificate={key}\n"));
    machine.program("mokutil", "[ \"$1\" = --test-key ] && echo \"$2 is not enrolled\"");
    assert!(refused(&machine.pre_install()).contains(&format!("mokutil --import {key}")));
}

#[test]
fn compressed_modules_have_their_signatures_inside() {
    let machine = Machine::new();
    machine.modules(SIGNATURE);
    machine.secure_boot(1);
    machine.file("var/lib/dkms/mok.pub", "");
    machine.program("mokutil", "echo \"$2 is already enrolled\"");
    let packed = Command::new("xz").arg(machine.path("modules/amdgpu.ko")).status().unwrap();
    assert!(packed.success() && machine.path("modules/amdgpu.ko.xz").exists());
    accepted(&machine.pre_install());
}

#[test]
fn a_distribution_whose_dkms_moves_the_kernels_own_module_is_refused() {
    let machine = Machine::new();
    machine.modules("module\n");
    machine.file("etc/os-release", "ID=fedora\nID_LIKE=\"rhel\"\n");
    assert!(refused(&machine.pre_install()).contains("would move the kernel's own amdgpu away"));
    machine.file("etc/os-release", "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n");
    accepted(&machine.pre_install());
}

#[test]
fn an_order_of_depmod_that_prefers_the_kernels_own_module_is_refused() {
    let machine = Machine::new();
    machine.modules("module\n");
    machine.file("etc/depmod.d/ubuntu.conf", "search updates ubuntu built-in\n");
    accepted(&machine.pre_install());
    machine.file("etc/depmod.d/own.conf", "search built-in updates\n");
    let message = refused(&machine.pre_install());
    assert!(message.contains("own.conf") && message.contains("search built-in updates"), "{message}");
}

#[test]
fn the_image_of_one_kernel_is_made_anew_after_its_modules_are_listed() {
    let machine = Machine::new();
    let log = machine.path("log").display().to_string();
    for name in ["depmod", "update-initramfs", "modinfo"] {
        machine.program(name, &format!("echo {name} \"$@\" >> {log}"));
    }
    let calls = || {
        fs::write(&log, "").unwrap();
        accepted(&machine.run("initramfs.sh", &[RELEASE], &[]));
        fs::read_to_string(&log).unwrap()
    };
    // A kernel that is being installed gets its image later.
    assert!(!calls().contains("update-initramfs"));
    machine.file(&format!("boot/initrd.img-{RELEASE}"), "");
    let calls = calls();
    let [depmod, image] = ["depmod", "update-initramfs"].map(|name| calls.find(name).unwrap());
    assert!(depmod < image && calls.contains(&format!("update-initramfs -u -k {RELEASE}\n")), "{calls}");
}

#[test]
#[ignore = "needs shellcheck"]
fn the_scripts_are_without_findings_of_shellcheck() {
    let folder = crate::run::root().join("kernel/dkms");
    let scripts = ["check.sh", "prepare.sh", "pre-install.sh", "initramfs.sh"];
    let debian = ["debian/install.sh", "debian/kernel-hook.sh", "debian/postinst", "debian/prerm"];
    let tests = ["tests/root.sh", "tests/machine.sh"];
    let mut shellcheck = Command::new("shellcheck");
    let output = shellcheck.current_dir(folder).args(scripts).args(debian).args(tests).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
