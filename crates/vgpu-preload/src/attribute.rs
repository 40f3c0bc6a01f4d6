//! Extended attributes: files of the virtual gpu have none.

use std::ffi::{c_char, c_void};

use vgpu::client;

use crate::real::real;
use crate::text::path;

/// The error for a path of ours: it has no such attribute, or does not exist.
fn none(at: *const c_char, absent: isize) -> Option<isize> {
    crate::ours(-1, || {
        let path = path(at)?;
        Some(match client::lookup(&path) {
            Ok(_) if absent == 0 => Ok(0),
            Ok(_) => Err(libc::ENODATA),
            Err(errno) => Err(errno),
        })
    })
}

macro_rules! get_hooks {
    ($($name:ident $text:literal;)*) => {
        $(
            /// # Safety
            /// As the function of the same name in libc.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(
                at: *const c_char,
                name: *const c_char,
                to: *mut c_void,
                size: usize,
            ) -> isize {
                none(at, -1).unwrap_or_else(|| {
                    real!(
                        $text,
                        -1,
                        fn(*const c_char, *const c_char, *mut c_void, usize) -> isize,
                        at,
                        name,
                        to,
                        size
                    )
                })
            }
        )*
    };
}

get_hooks! {
    getxattr c"getxattr";
    lgetxattr c"lgetxattr";
}

macro_rules! list_hooks {
    ($($name:ident $text:literal;)*) => {
        $(
            /// # Safety
            /// As the function of the same name in libc.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(at: *const c_char, to: *mut c_char, size: usize) -> isize {
                none(at, 0).unwrap_or_else(|| {
                    real!($text, -1, fn(*const c_char, *mut c_char, usize) -> isize, at, to, size)
                })
            }
        )*
    };
}

list_hooks! {
    listxattr c"listxattr";
    llistxattr c"llistxattr";
}
