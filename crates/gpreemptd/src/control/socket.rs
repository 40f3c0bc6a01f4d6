//! The listening socket: at most one daemon at a path.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{self as net, AddressFamily, SockFlag, SockType, UnixAddr, sockopt};

/// Why the socket cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another daemon serves the socket.
    #[error("another daemon{} serves {}; stop it, or give this one another socket", by(*pid), path.display())]
    Served {
        /// The socket.
        path: PathBuf,
        /// Its process, if the kernel names it.
        pid: Option<u32>,
    },
    /// The path is taken by a file that is no socket.
    #[error("{} exists and is no socket; remove it, or give the daemon another socket", path.display())]
    Occupied {
        /// The file.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} {}: {error}; {}", path.display(), remedy(error))]
    System {
        /// What the daemon tried to do.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

fn by(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "run the daemon as root, or give it a socket in a directory of yours",
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => {
            "a socket's path has at most 107 bytes: give it a shorter one"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::StorageFull => "give it a socket on another file system",
        _ => "give it another socket",
    }
}

/// A listening socket, removed on drop.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Which file it is: one that took its place later is not ours to remove.
    inode: Option<(u64, u64)>,
    /// Held as long as the socket is served. The file stays: removing it would let two other daemons each hold one.
    _lock: Flock<File>,
}

impl Socket {
    /// Listens. Whatever a daemon that is gone has left behind is replaced.
    pub(super) fn bind(path: &Path) -> Result<Socket, ServerError> {
        let fail = |action| move |error: io::Error| ServerError::System { action, path: path.to_owned(), error };
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(directory);
            made.map_err(|error| ServerError::System { action: "create", path: directory.to_owned(), error })?;
        }
        let lock = lock(path)?;
        match fs::symlink_metadata(path) {
            Ok(metadata) if !metadata.file_type().is_socket() => {
                return Err(ServerError::Occupied { path: path.to_owned() });
            }
            Ok(_) => {
                if let Some(pid) = listening(path).map_err(fail("connect to"))? {
                    return Err(ServerError::Served { path: path.to_owned(), pid });
                }
                fs::remove_file(path).map_err(fail("remove the stale socket"))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail("look at")(error)),
        }
        let listener = UnixListener::bind(path).map_err(fail("listen at"))?;
        let inode = fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        let socket = Socket { listener, path: path.to_owned(), inode, _lock: lock };
        socket.listener.set_nonblocking(true).map_err(fail("listen at"))?;
        // Every user may connect; `Peer` decides what the user may do.
        fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(fail("open to all users"))?;
        Ok(socket)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let inode = fs::symlink_metadata(&self.path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        if inode.is_some() && inode == self.inode {
            // Left behind, it would be recognised as stale.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Without a lock, two daemons that start together could each remove the other's socket as stale.
fn lock(path: &Path) -> Result<Flock<File>, ServerError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let fail = |error| ServerError::System { action: "lock", path: name.clone(), error };
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&name).map_err(fail)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err((_, Errno::EWOULDBLOCK)) => {
            let pid = listening(path).ok().flatten().flatten();
            Err(ServerError::Served { path: path.to_owned(), pid })
        }
        Err((_, error)) => Err(fail(error.into())),
    }
}

/// Returns whether a process listens at the path, and which. Does not wait for a stopped daemon.
fn listening(path: &Path) -> io::Result<Option<Option<u32>>> {
    let address = UnixAddr::new(path)?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe: OwnedFd = net::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match net::connect(probe.as_raw_fd(), &address) {
        Ok(()) => {
            let peer = net::getsockopt(&probe, sockopt::PeerCredentials).ok();
            Ok(Some(peer.and_then(|peer| u32::try_from(peer.pid()).ok()).filter(|&pid| pid != 0)))
        }
        // So many wait to be accepted that there is no room for more.
        Err(Errno::EAGAIN) => Ok(Some(None)),
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_is_open_to_all_in_a_directory_made_for_it_and_goes_with_the_daemon() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("run/gpreempt/control.sock");
        let socket = Socket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        UnixStream::connect(&path).unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn one_that_no_daemon_serves_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("control.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists() && UnixStream::connect(&path).is_err(), "a stale socket");
        let socket = Socket::bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        drop(socket);
    }

    #[test]
    fn one_that_is_served_is_refused_with_the_pid_and_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("control.sock");
        let first = Socket::bind(&path).unwrap();
        let message = Socket::bind(&path).unwrap_err().to_string();
        let expected = format!("another daemon (pid {}) serves {}", std::process::id(), path.display());
        assert!(message.starts_with(&expected), "{message}");
        UnixStream::connect(&path).unwrap();
        drop(first);

        // The same from a listener that knows nothing of the lock.
        let other = UnixListener::bind(&path).unwrap();
        assert!(matches!(Socket::bind(&path), Err(ServerError::Served { pid: Some(_), .. })));
        drop(other);
    }

    #[test]
    fn one_that_accepts_no_client_is_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("control.sock");
        let other = net::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        net::bind(other.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        net::listen(&other, net::Backlog::new(0).unwrap()).unwrap();
        let _queued = UnixStream::connect(&path).unwrap();
        assert!(matches!(Socket::bind(&path), Err(ServerError::Served { pid: None, .. })));
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("control.sock");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(Socket::bind(&path), Err(ServerError::Occupied { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn a_path_that_is_too_long_is_refused_with_the_remedy() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x".repeat(150));
        let message = Socket::bind(&path).unwrap_err().to_string();
        assert!(message.contains("107 bytes"), "{message}");
    }

    #[test]
    fn a_socket_that_took_its_place_is_not_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("control.sock");
        let socket = Socket::bind(&path).unwrap();
        let aside = place.path().join("aside");
        fs::rename(&path, &aside).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(socket);
        assert!(path.exists());
    }
}
