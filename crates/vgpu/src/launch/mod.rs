//! Starting programs with a virtual GPU.
//!
//! The launcher starts the supervisor, or finds the one of the name it was given, keeps a connection to it that the
//! program inherits, and then *becomes* the program: exit codes, signals and job control are the program's own, and
//! there is no launcher left to die.

mod error;
mod library;
mod running;
mod setup;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub use error::LaunchError;
pub use library::{BUILD_ID, LibraryError, MARK, find as find_library};
pub use running::Running;
pub use setup::{Explicit, Name, NameError, Setup};

pub use crate::options::{Mutant, Options, Storm};
use crate::protocol::{Reply, SOCKET_VARIABLE, Status, SupervisorRequest};
use crate::sys;
pub use vgpu_driver::{KernelError, KernelProfile};

/// Environment variable with a few words for a shell's prompt.
pub const PROMPT_VARIABLE: &str = "GPREEMPT_VGPU_PROMPT";

/// How long to try if supervisors keep ending while they are asked.
const PATIENCE: Duration = Duration::from_secs(20);

/// The environment in which a program finds the virtual gpu.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Variables to set.
    pub variables: Vec<(&'static str, OsString)>,
}

fn environment(socket: &str, name: Option<&Name>) -> Result<Environment, LaunchError> {
    let library = find_library()?;
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let prompt = name.map_or_else(|| "(vgpu) ".to_owned(), |name| format!("(vgpu {name}) "));
    let mut variables =
        vec![("LD_PRELOAD", preload), (SOCKET_VARIABLE, socket.into()), (PROMPT_VARIABLE, prompt.into())];
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

impl Started {
    /// A command that runs a program on this gpu, as a child of the caller. The gpu stays while this value does, or the
    /// child has it open.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// How the gpu is now.
    ///
    /// # Errors
    /// If the supervisor is gone.
    pub fn status(&self) -> Result<Status, LaunchError> {
        running::ask_status(&self.connection)
    }
}

/// Starts a supervisor for this gpu, or joins the one that has its name. It lives as long as its connections and, if
/// given, the process `hold`. `supervise` are the arguments that make this executable call
/// [`supervise_in_background`].
///
/// # Errors
/// With what went wrong and what to do.
pub fn start(setup: &Setup, hold: Option<u32>, supervise: &[&str]) -> Result<Started, LaunchError> {
    if std::env::var_os(SOCKET_VARIABLE).is_some() {
        return Err(LaunchError::Nested);
    }
    let socket = setup.name.as_ref().map_or_else(unnamed_socket, |name| running::socket_of(name, setup.shared));
    let environment = environment(&socket, setup.name.as_ref())?;
    // The launcher that binds the name first starts the supervisor; connections of others wait in the listener's queue
    // until it serves them. A supervisor that ends at that moment closes them, and then the name is free again.
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let connection = match &setup.name {
            // The name is root's: another user must not listen there.
            Some(name) if setup.shared && running::own_user() != 0 => {
                running::connect(&socket)?.ok_or_else(|| LaunchError::NotShared(name.clone()))?
            }
            _ => match listen_or_connect(&socket, supervise)? {
                Some(connection) => connection,
                None => {
                    std::thread::yield_now();
                    continue;
                }
            },
        };
        if configure(&connection, setup, hold)? {
            return Ok(Started { connection, environment });
        }
        if setup.name.is_none() {
            break;
        }
    }
    Err(LaunchError::Supervisor("it ended before it was ready".into()))
}

/// Starts the supervisor of a socket, or connects to the one that there is. `None` if that ends at this moment.
fn listen_or_connect(socket: &str, supervise: &[&str]) -> Result<Option<UnixStream>, LaunchError> {
    match sys::abstract_listener(socket) {
        Ok(listener) => {
            let connection = sys::connect(socket).map_err(|error| LaunchError::supervisor("connecting", &error))?;
            begin(listener, supervise)?;
            Ok(Some(connection))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => running::connect(socket),
        Err(error) => Err(LaunchError::supervisor("listening", &error)),
    }
}

/// Starts the supervisor of a listening socket. The child starts it and ends at once, so that the supervisor is no
/// process's child: a program that waits for its children must not wait for it.
fn begin(listener: UnixListener, supervise: &[&str]) -> Result<(), LaunchError> {
    let executable =
        std::env::current_exe().map_err(|error| LaunchError::supervisor("finding this executable", &error))?;
    let status = Command::new(executable)
        .args(supervise)
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(Stdio::null())
        .status()
        .map_err(|error| LaunchError::supervisor("starting it", &error))?;
    if status.success() { Ok(()) } else { Err(LaunchError::Supervisor(format!("it ended with {status}"))) }
}

/// Tells the supervisor what gpu it has to be. False if it is gone.
fn configure(connection: &UnixStream, setup: &Setup, hold: Option<u32>) -> Result<bool, LaunchError> {
    match running::ask(connection, &SupervisorRequest::Configure { setup: Box::new(setup.clone()), hold })? {
        Some(Reply::Done) => Ok(true),
        Some(Reply::Refused(why)) => Err(LaunchError::Refused(why)),
        Some(_) => Err(LaunchError::OtherBuild),
        None => Ok(false),
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
    let mut command = started.command(program);
    // The program inherits the connection; when it and its children are gone, so is the supervisor.
    let connection = match sys::dup_above(started.connection.into()) {
        Ok(connection) => connection,
        Err(error) => return LaunchError::Program { program: program.clone(), error },
    };
    // SAFETY: a system call on a descriptor of ours.
    unsafe { libc::fcntl(connection.as_raw_fd(), libc::F_SETFD, 0) };
    let error = command.args(arguments).exec();
    LaunchError::Program { program: program.clone(), error }
}

/// Returns a socket name that no other supervisor has.
fn unnamed_socket() -> String {
    let now = sys::monotonic_raw_ns();
    format!("gpreempt-vgpu-{}-{now:x}", std::process::id())
}
