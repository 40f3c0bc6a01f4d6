//! What the kernel grants to threads that others wait for, and to those who may trace.

use std::io;
use std::mem;

use crate::id::Pid;

/// Niceness that is asked for where real time is refused: above everything that users run, below what the system needs.
const NICENESS: libc::c_int = -11;

/// What a thread was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// It runs before every thread that has no real-time priority.
    RealTime,
    /// It gets a larger share and waits less.
    Nice,
    /// Nothing: it competes like any other.
    Usual,
}

/// Asks that the calling thread runs soon when it is woken, and says what was granted. Children do not inherit real time.
#[must_use]
pub fn prefer() -> Urgency {
    if is_without_time_limit() && ask_real_time().is_ok() {
        Urgency::RealTime
    } else if ask_niceness().is_ok() {
        Urgency::Nice
    } else {
        Urgency::Usual
    }
}

/// Lets a process trace this one where the system asks for consent (`kernel.yama.ptrace_scope` 1); its children, too.
/// Threads and the program that this process executes next keep it.
///
/// # Errors
///
/// If the process does not exist, or the system knows no consent: then none is needed.
pub fn allow_tracer(pid: Pid) -> io::Result<()> {
    let pid = libc::c_ulong::try_from(pid.raw()).unwrap_or(libc::c_ulong::MAX);
    // SAFETY: the option takes a number.
    let result = unsafe { libc::prctl(libc::PR_SET_PTRACER, pid, 0, 0, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A thread with real-time priority is ended when it used up `RLIMIT_RTTIME` without waiting. A call of the driver that
/// waits for a gpu waits without sleep, so a limit forbids real time.
fn is_without_time_limit() -> bool {
    // SAFETY: all bytes zero is a valid value, and the call fills it.
    unsafe {
        let mut limit: libc::rlimit = mem::zeroed();
        libc::getrlimit(libc::RLIMIT_RTTIME, &mut limit) == 0 && limit.rlim_cur == libc::RLIM_INFINITY
    }
}

fn ask_real_time() -> io::Result<()> {
    // SAFETY: all bytes zero is a valid value. The call reads it, and changes the calling thread only.
    let result = unsafe {
        let mut parameters: libc::sched_param = mem::zeroed();
        parameters.sched_priority = 1;
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn ask_niceness() -> io::Result<()> {
    // SAFETY: plain calls without addresses. On Linux niceness is that of a thread, and zero is the calling one.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Policy and niceness of the calling thread, from the kernel's own file.
    fn granted() -> (i32, i32) {
        let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let words: Vec<&str> = text.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
        (words[38].parse().unwrap(), words[16].parse().unwrap())
    }

    #[test]
    fn what_is_said_to_be_granted_is_what_the_thread_has() {
        let before = granted();
        let asked = std::thread::spawn(|| (prefer(), granted())).join().unwrap();
        match asked {
            (Urgency::RealTime, (policy, _)) => assert_eq!(policy, libc::SCHED_FIFO),
            (Urgency::Nice, (policy, nice)) => assert_eq!((policy, nice), (libc::SCHED_OTHER, NICENESS)),
            (Urgency::Usual, after) => assert_eq!(after, before),
        }
        assert_eq!(granted(), before, "other threads keep what they had");
    }

    #[test]
    fn consent_to_a_process_that_does_not_exist_is_refused() {
        // Systems without consent refuse, too.
        assert!(allow_tracer(Pid(u32::MAX >> 1)).is_err());
    }
}
