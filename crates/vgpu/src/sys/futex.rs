//! Waiting for a word in memory that several processes share.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;

/// Not private: the processes that wait and wake may map the word at different addresses.
const SHARED: futex::Flags = futex::Flags::empty();

/// Sleeps while `word` holds `expected`, at most `limit`; without a limit until a wake. Spurious returns happen.
/// Returns whether a signal ended the sleep.
pub fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) -> bool {
    // A limit beyond the clock is no limit.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    futex::wait(word, SHARED, expected, limit.as_ref()) == Err(Errno::INTR)
}

/// Wakes every thread that sleeps on `word`.
pub fn wake(word: &AtomicU32) {
    // Fails for an address that is not mapped, which a reference excludes.
    let _ = futex::wake(word, SHARED, i32::MAX.cast_unsigned());
}
