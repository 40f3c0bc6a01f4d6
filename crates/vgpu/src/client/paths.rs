//! Which paths are the virtual gpu's.

use crate::protocol::SOCKET_VARIABLE;

/// What exists only in the virtual gpu's tree; real files of these names are hidden.
const ROOTS: [&str; 9] = [
    "/dev/kfd",
    "/dev/dri",
    "/sys/class/kfd",
    "/sys/devices/virtual/kfd",
    "/sys/class/drm",
    "/sys/dev/char/226:",
    "/sys/module/amdgpu",
    "/sys/kernel/debug/kfd",
    MODULES,
];

/// Directories of the machine in which the virtual gpu has entries of its own.
const SHARED: [&str; 7] = [
    "/dev",
    "/sys/bus/pci/devices",
    "/sys/bus/pci/drivers",
    "/sys/class",
    "/sys/dev/char",
    "/sys/devices",
    "/sys/module",
];

/// Returns whether a directory of the machine, by its path without links, shows entries of the virtual gpu beside its
/// own.
pub(super) fn is_shared(path: &str) -> bool {
    SHARED.contains(&path)
}

/// The list of kernel modules: the real one, with ours added.
pub(super) const MODULES: &str = "/proc/modules";

/// Whether this process was started on a virtual gpu.
pub(super) fn socket() -> Option<&'static str> {
    static SOCKET: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    SOCKET.get_or_init(|| std::env::var(SOCKET_VARIABLE).ok()).as_deref()
}

/// The path without `.`, `..` and doubled slashes, if it belongs to the virtual gpu.
///
/// Everything else is sorted out by its first bytes.
pub fn normalise(path: &[u8]) -> Option<String> {
    let path = path.strip_prefix(b"/")?;
    let path = &path[path.iter().take_while(|&&byte| byte == b'/').count()..];
    if !(path.starts_with(b"dev/") || path.starts_with(b"sys/") || path.starts_with(b"proc/")) {
        return None;
    }
    socket()?;
    let path = plain(std::str::from_utf8(path).ok()?);
    is_in_tree(&path).then_some(path)
}

/// Returns an absolute path without `.`, `..` and doubled slashes.
fn plain(text: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn is_in_tree(path: &str) -> bool {
    ROOTS.iter().any(|root| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || root.ends_with(':'))
    }) || pci_device(path)
        || waiting_thread(path)
}

/// The file that shows in which system call a thread is, if it waits in one of the driver's. Of all others the real
/// file is right.
fn waiting_thread(path: &str) -> bool {
    path.starts_with("/proc/") && path.ends_with("/syscall") && super::lookup(path).is_ok()
}

/// PCI devices that links of the tree lead to, and the directories on the way that the machine does not have. It has
/// devices of its own beside them, so the supervisor is asked which are which.
fn pci_device(path: &str) -> bool {
    let may_be = path.starts_with("/sys/devices/pci") || path.starts_with("/sys/bus/pci/");
    may_be && (path.split('/').any(is_pci_address) || !exists_for_real(path)) && super::lookup(path).is_ok()
}

/// Whether the machine has such a file, past our own hooks.
fn exists_for_real(path: &str) -> bool {
    let Ok(path) = std::ffi::CString::new(path) else { return false };
    // SAFETY: the path is a C string; `syscall` because `access` is one of our own hooks.
    unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path.as_ptr(), libc::F_OK) == 0 }
}

/// Domain, bus, device and function, such as `0000:c1:00.0`.
fn is_pci_address(name: &str) -> bool {
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut parts = name.split([':', '.']);
    let mut next = |count| parts.next().is_some_and(|part| digits(part, count));
    name.len() == "0000:c1:00.0".len() && next(4) && next(2) && next(2) && next(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_are_shared_are_not_the_virtual_gpus_alone() {
        let tree = crate::sysfs::Tree::new(&crate::profile::Profile::load("mi300x").expect("built in"));
        for path in SHARED {
            assert!(matches!(tree.lookup(path), Some(crate::sysfs::Node::Dir(_))), "{path}");
            assert!(!tree.owns(path), "{path}");
        }
    }

    #[test]
    fn pci_addresses_are_told_from_other_names() {
        assert!(is_pci_address("0000:c1:00.0"));
        for name in ["pci0000:c1", "0000:c1:00", "0000:c1:0000", "drivers_autop", "0000.c1.00.0x"] {
            assert!(!is_pci_address(name), "{name}");
        }
    }
}
