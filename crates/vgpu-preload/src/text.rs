//! Paths as the hooks get them.

use std::ffi::{CStr, c_char};
use std::os::fd::RawFd;

use vgpu::client;

/// The normalised absolute path of the virtual gpu's tree that (directory, path) names, if it is one.
pub(crate) fn path_at(directory: RawFd, path: *const c_char) -> Option<String> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller of a hook passes a C string, as the function that it thinks it calls demands.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    if bytes.starts_with(b"/") {
        return client::normalise(bytes);
    }
    if !client::is_in_use() || directory == libc::AT_FDCWD && !leads_from_the_root(bytes) {
        return None;
    }
    let directory = client::directory_path(directory)?;
    client::normalise([directory.as_bytes(), b"/", bytes].concat().as_slice())
}

/// Whether a path may lead to ours from the root directory. No other directory of ours can be the working directory:
/// `chdir` finds none of them. Most relative paths need no further look.
fn leads_from_the_root(path: &[u8]) -> bool {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    [b"dev/".as_slice(), b"sys/", b"proc/"].iter().any(|top| path.starts_with(top))
}

/// The same for a path alone.
pub(crate) fn path(path: *const c_char) -> Option<String> {
    path_at(libc::AT_FDCWD, path)
}
