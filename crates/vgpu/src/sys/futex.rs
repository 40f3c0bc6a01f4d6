//! Waiting for a word in memory that several processes share.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `expected`, at most `limit`. Spurious returns happen. True if a signal ended the sleep.
pub fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) -> bool {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the time live through the call; the kernel only reads them.
    let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, limit) };
    result != 0 && super::last_error() == libc::EINTR
}

/// Wakes everybody who sleeps on `word`.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the address is only a key.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
