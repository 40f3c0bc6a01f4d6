//! Opening files.

use std::ffi::{c_char, c_int};
use std::os::fd::RawFd;

use vgpu::client;

use crate::real::real;
use crate::text::path_at;

fn open_ours(directory: RawFd, path: *const c_char, flags: c_int) -> Option<c_int> {
    crate::ours(-1, || Some(client::open(&path_at(directory, path)?, flags)))
}

macro_rules! open_hooks {
    ($($name:ident $text:literal;)*) => {
        $(
            /// # Safety
            /// As the function of the same name in libc. The third argument is optional there; on this architecture an
            /// argument that was not passed is an unused register.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
                open_ours(libc::AT_FDCWD, path, flags).unwrap_or_else(|| {
                    real!($text, -1, fn(*const c_char, c_int, libc::mode_t) -> c_int, path, flags, mode)
                })
            }
        )*
    };
}

open_hooks! {
    open c"open";
    open64 c"open64";
    __open_2 c"__open_2";
    __open64_2 c"__open64_2";
}

macro_rules! openat_hooks {
    ($($name:ident $text:literal;)*) => {
        $(
            /// # Safety
            /// As the function of the same name in libc.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(
                directory: c_int,
                path: *const c_char,
                flags: c_int,
                mode: libc::mode_t,
            ) -> c_int {
                open_ours(directory, path, flags).unwrap_or_else(|| {
                    real!(
                        $text,
                        -1,
                        fn(c_int, *const c_char, c_int, libc::mode_t) -> c_int,
                        directory,
                        path,
                        flags,
                        mode
                    )
                })
            }
        )*
    };
}

openat_hooks! {
    openat c"openat";
    openat64 c"openat64";
    __openat_2 c"__openat_2";
    __openat64_2 c"__openat64_2";
}

macro_rules! fopen_hooks {
    ($($name:ident $text:literal;)*) => {
        $(
            /// # Safety
            /// As the function of the same name in libc.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
                fopen_ours(path, mode).unwrap_or_else(|| {
                    real!(
                        $text,
                        std::ptr::null_mut(),
                        fn(*const c_char, *const c_char) -> *mut libc::FILE,
                        path,
                        mode
                    )
                })
            }
        )*
    };
}

fopen_hooks! {
    fopen c"fopen";
    fopen64 c"fopen64";
}

fn fopen_ours(path: *const c_char, mode: *const c_char) -> Option<*mut libc::FILE> {
    let path = path_at(libc::AT_FDCWD, path)?;
    crate::ours(std::ptr::null_mut(), || {
        // SAFETY: the caller of fopen passes a C string.
        let text = unsafe { std::ffi::CStr::from_ptr(mode) }.to_bytes();
        let access = match text.first() {
            Some(b'r') if !text.contains(&b'+') => libc::O_RDONLY,
            _ => libc::O_RDWR,
        };
        let close = if text.contains(&b'e') { libc::O_CLOEXEC } else { 0 };
        let fd = match client::open(&path, access | close) {
            Ok(fd) => fd,
            Err(errno) => return Some(Err(errno)),
        };
        // SAFETY: a descriptor of ours and the caller's mode.
        let file = unsafe { libc::fdopen(fd, mode) };
        if file.is_null() {
            // SAFETY: no other code knows the descriptor.
            unsafe { libc::close(fd) };
            return Some(Err(libc::EINVAL));
        }
        Some(Ok(file))
    })
}
