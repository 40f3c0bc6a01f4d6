//! Signals of the calling thread, held back while it must not be interrupted.

use std::marker::PhantomData;

/// Bytes of the kernel's set of signals, with which that of the C library begins.
const KERNEL_SET: usize = 8;

/// Signals of a thread are blocked until this is dropped; those that came meanwhile are delivered then. Faults of the
/// thread itself are delivered at once, as are the signals that cannot be blocked.
pub(crate) struct HeldSignals {
    /// What the thread had blocked before.
    before: libc::sigset_t,
    /// The mask is that of one thread.
    thread: PhantomData<*const ()>,
}

impl HeldSignals {
    /// Blocks the signals of the calling thread.
    pub(crate) fn hold() -> Self {
        // SAFETY: zeroed sets are valid and are filled before use; only the mask of this thread changes.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT] {
                libc::sigdelset(&raw mut all, fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
            Self { before, thread: PhantomData }
        }
    }

    /// Delivers the signals that have come. Returns whether a handler ran: signals that are ignored, or that stop and
    /// continue the process, interrupt nothing.
    pub(crate) fn deliver(&self) -> bool {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: waits for no descriptor and no time, with a mask that lives through the call. By number, because the
        // function of the C library is a point at which threads are cancelled, which an ioctl is not.
        let result = unsafe {
            libc::syscall(
                libc::SYS_ppoll,
                std::ptr::null_mut::<libc::pollfd>(),
                0,
                &raw const none,
                &raw const self.before,
                KERNEL_SET,
            )
        };
        result < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: restores the mask of this thread.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    static HANDLED: AtomicU32 = AtomicU32::new(0);

    extern "C" fn handler(_: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::SeqCst);
    }

    fn signal(number: libc::c_int) {
        // SAFETY: sends this thread a signal that is ignored or has a handler.
        assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), number) }, 0);
    }

    #[test]
    fn a_signal_that_is_held_back_is_delivered_when_it_is_asked_for() {
        // SAFETY: the handler only counts.
        unsafe { libc::signal(libc::SIGUSR2, handler as extern "C" fn(libc::c_int) as usize) };
        let held = HeldSignals::hold();
        assert!(!held.deliver());
        signal(libc::SIGUSR2);
        assert_eq!(HANDLED.load(Ordering::SeqCst), 0);
        assert!(held.deliver());
        assert_eq!(HANDLED.load(Ordering::SeqCst), 1);
        assert!(!held.deliver(), "once");
        // Ignored by default: nothing is interrupted by it.
        signal(libc::SIGWINCH);
        assert!(!held.deliver());
        signal(libc::SIGUSR2);
        drop(held);
        assert_eq!(HANDLED.load(Ordering::SeqCst), 2);
    }
}
