//! Errors as the driver answers them.

/// An error number, positive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        impl Errno {
            $($(#[$doc])* pub const $name: Errno = Errno($value);)*
        }

        impl std::fmt::Debug for Errno {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match *self {
                    $(Errno::$name => f.write_str(stringify!($name)),)*
                    Errno(other) => write!(f, "Errno({other})"),
                }
            }
        }
    };
}

errnos! {
    /// The gpu is being reset.
    EIO = libc::EIO;
    /// Not permitted.
    EPERM = libc::EPERM;
    /// No such process; for queues: the gpu has no address space of this process.
    ESRCH = libc::ESRCH;
    /// Not a descriptor, or that of another process.
    EBADF = libc::EBADF;
    /// No memory left, or no buffer with this handle.
    ENOMEM = libc::ENOMEM;
    /// Not allowed without a capability.
    EACCES = libc::EACCES;
    /// An address that cannot be used, or no queue with this id.
    EFAULT = libc::EFAULT;
    /// In use.
    EBUSY = libc::EBUSY;
    /// There are queues already.
    EEXIST = libc::EEXIST;
    /// The gpu has no address space of this process, or lacks the feature.
    ENODEV = libc::ENODEV;
    /// A value that cannot be.
    EINVAL = libc::EINVAL;
    /// No such command.
    ENOTTY = libc::ENOTTY;
    /// A limit is reached.
    ENOSPC = libc::ENOSPC;
    /// The address belongs to something else.
    EADDRINUSE = libc::EADDRINUSE;
    /// Nothing has happened yet.
    EAGAIN = libc::EAGAIN;
    /// There is nothing of this kind.
    ENODATA = libc::ENODATA;
    /// A debugger is there already.
    EALREADY = libc::EALREADY;
    /// Not supported. Meant for the inside of the kernel, but the driver lets it out.
    ENOTSUPP = 524;
}
