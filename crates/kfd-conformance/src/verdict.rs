//! How the test of a rule ends.

use std::fmt;

/// Why a test did not show that its rule is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The driver does something else: what.
    Broken(String),
    /// It cannot be seen here: why.
    Unchecked(String),
}

/// Ends without a value if the rule is kept.
pub(crate) type Verdict<T = ()> = Result<T, Trouble>;

/// Says that the driver does something else.
pub(crate) fn broken<T>(what: impl fmt::Display) -> Verdict<T> {
    Err(Trouble::Broken(what.to_string()))
}

/// Says that the rule cannot be checked here.
pub(crate) fn unchecked<T>(why: impl fmt::Display) -> Verdict<T> {
    Err(Trouble::Unchecked(why.to_string()))
}

/// Compares what was seen with what the rule says.
pub(crate) fn equal<T: PartialEq + fmt::Debug>(what: &str, seen: T, expected: T) -> Verdict {
    if seen == expected { Ok(()) } else { broken(format_args!("{what}: {seen:?} instead of {expected:?}")) }
}

/// Requires something of what was seen.
pub(crate) fn require(holds: bool, otherwise: impl fmt::Display) -> Verdict {
    if holds { Ok(()) } else { broken(otherwise) }
}

/// Names of the error numbers that the driver uses.
const NAMES: &[(i32, &str)] = &[
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::ESRCH, "ESRCH"),
    (libc::EINTR, "EINTR"),
    (libc::EIO, "EIO"),
    (libc::EBADF, "EBADF"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EACCES, "EACCES"),
    (libc::EFAULT, "EFAULT"),
    (libc::EBUSY, "EBUSY"),
    (libc::EEXIST, "EEXIST"),
    (libc::ENODEV, "ENODEV"),
    (libc::EINVAL, "EINVAL"),
    (libc::ENOTTY, "ENOTTY"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::ENODATA, "ENODATA"),
    (libc::EALREADY, "EALREADY"),
    (libc::EADDRINUSE, "EADDRINUSE"),
    (ENOTSUPP, "ENOTSUPP"),
];

/// The kernel's own number for "not supported", which escapes to programs in one place.
pub(crate) const ENOTSUPP: i32 = 524;

/// Returns an outcome of a call in words.
pub(crate) fn outcome(result: i64) -> String {
    if result >= 0 {
        return format!("success ({result})");
    }
    let errno = i32::try_from(-result).unwrap_or(i32::MAX);
    let name = NAMES.iter().find(|(number, _)| *number == errno).map(|(_, name)| *name);
    name.map_or_else(|| format!("error {errno}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_named() {
        assert_eq!(outcome(2), "success (2)");
        assert_eq!(outcome(-i64::from(libc::EPERM)), "EPERM");
        assert_eq!(outcome(-524), "ENOTSUPP");
        assert_eq!(outcome(-9999), "error 9999");
    }

    #[test]
    fn a_difference_names_both_sides() {
        assert_eq!(equal("size", 3, 3), Ok(()));
        assert_eq!(equal("size", 3, 4), Err(Trouble::Broken("size: 3 instead of 4".to_owned())));
    }
}
