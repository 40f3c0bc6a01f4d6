//! The command itself defines no hook, and no path of its to the driver's files goes past the hooks.

use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol};

fn defined(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).expect("can be read");
    let file = object::File::parse(&*bytes).expect("an executable");
    let symbols = file.symbols().chain(file.dynamic_symbols());
    symbols.filter(|s| s.is_definition() && s.is_global()).filter_map(|s| s.name().ok().map(str::to_owned)).collect()
}

fn library() -> PathBuf {
    super::executable().parent().expect("a directory").join("deps/libvgpu_preload.so")
}

/// The functions that the preloaded library puts in front of libc's.
fn hooked() -> Vec<String> {
    let bytes = std::fs::read(library()).expect("the library is built with the command");
    let file = object::File::parse(&*bytes).expect("a library");
    let symbols = file.dynamic_symbols().filter(ObjectSymbol::is_definition);
    symbols.filter_map(|s| s.name().ok().map(str::to_owned)).collect()
}

/// The functions that the command takes from shared libraries.
fn imported() -> Vec<String> {
    let bytes = std::fs::read(super::executable()).expect("can be read");
    let file = object::File::parse(&*bytes).expect("an executable");
    let symbols = file.dynamic_symbols().filter(ObjectSymbol::is_undefined);
    symbols.filter_map(|s| s.name().ok().map(str::to_owned)).collect()
}

/// Functions of libc that take a path or a directory, or do what only a device does to a descriptor.
#[rustfmt::skip]
const REACHES_FILES: &[&str] = &[
    "open", "open64", "openat", "openat64", "__open_2", "__open64_2", "__openat_2", "__openat64_2", "creat", "creat64",
    "fopen", "fopen64", "freopen", "freopen64", "stat", "stat64", "lstat", "lstat64", "fstat", "fstat64", "fstatat",
    "fstatat64", "statx", "__xstat", "__xstat64", "__lxstat", "__lxstat64", "__fxstat", "__fxstat64", "__fxstatat",
    "__fxstatat64", "statfs", "statfs64", "statvfs", "statvfs64", "access", "faccessat", "eaccess", "euidaccess",
    "readlink", "readlinkat", "__readlink_chk", "realpath", "__realpath_chk", "canonicalize_file_name", "opendir",
    "fdopendir", "readdir", "readdir64", "readdir_r", "readdir64_r", "closedir", "dirfd", "rewinddir", "seekdir",
    "telldir", "scandir", "scandir64", "scandirat", "scandirat64", "getdents64", "ftw", "ftw64", "nftw", "nftw64",
    "fts_open", "fts64_open", "glob", "glob64", "getxattr", "lgetxattr", "listxattr", "llistxattr",
    "inotify_add_watch", "fanotify_mark", "name_to_handle_at", "open_by_handle_at", "ioctl", "mmap", "mmap64", "munmap",
    "mremap", "syscall", "dlopen", "dlmopen", "dlsym", "bind", "connect", "chdir", "chroot", "chmod", "fchmodat", "chown",
    "lchown", "fchownat", "mkdir", "mkdirat", "mknod", "mknodat", "mkfifo", "rename", "renameat", "renameat2", "link",
    "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "rmdir", "remove", "truncate", "truncate64", "utime",
    "utimes", "utimensat", "execve", "execv", "execvp", "execvpe", "execveat", "posix_spawn", "posix_spawnp",
    "pidfd_spawn", "pidfd_spawnp", "posix_spawn_file_actions_addopen", "posix_spawn_file_actions_addchdir",
    "posix_spawn_file_actions_addchdir_np", "mount", "umount", "umount2",
];

/// Those that need no hook, and why.
const NEEDS_NO_HOOK: &[(&[&str], &str)] = &[
    (
        &["chmod", "fchmodat", "chown", "mkdir", "rename", "unlink", "unlinkat", "rmdir", "symlink", "utimensat"],
        "changes a directory or an attribute; the driver's files have only the driver's",
    ),
    (
        &["chdir", "chroot", "posix_spawn_file_actions_addchdir", "posix_spawn_file_actions_addchdir_np"],
        "what is opened below the directory goes through the hooks again",
    ),
    (&["execve", "execv", "execvp", "posix_spawn", "posix_spawnp", "pidfd_spawnp"], "the driver has no program"),
    (&["bind", "connect"], "the driver has no socket"),
    (
        &["syscall"],
        "the standard library's way to calls that libc lacks; that none goes to the driver's files is what the test \
         with strace shows",
    ),
];

#[test]
fn whatever_the_executable_can_reach_a_file_with_is_hooked() {
    let (hooked, imported) = (hooked(), imported());
    for expected in ["open64", "ioctl"] {
        assert!(imported.iter().any(|name| name == expected), "{expected}: the imports are not read right");
    }
    let exempt = |name: &str| NEEDS_NO_HOOK.iter().any(|(names, _)| names.contains(&name));
    let past: Vec<&String> = imported
        .iter()
        .filter(|name| REACHES_FILES.contains(&name.as_str()))
        .filter(|name| !hooked.contains(name) && !exempt(name))
        .collect();
    assert!(past.is_empty(), "imported and neither hooked nor exempt: {past:?}");
    for name in NEEDS_NO_HOOK.iter().flat_map(|(names, _)| *names) {
        assert!(
            REACHES_FILES.contains(name) && !hooked.iter().any(|hooked| hooked == name),
            "{name} is exempt in vain"
        );
    }
    // A hook whose name is missing above would not be asked for.
    let unlisted: Vec<&String> =
        imported.iter().filter(|name| hooked.contains(name) && !REACHES_FILES.contains(&name.as_str())).collect();
    assert!(unlisted.is_empty(), "hooked and not listed: {unlisted:?}");
}

/// The calls of a log of strace that name a path of the driver.
fn calls_to_the_driver(log: &str) -> Vec<&str> {
    const PATHS: [&str; 3] = ["\"/dev/kfd", "\"/sys/class/kfd", "\"/sys/devices/virtual/kfd"];
    let calls = log.lines().filter(|line| !line.contains("execve("));
    calls.filter(|line| PATHS.iter().any(|path| line.contains(path))).collect()
}

/// Runs a command on a virtual gpu below strace; its log of system calls that name a file, and its standard output.
fn traced(command: &[&str]) -> (String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut words = vec!["strace", "-f", "-s", "4096", "-e", "trace=%file", "-o", log.to_str().expect("text")];
    words.extend(command);
    // Nothing is traced twice: what the command itself wants to trace may fail, and the paths it opens stay the same.
    let output = super::on_vgpu(&words).output().expect("can be started");
    let log = std::fs::read_to_string(&log).expect("strace is installed by cargo xtask setup");
    assert!(log.contains("execve("), "nothing was traced: {}", String::from_utf8_lossy(&output.stderr));
    (log, String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
#[ignore = "needs strace"]
fn no_system_call_of_the_command_goes_to_the_drivers_files() {
    // What is looked for would be found: this goes past the hooks.
    let (log, _) = traced(&["env", "-u", "LD_PRELOAD", "stat", "/dev/kfd", "/sys/class/kfd/kfd/topology"]);
    assert_eq!(calls_to_the_driver(&log).len(), 2, "{log}");
    let executable = super::executable();
    let executable = executable.to_str().expect("text");
    for arguments in [&["doctor"][..], &["selftest"]] {
        let (log, printed) = traced(&[&[executable], arguments].concat());
        assert!(!printed.is_empty(), "{arguments:?} did nothing");
        let calls = calls_to_the_driver(&log);
        assert!(calls.is_empty(), "{arguments:?}: {calls:#?}");
    }
}

#[test]
fn the_executable_defines_none_of_the_hooked_symbols() {
    let executable = super::executable();
    let hooked = hooked();
    for expected in ["open64", "ioctl", "readdir64", "statx", "readlink", "fopen", "access"] {
        assert!(hooked.iter().any(|name| name == expected), "{expected} is not hooked by {:?}", library());
    }
    let own = defined(&executable);
    assert!(!own.is_empty(), "the executable has symbols to look at");
    let both: Vec<&String> = hooked.iter().filter(|name| own.contains(name)).collect();
    assert!(both.is_empty(), "defined by the executable, too: {both:?}");
}
