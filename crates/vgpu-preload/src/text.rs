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
    if directory == libc::AT_FDCWD || !client::is_in_use() {
        return None;
    }
    let directory = client::path_of(directory)?;
    client::normalise([directory.as_bytes(), b"/", bytes].concat().as_slice())
}

/// The same for a path alone.
pub(crate) fn path(path: *const c_char) -> Option<String> {
    path_at(libc::AT_FDCWD, path)
}
