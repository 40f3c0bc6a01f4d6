//! Failures of executor processes: fault signals, locks that a dead executor took with it, and how its end becomes
//! known.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal, setpriority_process};
use vgpu_isa::guard;

use super::COMM;

/// Whether an executor of this client has died. Executors and client share the memory, hence the flag.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Attempts at a lock before a caller sleeps between them.
const TRIES: u32 = 100;
/// Sleep between later attempts.
const NAP: Duration = Duration::from_micros(50);
/// Sleeps after a failure until a lock counts as lost, 100 ms: an executor or thread that lives has released it by
/// then.
const NAPS_AFTER_FAILURE: u32 = 2000;

/// Returns whether an executor of this client has died.
pub(crate) fn has_failed() -> bool {
    FAILED.load(Ordering::SeqCst)
}

/// Forgets failures, in the child of a fork: it has no executors, and those of the parent do not concern it.
pub(crate) fn forget() {
    FAILED.store(false, Ordering::SeqCst);
}

/// Takes a lock that executors take, too. Returns `None` if an executor died while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let (mut tries, mut naps) = (0, 0);
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if tries < TRIES => {
                tries += 1;
                std::thread::yield_now();
            }
            Err(TryLockError::WouldBlock) => {
                naps += u32::from(has_failed());
                if naps > NAPS_AFTER_FAILURE {
                    return None;
                }
                std::thread::sleep(NAP);
            }
        }
    }
}

/// Records that this executor cannot go on.
pub(super) fn fail() {
    FAILED.store(true, Ordering::SeqCst);
}

/// Ends this process without running the client's exit handlers. By number, because `exit_group` has no wrapper.
pub(super) fn end(code: c_int) -> ! {
    loop {
        // SAFETY: ends this process; nothing of it runs afterwards.
        unsafe { libc::syscall(libc::SYS_exit_group, code) };
    }
}

/// Prepares this process to be an executor of `client` and returns its pid. The executor dies with its donor thread,
/// and so with the client and with an exec of it; it leaves the client's process group, which may be stopped as a
/// whole; it runs before programs that spin on signals, if its user may raise its priority; and it survives accesses to
/// memory that the client has unmapped.
pub(super) fn prepare(client: i32) -> u32 {
    // The failures that are ignored leave a worker that works: stopped with the client's group, unnamed, or at ordinary
    // priority.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // A client that died before this line sends no signal any more.
    if Pid::as_raw(getppid()) != client {
        end(0);
    }
    // Not a session of its own: the kernel groups tasks by session (autogroup), and priorities count within a group
    // only, so that programs that spin would starve the executor.
    let _ = rustix::process::setpgid(None, None);
    let _ = rustix::thread::set_name(COMM);
    let _ = setpriority_process(None, -10);
    // SAFETY: without CLONE_SIGHAND the handlers are a copy, so the client keeps its own. `on_fault` only looks at the
    // context it is given and at a static table. The zeroed structures are valid and are filled before use.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        let mut unblock = std::mem::zeroed();
        libc::sigemptyset(&raw mut unblock);
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            libc::sigaddset(&raw mut unblock, signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const unblock, std::ptr::null_mut());
    }
    getpid().as_raw_nonzero().get().cast_unsigned()
}

/// Continues after a guarded copy that met unmapped memory. Any other fault is a bug of this crate and ends the
/// executor.
extern "C" fn on_fault(signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the kernel passes the context of the interrupted code, which is this process's own.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let pc = &mut registers[libc::REG_RIP as usize];
        if let Some(continued) = guard::recover(*pc as usize) {
            *pc = continued as i64;
            return;
        }
    }
    let _ = context;
    fail();
    // By exit and not by the signal: a core dump would contain the program's memory.
    end(128 + signal)
}
