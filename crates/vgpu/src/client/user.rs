//! Memory of the program that an ioctl points to: it may be anything, so it is read and written with care.

fn transfer(address: u64, local: *mut u8, length: usize, write: bool) -> Result<(), i32> {
    let local = libc::iovec { iov_base: local.cast(), iov_len: length };
    let remote = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(address as usize), iov_len: length };
    // SAFETY: the local part is a buffer of ours; for the other the kernel checks every page. The thread stands for the
    // process, whose first thread may have ended.
    let done = unsafe {
        let pid = libc::gettid();
        if write {
            libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0)
        } else {
            libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0)
        }
    };
    if usize::try_from(done) == Ok(length) { Ok(()) } else { Err(libc::EFAULT) }
}

/// Copies in.
///
/// # Errors
/// EFAULT.
pub(super) fn read(address: u64, length: usize) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0; length];
    if length > 0 {
        transfer(address, bytes.as_mut_ptr(), length, false)?;
    }
    Ok(bytes)
}

/// Copies out.
///
/// # Errors
/// EFAULT.
pub(super) fn write(address: u64, bytes: &[u8]) -> Result<(), i32> {
    if bytes.is_empty() {
        return Ok(());
    }
    transfer(address, bytes.as_ptr().cast_mut(), bytes.len(), true)
}

/// Whether every page of a range exists.
pub(super) fn exists(address: u64, length: u64) -> bool {
    let Ok(length) = usize::try_from(length) else { return false };
    // SAFETY: asks the kernel to begin writing back what is there; memory without a file has nothing to write.
    unsafe { libc::msync(std::ptr::with_exposed_provenance_mut(address as usize), length, libc::MS_ASYNC) == 0 }
}
