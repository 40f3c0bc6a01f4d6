//! Frames over Unix sockets, with descriptors where needed.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// Longest frame in bytes: far above what either side sends, far below what exhausts memory.
const LONGEST: usize = 64 << 20;
/// Most descriptors with one frame.
const MOST_FDS: usize = 8;

/// One received message.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// The bytes, without the length that precedes them on the wire.
    pub(crate) bytes: Vec<u8>,
    /// Descriptors that came with it.
    pub(crate) fds: Vec<OwnedFd>,
}

/// Listens on an abstract address, which leaves no file behind.
///
/// # Errors
/// What bind and listen report.
pub(crate) fn abstract_listener(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Connects to an abstract address.
///
/// # Errors
/// What connect reports.
pub(crate) fn connect(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Returns process and user of the other end, as they were when it connected. The process is 0 if it lives in a pid
/// namespace that this process does not see; `rustix` has no value for that, hence libc.
///
/// # Errors
/// What getsockopt reports.
pub(crate) fn peer(stream: &UnixStream) -> io::Result<(i32, u32)> {
    let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of_val(&cred) as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the kernel writes at most `length` bytes to `cred`; both live through the call.
    let result = unsafe { libc::getsockopt(stream.as_raw_fd(), level, name, (&raw mut cred).cast(), &raw mut length) };
    if result != 0 { Err(io::Error::last_os_error()) } else { Ok((cred.pid, cred.uid)) }
}

/// Sends one frame.
///
/// # Errors
/// `InvalidInput` for too many descriptors or bytes, and what sendmsg reports.
pub(crate) fn send(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if bytes.len() > LONGEST || fds.len() > MOST_FDS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut message = Vec::with_capacity(bytes.len() + 4);
    message.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    message.extend_from_slice(bytes);
    let mut sent = send_with(stream, &message, fds)?;
    while sent < message.len() {
        sent += send_with(stream, &message[sent..], &[])?;
    }
    Ok(())
}

fn send_with(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let sent = retry_on_intr(|| {
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::INVAL);
        }
        sendmsg(stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)
    })?;
    Ok(sent)
}

/// Receives one frame; `None` at the end of the stream.
///
/// # Errors
/// `InvalidData` for a frame that is too long, `UnexpectedEof` for one that is cut off, and what recvmsg reports.
pub(crate) fn receive(stream: &UnixStream) -> io::Result<Option<Frame>> {
    let mut frame = Frame::default();
    let mut length = [0; 4];
    if !fill(stream, &mut length, &mut frame.fds)? {
        return Ok(None);
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    frame.bytes = vec![0; length];
    if !fill(stream, &mut frame.bytes, &mut frame.fds)? && length > 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(frame))
}

/// Fills the buffer. Returns false if the stream ended before its first byte.
fn fill(stream: &UnixStream, buffer: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let mut done = 0;
    while done < buffer.len() {
        match receive_with(stream, &mut buffer[done..], fds)? {
            0 if done == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    Ok(true)
}

fn receive_with(stream: &UnixStream, buffer: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        retry_on_intr(|| recvmsg(stream, &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC))?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    Ok(received.bytes)
}
