//! Files without a place in the file system.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Longest name that the kernel takes.
const LONGEST_NAME: usize = 249;

/// A memory file of `size` bytes (sparse), closed on exec, that cannot become shorter: whoever has mapped it may touch all
/// of it. The name shows in `/proc/PID/fd`.
///
/// # Errors
/// What memfd_create, ftruncate or fcntl say.
pub fn memfd(name: &str, size: u64) -> io::Result<OwnedFd> {
    let mut name = name.to_owned();
    let mut end = name.len().min(LONGEST_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    let name = CString::new(name)?;
    // SAFETY: the name is a C string; a new descriptor belongs to nobody else.
    let file = unsafe {
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let size = libc::off_t::try_from(size).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    within_limit(size.unsigned_abs())?;
    // SAFETY: a system call on a descriptor of ours.
    if unsafe { libc::ftruncate(file.as_raw_fd(), size) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// Whether a file has `size` bytes and always will.
pub fn is_as_long_as(file: BorrowedFd<'_>, size: u64) -> bool {
    // SAFETY: asks for the seals of a file, then for its facts, for which there is room; `syscall` because `fstat` may be
    // one of our own hooks.
    unsafe {
        let seals = libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS);
        let mut facts: libc::stat = std::mem::zeroed();
        let known = libc::syscall(libc::SYS_fstat, file.as_raw_fd(), &raw mut facts) == 0;
        seals >= 0 && seals & libc::F_SEAL_SHRINK != 0 && known && facts.st_size.cast_unsigned() >= size
    }
}

/// The limit on the size of files counts for memory files, too, and exceeding it would send a signal to the program.
///
/// # Errors
/// EFBIG.
pub fn within_limit(size: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes one structure.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    if size > limit.rlim_cur { Err(io::Error::from_raw_os_error(libc::EFBIG)) } else { Ok(()) }
}

/// Gives the memory behind a range back; it reads as zero afterwards.
pub fn punch(file: BorrowedFd<'_>, offset: u64, length: u64) {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    if let (Ok(offset), Ok(length)) = (offset.try_into(), length.try_into()) {
        // SAFETY: a system call on a descriptor; nothing in this process depends on the bytes.
        unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, length) };
    }
}

/// A descriptor of the same file that cannot write.
///
/// # Errors
/// What open says.
pub fn reopen_read_only(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    open_again(file, libc::O_RDONLY)
}

/// An opening of its own of the same file.
///
/// # Errors
/// What open says.
pub fn reopen(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    open_again(file, libc::O_RDWR)
}

fn open_again(file: BorrowedFd<'_>, access: i32) -> io::Result<OwnedFd> {
    let path = path_of(file.as_raw_fd())?;
    let flags = access | libc::O_CLOEXEC;
    // SAFETY: the path is a C string; `syscall` because `open` may be one of our own hooks.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Where the kernel shows a descriptor. By thread, because the first one of the process may have ended.
fn path_of(fd: RawFd) -> io::Result<CString> {
    Ok(CString::new(format!("/proc/thread-self/fd/{fd}"))?)
}

/// The name of a memory file of this project, if `fd` is one: what follows `prefix` in its name.
pub fn name_of(fd: RawFd, prefix: &str) -> Option<String> {
    let path = path_of(fd).ok()?;
    let mut target = [0_u8; 512];
    // SAFETY: the buffer is as long as we say; `syscall` because `readlink` may be one of our own hooks.
    let length = unsafe {
        libc::syscall(libc::SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), target.as_mut_ptr(), target.len())
    };
    let target = std::str::from_utf8(target.get(..usize::try_from(length).ok()?)?).ok()?;
    let name = target.strip_prefix("/memfd:")?.strip_suffix(" (deleted)")?;
    Some(name.strip_prefix(prefix)?.to_owned())
}

/// Whether two descriptors are of one file, whoever opened them.
pub fn is_same_file(one: RawFd, other: RawFd) -> bool {
    let identity = |fd: RawFd| {
        // SAFETY: all zeros is a valid structure, which the kernel fills; `syscall` because `fstat` may be one of our own
        // hooks.
        let (result, stat) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            (libc::syscall(libc::SYS_fstat, fd, &raw mut stat), stat)
        };
        (result == 0).then_some((stat.st_dev, stat.st_ino))
    };
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Numbers below are the program's: shells redirect to small ones without asking.
const FIRST_OWN_FD: i32 = 200;

/// Moves a descriptor out of the way of programs that choose numbers themselves. It is closed on exec.
///
/// # Errors
/// What the operating system says; never for want of high numbers.
pub fn out_of_the_way(file: OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: a system call on a descriptor of ours; the copy belongs to nobody else.
    unsafe {
        match libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FIRST_OWN_FD) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            // The limit may be lower than that.
            _ if super::last_error() == libc::EINVAL => Ok(file),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_file_is_told_from_another_of_the_same_name() {
        let (file, other) = (memfd("test", 0).expect("a file"), memfd("test", 0).expect("a file"));
        let copies = [file.try_clone().expect("a copy"), reopen(file.as_fd()).expect("an opening")];
        for copy in copies {
            assert!(is_same_file(file.as_raw_fd(), copy.as_raw_fd()));
            assert!(!is_same_file(other.as_raw_fd(), copy.as_raw_fd()));
        }
        assert!(!is_same_file(-1, -1));
    }

    #[test]
    fn a_memory_file_that_others_have_mapped_does_not_shrink() {
        let file = memfd("test", 8192).expect("a file");
        assert!(is_as_long_as(file.as_fd(), 8192) && !is_as_long_as(file.as_fd(), 8193));
        let file = std::fs::File::from(file);
        assert!(file.set_len(0).is_err());
        assert!(is_as_long_as(file.as_fd(), 8192));
        punch(file.as_fd(), 0, 4096);
        let ordinary = std::fs::File::open("/proc/self/exe").expect("can be read");
        assert!(!is_as_long_as(ordinary.as_fd(), 1), "anybody could cut it off");
    }
}
