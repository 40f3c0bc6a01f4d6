//! Listing directories.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_long};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use vgpu::client::{self, EntryKind, Node};

use crate::real::real;
use crate::text::path;

/// A directory of ours that the program has open. Its address is the `DIR *` the program holds.
struct Open {
    fd: c_int,
    names: Vec<(String, EntryKind)>,
    next: usize,
    entry: libc::dirent64,
}

/// How many there are: almost always none, and then the lock is not taken.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static OPEN: Mutex<Table> = Mutex::new(None);
/// The lock while the process forks: the child must find it free, even if a thread lists a directory at that moment.
static FORKING: AtomicPtr<MutexGuard<'static, Table>> = AtomicPtr::new(std::ptr::null_mut());

type Table = Option<HashMap<usize, Box<Open>>>;

fn open_directories() -> MutexGuard<'static, Table> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes forks wait for the lock. The allocator must have done the same before.
pub(crate) fn watch_forks() {
    extern "C" fn before() {
        let guard = Box::into_raw(Box::new(open_directories()));
        FORKING.store(guard, Ordering::Release);
    }
    extern "C" fn after() {
        let guard = FORKING.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !guard.is_null() {
            // SAFETY: comes from `before`, and the lock it holds keeps other threads out.
            drop(unsafe { Box::from_raw(guard) });
        }
    }
    // SAFETY: the handlers live as long as this library.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
}

fn with<T>(directory: *mut libc::DIR, then: impl FnOnce(&mut Open) -> T) -> Option<T> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    open_directories().as_mut()?.get_mut(&directory.addr()).map(|open| then(open))
}

/// Makes a directory stream over a descriptor of ours.
fn stream(fd: c_int) -> Result<*mut libc::DIR, i32> {
    let (_, node) = client::node_of(fd).unwrap_or(Err(libc::EBADF))?;
    let Node::Dir(entries) = node else { return Err(libc::ENOTDIR) };
    let mut names = vec![(".".to_owned(), EntryKind::Dir), ("..".to_owned(), EntryKind::Dir)];
    names.extend(entries.into_iter().map(|entry| (entry.name, entry.kind)));
    Ok(register(fd, names))
}

/// Makes a stream of these names, which owns the descriptor.
fn register(fd: c_int, names: Vec<(String, EntryKind)>) -> *mut libc::DIR {
    // SAFETY: all zeros is a valid entry.
    let entry = unsafe { std::mem::zeroed() };
    let mut open = Box::new(Open { fd, names, next: 0, entry });
    let address = std::ptr::from_mut(&mut *open);
    open_directories().get_or_insert_with(HashMap::new).insert(address.addr(), open);
    COUNT.fetch_add(1, Ordering::Release);
    address.cast()
}

/// Makes a directory stream over a directory of the machine to which the virtual gpu adds entries. `None` for all other
/// directories.
fn joint_stream(fd: c_int) -> Option<Result<*mut libc::DIR, i32>> {
    let added = client::added_entries(fd);
    if added.is_empty() {
        return None;
    }
    Some(real_entries(fd).map(|mut names| {
        for entry in added {
            names.retain(|(name, _)| *name != entry.name);
            names.push((entry.name, entry.kind));
        }
        register(fd, names)
    }))
}

/// Whether a path may be that of a directory to which entries are added: most are not, and need no further look.
fn may_be_shared(at: *const c_char) -> bool {
    if at.is_null() {
        return false;
    }
    // SAFETY: the caller of `opendir` passes a C string.
    let path = unsafe { std::ffi::CStr::from_ptr(at) }.to_bytes();
    !path.starts_with(b"/") || path.starts_with(b"/dev") || path.starts_with(b"/sys")
}

/// Lists a directory of the machine, past our own hooks.
fn real_entries(fd: c_int) -> Result<Vec<(String, EntryKind)>, i32> {
    // Aligned for the records that the kernel writes.
    let mut room = [0_u64; 4096];
    let mut names = Vec::new();
    loop {
        // SAFETY: the kernel writes at most as many bytes as there are.
        let length = unsafe { libc::syscall(libc::SYS_getdents64, fd, room.as_mut_ptr(), size_of_val(&room)) };
        let Ok(length) = usize::try_from(length) else {
            return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO));
        };
        if length == 0 {
            return Ok(names);
        }
        let bytes: Vec<u8> = room.iter().flat_map(|word| word.to_ne_bytes()).take(length).collect();
        names.extend(records(&bytes));
    }
}

/// Reads the records of `getdents64`: number, position, length, kind, and a name that ends with a zero.
fn records(mut bytes: &[u8]) -> Vec<(String, EntryKind)> {
    const LENGTH: usize = std::mem::offset_of!(libc::dirent64, d_reclen);
    const KIND: usize = std::mem::offset_of!(libc::dirent64, d_type);
    const NAME: usize = std::mem::offset_of!(libc::dirent64, d_name);
    let mut names = Vec::new();
    while let Some(&[low, high]) = bytes.get(LENGTH..LENGTH + 2) {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let (Some(name), Some(kind)) = (bytes.get(NAME..length), bytes.get(KIND)) else { break };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let kind = match *kind {
            libc::DT_DIR => EntryKind::Dir,
            libc::DT_CHR | libc::DT_BLK => EntryKind::Device,
            libc::DT_LNK => EntryKind::Link,
            _ => EntryKind::File,
        };
        names.push((String::from_utf8_lossy(name).into_owned(), kind));
        bytes = bytes.get(length..).unwrap_or_default();
    }
    names
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn opendir(at: *const c_char) -> *mut libc::DIR {
    let ours = crate::ours(std::ptr::null_mut(), || {
        const FLAGS: c_int = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        if let Some(path) = path(at) {
            return Some(client::open(&path, FLAGS).and_then(stream));
        }
        if !client::is_in_use() || !may_be_shared(at) {
            return None;
        }
        // SAFETY: the caller passes a C string; `syscall` because `open` is one of our own hooks.
        let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, at, FLAGS) };
        let fd = c_int::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        let joint = joint_stream(fd);
        if !matches!(joint, Some(Ok(_))) {
            // SAFETY: no other code knows the descriptor.
            unsafe { libc::close(fd) };
        }
        joint
    });
    ours.unwrap_or_else(|| real!(c"opendir", std::ptr::null_mut(), fn(*const c_char) -> *mut libc::DIR, at))
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fdopendir(fd: c_int) -> *mut libc::DIR {
    let ours = crate::ours(std::ptr::null_mut(), || {
        if !client::is_in_use() {
            return None;
        }
        match client::path_of(fd) {
            Some(_) => Some(stream(fd)),
            None => joint_stream(fd),
        }
    });
    ours.unwrap_or_else(|| real!(c"fdopendir", std::ptr::null_mut(), fn(c_int) -> *mut libc::DIR, fd))
}

fn next_entry(open: &mut Open) -> *mut libc::dirent64 {
    let Some((name, kind)) = open.names.get(open.next) else { return std::ptr::null_mut() };
    open.next += 1;
    let entry = &mut open.entry;
    entry.d_ino = open.next as u64;
    entry.d_off = open.next as i64;
    entry.d_reclen = size_of::<libc::dirent64>() as u16;
    entry.d_type = match kind {
        EntryKind::Dir => libc::DT_DIR,
        EntryKind::File => libc::DT_REG,
        EntryKind::Device => libc::DT_CHR,
        EntryKind::Link => libc::DT_LNK,
    };
    let room = entry.d_name.len() - 1;
    entry.d_name.fill(0);
    for (to, from) in entry.d_name.iter_mut().zip(name.bytes().take(room)) {
        *to = from as c_char;
    }
    std::ptr::from_mut(entry)
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn readdir64(directory: *mut libc::DIR) -> *mut libc::dirent64 {
    with(directory, next_entry).unwrap_or_else(|| {
        real!(c"readdir64", std::ptr::null_mut(), fn(*mut libc::DIR) -> *mut libc::dirent64, directory)
    })
}

/// # Safety
/// As the function of the same name in libc. Both kinds of entries have one layout on 64-bit machines.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn readdir(directory: *mut libc::DIR) -> *mut libc::dirent {
    with(directory, |open| next_entry(open).cast())
        .unwrap_or_else(|| real!(c"readdir", std::ptr::null_mut(), fn(*mut libc::DIR) -> *mut libc::dirent, directory))
}

macro_rules! readdir_r_hooks {
    ($($name:ident $entry:ident $text:literal;)*) => {
        $(
            /// # Safety
            /// As the function of the same name in libc.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(
                directory: *mut libc::DIR,
                entry: *mut libc::$entry,
                result: *mut *mut libc::$entry,
            ) -> c_int {
                let ours = with(directory, |open| {
                    let next = next_entry(open).cast::<libc::$entry>();
                    // SAFETY: the caller gives room for an entry and for a pointer.
                    unsafe {
                        if next.is_null() {
                            *result = std::ptr::null_mut();
                        } else {
                            entry.copy_from(next, 1);
                            *result = entry;
                        }
                    }
                    0
                });
                ours.unwrap_or_else(|| {
                    real!(
                        $text,
                        libc::ENOSYS,
                        fn(*mut libc::DIR, *mut libc::$entry, *mut *mut libc::$entry) -> c_int,
                        directory,
                        entry,
                        result
                    )
                })
            }
        )*
    };
}

readdir_r_hooks! {
    readdir_r dirent c"readdir_r";
    readdir64_r dirent64 c"readdir64_r";
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn closedir(directory: *mut libc::DIR) -> c_int {
    let open = if COUNT.load(Ordering::Acquire) == 0 {
        None
    } else {
        open_directories().as_mut().and_then(|open| open.remove(&directory.addr()))
    };
    match open {
        Some(open) => {
            COUNT.fetch_sub(1, Ordering::Release);
            // SAFETY: the stream owned the descriptor.
            unsafe { libc::close(open.fd) }
        }
        None => real!(c"closedir", -1, fn(*mut libc::DIR) -> c_int, directory),
    }
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rewinddir(directory: *mut libc::DIR) {
    with(directory, |open| open.next = 0)
        .unwrap_or_else(|| real!(c"rewinddir", (), fn(*mut libc::DIR) -> (), directory));
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn telldir(directory: *mut libc::DIR) -> c_long {
    with(directory, |open| open.next as c_long)
        .unwrap_or_else(|| real!(c"telldir", -1, fn(*mut libc::DIR) -> c_long, directory))
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn seekdir(directory: *mut libc::DIR, position: c_long) {
    with(directory, |open| open.next = usize::try_from(position).unwrap_or(0))
        .unwrap_or_else(|| real!(c"seekdir", (), fn(*mut libc::DIR, c_long) -> (), directory, position));
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dirfd(directory: *mut libc::DIR) -> c_int {
    with(directory, |open| open.fd).unwrap_or_else(|| real!(c"dirfd", -1, fn(*mut libc::DIR) -> c_int, directory))
}
