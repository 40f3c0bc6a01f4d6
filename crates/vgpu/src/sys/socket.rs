//! Frames over Unix sockets, with descriptors if need be.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// Longest frame: far above anything that is sent, far below what hurts.
const LONGEST: usize = 64 << 20;
/// Most descriptors with one frame.
const MOST_FDS: usize = 8;

/// One message.
#[derive(Debug, Default)]
pub struct Frame {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

/// Listens on an abstract address, which leaves nothing behind.
///
/// # Errors
/// What the operating system says.
pub fn abstract_listener(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Connects to an abstract address.
///
/// # Errors
/// What the operating system says.
pub fn connect(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Who is at the other end: process and user.
///
/// # Errors
/// What the operating system says.
pub fn peer(stream: &UnixStream) -> io::Result<(i32, u32)> {
    let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of_val(&cred) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `cred`.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut cred).cast(),
            &raw mut length,
        )
    };
    if result != 0 { Err(io::Error::last_os_error()) } else { Ok((cred.pid, cred.uid)) }
}

#[repr(C, align(8))]
struct Ancillary([u8; 128]);

/// Sends one frame.
///
/// # Errors
/// What the operating system says, and too many descriptors or bytes.
pub fn send(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
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
    let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut ancillary = Ancillary([0; 128]);
    // SAFETY: all zeros is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if !raw.is_empty() {
        let payload = size_of_val(raw.as_slice());
        header.msg_control = ancillary.0.as_mut_ptr().cast();
        // SAFETY: `ancillary` has room for MOST_FDS descriptors and one header; the macros stay in it.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(payload as u32) as _;
            let cmsg = libc::CMSG_FIRSTHDR(&raw const header);
            (*cmsg).cmsg_level = libc::SOL_SOCKET;
            (*cmsg).cmsg_type = libc::SCM_RIGHTS;
            (*cmsg).cmsg_len = libc::CMSG_LEN(payload as u32) as _;
            std::ptr::copy_nonoverlapping(raw.as_ptr().cast::<u8>(), libc::CMSG_DATA(cmsg), payload);
        }
    }
    loop {
        // SAFETY: everything the header points to lives through the call.
        let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
        match usize::try_from(sent) {
            Ok(sent) => return Ok(sent),
            Err(_) => retry()?,
        }
    }
}

/// Whether the call that failed just now is to be repeated.
fn retry() -> io::Result<()> {
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

/// Receives one frame; `None` at the end of the stream.
///
/// # Errors
/// What the operating system says, and frames that are too long or cut off.
pub fn receive(stream: &UnixStream) -> io::Result<Option<Frame>> {
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

/// Fills the buffer; false if the stream ended before its first byte.
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
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut ancillary = Ancillary([0; 128]);
    // SAFETY: all zeros is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = ancillary.0.as_mut_ptr().cast();
    header.msg_controllen = ancillary.0.len() as _;
    let count = loop {
        // SAFETY: the kernel writes at most the lengths given to the places given.
        let count = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        match usize::try_from(count) {
            Ok(count) => break count,
            Err(_) => retry()?,
        }
    };
    // SAFETY: the macros walk the control buffer that the kernel filled; descriptors in it are new and ours.
    unsafe {
        let mut cmsg = libc::CMSG_FIRSTHDR(&raw const header);
        while !cmsg.is_null() {
            if (*cmsg).cmsg_level == libc::SOL_SOCKET && (*cmsg).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*cmsg).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(cmsg).cast::<RawFd>();
                for n in 0..bytes / size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(n).read_unaligned()));
                }
            }
            cmsg = libc::CMSG_NXTHDR(&raw const header, cmsg);
        }
    }
    Ok(count)
}
