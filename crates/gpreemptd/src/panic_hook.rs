//! A panic of any thread ends the process.

/// Makes a panic of any thread abort the process, after its message was printed. No other thread would do that thread's
/// work: the rest would stop queues and never learn that a process has to end. When the process ends, the driver
/// resumes what was stopped.
pub(crate) fn abort_on_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
}
