//! One-line breaks of the driver, each of which a rule of `gpreempt conformance` must notice.
//!
//! A break is chosen when the driver is made (`gpreempt vgpu run --mutant NAME`, for tests). Its place in the code asks
//! [`Driver::has`](super::Driver::has): a comparison of two bytes, in calls that cost a message between processes.

use serde::{Deserialize, Serialize};

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident = $rule:literal,)*) => {
        /// A break of the driver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Mutant {
            $($(#[$doc])* $name,)*
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$name),*];

            /// Returns its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Mutant::$name => stringify!($name),)*
                }
            }

            /// Returns the rule that is meant to notice it.
            #[must_use]
            pub const fn noticed_by(self) -> &'static str {
                match self {
                    $(Mutant::$name => $rule,)*
                }
            }
        }
    };
}

// tidy: table
mutants! {
    /// Any process may debug any other.
    PermissionForAll = "ladder-not-traced",
    /// The debugger has to go on tracing.
    SessionNeedsTracing = "ladder-detached-later",
    /// Operations work before ENABLE.
    EnableNotNeeded = "ladder-not-enabled",
    /// Queues are stopped without a runtime.
    RuntimeNotNeeded = "ladder-needs-runtime",
    /// A second ENABLE succeeds.
    EnableTwice = "enable-twice",
    /// A refused ENABLE does not take the session over.
    TakeOverUndone = "enable-takes-over",
    /// ENABLE refreshes no runlist.
    EnableWithoutCycle = "cycles-enable",
    /// DISABLE leaves queues stopped.
    DisableKeepsStopped = "disable-resumes",
    /// DISABLE keeps recorded exceptions.
    DisableKeepsExceptions = "disable-forgets",
    /// The end of a debugger leaves queues stopped.
    DeathKeepsStopped = "death-resumes",
    /// A new queue can be stopped.
    SuspendNewQueue = "suspend-new-queue",
    /// The mask of SUSPEND_QUEUES clears QUEUE_NEW before the check.
    SuspendMaskInTime = "suspend-mask-too-late",
    /// Stopping a stopped queue costs no cycle.
    SuspendAgainFree = "cycles-suspend-again",
    /// The entry of a stopped queue keeps bit 31.
    SuspendKeepsMark = "suspend-count",
    /// SUSPEND_QUEUES ignores the grace period.
    SuspendGraceLost = "cycles-suspend-grace",
    /// SUSPEND_QUEUES without a list stops nothing and succeeds.
    NullListAccepted = "suspend-null-list",
    /// RESUME_QUEUES counts stopped queues only.
    ResumeCountsStopped = "resume-again",
    /// RESUME_QUEUES costs no cycle.
    ResumeWithoutCycle = "cycles-resume",
    /// A snapshot lists the oldest queue first.
    SnapshotOldestFirst = "snapshot-newest-first",
    /// A snapshot clears no exception.
    SnapshotClearsNothing = "snapshot-new-flag",
    /// A snapshot accepts entries of size 0.
    SnapshotSizeZero = "snapshot-size-zero",
    /// GET_DEVICE_SNAPSHOT tells the shader arrays of all XCCs.
    DevicesCountAllArrays = "devices-entry",
    /// A runtime can be enabled twice.
    RuntimeTwice = "runtime-twice",
    /// A runtime can be enabled after the first queue.
    RuntimeAfterQueue = "runtime-after-queue",
    /// RUNTIME_ENABLE does not wait for the debugger.
    RuntimeNeverWaits = "runtime-enable-waits",
    /// doorbell_offset is an offset of a file.
    PlainDoorbellOffset = "queue-doorbell-offset",
    /// An unknown kind of queue is EINVAL.
    UnknownTypeInvalid = "queue-unknown-type",
    /// The size of the control stack is not checked.
    ControlStackAny = "queue-control-stack",
    /// DESTROY_QUEUE of a stopped queue does not wait.
    DestroyNeverWaits = "destroy-waits",
    /// Two calls may destroy one queue.
    DestroyTwice = "destroy-twice",
    /// UPDATE_QUEUE resumes a stopped queue.
    UpdateResumes = "update-stopped",
    /// UPDATE_QUEUE costs no cycle.
    UpdateFree = "cycles-update",
    /// The end of a process costs no cycle.
    ExitFree = "cycles-exit",
    /// An unknown number is EINVAL.
    UnknownNumberInvalid = "call-unknown-number",
    /// A retired number is EINVAL.
    RetiredNumberInvalid = "call-retired-number",
    /// A mapped buffer can be freed.
    FreeMapped = "memory-free-mapped",
}

impl std::str::FromStr for Mutant {
    type Err = String;

    fn from_str(name: &str) -> Result<Mutant, String> {
        let known = || Mutant::ALL.iter().map(|mutant| mutant.name()).collect::<Vec<_>>().join(", ");
        let found = Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name);
        found.ok_or_else(|| format!("there is no such mutant; there are {}", known()))
    }
}
