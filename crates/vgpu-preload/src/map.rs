//! Mapping memory: these calls pass through, but the driver has to learn when memory that it shares is unmapped, and
//! buffers of other processes are in other files than the program's.
//!
//! The system calls are made here. The allocator of this library maps memory, too, and comes through these functions:
//! looking for the next definition could wait for the program's locks.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;

use vgpu::client;

/// What was in these pages is gone, or about to be.
fn unmapped(at: *const c_void, length: usize) {
    let pages = (length as u64).checked_next_multiple_of(4096).unwrap_or(u64::MAX);
    client::unmapped(at.addr() as u64, pages);
}

macro_rules! mmap_hooks {
    ($($name:ident)*) => {
        $(
            /// # Safety
            /// As the function of the same name in libc.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(
                at: *mut c_void,
                length: usize,
                protection: c_int,
                flags: c_int,
                fd: c_int,
                offset: libc::off_t,
            ) -> *mut c_void {
                // Allocators map no file. Every buffer has an offset.
                let elsewhere = if fd >= 0 && flags & libc::MAP_ANONYMOUS == 0 {
                    // Those of the driver use all 64 bits.
                    client::mapped_file(fd, offset.cast_unsigned(), length as u64)
                } else {
                    Ok(None)
                };
                let elsewhere = match elsewhere {
                    Ok(found) => found,
                    Err(errno) => {
                        crate::set_errno(errno);
                        return libc::MAP_FAILED;
                    }
                };
                let (fd, offset) = match &elsewhere {
                    Some((file, at)) => (file.as_raw_fd(), *at as libc::off_t),
                    None => (fd, offset),
                };
                // What lies there goes before another thread can get the addresses.
                if flags & libc::MAP_FIXED != 0 {
                    unmapped(at, length);
                }
                // SAFETY: the caller's arguments, as they are.
                let mapped = unsafe { libc::syscall(libc::SYS_mmap, at, length, protection, flags, fd, offset) };
                let mapped = std::ptr::with_exposed_provenance_mut(mapped as usize);
                if mapped != libc::MAP_FAILED && flags & libc::MAP_FIXED == 0 {
                    // The place was free, so what was shared there has been unmapped unseen.
                    unmapped(mapped, length);
                }
                mapped
            }
        )*
    };
}

mmap_hooks! { mmap mmap64 }

/// # Safety
/// As the function of the same name in libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn munmap(at: *mut c_void, length: usize) -> c_int {
    // Refused otherwise.
    if at.addr().is_multiple_of(4096) {
        unmapped(at, length);
    }
    // SAFETY: the caller's arguments, as they are.
    unsafe { libc::syscall(libc::SYS_munmap, at, length) as c_int }
}
