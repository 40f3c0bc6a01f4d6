//! What an engine process does about signals, and how its death becomes known.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use vgpu_isa::guard;

static FAILED: AtomicBool = AtomicBool::new(false);

/// Whether an engine of this client has crashed.
pub(crate) fn has_failed() -> bool {
    FAILED.load(Ordering::SeqCst)
}

/// This engine cannot go on.
pub(super) fn fail() {
    FAILED.store(true, Ordering::SeqCst);
}

/// Makes an engine process what it is: it dies with the thread that lent it its data, which dies with the client (or its
/// exec); it comes before programs that spin on signals; and it survives memory that its owner took away.
pub(super) fn prepare() {
    // SAFETY: system calls on this process. Handlers of the client are a copy here, so replacing them changes nothing for
    // it.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, c"vgpu-engine".as_ptr());
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
    // SAFETY: the default action ends this process when the instruction is repeated.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
