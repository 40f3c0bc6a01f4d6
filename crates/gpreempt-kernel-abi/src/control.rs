//! The commands, and the arguments of those that concern the module as a whole.

use kfd_abi::ioctl::{Argument, Command, Direction};
use kfd_abi::{Abi, flags, numbers, plain};

use crate::policy::{CgroupArgs, GpuArgs, JobArgs, ProcessArgs, RemoveJobArgs};
use crate::status::QueryArgs;

/// Device class of the requests (`GPREEMPT_IOC`).
pub(crate) const CLASS: u8 = 0xB9;

const fn command(nr: u8, direction: Direction, size: usize, name: &'static str) -> Command {
    // The largest argument has 96 bytes.
    Command { class: CLASS, nr, direction, size: size as u16, name }
}

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $nr:literal, $direction:ident, $argument:ty;)*) => {
        $($(#[$doc])* pub const $name: Command =
            command($nr, Direction::$direction, size_of::<$argument>(), stringify!($name));)*

        /// Every command, by number.
        pub const COMMANDS: &[Command] = &[$($name),*];
    };
}

commands! {
    /// What the module is.
    VERSION = 0x00, ReadWrite, ModuleVersion;
    /// Become the policy host.
    CLAIM = 0x01, Write, Claim;
    /// Forget the policy and resume everything.
    CLEAR = 0x02, None, ();
    /// How the module works.
    SETTINGS = 0x03, Write, ModuleSettings;
    /// Set a gpu.
    SET_GPU = 0x04, Write, GpuArgs;
    /// Add or set a job.
    SET_JOB = 0x05, Write, JobArgs;
    /// End a job.
    REMOVE_JOB = 0x06, Write, RemoveJobArgs;
    /// Say the job of a process.
    SET_PROCESS = 0x07, Write, ProcessArgs;
    /// Say the job of a cgroup.
    SET_CGROUP = 0x08, Write, CgroupArgs;
    /// List gpus, jobs or tenants.
    QUERY = 0x09, ReadWrite, QueryArgs;
}

/// Ties an argument to its command, and gives it a value whose only field that is not zero is its size.
macro_rules! argument {
    ($name:ident for $command:ident) => {
        impl Argument for $name {
            const COMMAND: Command = $command;
        }

        impl $name {
            /// All zero but for the size.
            pub const SIZED: $name = $name { size: size_of::<$name>() as u32, ..<$name as Abi>::ZERO };
        }
    };
}
argument!(ModuleVersion for VERSION);
argument!(Claim for CLAIM);
argument!(ModuleSettings for SETTINGS);
argument!(GpuArgs for SET_GPU);
argument!(JobArgs for SET_JOB);
argument!(RemoveJobArgs for REMOVE_JOB);
argument!(ProcessArgs for SET_PROCESS);
argument!(CgroupArgs for SET_CGROUP);
argument!(QueryArgs for QUERY);

flags! {
    /// What the module can do.
    Features: u32 {
        /// Doorbells can be armed (`GPREEMPT_FEATURE_DOORBELLS`): no polling while tenants are idle.
        DOORBELLS = 1 << 0,
        /// Jobs can be given by cgroup (`GPREEMPT_FEATURE_CGROUPS`).
        CGROUPS = 1 << 1,
    }
}

/// What the module is (`gpreempt_version`). All but `size` is filled.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModuleVersion {
    /// Size of the structure.
    pub size: u32,
    /// [`ABI_VERSION`](crate::ABI_VERSION) of the module.
    pub abi: u32,
    /// Version of the hooks of the driver that it uses.
    pub hooks: u32,
    /// What it can do.
    pub features: Features,
    /// Room for jobs.
    pub max_jobs: u32,
    /// Room for tenants.
    pub max_tenants: u32,
}
plain!(ModuleVersion { size, abi, hooks, features, max_jobs, max_tenants });

/// Become the policy host (`gpreempt_claim`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Size of the structure.
    pub size: u32,
    /// How long the policy stays in force without a policy host, in milliseconds.
    pub keep_ms: u32,
}
plain!(Claim { size, keep_ms });

numbers! {
    /// Whether tenants are stopped (`gpreempt_mode`).
    ModuleMode: u32 {
        /// Nothing is stopped; what would be is told as events.
        OBSERVE = 0,
        /// Plans are carried out.
        ENFORCE = 1,
    }
}

numbers! {
    /// How the module learns of new work (`gpreempt_watch`).
    ModuleWatch: u32 {
        /// It looks at the indices of queues every period.
        POLL = 0,
        /// The first store to an armed doorbell faults. It looks every period only while work is on the gpu.
        DOORBELL = 1,
    }
}

/// How the module works (`gpreempt_settings`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModuleSettings {
    /// Size of the structure.
    pub size: u32,
    /// Whether tenants are stopped.
    pub mode: ModuleMode,
    /// How new work is seen.
    pub watch: ModuleWatch,
    /// Time between two looks in microseconds, 50 to 1000000.
    pub period_us: u32,
    /// Time between two looks at tenants whose doorbells are armed in milliseconds, 10 to 60000.
    pub net_ms: u32,
    /// Grace in the unit of the driver, or [`GRACE_DEFAULT`](crate::GRACE_DEFAULT).
    pub grace: u32,
}
plain!(ModuleSettings { size, mode, watch, period_us, net_ms, grace });
