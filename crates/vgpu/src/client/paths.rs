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
    let text = std::str::from_utf8(path).ok()?;
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
    let path = format!("/{}", parts.join("/"));
    is_in_tree(&path).then_some(path)
}

fn is_in_tree(path: &str) -> bool {
    ROOTS.iter().any(|root| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || root.ends_with(':'))
    }) || pci_device(path)
}

/// The PCI device directories that links of the tree lead to.
fn pci_device(path: &str) -> bool {
    path.starts_with("/sys/devices/pci") || path.starts_with("/sys/bus/pci/devices/")
}
