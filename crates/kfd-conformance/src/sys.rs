//! The C library's calls that an actor makes, each in a small function.
//!
//! Everything goes through libc symbols and never through raw system calls, so that a preloaded driver serves it.

use std::io;
use std::ptr;

use kfd_abi::ioctl::Direction;

/// Turns a result of the C library into a number or its error number.
fn check(result: libc::c_int) -> Result<libc::c_int, i32> {
    if result < 0 { Err(errno()) } else { Ok(result) }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Opens a device node for reading and writing. The descriptor does not survive exec.
pub(crate) fn open(path: &str) -> Result<i32, i32> {
    let path = std::ffi::CString::new(path).map_err(|_| libc::EINVAL)?;
    // SAFETY: the path is a C string that lives until the call returns.
    check(unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) })
}

/// Closes a descriptor that the suite opened.
pub(crate) fn close(fd: i32) -> Result<i32, i32> {
    // SAFETY: no Rust object owns a descriptor that a request names.
    check(unsafe { libc::close(fd) })
}

/// Calls `ioctl` once. Returns its result, an error number negated.
pub(crate) fn ioctl(fd: i32, request: u32, args: Option<&mut [u8]>) -> i64 {
    let pointer = args.map_or(ptr::null_mut(), <[u8]>::as_mut_ptr);
    // SAFETY: the argument is as long as the request says, or null, which the driver refuses. Addresses in it are those
    // of memory that the suite had this process map, or bad on purpose: the driver copies with checks.
    let result = unsafe { libc::ioctl(fd, request.into(), pointer) };
    if result < 0 { -i64::from(errno()) } else { result.into() }
}

/// Returns whether the driver knows a command number: it then answers anything but ENOTTY to a null argument.
pub(crate) fn answers_to(nr: u8) -> bool {
    let Ok(fd) = open(kfd::KFD) else { return false };
    let request = kfd_abi::ioctl::Request::new(Direction::ReadWrite, kfd_abi::ioctl::Request::KFD, nr, 8);
    let answer = ioctl(fd, request.0, None);
    // Nothing depends on whether it closes.
    let _ = close(fd);
    answer != -i64::from(libc::ENOTTY)
}

/// Maps memory, fresh or of a file; replaces what is at `at`.
pub(crate) fn map(at: Option<u64>, length: usize, file: Option<(i32, u64)>, accessible: bool) -> Result<u64, i32> {
    let access = if accessible { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
    let kind = if file.is_some() { libc::MAP_SHARED } else { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS };
    let fixed = if at.is_some() { libc::MAP_FIXED } else { 0 };
    let (fd, offset) = file.unwrap_or((-1, 0));
    let at = ptr::without_provenance_mut(at.unwrap_or(0) as usize);
    // SAFETY: addresses that are replaced are those of an earlier mapping that the suite asked for.
    let address = unsafe { libc::mmap(at, length, access, kind | fixed, fd, offset.cast_signed()) };
    if address == libc::MAP_FAILED { Err(errno()) } else { Ok(address.expose_provenance() as u64) }
}

/// Unmaps memory that the suite had mapped.
pub(crate) fn unmap(at: u64, length: usize) -> Result<i32, i32> {
    // SAFETY: the range is one that the suite asked for; nothing of this program lies in it.
    check(unsafe { libc::munmap(ptr::with_exposed_provenance_mut(at as usize), length) })
}

/// Reads memory that the suite had mapped.
pub(crate) fn read(at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let source: *const u8 = ptr::with_exposed_provenance(at as usize);
    // SAFETY: the suite reads only what it had mapped with access; a mistake ends the actor, not the suite.
    unsafe { source.copy_to_nonoverlapping(bytes.as_mut_ptr(), length) };
    bytes
}

/// Writes memory that the suite had mapped.
pub(crate) fn write(at: u64, bytes: &[u8]) {
    let target: *mut u8 = ptr::with_exposed_provenance_mut(at as usize);
    // SAFETY: as in `read`.
    unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

/// Stores a word of memory that the suite had mapped.
pub(crate) fn store(at: u64, value: u64) {
    let target: *mut u64 = ptr::with_exposed_provenance_mut(at as usize);
    // SAFETY: as in `read`; the suite gives aligned addresses.
    unsafe { target.write_volatile(value) };
}

/// Makes a ptrace request that touches no memory.
fn ptrace(request: libc::c_uint, pid: u32) -> Result<(), i32> {
    let null = ptr::null_mut::<libc::c_void>();
    // SAFETY: the requests used here read and write no memory of this process.
    let result = unsafe { libc::ptrace(request, pid.cast_signed(), null, null) };
    if result < 0 { Err(errno()) } else { Ok(()) }
}

/// Traces a process, which goes on running.
pub(crate) fn seize(pid: u32) -> Result<(), i32> {
    ptrace(libc::PTRACE_SEIZE, pid)
}

/// Stops tracing a process.
pub(crate) fn detach(pid: u32) -> Result<(), i32> {
    ptrace(libc::PTRACE_INTERRUPT, pid)?;
    // SAFETY: no status is asked for.
    check(unsafe { libc::waitpid(pid.cast_signed(), ptr::null_mut(), libc::__WALL) })?;
    ptrace(libc::PTRACE_DETACH, pid)
}

/// Creates a pipe whose ends do not block; the one to read from first.
pub(crate) fn pipe() -> Result<(i32, i32), i32> {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for both descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
    Ok((ends[0], ends[1]))
}

/// Reads what is in a descriptor that does not block.
pub(crate) fn drain(fd: i32) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    // SAFETY: the room is as large as said.
    let count = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) };
    bytes.truncate(usize::try_from(count).unwrap_or(0));
    bytes
}

/// Lets any process of this user trace this one, and has it end with its parent.
pub(crate) fn become_actor() {
    // SAFETY: both options take numbers. Without Yama the first is unknown, and not needed.
    unsafe {
        libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
    }
}

/// Returns the id of the calling thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: a call without arguments.
    unsafe { libc::gettid() }
}

/// Sends SIGUSR1 to a thread of this process.
pub(crate) fn interrupt(thread: i32) -> Result<(), i32> {
    // SAFETY: a call with numbers only. The C library of older systems has no function for it.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) };
    if result < 0 { Err(errno()) } else { Ok(()) }
}

extern "C" fn ignore(_: libc::c_int) {}

/// Has SIGUSR1 interrupt calls, which are not restarted.
pub(crate) fn handle_interrupts() {
    handle(libc::SIGUSR1, ignore);
}

/// Has a signal call a function that only touches atomics. Calls that it interrupts are not restarted.
pub(crate) fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the structure is valid when all its bytes are zero, and the handler may run at any time.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

/// Forks. The child runs `job`, writes what it returns to the parent and ends without running anything else.
pub(crate) fn forked(job: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, i32> {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for both descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: the child only runs `job`, which calls the driver, writes to the pipe, and ends with _exit.
    let child = check(unsafe { libc::fork() })?;
    if child == 0 {
        let bytes = job();
        // SAFETY: the buffer is as long as said; _exit runs no handler of the parent's.
        unsafe {
            libc::write(ends[1], bytes.as_ptr().cast(), bytes.len());
            libc::_exit(0);
        }
    }
    close(ends[1])?;
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        // SAFETY: the room is as large as said.
        let count = unsafe { libc::read(ends[0], part.as_mut_ptr().cast(), part.len()) };
        match usize::try_from(count) {
            Ok(0) | Err(_) => break,
            Ok(count) => bytes.extend_from_slice(&part[..count]),
        }
    }
    close(ends[0])?;
    // SAFETY: no status is asked for.
    check(unsafe { libc::waitpid(child, ptr::null_mut(), 0) })?;
    Ok(bytes)
}
