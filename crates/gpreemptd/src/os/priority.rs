//! Priority of threads on whose speed a stop depends.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

/// Niceness that is asked for where real time is refused: above everything that users run, below what the system needs.
const NICENESS: i32 = -11;

/// What the kernel granted to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPriority {
    /// The thread runs before every thread without real-time priority.
    RealTime,
    /// The thread gets a larger share and waits less.
    Nice,
    /// Nothing: the thread competes like any other.
    Normal,
}

/// Raises the priority of the calling thread as far as the kernel allows, and returns what was granted. Children do not
/// inherit real time.
#[must_use]
pub fn raise() -> ThreadPriority {
    if has_no_time_limit() && kfd::sched::set_real_time().is_ok() {
        ThreadPriority::RealTime
    } else if kfd::sched::set_niceness(NICENESS).is_ok() {
        ThreadPriority::Nice
    } else {
        ThreadPriority::Normal
    }
}

/// The kernel ends a real-time thread that used up `RLIMIT_RTTIME` without sleeping. A call of the driver that waits
/// for a gpu spins, so any limit forbids real time.
fn has_no_time_limit() -> bool {
    getrlimit(Resource::RLIMIT_RTTIME).is_ok_and(|(soft, _)| soft == RLIM_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scheduling policies of sched(7).
    const SCHED_OTHER: i32 = 0;
    const SCHED_FIFO: i32 = 1;

    /// Policy and niceness of the calling thread: fields 41 and 19 of proc_pid_stat(5).
    fn granted() -> (i32, i32) {
        let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let words: Vec<&str> = text.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
        (words[38].parse().unwrap(), words[16].parse().unwrap())
    }

    #[test]
    fn what_is_said_to_be_granted_is_what_the_thread_has() {
        let before = granted();
        let asked = std::thread::spawn(|| (raise(), granted())).join().unwrap();
        match asked {
            (ThreadPriority::RealTime, (policy, _)) => assert_eq!(policy, SCHED_FIFO),
            (ThreadPriority::Nice, (policy, nice)) => assert_eq!((policy, nice), (SCHED_OTHER, NICENESS)),
            (ThreadPriority::Normal, after) => assert_eq!(after, before),
        }
        assert_eq!(granted(), before, "other threads keep what they had");
    }
}
