//! Memory files: sparse, without a path, and sealed against becoming shorter.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::Resource;

use super::descriptor::{file_size, path_of};

/// Longest name that memfd_create accepts, in bytes.
const LONGEST_NAME: usize = 249;

/// Creates a memory file of `size` bytes (sparse), closed on exec. It cannot become shorter, so a process that has
/// mapped it may touch all of it. The name shows in `/proc/PID/fd`; it is cut to what the kernel accepts.
///
/// # Errors
/// What memfd_create, ftruncate or fcntl report; EFBIG beyond the limit on file sizes.
pub(crate) fn memfd(name: &str, size: u64) -> io::Result<OwnedFd> {
    let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    if i64::try_from(size).is_err() {
        return Err(Errno::FBIG.into());
    }
    check_size_limit(size)?;
    rustix::fs::ftruncate(&file, size)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

/// Returns whether a file has at least `size` bytes and is sealed so that it keeps them.
pub(crate) fn is_as_long_as(file: BorrowedFd<'_>, size: u64) -> bool {
    let sealed = rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    sealed && file_size(file).is_ok_and(|bytes| bytes >= size)
}

/// Checks a size against the limit on file sizes, which counts for memory files, too: exceeding it would send SIGXFSZ
/// to the program.
///
/// # Errors
/// EFBIG.
pub(crate) fn check_size_limit(size: u64) -> io::Result<()> {
    let limit = rustix::process::getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| size > limit) { Err(Errno::FBIG.into()) } else { Ok(()) }
}

/// Gives the memory behind a range of a memory file back to the system; the range reads as zero afterwards.
pub(crate) fn punch_hole(file: BorrowedFd<'_>, offset: u64, length: u64) {
    // Only frees memory: if it fails, the range keeps its memory until the file is gone.
    let _ = rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length);
}

/// Returns what follows `prefix` in the name of the memory file behind `fd`, or `None` if it is not such a file.
pub(crate) fn name_of(fd: RawFd, prefix: &str) -> Option<String> {
    let target = read_link(&path_of(fd))?;
    let name = target.strip_prefix("/memfd:")?.strip_suffix(" (deleted)")?;
    Some(name.strip_prefix(prefix)?.to_owned())
}

/// Returns where a symbolic link leads, past our own hooks.
pub(crate) fn read_link(path: &str) -> Option<String> {
    rustix::fs::readlink(path, Vec::new()).ok()?.into_string().ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_memory_file_that_others_have_mapped_does_not_shrink() {
        let file = memfd("test", 8192).expect("a file");
        assert!(is_as_long_as(file.as_fd(), 8192) && !is_as_long_as(file.as_fd(), 8193));
        let file = std::fs::File::from(file);
        assert!(file.set_len(0).is_err());
        assert!(is_as_long_as(file.as_fd(), 8192));
        punch_hole(file.as_fd(), 0, 4096);
        let ordinary = std::fs::File::open("/proc/self/exe").expect("can be read");
        assert!(!is_as_long_as(ordinary.as_fd(), 1), "any process could truncate it");
    }

    #[test]
    fn a_long_name_is_cut_between_two_characters() {
        use std::os::fd::AsRawFd;
        let file = memfd(&format!("x{}", "é".repeat(200)), 0).expect("a file");
        assert_eq!(name_of(file.as_raw_fd(), "x"), Some("é".repeat(124)));
        assert_eq!(name_of(file.as_raw_fd(), "y"), None);
    }
}
