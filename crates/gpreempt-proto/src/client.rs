//! A client that waits for its answers.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr, sockopt};
use nix::sys::time::TimeVal;

use crate::{Answer, Call, LONGEST_LINE, Refusal, Request, VERSION, socket_path};

/// How long the daemon may take to accept and to answer. It answers within milliseconds; one that is stopped never does.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no daemon answers at {}: {error}; start `gpreempt daemon`, or as a service: `systemctl start gpreempt`",
        path.display()
    )]
    NoDaemon {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// This user may not talk to it.
    #[error(
        "cannot connect to the daemon at {}: {error}; it belongs to another user: name yours with GPREEMPT_SOCKET",
        path.display()
    )]
    Denied {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It does not answer.
    #[error(
        "the daemon at {} did not answer within {} s; is it stopped? `systemctl restart gpreempt` starts it anew",
        path.display(),
        patience.as_secs_f64()
    )]
    Silent {
        /// Where.
        path: PathBuf,
        /// How long it had.
        patience: Duration,
    },
    /// The connection broke.
    #[error("the daemon at {} ended the connection: {reason}", path.display())]
    Lost {
        /// Where.
        path: PathBuf,
        /// What is known.
        reason: String,
    },
    /// It says what this version does not know.
    #[error(
        "the answer of {} is not of version {VERSION} of the protocol: {reason}; are command and daemon of one release?",
        path.display()
    )]
    Malformed {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It was not done.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: UnixStream,
    /// What was received and not yet used.
    received: Vec<u8>,
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

    /// Connects to the daemon at this socket, which may take so long for this and for each answer.
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
        Ok(Client { path: path.to_owned(), stream, received: Vec::new(), patience })
    }

    /// Asks, and waits for the answer. What was refused is an error.
    ///
    /// # Errors
    ///
    /// If the daemon refuses, does not answer in time, or goes away.
    pub fn call(&mut self, request: Request) -> Result<Answer, ClientError> {
        self.send(request)?;
        let deadline = Instant::now() + self.patience;
        match self.answer(Some(deadline))? {
            Answer::Refused(refusal) => Err(refusal.into()),
            Answer::Other => Err(self.malformed(&"an answer of a kind that this version does not know")),
            answer => Ok(answer),
        }
    }

    /// Asks for events from now on.
    ///
    /// # Errors
    ///
    /// If the daemon cannot be told. That it refuses is seen in the first event.
    pub fn watch(mut self) -> Result<Events, ClientError> {
        self.send(Request::Watch)?;
        Ok(Events { client: self, stopped: Arc::default() })
    }

    fn send(&mut self, request: Request) -> Result<(), ClientError> {
        let mut line = serde_json::to_vec(&Call::new(request)).map_err(|error| self.malformed(&error))?;
        line.push(b'\n');
        self.stream.write_all(&line).map_err(|error| self.broken(&error))
    }

    /// The next line; `None` for a deadline waits for ever.
    fn answer(&mut self, deadline: Option<Instant>) -> Result<Answer, ClientError> {
        let mut searched = 0;
        loop {
            let end = self.received[searched..].iter().position(|&byte| byte == b'\n');
            if let Some(end) = end.map(|end| searched + end) {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return serde_json::from_slice(&line).map_err(|error| self.malformed(&error));
            }
            searched = self.received.len();
            if searched > LONGEST_LINE {
                return Err(self.malformed(&format!("a line of more than {LONGEST_LINE} bytes")));
            }
            self.receive(deadline)?;
        }
    }

    fn receive(&mut self, deadline: Option<Instant>) -> Result<(), ClientError> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(self.silent());
        }
        let mut bytes = [0; 16 * 1024];
        let read = self.stream.set_read_timeout(left).and_then(|()| self.stream.read(&mut bytes));
        match read {
            Ok(0) => Err(self.broken(&"it closed it; its log says why (`journalctl -u gpreempt`)")),
            Ok(count) => {
                self.received.extend_from_slice(&bytes[..count]);
                Ok(())
            }
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

/// What happens, as it happens: [`Answer::Event`] and [`Answer::Missed`]. The last item may be an error; a daemon that
/// goes away is one.
#[derive(Debug)]
pub struct Events {
    client: Client,
    stopped: Arc<AtomicBool>,
}

impl Events {
    /// Something with which another thread can end the wait for the next event.
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
    /// Ends it: there is no next event.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // A connection that is gone already has nothing to wait for.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Connects within a time: a daemon that is stopped lets connections queue up until there is no room, and then those who
/// connect would wait for ever.
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
