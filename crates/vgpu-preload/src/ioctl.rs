//! Device calls.

use std::ffi::{c_int, c_ulong, c_void};

use vgpu::client;

use crate::real::real;

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    crate::ours(-1, || client::ioctl(fd, request, argument.cast()))
        .unwrap_or_else(|| real!(c"ioctl", -1, fn(c_int, c_ulong, *mut c_void) -> c_int, fd, request, argument))
}
