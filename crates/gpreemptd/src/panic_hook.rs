//! What becomes of a process of the daemon one of whose threads fails.

/// From now on a panic of any thread ends the whole process, after it was told. Nobody would do that thread's work: the rest
/// would stop processes and never find out that one wants to go. The end of the process is what the driver understands: it
/// resumes whatever was stopped.
pub(crate) fn abort_on_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
}
