//! Files of the virtual gpu: what is where, and descriptors for it.

use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::paths::{MODULES, is_shared};
use super::session::{self, Session};
use crate::protocol::{FILE_PREFIX, Reply, SupervisorRequest};
use crate::sys;
use crate::sysfs::{DeviceKind, DirEntry, Node};

/// Links are followed this often.
const MAX_LINKS: u32 = 16;

/// What only root may look into: the directory that debugfs is mounted on lets no other user pass.
const DEBUGFS: &str = "/sys/kernel/debug/";

/// What is at a normalised path of ours; a link is answered as a link.
///
/// # Errors
/// ENOENT, ENODEV if the gpu is lost, or EACCES if the path leads through a directory that is not for this user.
pub fn lookup(path: &str) -> Result<Node, i32> {
    // SAFETY: takes no argument and cannot fail.
    if path.starts_with(DEBUGFS) && unsafe { libc::geteuid() } != 0 {
        return Err(libc::EACCES);
    }
    find(path)
}

/// Returns the path that a descriptor of ours stands for.
///
/// # Errors
/// ENOENT, or ENODEV if the gpu is lost.
pub fn node_of(fd: RawFd) -> Option<Result<(String, Node), i32>> {
    let path = path_of(fd)?;
    Some(find(&path).map(|node| (path, node)))
}

fn find(path: &str) -> Result<Node, i32> {
    if path == MODULES {
        return Ok(Node::File(modules()));
    }
    let session = session::get().ok_or(libc::ENODEV)?;
    match session.ask(&SupervisorRequest::Lookup { path: path.to_owned() }, &[]) {
        Some(Reply::Found(Some(node))) => Ok(node),
        Some(_) => Err(libc::ENOENT),
        None => Err(libc::ENODEV),
    }
}

/// The real list of modules with the driver's added.
fn modules() -> String {
    let mut text = read_real_modules().unwrap_or_default();
    text.push_str("amdgpu 12345678 0 - Live 0x0000000000000000\n");
    text
}

/// Reads the real file past our own hook for it.
fn read_real_modules() -> Option<String> {
    use std::io::Read;
    use std::os::fd::FromRawFd;
    // SAFETY: the path is a C string; a new descriptor is owned by nothing else.
    let mut file = unsafe {
        let fd = libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD,
            c"/proc/modules".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        );
        if fd < 0 {
            return None;
        }
        std::fs::File::from_raw_fd(fd as RawFd)
    };
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

/// What is at a path after all links, and the path that leads there without any.
///
/// # Errors
/// As [`lookup`], and ELOOP.
pub fn resolve(path: &str) -> Result<(String, Node), i32> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match lookup(&path)? {
            Node::Link(text) => path = follow(&path, &text).ok_or(libc::ENOENT)?,
            node => return Ok((path, node)),
        }
    }
    Err(libc::ELOOP)
}

/// Where a link leads.
fn follow(from: &str, text: &str) -> Option<String> {
    if text.starts_with('/') {
        return super::normalise(text.as_bytes());
    }
    let (directory, _) = from.rsplit_once('/')?;
    super::normalise(format!("{directory}/{text}").as_bytes())
}

/// Opens what is at a path.
///
/// # Errors
/// As [`lookup`], and what the flags do not allow.
pub fn open(path: &str, flags: i32) -> Result<RawFd, i32> {
    if flags & (libc::O_NOFOLLOW | libc::O_PATH) == libc::O_NOFOLLOW && matches!(lookup(path)?, Node::Link(_)) {
        return Err(libc::ELOOP);
    }
    let (path, node) = resolve(path)?;
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    let create = libc::O_CREAT | libc::O_EXCL;
    if flags & create == create {
        return Err(libc::EEXIST);
    }
    let failed = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let fd = match node {
        Node::Dir(_) if writes => return Err(libc::EISDIR),
        Node::Dir(_) => sys::memfd(&format!("{FILE_PREFIX}{path}"), 0).map_err(failed)?,
        _ if flags & libc::O_DIRECTORY != 0 => return Err(libc::ENOTDIR),
        Node::File(_) if writes => return Err(libc::EACCES),
        Node::File(text) => file_of(&path, &text).map_err(failed)?,
        Node::Device(kind) => device(kind)?,
        Node::Link(_) => return Err(libc::ELOOP),
    };
    if flags & libc::O_CLOEXEC == 0 {
        // SAFETY: a system call on a descriptor of ours.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) };
    }
    Ok(fd.into_raw_fd())
}

fn file_of(path: &str, text: &str) -> std::io::Result<OwnedFd> {
    use std::io::Write;
    let mut file = std::fs::File::from(sys::memfd(&format!("{FILE_PREFIX}{path}"), 0)?);
    sys::check_size_limit(text.len() as u64)?;
    file.write_all(text.as_bytes())?;
    sys::reopen_read_only(file.as_fd())
}

fn device(kind: DeviceKind) -> Result<OwnedFd, i32> {
    let session: &'static Session = session::get().ok_or(libc::ENODEV)?;
    let attached = session.attach()?;
    match kind {
        DeviceKind::Kfd => attached.open_kfd_anew(),
        DeviceKind::Render(minor) => attached.open_render(minor),
    }
}

/// Name of the file behind all render nodes of a process; which one a descriptor is says its file position, which
/// copies of the descriptor share and which nothing else uses.
pub(super) const RENDER: &str = "/dev/dri/renderD";
/// The path of the driver, and the name of its file.
pub(super) const KFD: &str = "/dev/kfd";

/// Bits of the position that are the minor number. Those above tell one opening from another.
const MINOR_BITS: u32 = 16;

/// The file position of the next opening of a render node; of `/dev/kfd`, whose minor number is 0. The first files of a
/// process have position 0, which is none.
pub(super) fn next_opening(minor: u32) -> i64 {
    static OPENINGS: AtomicU32 = AtomicU32::new(1);
    i64::from(OPENINGS.fetch_add(1, Ordering::Relaxed)) << MINOR_BITS | i64::from(minor)
}

/// Minor number and opening of a descriptor of a device.
pub(super) fn opening_of(fd: RawFd) -> Option<(u32, u64)> {
    // SAFETY: asks for the position of a descriptor.
    let position = u64::try_from(unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }).ok()?;
    Some(((position & ((1 << MINOR_BITS) - 1)) as u32, position >> MINOR_BITS))
}

/// The path that a descriptor of ours stands for.
pub fn path_of(fd: RawFd) -> Option<String> {
    let name = sys::name_of(fd, FILE_PREFIX)?;
    if name != RENDER {
        return Some(name);
    }
    let (minor, _) = opening_of(fd)?;
    Some(format!("{RENDER}{minor}"))
}

/// Returns the path of a directory that relative paths start from: one of ours, or one of the machine from which paths
/// may lead to ours. `AT_FDCWD` is the working directory.
pub fn directory_path(fd: RawFd) -> Option<String> {
    if fd != libc::AT_FDCWD
        && let Some(path) = path_of(fd)
    {
        return Some(path);
    }
    let link = if fd == libc::AT_FDCWD { "/proc/self/cwd".to_owned() } else { format!("/proc/self/fd/{fd}") };
    let path = sys::read_link(&link)?;
    let leads_to_ours = path == "/" || ["/dev", "/sys", "/proc"].iter().any(|top| path.starts_with(top));
    leads_to_ours.then_some(path)
}

/// Returns the entries that the virtual gpu adds to a directory of the machine; none for other directories.
pub fn added_entries(fd: RawFd) -> Vec<DirEntry> {
    let Some(path) = directory_path(fd).filter(|path| is_shared(path)) else { return Vec::new() };
    match lookup(&path) {
        Ok(Node::Dir(entries)) => entries,
        Ok(Node::File(_) | Node::Link(_) | Node::Device(_)) | Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_render_descriptor_are_one_opening_and_others_are_not() {
        let open = || {
            let file = std::fs::File::from(sys::memfd(&format!("{FILE_PREFIX}{RENDER}"), 0).expect("a file"));
            // SAFETY: moves the position of a descriptor of ours.
            unsafe { libc::lseek(file.as_raw_fd(), next_opening(129), libc::SEEK_SET) };
            file
        };
        let (first, second) = (open(), open());
        let copy = first.try_clone().expect("a copy");
        assert_eq!(opening_of(first.as_raw_fd()), opening_of(copy.as_raw_fd()));
        assert_ne!(opening_of(first.as_raw_fd()), opening_of(second.as_raw_fd()));
        assert_eq!(opening_of(second.as_raw_fd()).map(|(minor, _)| minor), Some(129));
        assert_eq!(path_of(second.as_raw_fd()).as_deref(), Some("/dev/dri/renderD129"));
    }
}
