//! Scheduling class of the calling thread: the two calls that the C library offers only as unsafe functions.
//!
//! A thread that calls the driver to stop a queue is on the path of a higher job's latency. Which class to ask for, and
//! when real time is safe, is the caller's decision.

use std::{io, mem};

/// Puts the calling thread into the real-time class `SCHED_FIFO` with the lowest priority of that class. Threads and
/// processes that it creates do not inherit the class.
///
/// # Errors
///
/// If the process has neither `CAP_SYS_NICE` nor a suitable `RLIMIT_RTPRIO`.
///
/// # References
///
/// sched(7), `SCHED_RESET_ON_FORK` in sched_setscheduler(2).
pub fn set_real_time() -> io::Result<()> {
    // SAFETY: all bytes zero is a valid value. The call reads it, and changes the calling thread only.
    let result = unsafe {
        let mut parameters: libc::sched_param = mem::zeroed();
        parameters.sched_priority = 1;
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the niceness of the calling thread, -20 to 19.
///
/// # Errors
///
/// If the process may not lower it.
///
/// # References
///
/// setpriority(2): on Linux niceness belongs to a thread, and 0 is the calling one.
pub fn set_niceness(niceness: i32) -> io::Result<()> {
    // SAFETY: a plain call without addresses.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
