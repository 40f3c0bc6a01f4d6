//! The thread that serves the socket.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gpreempt_core::Nanos;
use gpreempt_proto::{Answer, Refusal, RefusalKind};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::geteuid;

use super::client::Client;
use super::handler::RequestHandler;
use super::peer::Peer;
use super::publisher::Publisher;
use super::reload::LoadConfig;
use super::socket::{ServerError, Socket};
use crate::clock;
use crate::inbox::InputSender;

/// Connections at once.
const MOST_CLIENTS: usize = 256;
/// Of these, connections reserved for operators, who can then always connect.
const RESERVED: usize = 16;
/// Connections of one other user.
const MOST_PER_USER: usize = 32;
/// Connections accepted before it is the clients' turn.
const ACCEPTS_PER_TURN: usize = 64;
/// Pause in accepting after the system had no descriptor left.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);

/// A bound socket: clients can connect and wait.
#[derive(Debug)]
pub struct Server {
    socket: Socket,
}

impl Server {
    /// Binds the socket. Replaces one that a daemon left behind, but not one that is served.
    ///
    /// # Errors
    ///
    /// If another daemon serves it, or the system refuses.
    pub fn bind(path: &Path) -> Result<Server, ServerError> {
        Ok(Server { socket: Socket::bind(path)? })
    }

    /// Serves the socket in a thread until the handle is dropped.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub fn start(self, publisher: Arc<Publisher>, to_host: InputSender, load: LoadConfig) -> io::Result<Handle> {
        let signs = Arc::new(Signs::default());
        let loop_ = Loop {
            socket: self.socket,
            handler: RequestHandler::new(Arc::clone(&publisher), to_host, load),
            publisher: Arc::clone(&publisher),
            signs: Arc::clone(&signs),
            clients: BTreeMap::new(),
            next_client: 0,
            accept_after: None,
            daemon_uid: geteuid().as_raw(),
        };
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(move || loop_.run())?;
        Ok(Handle { signs, publisher, thread: Some(thread) })
    }
}

/// Flags for the thread.
#[derive(Debug, Default)]
struct Signs {
    stop: AtomicBool,
    reload: AtomicBool,
}

/// Handle of the serving thread. On drop the thread sends the answers that are ready, closes all connections and
/// removes the socket.
#[derive(Debug)]
pub struct Handle {
    signs: Arc<Signs>,
    publisher: Arc<Publisher>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Lets the thread read the configuration again, as [`Request::Reload`](gpreempt_proto::Request::Reload) does.
    pub fn reload(&self) {
        self.signs.reload.store(true, Ordering::Release);
        self.publisher.waker().wake();
    }

    /// Returns whether the thread still serves.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.signs.stop.store(true, Ordering::Release);
        self.publisher.waker().wake();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

struct Loop {
    socket: Socket,
    handler: RequestHandler,
    publisher: Arc<Publisher>,
    signs: Arc<Signs>,
    clients: BTreeMap<u64, Client>,
    next_client: u64,
    /// No connection is accepted before this instant, because there was no descriptor left.
    accept_after: Option<Nanos>,
    daemon_uid: u32,
}

/// Descriptors that are ready.
#[derive(Default)]
struct Happened {
    connected: bool,
    clients: Vec<(u64, PollFlags)>,
}

impl Loop {
    fn run(mut self) {
        while !self.signs.stop.load(Ordering::Acquire) {
            let happened = match self.wait() {
                Ok(happened) => happened,
                Err(error) => {
                    tracing::error!("the control socket is not served any more: {error}");
                    return;
                }
            };
            let now = clock::now();
            if self.signs.reload.swap(false, Ordering::AcqRel) {
                self.handler.reload();
            }
            if happened.connected {
                self.accept(now);
            }
            for (id, flags) in happened.clients {
                self.hear(id, flags);
            }
            self.turn(now);
        }
        // Changes that the host has carried out, or dropped because it ended, are still told.
        self.turn(clock::now());
    }

    /// Serves requests, delivers answers and events, and sends.
    fn turn(&mut self, now: Nanos) {
        // First the calls, so that a change that is answered now is not overtaken by the same client's next call.
        for client in self.clients.values_mut() {
            self.handler.serve(client, now);
        }
        self.handler.deliver(self.clients.values_mut(), now);
        for client in self.clients.values_mut() {
            self.handler.show_events(client);
        }
        self.clients.retain(|_, client| client.flush(now).is_ok() && !client.is_over(now));
        self.publisher.set_watched(self.clients.values().any(|client| client.watches.is_some()));
        // Events that came before the publisher knew of a new watching client woke no thread.
        for client in self.clients.values_mut() {
            self.handler.show_events(client);
        }
    }

    fn wait(&mut self) -> io::Result<Happened> {
        let now = clock::now();
        if self.accept_after.is_some_and(|after| now >= after) {
            self.accept_after = None;
        }
        let timeout = self.timeout(now);
        let accepting = if self.accept_after.is_none() { PollFlags::POLLIN } else { PollFlags::empty() };
        let mut polled = vec![
            PollFd::new(self.publisher.waker().as_fd(), PollFlags::POLLIN),
            PollFd::new(self.socket.listener.as_fd(), accepting),
        ];
        polled.extend(self.clients.values().map(|client| PollFd::new(client.as_fd(), client.interest())));
        match poll(&mut polled, timeout) {
            Ok(_) => {}
            Err(Errno::EINTR | Errno::EAGAIN) => return Ok(Happened::default()),
            Err(error) => return Err(error.into()),
        }
        let flags = |entry: &PollFd<'_>| entry.revents().unwrap_or(PollFlags::empty());
        let ready = polled[2..].iter().zip(self.clients.keys()).map(|(entry, id)| (*id, flags(entry)));
        let happened = Happened {
            connected: flags(&polled[1]).contains(PollFlags::POLLIN),
            clients: ready.filter(|(_, flags)| !flags.is_empty()).collect(),
        };
        self.publisher.waker().clear();
        Ok(happened)
    }

    fn timeout(&self, now: Nanos) -> PollTimeout {
        if self.clients.values().any(Client::has_more) {
            return PollTimeout::ZERO;
        }
        let due = self.clients.values().flat_map(|client| [self.handler.due(client), client.stuck_until()]).flatten();
        let Some(due) = due.chain(self.accept_after).min() else { return PollTimeout::NONE };
        // One more, because the rest of a millisecond is cut off.
        let wait = Duration::from_nanos(due.since(now).0) + Duration::from_millis(u64::from(due > now));
        PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)
    }

    /// Reads from a client; removes one that disconnected.
    fn hear(&mut self, id: u64, flags: PollFlags) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let broken = flags.intersects(PollFlags::POLLERR | PollFlags::POLLNVAL);
        let gone = flags.contains(PollFlags::POLLHUP) && !client.may_have_sent();
        let readable = flags.intersects(PollFlags::POLLIN | PollFlags::POLLHUP);
        if broken || gone || readable && client.receive().is_err() {
            self.clients.remove(&id);
        }
    }

    fn accept(&mut self, now: Nanos) {
        for _ in 0..ACCEPTS_PER_TURN {
            match self.socket.listener.accept() {
                Ok((stream, _)) => self.admit(stream, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                }
                Err(error) => {
                    // The connection stays in the queue, so that polling would return at once, again and again.
                    tracing::warn!("cannot accept a control connection: {error}; trying again in 100 ms");
                    self.accept_after = Some(now.plus(ACCEPT_PAUSE));
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: UnixStream, now: Nanos) {
        let Ok(credentials) = getsockopt(&stream, sockopt::PeerCredentials) else { return };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let peer = Peer { uid: credentials.uid(), daemon_uid: self.daemon_uid };
        let pid = u32::try_from(credentials.pid()).ok().filter(|&pid| pid != 0);
        let same_user = self.clients.values().filter(|client| client.peer.uid == peer.uid).count();
        let mut client = Client::new(stream, peer, pid);
        match room_for(peer, self.clients.len(), same_user) {
            Ok(()) => {
                self.clients.insert(self.next_client, client);
                self.next_client += 1;
            }
            Err(refusal) => {
                client.push(&Answer::Refused(refusal));
                // An empty socket takes one line; then it is closed.
                let _ = client.flush(now);
            }
        }
    }
}

/// Decides whether one more connection is accepted.
fn room_for(peer: Peer, clients: usize, same_user: usize) -> Result<(), Refusal> {
    let busy = |message| Err(Refusal { kind: RefusalKind::Busy, message });
    let most = if peer.is_operator() { MOST_CLIENTS } else { MOST_CLIENTS - RESERVED };
    if clients >= most {
        return busy(format!("{clients} clients are connected, no more are accepted; try again when some have gone"));
    }
    if !peer.is_operator() && same_user >= MOST_PER_USER {
        let uid = peer.uid;
        return busy(format!("user {uid} has {same_user} connections, no more are accepted; close some of them"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_cannot_take_all_connections_and_an_operator_gets_in() {
        let user = Peer { uid: 1000, daemon_uid: 0 };
        let root = Peer { uid: 0, daemon_uid: 0 };
        assert!(room_for(user, 100, 31).is_ok());
        assert!(room_for(user, 100, 32).unwrap_err().message.contains("user 1000 has 32"));
        assert!(room_for(user, 239, 0).is_ok());
        assert_eq!(room_for(user, 240, 0).unwrap_err().kind, RefusalKind::Busy);
        assert!(room_for(root, 255, 255).is_ok());
        assert_eq!(room_for(root, 256, 0).unwrap_err().kind, RefusalKind::Busy);
    }
}
