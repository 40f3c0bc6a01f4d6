//! Error numbers that the driver returns, as Linux defines them on x86-64.

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
    EIO = 5;
    /// Not permitted.
    EPERM = 1;
    /// No such buffer, or no such mapping.
    ENOENT = 2;
    /// No such process; for queues: the gpu has no address space of this process.
    ESRCH = 3;
    /// Not a descriptor, or that of another process.
    EBADF = 9;
    /// No memory left, or no buffer with this handle.
    ENOMEM = 12;
    /// Not allowed without a capability.
    EACCES = 13;
    /// An address that cannot be used, or no queue with this id.
    EFAULT = 14;
    /// In use.
    EBUSY = 16;
    /// There are queues already.
    EEXIST = 17;
    /// The gpu has no address space of this process, or lacks the feature.
    ENODEV = 19;
    /// A value that cannot be.
    EINVAL = 22;
    /// No descriptor left.
    EMFILE = 24;
    /// No such command.
    ENOTTY = 25;
    /// A limit is reached.
    ENOSPC = 28;
    /// Not in this context.
    EOPNOTSUPP = 95;
    /// The address belongs to something else.
    EADDRINUSE = 98;
    /// Nothing has happened yet.
    EAGAIN = 11;
    /// There is nothing of this kind.
    ENODATA = 61;
    /// A debugger is there already.
    EALREADY = 114;
    /// Queues did not leave the gpu in time.
    ETIME = 62;
    /// Not supported. Meant for the inside of the kernel, but the driver lets it out.
    ENOTSUPP = 524;
}
