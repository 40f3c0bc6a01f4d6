//! Requests to the supervisor and its replies. Both ends come from the same build (see
//! [`crate::launch::BUILD_ID`]), so the format may change with every version.

mod status;

use serde::{Deserialize, Serialize};

use crate::driver::{Blocked, Call, ProcessKey};
use crate::launch::Setup;
use crate::options::Options;
use crate::profile::Profile;
use crate::sysfs::Node;
pub use status::*;

/// Environment variable that names the supervisor's socket.
pub const SOCKET_VARIABLE: &str = "GPREEMPT_VGPU";

/// Names of memory files start with this; the path of the file they stand for follows.
pub const FILE_PREFIX: &str = "gpreempt-vgpu:";

/// Names of descriptors of DMA buffers continue with this; a token follows.
pub(crate) const DMABUF: &str = "/dmabuf/";

/// The device that a call is made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Device {
    /// `/dev/kfd`.
    Kfd,
    /// A render node; which one is in the call's descriptor.
    Render,
}

/// A request of a process.
#[derive(Debug, Serialize, Deserialize)]
pub enum SupervisorRequest {
    /// Be this gpu, or say whether the one that is there will do. First message of a launcher's connection, which keeps
    /// the supervisor alive as long as it is open.
    Configure {
        /// What the launcher wants.
        setup: Box<Setup>,
        /// A process that keeps the supervisor alive, too.
        hold: Option<u32>,
    },
    /// Asks for the status of the gpu.
    Status,
    /// Asks for the file or directory at a path.
    Lookup {
        /// Absolute and normalised.
        path: String,
    },
    /// The calling process opens `/dev/kfd`. Two descriptors come along: the kfd file and the control page.
    Attach,
    /// This connection belongs to a process that has the driver open, and to the same one as the process asking.
    Belong {
        /// The process.
        process: ProcessKey,
    },
    /// An ioctl.
    Call {
        /// The device.
        device: Device,
        /// Number of the ioctl.
        number: u32,
        /// Arguments and memory.
        call: Call,
        /// Where it is made.
        site: Site,
    },
    /// An ioctl that had to wait, once more.
    Retry {
        /// Number of the ioctl.
        number: u32,
        /// The call as it was answered.
        call: Call,
        /// Where it is made.
        site: Site,
    },
    /// An ioctl that had to wait is given up.
    Abandon {
        /// Reason of the wait.
        blocked: Blocked,
        /// Where it was made.
        site: Site,
    },
    /// The process has unmapped memory that it shared with the gpu. Answered as a call that always succeeds.
    Unmapped {
        /// Starts and ends.
        ranges: Vec<(u64, u64)>,
    },
}

/// Where a call is made: what a system call would show of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The thread.
    pub tid: u32,
    /// The descriptor.
    pub fd: i32,
    /// The request as the program gave it.
    pub request: u64,
    /// Where its arguments are.
    pub argument: u64,
}

/// Answer to a process that opens the gpu.
#[derive(Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Profile of the gpu.
    pub profile: Profile,
    /// Options it was started with.
    pub options: Options,
    /// Index of the process's slot on the chip.
    pub slot: u32,
    /// The supervisor's key of the process.
    pub process: ProcessKey,
}

/// A reply of the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The request is carried out.
    Done,
    /// The request is refused; the text says why.
    Refused(String),
    /// The node at the path, if there is one.
    Found(Option<Node>),
    /// The process is known from now on. The chip's file comes along.
    Attached(Box<Welcome>),
    /// Status of the gpu.
    Status(Box<Status>),
    /// The call's result (negative: error number) and the call with its answers. A descriptor that the call makes, or
    /// the file of a buffer that it imports, comes along.
    Returned(i64, Box<Call>),
}
