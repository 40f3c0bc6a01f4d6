//! Starting a program with a virtual GPU.
//!
//! The launcher starts the supervisor, keeps a connection to it that the program inherits, and then *becomes* the
//! program: exit codes, signals and job control are the program's own, and there is no launcher left to die.

mod library;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use thiserror::Error;

pub use library::{BUILD_ID, LibraryError, MARK, find as find_library};

use crate::profile::{Profile, ProfileError};
use crate::protocol::{Reply, Request, SOCKET_VARIABLE};
use crate::sys;

/// Why a program could not be started on a virtual gpu.
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
    /// The program.
    #[error("cannot run {}: {error}", program.to_string_lossy())]
    Program {
        /// Its name.
        program: OsString,
        /// Why.
        error: io::Error,
    },
    /// We are inside already.
    #[error(
        "this process already runs on a virtual gpu ({SOCKET_VARIABLE} is set); start nested programs directly, or unset \
         {SOCKET_VARIABLE} and LD_PRELOAD for another gpu"
    )]
    Nested,
}

/// The environment in which a program finds the virtual gpu.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Variables to set.
    pub variables: Vec<(&'static str, OsString)>,
}

fn environment(socket: &str) -> Result<Environment, LaunchError> {
    let library = find_library()?;
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let mut variables = vec![("LD_PRELOAD", preload), (SOCKET_VARIABLE, socket.into())];
    if let Some(path) = path_with_own_directory() {
        variables.push(("PATH", path));
    }
    Ok(Environment { variables })
}

/// PATH with the directory of this executable in front, so that `gpreempt` inside is the same build.
fn path_with_own_directory() -> Option<OsString> {
    let own = std::env::current_exe().ok()?.parent()?.to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).filter(|directory| *directory != own);
    std::env::join_paths(std::iter::once(own.clone()).chain(others)).ok()
}

/// A supervisor that runs, and the connection that keeps it.
pub struct Started {
    connection: UnixStream,
    /// What a program needs to find it.
    pub environment: Environment,
}

/// Starts a supervisor for this profile. It lives as long as its connections and, if given, the process `hold`.
/// `supervise` are the arguments that make this executable call [`supervise_in_background`].
///
/// # Errors
/// With what went wrong and what to do.
pub fn start(profile: &Profile, hold: Option<u32>, supervise: &[&str]) -> Result<Started, LaunchError> {
    if std::env::var_os(SOCKET_VARIABLE).is_some() {
        return Err(LaunchError::Nested);
    }
    let failed = |what: &str, error: &dyn std::fmt::Display| LaunchError::Supervisor(format!("{what}: {error}"));
    let socket = socket_name();
    let environment = environment(&socket)?;
    let listener = sys::abstract_listener(&socket).map_err(|e| failed("listening", &e))?;
    let connection = sys::connect(&socket).map_err(|e| failed("connecting", &e))?;
    let executable = std::env::current_exe().map_err(|e| failed("finding this executable", &e))?;
    // The child starts the supervisor and ends at once, so that the supervisor is nobody's child: a program that waits
    // for its children must not wait for it.
    let status = Command::new(executable)
        .args(supervise)
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(Stdio::null())
        .status()
        .map_err(|e| failed("starting it", &e))?;
    if !status.success() {
        return Err(LaunchError::Supervisor(format!("it ended with {status}")));
    }
    let request =
        serde_json::to_vec(&Request::Configure { profile: profile.clone(), hold }).map_err(|e| failed("asking", &e))?;
    sys::send(&connection, &request, &[]).map_err(|e| failed("asking", &e))?;
    let answer = sys::receive(&connection).map_err(|e| failed("waiting for it", &e))?;
    match answer.and_then(|frame| serde_json::from_slice(&frame.bytes).ok()) {
        Some(Reply::Done) => Ok(Started { connection, environment }),
        Some(Reply::Refused(why)) => Err(LaunchError::Supervisor(why)),
        _ => Err(LaunchError::Supervisor("it ended before it was ready".into())),
    }
}

/// Starts the supervisor proper and returns: the second half of [`start`], in the child.
///
/// # Errors
/// What the operating system says.
pub fn supervise_in_background(arguments: &[&str]) -> io::Result<()> {
    let log = if std::env::var_os("GPREEMPT_VGPU_LOG").is_some() { Stdio::inherit() } else { Stdio::null() };
    let listener = io::stdin().as_fd().try_clone_to_owned()?;
    Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::from(listener))
        .stdout(Stdio::null())
        .stderr(log)
        .current_dir("/")
        .process_group(0)
        .spawn()?;
    Ok(())
}

/// Becomes the program. Returns only if that fails.
pub fn exec(started: Started, program: &OsString, arguments: &[OsString]) -> LaunchError {
    // The program inherits the connection; when it and its children are gone, so is the supervisor.
    let connection = match sys::out_of_the_way(started.connection.into()) {
        Ok(connection) => connection,
        Err(error) => return LaunchError::Program { program: program.clone(), error },
    };
    // SAFETY: a system call on a descriptor of ours.
    unsafe { libc::fcntl(connection.as_raw_fd(), libc::F_SETFD, 0) };
    let mut command = Command::new(program);
    command.args(arguments).envs(started.environment.variables.iter().map(|(name, value)| (name, value)));
    let error = command.exec();
    LaunchError::Program { program: program.clone(), error }
}

/// A socket name that nobody else has.
fn socket_name() -> String {
    let now = sys::monotonic_raw_ns();
    format!("gpreempt-vgpu-{}-{now:x}", std::process::id())
}
