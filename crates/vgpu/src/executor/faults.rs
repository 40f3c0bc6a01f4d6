//! What an engine process does about signals, and how its death becomes known.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use vgpu_isa::guard;

static FAILED: AtomicBool = AtomicBool::new(false);

/// How often somebody who wants a lock tries to get it without sleeping, and how long the sleeps are after that.
const TRIES: u32 = 100;
const NAP: Duration = Duration::from_micros(50);
/// Sleeps after which a lock that an engine may have taken with it is given up: whoever lives has let go of it by then.
const NAPS_AFTER_FAILURE: u32 = 2000;

/// Whether an engine of this client has died.
pub(crate) fn has_failed() -> bool {
    FAILED.load(Ordering::SeqCst)
}

/// In the child of a fork, which has no engine: what happened to the parent's is forgotten.
pub(crate) fn forget() {
    FAILED.store(false, Ordering::SeqCst);
}

/// Takes a lock that engines take, too. `None` if an engine died while it held it.
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

/// This engine cannot go on.
pub(super) fn fail() {
    FAILED.store(true, Ordering::SeqCst);
}

/// Ends this process without running the client's exit handlers.
pub(super) fn end(code: c_int) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, code) };
    }
}

/// Makes an engine process of `client` what it is, and answers its pid: it dies with the thread that lent it its data, which dies with the
/// client (or its exec); it comes before programs that spin on signals; and it survives memory that its owner took away.
pub(super) fn prepare(client: i32) -> u32 {
    // SAFETY: system calls on this process. Handlers of the client are a copy here, so replacing them changes nothing for
    // it.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // A client that died before this sends no signal any more.
        if libc::getppid() != client {
            end(0);
        }
        libc::prctl(libc::PR_SET_NAME, c"vgpu-device".as_ptr());
        libc::setpriority(libc::PRIO_PROCESS, 0, -10);
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
        (libc::syscall(libc::SYS_getpid) as i32).cast_unsigned()
    }
}

/// Continues after a guarded copy that met missing memory; anything else is a bug of ours and ends the engine.
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
    // Not by the signal: a core dump would be one of the program's memory.
    end(128 + signal)
}
