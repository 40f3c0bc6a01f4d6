//! `/dev/kfd`: open, version check, and the one place that calls `ioctl`.
//!
//! Everything that talks to the driver goes through [`KfdDevice::call`]: the debug operations of [`Kfd`](crate::Kfd)
//! and the compute runtime built on this crate; a [`Switcher`](crate::Switcher) has a descriptor of its own. Tests of
//! interrupted calls use [`call_once`]. Calls use the C library's `open` and `ioctl`, never raw system calls: the
//! virtual gpu hooks those symbols, and a raw call would pass it by.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;

use kfd_abi::ioctl::{Argument, DBG_TRAP, Request};
use kfd_abi::process::{GetVersionArgs, VERSION_MAJOR, VERSION_MINOR_DEBUGGER};

use crate::error::{Error, Result};

/// Path of the driver's device.
pub const KFD: &str = "/dev/kfd";

/// Version of the driver's interface (`KFD_IOCTL_MAJOR_VERSION`, `KFD_IOCTL_MINOR_VERSION`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Changes with an incompatible interface.
    pub major: u32,
    /// Grows with each addition.
    pub minor: u32,
}

/// The open device. It belongs to the process that opened it: the driver refuses calls of a forked child (`EBADF`),
/// which has to open it again.
#[derive(Debug)]
pub struct KfdDevice {
    file: File,
    version: Version,
}

impl KfdDevice {
    /// Opens the device and checks that the interface has debug sessions, which every user of this crate needs.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] if there is no driver or this user may not open it, [`Error::Version`] if it is too old,
    /// [`Error::Call`] if it does not tell its version.
    ///
    /// # References
    ///
    /// `kfd_open`, `kfd_ioctl_get_version` in `kfd_chardev.c`.
    pub fn open() -> Result<KfdDevice> {
        let file = open(Path::new(KFD))?;
        let mut args = GetVersionArgs::default();
        // SAFETY: the argument holds no address.
        unsafe { ioctl(&file, &mut args) }.map_err(|error| Error::Call { operation: "GET_VERSION", error })?;
        let version = Version { major: args.major_version, minor: args.minor_version };
        if version.major != VERSION_MAJOR || version.minor < VERSION_MINOR_DEBUGGER {
            let Version { major, minor } = version;
            return Err(Error::Version { major, minor, needed: VERSION_MINOR_DEBUGGER });
        }
        Ok(KfdDevice { file, version })
    }

    /// Returns the version of the interface.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the open file, for mappings of doorbells and memory.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Calls a command of the driver. Returns the result of the call, in which some commands return a count.
    ///
    /// # Errors
    ///
    /// The driver's answer. A call that a signal interrupted is repeated, and so is one that asks for it with `EAGAIN`,
    /// except `DBG_TRAP`: there `EAGAIN` is the answer "no event" (`kfd_dbg_ev_query_debug_event`).
    ///
    /// # Safety
    ///
    /// Addresses in `args` must point to memory that the driver may read, and write where the command fills it, for the
    /// length that `args` says, until the call returns. An address that only the gpu uses later is not restricted.
    pub unsafe fn call<A: Argument>(&self, args: &mut A) -> io::Result<u32> {
        // SAFETY: the caller vouches for the addresses.
        unsafe { ioctl(&self.file, args) }
    }
}

/// Opens a device node, `/dev/kfd` or a render node, for reading and writing.
///
/// # Errors
///
/// [`Error::Open`] with the remedy.
pub fn open(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map_err(|error| Error::Open { path: path.to_owned(), error })
}

/// # Safety
///
/// As [`KfdDevice::call`].
pub(crate) unsafe fn ioctl<A: Argument>(file: &File, args: &mut A) -> io::Result<u32> {
    loop {
        // SAFETY: the caller vouches for the addresses.
        let result = unsafe { call_once(file, args) };
        let repeat = match result.as_ref().err().and_then(io::Error::raw_os_error) {
            Some(libc::EINTR) => true,
            Some(libc::EAGAIN) => A::COMMAND.nr != DBG_TRAP.nr,
            _ => false,
        };
        if !repeat {
            return result;
        }
    }
}

/// Calls a command of an open driver once: the answer of a call that a signal interrupts is `EINTR`. For tests of
/// exactly that; everything else uses [`KfdDevice::call`].
///
/// # Errors
///
/// The driver's answer.
///
/// # Safety
///
/// As [`KfdDevice::call`].
pub unsafe fn call_once<A: Argument>(file: &File, args: &mut A) -> io::Result<u32> {
    const { assert!(A::SIZE == size_of::<A>(), "the argument's bytes are all defined") };
    let Request(request) = A::COMMAND.request();
    // SAFETY: `args` is as large as the command says (checked where it is declared), its bytes are all defined, and the
    // caller vouches for the addresses in it.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request.into(), ptr::from_mut(args)) };
    u32::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_is_named_with_a_remedy() {
        let said = open(Path::new("/no/such/device")).unwrap_err().to_string();
        assert!(said.contains("/no/such/device") && said.contains("modprobe amdgpu"), "{said}");
    }

    #[test]
    fn a_file_that_is_no_device_refuses_the_call() {
        let file = File::open("/dev/null").unwrap();
        let mut version = GetVersionArgs::default();
        // SAFETY: the argument holds no address.
        let error = unsafe { ioctl(&file, &mut version) }.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }
}
