//! What kind of file something is.

use std::ffi::{c_char, c_int, c_uint};

use vgpu::client::{self, Node};

use crate::real::real;
use crate::text::path_at;

/// Kind, permissions, device number and size of a node.
struct Facts {
    mode: u32,
    device: (u32, u32),
    size: u64,
    inode: u64,
}

fn facts(path: &str, node: &Node) -> Facts {
    let (mode, device, size) = match node {
        Node::Dir(_) => (libc::S_IFDIR | 0o755, (0, 0), 0),
        // Files of sysfs are one page long, whatever is in them.
        Node::File(_) => (libc::S_IFREG | 0o444, (0, 0), 4096),
        Node::Device(kind) => (libc::S_IFCHR | 0o666, kind.number(), 0),
        Node::Link(text) => (libc::S_IFLNK | 0o777, (0, 0), text.len() as u64),
    };
    // Any number that is the same each time and another for another path.
    let inode = path
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    Facts { mode, device, size, inode: inode | 1 }
}

/// Facts about what a path names; `None` if it is not ours.
fn facts_at(directory: c_int, path: *const c_char, follow: bool) -> Option<Result<Facts, i32>> {
    let path = path_at(directory, path)?;
    let found = if follow { client::resolve(&path) } else { client::lookup(&path).map(|node| (path, node)) };
    Some(found.map(|(path, node)| facts(&path, &node)))
}

/// Facts about an open descriptor of ours.
fn facts_of(fd: c_int) -> Option<Result<Facts, i32>> {
    Some(client::node_of(fd)?.map(|(path, node)| facts(&path, &node)))
}

fn fill(facts: &Facts, to: *mut libc::stat) {
    // SAFETY: the caller gives room for one stat; all zeros is a valid one.
    unsafe {
        to.write_bytes(0, 1);
        (*to).st_dev = libc::makedev(0, 22);
        (*to).st_ino = facts.inode;
        (*to).st_nlink = 1;
        (*to).st_mode = facts.mode;
        (*to).st_rdev = libc::makedev(facts.device.0, facts.device.1);
        (*to).st_size = facts.size as i64;
        (*to).st_blksize = 4096;
    }
}

fn stat_ours(directory: c_int, path: *const c_char, follow: bool, to: *mut libc::stat) -> Option<c_int> {
    crate::ours(-1, || {
        Some(facts_at(directory, path, follow)?.map(|facts| {
            fill(&facts, to);
            0
        }))
    })
}

fn fstat_ours(fd: c_int, to: *mut libc::stat) -> Option<c_int> {
    if !client::is_in_use() {
        return None;
    }
    crate::ours(-1, || {
        Some(facts_of(fd)?.map(|facts| {
            fill(&facts, to);
            0
        }))
    })
}

macro_rules! stat_hooks {
    ($($name:ident $old:ident $follow:literal $text:literal $old_text:literal;)*) => {
        $(
            /// # Safety
            /// As the function of the same name in libc.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(path: *const c_char, to: *mut libc::stat) -> c_int {
                stat_ours(libc::AT_FDCWD, path, $follow, to)
                    .unwrap_or_else(|| real!($text, -1, fn(*const c_char, *mut libc::stat) -> c_int, path, to))
            }

            /// # Safety
            /// As the function of the same name in libc.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $old(version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int {
                stat_ours(libc::AT_FDCWD, path, $follow, to).unwrap_or_else(|| {
                    real!($old_text, -1, fn(c_int, *const c_char, *mut libc::stat) -> c_int, version, path, to)
                })
            }
        )*
    };
}

stat_hooks! {
    stat __xstat true c"stat" c"__xstat";
    stat64 __xstat64 true c"stat64" c"__xstat64";
    lstat __lxstat false c"lstat" c"__lxstat";
    lstat64 __lxstat64 false c"lstat64" c"__lxstat64";
}

macro_rules! fstat_hooks {
    ($($name:ident $old:ident $text:literal $old_text:literal;)*) => {
        $(
            /// # Safety
            /// As the function of the same name in libc.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(fd: c_int, to: *mut libc::stat) -> c_int {
                fstat_ours(fd, to)
                    .unwrap_or_else(|| real!($text, -1, fn(c_int, *mut libc::stat) -> c_int, fd, to))
            }

            /// # Safety
            /// As the function of the same name in libc.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $old(version: c_int, fd: c_int, to: *mut libc::stat) -> c_int {
                fstat_ours(fd, to).unwrap_or_else(|| {
                    real!($old_text, -1, fn(c_int, c_int, *mut libc::stat) -> c_int, version, fd, to)
                })
            }
        )*
    };
}

fstat_hooks! {
    fstat __fxstat c"fstat" c"__fxstat";
    fstat64 __fxstat64 c"fstat64" c"__fxstat64";
}

fn fstatat_ours(directory: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> Option<c_int> {
    if is_empty(path) && flags & libc::AT_EMPTY_PATH != 0 {
        return fstat_ours(directory, to);
    }
    stat_ours(directory, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0, to)
}

fn is_empty(path: *const c_char) -> bool {
    // SAFETY: the caller passes a C string or null.
    path.is_null() || unsafe { *path } == 0
}

macro_rules! fstatat_hooks {
    ($($name:ident $text:literal;)*) => {
        $(
            /// # Safety
            /// As the function of the same name in libc.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(
                directory: c_int,
                path: *const c_char,
                to: *mut libc::stat,
                flags: c_int,
            ) -> c_int {
                fstatat_ours(directory, path, to, flags).unwrap_or_else(|| {
                    real!(
                        $text,
                        -1,
                        fn(c_int, *const c_char, *mut libc::stat, c_int) -> c_int,
                        directory,
                        path,
                        to,
                        flags
                    )
                })
            }
        )*
    };
}

fstatat_hooks! {
    fstatat c"fstatat";
    fstatat64 c"fstatat64";
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut libc::statx,
) -> c_int {
    let ours = crate::ours(-1, || {
        let facts = if is_empty(path) && flags & libc::AT_EMPTY_PATH != 0 {
            if !client::is_in_use() {
                return None;
            }
            facts_of(directory)?
        } else {
            facts_at(directory, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0)?
        };
        Some(facts.map(|facts| {
            // SAFETY: the caller gives room for one statx; all zeros is a valid one.
            unsafe {
                to.write_bytes(0, 1);
                (*to).stx_mask = libc::STATX_BASIC_STATS;
                (*to).stx_blksize = 4096;
                (*to).stx_nlink = 1;
                (*to).stx_mode = facts.mode as u16;
                (*to).stx_ino = facts.inode;
                (*to).stx_size = facts.size;
                (*to).stx_dev_minor = 22;
                (*to).stx_rdev_major = facts.device.0;
                (*to).stx_rdev_minor = facts.device.1;
            }
            0
        }))
    });
    ours.unwrap_or_else(|| {
        real!(
            c"statx",
            -1,
            fn(c_int, *const c_char, c_int, c_uint, *mut libc::statx) -> c_int,
            directory,
            path,
            flags,
            mask,
            to
        )
    })
}
