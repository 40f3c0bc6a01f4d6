//! Making a process that shares the client's memory.
//!
//! libc keeps per-thread data behind a register, and code that runs in the client's address space needs such data of its
//! own. A thread of the client, the donor, lends its: it starts the worker with `clone` and sleeps for ever.

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{ExecutorState, faults, work};
use crate::sys;

const STACK: usize = 4 << 20;

/// A new worker.
///
/// # Errors
/// What prevented the donor.
pub(super) fn worker(shared: Arc<ExecutorState>) -> Result<(), i32> {
    let donor = std::thread::Builder::new().name("vgpu-donor".into()).stack_size(256 << 10);
    match donor.spawn(move || donate(shared)) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.raw_os_error().unwrap_or(libc::EAGAIN)),
    }
}

fn donate(shared: Arc<ExecutorState>) {
    block_signals();
    let argument = Arc::into_raw(Arc::clone(&shared)).cast_mut().cast::<c_void>();
    // The worker is a process of its own that shares memory, descriptors and directory; no tracer of the client follows
    // it, and because it sends no signal when it ends, no wait() sees it.
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_UNTRACED;
    let started = match stack() {
        // SAFETY: the stack is the worker's alone; the argument is a counted pointer that the worker owns; this thread
        // only sleeps until the worker has ended, so its thread-local data is the worker's too.
        Some(top) => unsafe { libc::clone(enter, top, flags, argument) },
        None => -1,
    };
    if started < 0 {
        // Less faithful: a thread stops when the program is stopped. Some sandboxes allow nothing else.
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
    if !shared.lost.load(Ordering::Relaxed) {
        // It crashed, or somebody killed it. What it held is held for ever.
        faults::fail();
        shared.lose();
    }
    // This thread's data is as the worker left it, perhaps in the middle of something.
    loop {
        std::thread::park();
    }
}

/// Waits for a worker, which only this kind of wait sees.
fn until_ended(worker: libc::pid_t) {
    // SAFETY: no status is asked for.
    while unsafe { libc::waitpid(worker, std::ptr::null_mut(), libc::__WCLONE) } < 0 && sys::last_error() == libc::EINTR
    {
    }
}

/// Memory for a stack with an inaccessible page below it; its upper end.
fn stack() -> Option<*mut c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // SAFETY: a new mapping at an address that the kernel chooses.
    unsafe {
        let bottom = libc::mmap(std::ptr::null_mut(), STACK, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if bottom == libc::MAP_FAILED {
            return None;
        }
        libc::mprotect(bottom, 4096, libc::PROT_NONE);
        Some(bottom.byte_add(STACK))
    }
}

/// Signals are for the program, never for the engine, which shares its terminal.
fn block_signals() {
    // SAFETY: changes the mask of this thread only.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

extern "C" fn enter(argument: *mut c_void) -> c_int {
    // SAFETY: the pointer came from `Arc::into_raw` and is used once.
    let shared = unsafe { Arc::from_raw(argument.cast_const().cast::<ExecutorState>()) };
    // A worker that is a process leads its own thread group; the donor as a fallback does not.
    // SAFETY: system calls without arguments.
    let own_process = unsafe { libc::syscall(libc::SYS_gettid) == libc::syscall(libc::SYS_getpid) };
    if own_process {
        let pid = faults::prepare(shared.client);
        shared.chip.register_worker(shared.process_slot, pid);
    }
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&shared))).is_err() {
        faults::fail();
    }
    if own_process {
        faults::end(0);
    }
    0
}
