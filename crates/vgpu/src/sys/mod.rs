//! The operating system calls of this crate, each behind a small safe function.
//!
//! Most of this crate runs inside programs whose libc symbols the preload library replaces, and in executor processes
//! that share thread-local data with a thread of the program. Calls therefore go through `rustix`, whose Linux backend
//! enters the kernel directly: it reaches no hook of ours, and it does not touch `errno`. libc remains for what
//! `rustix` does not offer (`clone`) and for clocks (see `time.rs`).

mod descriptor;
mod futex;
mod map;
mod memfd;
mod process;
mod signals;
mod socket;
mod time;
mod verified_fd;

pub(crate) use descriptor::{
    FileIdentity, dup_above, file_size, is_same_file, lock_number, reopen, reopen_read_only, unshare_descriptors_above,
    wait_until_unlocked,
};
pub(crate) use memfd::{check_size_limit, is_as_long_as, memfd, name_of, punch_hole, read_link};
pub(crate) use process::{exists, pidfd, poll_now, wait_for_either, wait_for_input};
pub(crate) use rustix::event::PollFlags;
pub(crate) use signals::HeldSignals;
pub(crate) use socket::{Frame, abstract_listener, connect, peer, receive, send};
pub(crate) use time::boottime_ns;
pub(crate) use verified_fd::VerifiedFd;

// For this crate's benches and for programs that let themselves be traced.
pub use futex::{wait, wake};
pub use map::Map;
pub use process::allow_tracing;
pub use time::{monotonic_raw_ns, realtime_100mhz};
