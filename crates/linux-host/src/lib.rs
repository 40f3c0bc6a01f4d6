//! The Linux host: processes as `/proc` shows them ([`process`]), its clocks ([`clock`]) and its
//! processor time ([`machine`]).
//!
//! The one place that parses `/proc/stat`, `/proc/loadavg`, `/proc/PID/stat`, `/proc/PID/status` and
//! `/proc/PID/task/TID/syscall`. Every text below `/proc/PID` may be
//! chosen by the process, so nothing here trusts a length or a field; a process that is gone or unreadable is `None`,
//! never a panic.
#![forbid(unsafe_code)]

pub mod clock;
pub mod machine;
pub mod process;
