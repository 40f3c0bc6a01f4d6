//! Points at which a test ends a thread as if its process were killed.

#[cfg(test)]
thread_local! {
    static LEFT: std::cell::Cell<Option<u32>> = const { std::cell::Cell::new(None) };
}

/// Before a change of shared memory: a test may end the thread here as if its process were killed.
#[inline]
pub(super) fn point() {
    #[cfg(test)]
    LEFT.with(|left| match left.get() {
        Some(0) => std::panic::resume_unwind(Box::new("killed")),
        Some(more) => left.set(Some(more - 1)),
        None => {}
    });
}

/// Returns whether the thread was ended by [`point`]: then it leaves everything as it is.
#[inline]
pub(super) fn dying() -> bool {
    #[cfg(test)]
    return std::thread::panicking();
    #[cfg(not(test))]
    false
}

/// Runs `act` and ends it after so many changes. Returns whether it came to its end before.
#[cfg(test)]
pub(super) fn after(changes: u32, act: impl FnOnce()) -> bool {
    LEFT.with(|left| left.set(Some(changes)));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_ok();
    LEFT.with(|left| left.set(None));
    ended
}
