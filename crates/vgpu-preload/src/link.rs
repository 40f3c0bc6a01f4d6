//! Links and questions about paths.

use std::ffi::{CString, c_char, c_int};

use vgpu::client::{self, Node};

use crate::real::real;
use crate::text::{path, path_at};

fn read_ours(directory: c_int, from: *const c_char, buffer: *mut c_char, size: usize) -> Option<isize> {
    crate::ours(-1, || {
        let path = path_at(directory, from)?;
        let text = match client::lookup(&path) {
            Ok(Node::Link(text)) => text,
            Ok(_) => return Some(Err(libc::EINVAL)),
            Err(errno) => return Some(Err(errno)),
        };
        let length = text.len().min(size);
        // SAFETY: the caller gives room for `size` bytes.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), length) };
        Some(Ok(length as isize))
    })
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn readlink(from: *const c_char, buffer: *mut c_char, size: usize) -> isize {
    read_ours(libc::AT_FDCWD, from, buffer, size)
        .unwrap_or_else(|| real!(c"readlink", -1, fn(*const c_char, *mut c_char, usize) -> isize, from, buffer, size))
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn readlinkat(
    directory: c_int,
    from: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> isize {
    read_ours(directory, from, buffer, size).unwrap_or_else(|| {
        real!(c"readlinkat", -1, fn(c_int, *const c_char, *mut c_char, usize) -> isize, directory, from, buffer, size)
    })
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __readlink_chk(
    from: *const c_char,
    buffer: *mut c_char,
    size: usize,
    room: usize,
) -> isize {
    read_ours(libc::AT_FDCWD, from, buffer, size.min(room)).unwrap_or_else(|| {
        real!(c"__readlink_chk", -1, fn(*const c_char, *mut c_char, usize, usize) -> isize, from, buffer, size, room)
    })
}

fn access_ours(directory: c_int, at: *const c_char, mode: c_int) -> Option<c_int> {
    crate::ours(-1, || {
        let node = match client::resolve(&path_at(directory, at)?) {
            Ok((_, node)) => node,
            Err(errno) => return Some(Err(errno)),
        };
        let forbidden = match node {
            Node::Device(_) => libc::X_OK,
            Node::Dir(_) => libc::W_OK,
            Node::File(_) | Node::Link(_) => libc::W_OK | libc::X_OK,
        };
        Some(if mode & forbidden != 0 { Err(libc::EACCES) } else { Ok(0) })
    })
}

macro_rules! access_hooks {
    ($($name:ident $text:literal;)*) => {
        $(
            /// # Safety
            /// As the function of the same name in libc.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(at: *const c_char, mode: c_int) -> c_int {
                access_ours(libc::AT_FDCWD, at, mode)
                    .unwrap_or_else(|| real!($text, -1, fn(*const c_char, c_int) -> c_int, at, mode))
            }
        )*
    };
}

access_hooks! {
    access c"access";
    eaccess c"eaccess";
    euidaccess c"euidaccess";
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn faccessat(directory: c_int, at: *const c_char, mode: c_int, flags: c_int) -> c_int {
    access_ours(directory, at, mode).unwrap_or_else(|| {
        real!(c"faccessat", -1, fn(c_int, *const c_char, c_int, c_int) -> c_int, directory, at, mode, flags)
    })
}

/// The path without links, in memory of malloc, or in the caller's buffer of PATH_MAX bytes.
fn real_path_ours(from: *const c_char, to: *mut c_char) -> Option<*mut c_char> {
    crate::ours(std::ptr::null_mut(), || {
        let resolved = match client::resolve(&path(from)?) {
            Ok((resolved, _)) => resolved,
            Err(errno) => return Some(Err(errno)),
        };
        let Ok(text) = CString::new(resolved) else { return Some(Err(libc::EINVAL)) };
        let bytes = text.as_bytes_with_nul();
        if bytes.len() > libc::PATH_MAX as usize {
            return Some(Err(libc::ENAMETOOLONG));
        }
        if to.is_null() {
            // SAFETY: a C string; the copy is from malloc, as the caller expects.
            return Some(Ok(unsafe { libc::strdup(text.as_ptr()) }));
        }
        // SAFETY: the caller gives room for PATH_MAX bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, bytes.len()) };
        Some(Ok(to))
    })
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn realpath(from: *const c_char, to: *mut c_char) -> *mut c_char {
    real_path_ours(from, to).unwrap_or_else(|| {
        real!(c"realpath", std::ptr::null_mut(), fn(*const c_char, *mut c_char) -> *mut c_char, from, to)
    })
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __realpath_chk(from: *const c_char, to: *mut c_char, room: usize) -> *mut c_char {
    real_path_ours(from, to).unwrap_or_else(|| {
        real!(
            c"__realpath_chk",
            std::ptr::null_mut(),
            fn(*const c_char, *mut c_char, usize) -> *mut c_char,
            from,
            to,
            room
        )
    })
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn canonicalize_file_name(from: *const c_char) -> *mut c_char {
    real_path_ours(from, std::ptr::null_mut()).unwrap_or_else(|| {
        real!(c"canonicalize_file_name", std::ptr::null_mut(), fn(*const c_char) -> *mut c_char, from)
    })
}
