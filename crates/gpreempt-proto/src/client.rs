//! A client that blocks until the daemon answers.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr, sockopt};
use nix::sys::time::TimeVal;

use crate::frame::{self, LineBuffer};
use crate::{Answer, Call, LONGEST_LINE, Refusal, Request, VERSION, socket_path};

/// Longest time for the daemon to accept and to answer. It answers within milliseconds; a stopped one never does.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon listens at the socket.
    #[error(
        "no daemon answers at {}: {error}; start `gpreempt daemon`, or as a service: `systemctl start gpreempt`",
        path.display()
    )]
    NoDaemon {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// This user may not connect.
    #[error(
        "cannot connect to the daemon at {}: {error}; it belongs to another user: name yours with GPREEMPT_SOCKET",
        path.display()
    )]
    Denied {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The daemon does not answer in time.
    #[error(
        "the daemon at {} did not answer within {} s; `systemctl restart gpreempt` replaces a daemon that is stopped",
        path.display(),
        patience.as_secs_f64()
    )]
    Silent {
        /// The socket.
        path: PathBuf,
        /// The time it had.
        patience: Duration,
    },
    /// The connection broke.
    #[error("the daemon at {} ended the connection: {reason}", path.display())]
    Lost {
        /// The socket.
        path: PathBuf,
        /// What is known about the cause.
        reason: String,
    },
    /// The answer is not one of this version of the protocol.
    #[error(
        "the answer of {} is not of version {VERSION} of the protocol: {reason}; are command and daemon of one release?",
        path.display()
    )]
    Malformed {
        /// The socket.
        path: PathBuf,
        /// The fault in the answer.
        reason: String,
    },
    /// The daemon refused the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: UnixStream,
    received: LineBuffer,
    patience: Duration,
}

impl Client {
    /// Connects to the daemon that [`socket_path`] names.
    ///
    /// # Errors
    ///
    /// If there is none, or it does not accept.
    pub fn connect() -> Result<Client, ClientError> {
        Client::connect_to(&socket_path(), PATIENCE)
    }

    /// Connects to the daemon at this socket; `patience` bounds the connection and each answer.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`].
    pub fn connect_to(path: &Path, patience: Duration) -> Result<Client, ClientError> {
        let stream = connect(path, patience).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => ClientError::Denied { path: path.to_owned(), error },
            io::ErrorKind::WouldBlock => ClientError::Silent { path: path.to_owned(), patience },
            _ => ClientError::NoDaemon { path: path.to_owned(), error },
        })?;
        Ok(Client { path: path.to_owned(), stream, received: LineBuffer::new(LONGEST_LINE), patience })
    }

    /// Sends a request and waits for the answer. A refusal is an error.
    ///
    /// # Errors
    ///
    /// If the daemon refuses, does not answer in time, or closes the connection.
    pub fn call(&mut self, request: Request) -> Result<Answer, ClientError> {
        self.send(request)?;
        let deadline = Instant::now() + self.patience;
        match self.answer(Some(deadline))? {
            Answer::Refused(refusal) => Err(refusal.into()),
            Answer::Other => Err(self.malformed(&"an answer of a kind that this version does not know")),
            answer => Ok(answer),
        }
    }

    /// Subscribes to events from now on.
    ///
    /// # Errors
    ///
    /// If the request cannot be sent. A refusal comes as the first item.
    pub fn watch(mut self) -> Result<Events, ClientError> {
        self.send(Request::Watch)?;
        Ok(Events { client: self, stopped: Arc::default() })
    }

    fn send(&mut self, request: Request) -> Result<(), ClientError> {
        let line = frame::line(&Call::new(request)).map_err(|error| self.malformed(&error))?;
        self.stream.write_all(&line).map_err(|error| self.broken(&error))
    }

    /// Returns the next answer; waits for ever without a deadline.
    fn answer(&mut self, deadline: Option<Instant>) -> Result<Answer, ClientError> {
        loop {
            match self.received.next_line() {
                Ok(Some(line)) => return serde_json::from_slice(&line).map_err(|error| self.malformed(&error)),
                Ok(None) => self.receive(deadline)?,
                Err(error) => return Err(self.malformed(&error)),
            }
        }
    }

    fn receive(&mut self, deadline: Option<Instant>) -> Result<(), ClientError> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(self.silent());
        }
        let read = self.stream.set_read_timeout(left).and_then(|()| self.received.fill(&mut self.stream));
        match read {
            Ok(0) => Err(self.broken(&"closed by the daemon; its log says why (`journalctl -u gpreempt`)")),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(self.silent()),
            Err(error) => Err(self.broken(&error)),
        }
    }

    fn silent(&self) -> ClientError {
        ClientError::Silent { path: self.path.clone(), patience: self.patience }
    }

    fn broken(&self, reason: &impl ToString) -> ClientError {
        ClientError::Lost { path: self.path.clone(), reason: reason.to_string() }
    }

    fn malformed(&self, reason: &impl ToString) -> ClientError {
        ClientError::Malformed { path: self.path.clone(), reason: reason.to_string() }
    }
}

/// Iterator over [`Answer::Event`] and [`Answer::Missed`] as they come. The last item may be an error, such as the end
/// of the daemon.
#[derive(Debug)]
pub struct Events {
    client: Client,
    stopped: Arc<AtomicBool>,
}

impl Events {
    /// Returns a handle with which another thread ends the wait for the next event.
    ///
    /// # Errors
    ///
    /// If the process has no descriptor left.
    pub fn stopper(&self) -> io::Result<Stopper> {
        Ok(Stopper { stream: self.client.stream.try_clone()?, stopped: Arc::clone(&self.stopped) })
    }
}

impl Iterator for Events {
    type Item = Result<Answer, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.client.answer(None) {
            _ if self.stopped.load(Ordering::Acquire) => None,
            Ok(Answer::Refused(refusal)) => Some(Err(refusal.into())),
            result => Some(result),
        }
    }
}

/// Ends the wait for events.
#[derive(Debug)]
pub struct Stopper {
    stream: UnixStream,
    stopped: Arc<AtomicBool>,
}

impl Stopper {
    /// Ends the iteration.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // A connection that is gone already has nothing to wait for.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Connects within a time. A stopped daemon accepts nothing: as soon as its queue of connections is full, `connect`
/// would block for ever.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = UnixAddr::new(path)?;
    let socket = socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let seconds = patience.as_secs().try_into().unwrap_or(i64::MAX);
    socket::setsockopt(&socket, sockopt::SendTimeout, &TimeVal::new(seconds, patience.subsec_micros().into()))?;
    loop {
        use std::os::fd::AsRawFd as _;
        match socket::connect(socket.as_raw_fd(), &address) {
            Ok(()) => return Ok(socket.into()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
