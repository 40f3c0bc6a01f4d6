//! Starts executor processes: `clone` with the client's memory, a stack of their own, and the thread-local data of a
//! parked thread. The safety statement of the [parent module](super) names the rules; this file enforces them.

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitOptions};

use super::{ExecutorState, faults, work};

/// Bytes of a worker's stack.
const STACK: usize = 4 << 20;

/// Starts a worker by way of a donor thread.
///
/// # Errors
/// The errno of the thread that could not be made.
pub(super) fn worker(shared: Arc<ExecutorState>) -> Result<(), i32> {
    let donor = std::thread::Builder::new().name("vgpu-donor".into()).stack_size(256 << 10);
    match donor.spawn(move || donate(shared)) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.raw_os_error().unwrap_or(libc::EAGAIN)),
    }
}

/// Body of a donor thread: starts the worker, then touches nothing that lives in thread-local data until the worker
/// has ended.
fn donate(shared: Arc<ExecutorState>) {
    block_signals();
    let argument = Arc::into_raw(Arc::clone(&shared)).cast_mut().cast::<c_void>();
    // The worker is a process of its own that shares memory, descriptors and directory. CLONE_UNTRACED: no tracer of
    // the client follows it. No exit signal: an ordinary wait() of the client does not see it. No CLONE_SETTLS: it
    // keeps the thread register of this thread.
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_UNTRACED;
    let started = match stack() {
        // SAFETY: the stack was made for this worker and is never unmapped; the argument is a counted pointer that the
        // worker owns. Both tasks have the thread-local data of this thread, but until the worker has ended this one
        // executes nothing but `until_ended`, which enters the kernel directly and reads no errno.
        Some(top) => unsafe { libc::clone(enter, top, flags, argument) },
        None => -1,
    };
    if started < 0 {
        // Sandboxes may forbid such a process. A thread executes as well, but it stops when the program is stopped.
        if std::env::var_os("GPREEMPT_VGPU_LOG").is_some() {
            let _ = writeln!(
                std::io::stderr(),
                "vgpu: this system allows no process that shares memory; the gpu stops when the program is stopped"
            );
        }
        enter(argument);
        return;
    }
    until_ended(started);
    // From here on this thread is the only user of its thread-local data again.
    if !shared.lost.load(Ordering::Relaxed) {
        // The worker crashed or was killed. The locks it held stay locked: `faults::lock` gives up on them.
        faults::fail();
        shared.lose();
    }
    // To return would run destructors of thread-local data that the worker left as it was when it ended, perhaps in the
    // middle of a change.
    loop {
        std::thread::park();
    }
}

/// Waits for the end of a worker. `__WCLONE`, because a child without exit signal is invisible to other waits. Through
/// `rustix`, because errno is thread-local and belongs to the worker meanwhile.
fn until_ended(worker: libc::pid_t) {
    let options = WaitOptions::from_bits_retain(libc::__WCLONE.cast_unsigned());
    // The only failure is ECHILD: the client ignores SIGCHLD and the kernel has reaped the worker itself.
    let _ = retry_on_intr(|| rustix::process::waitpid(Pid::from_raw(worker), options));
}

/// Maps a stack with an inaccessible page below it and returns its upper end.
fn stack() -> Option<*mut c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // SAFETY: a new mapping at an address that the kernel chooses replaces none; the page that becomes inaccessible is
    // its first, and no pointer to it has been given out.
    unsafe {
        let bottom = libc::mmap(std::ptr::null_mut(), STACK, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if bottom == libc::MAP_FAILED {
            return None;
        }
        libc::mprotect(bottom, 4096, libc::PROT_NONE);
        Some(bottom.byte_add(STACK))
    }
}

/// Blocks all signals of the donor, and thereby of the worker, which inherits the mask: a handler of the client would
/// run with borrowed thread-local data, and the worker shares the terminal of the program.
fn block_signals() {
    // SAFETY: a zeroed set is valid and is filled before use; only the mask of this thread changes.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// First function of a worker: a process after `clone`, or the donor itself where `clone` failed.
extern "C" fn enter(argument: *mut c_void) -> c_int {
    // SAFETY: the pointer came from `Arc::into_raw` in `donate`, which passes it to one call of this function.
    let shared = unsafe { Arc::from_raw(argument.cast_const().cast::<ExecutorState>()) };
    // A worker that is a process leads its own thread group; the donor as a fallback does not.
    let own_process = rustix::thread::gettid() == rustix::process::getpid();
    if own_process {
        let pid = faults::prepare(shared.client);
        shared.chip.register_worker(shared.process_slot, pid);
    }
    // A panic must not unwind out of an `extern "C"` function, nor into frames of the donor.
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&shared))).is_err() {
        faults::fail();
    }
    if own_process {
        faults::end(0);
    }
    0
}
