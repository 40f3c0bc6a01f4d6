//! Error numbers of Linux, as the functions return them.

use core::ffi::c_int;

use gpreempt_core::Error;
use gpreempt_kernel_abi::Invalid;

/// The reason for which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errno {
    /// What is named does not exist, or no longer.
    NoEntry = 2,
    /// Memory is away: nothing is known to have changed.
    Again = 11,
    /// Nothing can be read.
    Fault = 14,
    /// It is in use.
    Busy = 16,
    /// An argument that cannot be.
    Invalid = 22,
    /// No room.
    NoSpace = 28,
    /// A report of an entry that was reported, or planned again.
    Stale = 116,
}

impl From<Error> for Errno {
    fn from(error: Error) -> Errno {
        match error {
            Error::StorageTooSmall => Errno::Invalid,
            Error::UnknownGpu | Error::UnknownJob | Error::UnknownTenant => Errno::NoEntry,
            Error::StaleEntry => Errno::Stale,
            Error::Full => Errno::NoSpace,
            Error::JobInUse | Error::GpuInUse => Errno::Busy,
        }
    }
}

impl From<Invalid> for Errno {
    fn from(_: Invalid) -> Errno {
        Errno::Invalid
    }
}

/// Returns zero, or the negative error number.
pub(crate) fn code(result: Result<(), Errno>) -> c_int {
    number(result.map(|()| 0))
}

/// Returns the number, or the negative error number.
pub(crate) fn number(result: Result<c_int, Errno>) -> c_int {
    match result {
        Ok(number) => number,
        Err(errno) => -(errno as c_int),
    }
}
