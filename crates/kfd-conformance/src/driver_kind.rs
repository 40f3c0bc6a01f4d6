//! Drivers for which some rules differ from those of Linux 6.12.115 and later.

use kfd_abi::ioctl::DKMS_COMMANDS;

use crate::sys;

/// The driver under test, as far as rules depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverKind {
    /// Linux 6.12 before 6.12.115.
    Before6_12_115,
    /// Linux 6.12.115 and later, Linux 7.2.
    #[default]
    Linux,
    /// AMD's DKMS driver.
    Dkms,
}

impl DriverKind {
    /// Returns the kind of this machine's driver: AMD's has a second range of calls, and Linux has its release.
    #[must_use]
    pub fn of_this_machine() -> DriverKind {
        if sys::answers_to(DKMS_COMMANDS.start) {
            return DriverKind::Dkms;
        }
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        DriverKind::of_release(&release)
    }

    /// Returns the kind of the driver in a release of Linux, such as `6.12.107+deb13-amd64`.
    fn of_release(release: &str) -> DriverKind {
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map_while(|part| part.parse().ok());
        let version: [Option<u32>; 3] = std::array::from_fn(|_| numbers.next());
        match version {
            [Some(6), Some(12), Some(..115)] => DriverKind::Before6_12_115,
            _ => DriverKind::Linux,
        }
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DriverKind::Before6_12_115 => "Linux 6.12 before 6.12.115",
            DriverKind::Linux => "Linux",
            DriverKind::Dkms => "AMD's DKMS driver",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_linux_are_told_apart_by_their_numbers() {
        let kinds = ["6.12.107+deb13-amd64\n", "6.12.115-1", "6.12.117", "7.2.13+deb14-amd64", "6.13.2", "odd", ""]
            .map(DriverKind::of_release);
        let (before, linux) = (DriverKind::Before6_12_115, DriverKind::Linux);
        assert_eq!(kinds, [before, linux, linux, linux, linux, linux, linux]);
    }
}
