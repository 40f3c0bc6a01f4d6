//! System calls in which the threads of another process wait.
//!
//! A `DESTROY_QUEUE` of a queue that a debugger has suspended waits in the driver without any report. Only the system
//! call that the thread is in shows it.

use kfd_abi::ioctl::{DESTROY_QUEUE, Request};
use linux_host::process::ThreadCall;

use crate::id::Pid;

/// A call that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingCall {
    /// `DESTROY_QUEUE` of the driver.
    DestroyQueue,
    /// The end of the thread, or of its process.
    Exit,
    /// Anything else.
    Other,
}

/// Returns the threads of a process; none if it is gone.
#[must_use]
pub fn threads(pid: Pid) -> Vec<u32> {
    linux_host::process::threads(pid.0).collect()
}

/// Returns the system call that a thread is in; `None` if the thread runs, is gone, or belongs to another user.
#[must_use]
pub fn call(pid: Pid, thread: u32) -> Option<WaitingCall> {
    ThreadCall::read(pid.0, thread).and_then(recognise)
}

fn recognise(call: ThreadCall) -> Option<WaitingCall> {
    let (number, request) = match call {
        ThreadCall::Running => return None,
        ThreadCall::Blocked => return Some(WaitingCall::Other),
        // The system ignores what is above 32 bits, and the driver everything but type and number.
        ThreadCall::Inside { number, arguments: [_, request, ..] } => (number, Request(request as u32)),
    };
    let destroys = request.class() == Request::KFD && request.nr() == DESTROY_QUEUE.nr;
    Some(match number {
        libc::SYS_ioctl if destroys => WaitingCall::DestroyQueue,
        libc::SYS_exit | libc::SYS_exit_group => WaitingCall::Exit,
        _ => WaitingCall::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<WaitingCall> {
        ThreadCall::parse(text).and_then(recognise)
    }

    #[test]
    fn calls_are_recognised_in_the_kernels_file() {
        let rest = "0x7ffc 0x0 0x0 0x0 0x7ffd 0x7f00";
        let ioctl = |request: &str| parse(&format!("{} 0x3 {request} {rest}\n", libc::SYS_ioctl));
        assert_eq!(ioctl("0xc0084b03"), Some(WaitingCall::DestroyQueue));
        assert_eq!(ioctl("0xffffffffc0084b03"), Some(WaitingCall::DestroyQueue));
        assert_eq!(ioctl("0xc0104b03"), Some(WaitingCall::DestroyQueue));
        assert_eq!((ioctl("0xc0184b0c"), ioctl("0xc0086403")), (Some(WaitingCall::Other), Some(WaitingCall::Other)));
        assert_eq!(parse(&format!("0 0x3 0xc0084b03 {rest}\n")), Some(WaitingCall::Other));
        assert_eq!(parse(&format!("{} 0x0 0x0 {rest}\n", libc::SYS_exit_group)), Some(WaitingCall::Exit));
        assert_eq!(
            (parse("running\n"), parse("-1 0x7ffd 0x7f00\n"), parse("")),
            (None, Some(WaitingCall::Other), None)
        );
    }

    #[test]
    fn a_thread_that_waits_is_seen_and_one_that_runs_is_not() {
        let own = Pid(std::process::id());
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || receiver.recv());
        let sees = || threads(own).iter().any(|thread| call(own, *thread) == Some(WaitingCall::Other));
        while !sees() {
            std::thread::yield_now();
        }
        drop(sender);
        assert!(waiting.join().unwrap().is_err());
        assert_eq!((threads(Pid(u32::MAX >> 1)), call(Pid(u32::MAX >> 1), 1)), (Vec::new(), None));
    }
}
