//! One connection: input cut into lines, answers queued for output, both bounded.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use gpreempt_core::Nanos;
use gpreempt_proto::Answer;
use gpreempt_proto::frame::LineBuffer;
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, send};

use super::line::{self, LONGEST_REQUEST};
use super::peer::Peer;

/// Unsent bytes above which no call is taken from a client and no event is added: the client must read first.
const UNSENT: usize = 64 * 1024;

/// Longest time for a client to read nothing of its answers. Watching clients have no limit: they lose events, not
/// memory.
const STUCK: Nanos = Nanos::from_secs(10);

/// Malformed calls before a connection is closed.
const MOST_MALFORMED: u32 = 16;

/// What the client's oldest unanswered call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// It has none.
    Nothing,
    /// For a publication that is new enough.
    Publication { question: Question, asked: Nanos },
    /// For the host, which answers to this ticket.
    Host { ticket: u64, until: Nanos },
}

/// Requests that are answered from a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Status,
    Stats,
}

/// A line of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    stream: UnixStream,
    pub(super) peer: Peer,
    /// The process that connected, if it is visible from here.
    pub(super) pid: Option<u32>,
    pub(super) waiting: Waiting,
    /// The number of the next event it is to see.
    pub(super) watches: Option<u64>,
    input: LineBuffer,
    /// The client sends no more; it may still read.
    ended: bool,
    output: Vec<u8>,
    sent: usize,
    /// Since when nothing could be sent.
    stuck: Option<Nanos>,
    malformed: u32,
    /// Nothing more is taken from it, and it is closed when everything is sent.
    closing: bool,
}

impl Client {
    pub(super) fn new(stream: UnixStream, peer: Peer, pid: Option<u32>) -> Client {
        Client {
            stream,
            peer,
            pid,
            waiting: Waiting::Nothing,
            watches: None,
            input: LineBuffer::new(LONGEST_REQUEST),
            ended: false,
            output: Vec::new(),
            sent: 0,
            stuck: None,
            malformed: 0,
            closing: false,
        }
    }

    /// Returns the events to poll for.
    pub(super) fn interest(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, !self.ended && self.attentive() && !self.input.is_full());
        flags.set(PollFlags::POLLOUT, self.unsent() > 0);
        flags
    }

    /// Returns whether its next call may be taken now.
    fn attentive(&self) -> bool {
        self.waiting == Waiting::Nothing && !self.closing && self.has_room()
    }

    /// Whether more may be put into its output.
    pub(super) fn has_room(&self) -> bool {
        self.unsent() < UNSENT
    }

    fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Reads what is available, up to the length of a request.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        if self.ended || !self.attentive() {
            return Ok(());
        }
        while !self.input.is_full() {
            match self.input.fill(&mut self.stream) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the next line if there is one and it may be taken. The last one needs no end.
    pub(super) fn next_line(&mut self) -> Option<Line> {
        if !self.attentive() {
            return None;
        }
        match self.input.next_line() {
            Ok(Some(line)) => Some(Line::Whole(line)),
            Ok(None) if self.ended => self.input.take_rest().map(Line::Whole),
            Ok(None) => None,
            Err(_) => Some(Line::TooLong),
        }
    }

    /// Whether there may be another line without anything being read.
    pub(super) fn has_more(&self) -> bool {
        self.attentive() && !self.input.is_empty() && (self.ended || self.input.may_have_line())
    }

    /// Puts an answer into the output.
    pub(super) fn push(&mut self, answer: &Answer) {
        self.output.extend_from_slice(&line::render(answer));
    }

    /// Takes nothing more from this client and closes it when its output is sent.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.watches = None;
        self.input.clear();
    }

    /// Counts a malformed call; closes a client that sent too many.
    pub(super) fn count_malformed(&mut self) {
        self.malformed += 1;
        if self.malformed >= MOST_MALFORMED {
            self.close();
        }
    }

    /// Sends what the client takes.
    pub(super) fn flush(&mut self, now: Nanos) -> io::Result<()> {
        while self.unsent() > 0 {
            // Without a signal: one user's broken pipe must not end the daemon, whatever the program does with signals.
            match send(self.stream.as_raw_fd(), &self.output[self.sent..], MsgFlags::MSG_NOSIGNAL) {
                Ok(count) => {
                    self.sent += count;
                    self.stuck = None;
                }
                Err(Errno::EAGAIN) => {
                    self.stuck.get_or_insert(now);
                    return Ok(());
                }
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.output = Vec::new();
        self.sent = 0;
        Ok(())
    }

    /// Returns whether the connection can be dropped.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        let stuck = self.stuck_until().is_some_and(|until| now >= until);
        let silent = self.unsent() == 0 && self.waiting == Waiting::Nothing;
        stuck || silent && (self.closing || self.ended && self.watches.is_none() && self.input.is_empty())
    }

    /// Returns when [`Client::is_over`] changes by itself.
    pub(super) fn stuck_until(&self) -> Option<Nanos> {
        let since = self.stuck.filter(|_| self.watches.is_none())?;
        Some(since.plus(STUCK))
    }

    /// Returns whether a client that hung up can have unread calls.
    pub(super) fn may_have_sent(&self) -> bool {
        !self.ended && self.attentive()
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
