//! Where a program's first thread is in the kernel, and what may be done to it there.

use linux_host::process::ThreadCall;

use crate::id::Pid;
use crate::waiting::{self, WaitingCall};

/// Calls that go on after a stop as if nothing had been. Others, `epoll_wait` among them, return with `EINTR`, which a
/// program without signal handlers may not expect; those of the driver may even repeat what they had done already.
const INTERRUPTIBLE: [libc::c_long; 13] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_futex,
    // One of these after an earlier stop.
    libc::SYS_restart_syscall,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_rt_sigsuspend,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// Whether the first thread of the program is inside `DESTROY_QUEUE`.
pub(super) fn is_destroying_queue(pid: Pid) -> bool {
    waiting::call(pid, pid.0) == Some(WaitingCall::DestroyQueue)
}

/// Whether a stop of the first thread goes unnoticed by the program.
pub(super) fn may_be_interrupted(pid: Pid) -> bool {
    ThreadCall::read(pid.0, pid.0).is_some_and(goes_on)
}

/// Whether what a thread does goes on after a stop. A thread that runs is rarely inside a call, and then not in one
/// that waits. One that is blocked outside of any call waits for a page.
fn goes_on(call: ThreadCall) -> bool {
    match call {
        ThreadCall::Running => true,
        ThreadCall::Blocked => false,
        ThreadCall::Inside { number, .. } => is_interruptible(number),
    }
}

fn is_interruptible(call: libc::c_long) -> bool {
    // The older forms of the same calls, which not every processor has.
    #[cfg(target_arch = "x86_64")]
    if [libc::SYS_poll, libc::SYS_select, libc::SYS_pause].contains(&call) {
        return true;
    }
    INTERRUPTIBLE.contains(&call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_go_on_by_themselves_may_be_interrupted() {
        let inside = |number: libc::c_long| goes_on(ThreadCall::Inside { number, arguments: [3, 0, 0x7ffc, 0, 0, 0] });
        assert!(goes_on(ThreadCall::Running) && inside(libc::SYS_futex) && inside(libc::SYS_read));
        assert!(!inside(libc::SYS_ioctl) && !inside(libc::SYS_epoll_pwait) && !inside(libc::SYS_execve));
        assert!(!goes_on(ThreadCall::Blocked));
    }

    #[test]
    fn the_kernel_tells_where_a_program_waits() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid(child.id());
        let sleeps = |call| matches!(call, ThreadCall::Inside { number: libc::SYS_clock_nanosleep, .. });
        while !ThreadCall::read(pid.0, pid.0).is_some_and(sleeps) {
            std::thread::yield_now();
        }
        assert!(may_be_interrupted(pid) && !is_destroying_queue(pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
