//! The few things this crate asks of the operating system, each a small safe function.

mod futex;
mod map;
mod memfd;
mod process;
mod socket;
mod time;
mod verified_fd;

pub use futex::{wait, wake};
pub use map::Map;
pub use memfd::{
    is_as_long_as, is_same_file, memfd, name_of, out_of_the_way, punch, reopen, reopen_read_only, within_limit,
};
pub use process::{allow_tracing, pidfd, poll_now, tracer, wait_for_either, wait_for_exit};
pub use socket::{Frame, abstract_listener, connect, peer, receive, send};
pub use time::{boottime_ns, monotonic_raw_ns, realtime_100mhz};
pub use verified_fd::VerifiedFd;

/// The last error of the operating system as a positive number.
pub fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
