//! Virtual gpus that run already: finding them and asking them.

use std::io;
use std::os::unix::net::UnixStream;

use super::{LaunchError, Name};
use crate::protocol::{Reply, SOCKET_VARIABLE, Status, SupervisorRequest};
use crate::sys;

/// The kernel's table of sockets.
const SOCKETS: &str = "/proc/net/unix";

/// Returns the user of this process.
pub(super) fn own_user() -> u32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::geteuid() }
}

fn prefix(user: u32) -> String {
    format!("gpreempt-vgpu-name-{user}-")
}

/// Where the gpu of this name listens, of this user or, if it is shared, of root. Names of different users do not meet.
pub(super) fn socket_of(name: &Name, shared: bool) -> String {
    format!("{}{name}", prefix(if shared { 0 } else { own_user() }))
}

/// Connects to a supervisor of this user or of root; `None` if none listens.
pub(super) fn connect(socket: &str) -> Result<Option<UnixStream>, LaunchError> {
    let connection = match sys::connect(socket) {
        Ok(connection) => connection,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
        Err(error) => return Err(LaunchError::Gone(error.to_string())),
    };
    // Any user can listen on any abstract address.
    let owner = sys::peer(&connection).map_err(|error| LaunchError::Gone(error.to_string()))?.1;
    if owner != own_user() && owner != 0 {
        let prefixes = [own_user(), 0].map(prefix);
        let name = prefixes.iter().find_map(|prefix| socket.strip_prefix(prefix)).unwrap_or(socket);
        return Err(LaunchError::Foreign(name.to_owned()));
    }
    Ok(Some(connection))
}

/// Asks and waits for the answer; `None` if the supervisor is gone.
pub(super) fn ask(connection: &UnixStream, request: &SupervisorRequest) -> Result<Option<Reply>, LaunchError> {
    let request = serde_json::to_vec(request).map_err(|error| LaunchError::supervisor("asking", &error))?;
    if sys::send(connection, &request, &[]).is_err() {
        return Ok(None);
    }
    match sys::receive(connection) {
        Ok(Some(frame)) => serde_json::from_slice(&frame.bytes).map(Some).map_err(|_| LaunchError::OtherBuild),
        Ok(None) | Err(_) => Ok(None),
    }
}

pub(super) fn ask_status(connection: &UnixStream) -> Result<Status, LaunchError> {
    match ask(connection, &SupervisorRequest::Status)? {
        Some(Reply::Status(status)) => Ok(*status),
        Some(Reply::Refused(why)) => Err(LaunchError::Refused(why)),
        Some(_) => Err(LaunchError::OtherBuild),
        None => Err(LaunchError::Gone("its supervisor has ended".into())),
    }
}

/// A virtual gpu that runs. As long as this value exists, the gpu does.
#[derive(Debug)]
pub struct Running {
    connection: UnixStream,
}

impl Running {
    /// The gpu of this name, of this user or, if `shared`, of root.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &Name, shared: bool) -> Result<Self, LaunchError> {
        let connection = connect(&socket_of(name, shared))?.ok_or_else(|| LaunchError::unknown(name, shared))?;
        Ok(Self { connection })
    }

    /// The gpu that this process runs on.
    ///
    /// # Errors
    /// If it runs on none, or that is gone.
    pub fn own() -> Result<Self, LaunchError> {
        let socket = std::env::var(SOCKET_VARIABLE).map_err(|_| LaunchError::Outside)?;
        let gone = || LaunchError::Gone("its supervisor has ended".into());
        Ok(Self { connection: connect(&socket)?.ok_or_else(gone)? })
    }

    /// Names of this user's gpus. Some may be gone before they are asked.
    ///
    /// # Errors
    /// If the system does not say what sockets there are.
    pub fn names() -> io::Result<Vec<Name>> {
        Ok(names_in(&std::fs::read_to_string(SOCKETS)?, &prefix(own_user())))
    }

    /// How the gpu is now.
    ///
    /// # Errors
    /// If it is gone.
    pub fn status(&self) -> Result<Status, LaunchError> {
        ask_status(&self.connection)
    }
}

fn names_in(table: &str, prefix: &str) -> Vec<Name> {
    let paths = table.lines().filter_map(|line| line.split_whitespace().nth(7));
    let mut names: Vec<Name> =
        paths.filter_map(|path| path.strip_prefix('@')?.strip_prefix(prefix)?.parse().ok()).collect();
    names.sort();
    // A connection has the listener's name, too.
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_user_and_come_once() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 11 @gpreempt-vgpu-name-7-b\n\
            0000: 00000003 00000000 00000000 0001 03 12 @gpreempt-vgpu-name-7-b\n\
            0000: 00000002 00000000 00010000 0001 01 13 @gpreempt-vgpu-name-77-c\n\
            0000: 00000002 00000000 00010000 0001 01 14 @gpreempt-vgpu-name-7-a.x\n\
            0000: 00000002 00000000 00010000 0001 01 15 @gpreempt-vgpu-123-5f\n\
            0000: 00000002 00000000 00010000 0001 01 16\n";
        let names: Vec<String> = names_in(table, "gpreempt-vgpu-name-7-").iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a.x", "b"]);
    }
}
