//! What can go wrong when a program is put on a virtual gpu.

use std::ffi::OsString;
use std::fmt::Display;
use std::io;

use thiserror::Error;

use super::{LibraryError, Name};
use crate::profile::ProfileError;
use crate::protocol::SOCKET_VARIABLE;

/// Why a program could not be started on a virtual gpu, or one could not be asked.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The library.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The supervisor.
    #[error("cannot start the supervisor of the virtual gpu: {0}")]
    Supervisor(String),
    /// The supervisor does not do what was asked.
    #[error("{0}")]
    Refused(String),
    /// The socket of another user.
    #[error(
        "the virtual gpu `{0}` belongs to another user, or another program took its address; choose another --name"
    )]
    Foreign(String),
    /// The gpu of this name was started by a gpreempt that speaks otherwise.
    #[error("the virtual gpu was started by another build of gpreempt; use that one, or choose another --name")]
    OtherBuild,
    /// There is none of this name.
    #[error("no virtual gpu `{0}` runs; `gpreempt vgpu list` shows those that do")]
    Unknown(Name),
    /// Root shares none of this name.
    #[error("root shares no virtual gpu `{0}`; as root, `gpreempt vgpu run --shared --name {0} -- CMD` starts one")]
    NotShared(Name),
    /// No name was given, and several run.
    #[error("this process runs on no virtual gpu; name one with --name (`gpreempt vgpu list` shows them)")]
    Outside,
    /// It ended.
    #[error("the virtual gpu is gone: {0}")]
    Gone(String),
    /// The program.
    #[error("cannot run {}: {error}", program.to_string_lossy())]
    Program {
        /// Its name.
        program: OsString,
        /// Answer of the system.
        error: io::Error,
    },
    /// We are inside already.
    #[error(
        "this process already runs on a virtual gpu ({SOCKET_VARIABLE} is set); start nested programs directly, or unset \
         {SOCKET_VARIABLE} and LD_PRELOAD for another gpu"
    )]
    Nested,
}

impl LaunchError {
    pub(super) fn unknown(name: &Name, shared: bool) -> Self {
        if shared { LaunchError::NotShared(name.clone()) } else { LaunchError::Unknown(name.clone()) }
    }

    pub(super) fn supervisor(what: &str, error: &dyn Display) -> Self {
        LaunchError::Supervisor(format!("{what}: {error}"))
    }
}
