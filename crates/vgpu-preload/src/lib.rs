//! The libc hooks that put a virtual MI300 under an unmodified program. Loaded with LD_PRELOAD by `gpreempt vgpu run`.
//!
//! A hook looks at its path or descriptor, hands what belongs to the virtual gpu to [`vgpu::client`], and passes
//! everything else to the next definition of the function. Programs that never touch a gpu pay one comparison of the
//! path. All memory of this library, the executors' included, comes from an allocator of its own: a hook may be called
//! inside the program's malloc, and executors must not wait for a lock that a stopped program holds.

mod attribute;
mod directory;
mod ioctl;
mod link;
#[cfg(target_arch = "x86_64")]
mod load;
mod map;
mod open;
mod real;
mod stat;
mod text;

#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Runs when the library is loaded: a child of a fork must find its locks free, whichever thread held them.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = {
    extern "C" fn on_load() {
        // SAFETY: called once, before anything else of this library runs.
        unsafe { dlmalloc::enable_alloc_after_fork() };
        directory::watch_forks();
        // Asked for now, because a fork in the middle of the first question would leave the child without an answer.
        vgpu::client::is_in_use();
    }
    on_load
};

/// Lets the launcher recognise the library of its own build.
#[used]
static MARK: &[u8] = vgpu::launch::MARK;

/// Sets errno.
pub(crate) fn set_errno(errno: i32) {
    // SAFETY: the location belongs to this thread.
    unsafe { *libc::__errno_location() = errno };
}

/// Runs the part of a hook that is ours. `None` means that the call is none of our business; a panic counts as an
/// input/output error, because nothing may unwind into the program.
pub(crate) fn ours<T>(failure: T, inner: impl FnOnce() -> Option<Result<T, i32>>) -> Option<T> {
    let saved = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(inner)) {
        Ok(None) => {
            set_errno(saved);
            None
        }
        Ok(Some(Ok(value))) => {
            set_errno(saved);
            Some(value)
        }
        Ok(Some(Err(errno))) => {
            set_errno(errno);
            Some(failure)
        }
        Err(_) => {
            set_errno(libc::EIO);
            Some(failure)
        }
    }
}
