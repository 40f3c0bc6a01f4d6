//! Memory that is shared with the gpu and then unmapped: the kernel's driver notices, so ours has to.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use gpreempt_testkit::this_test;
use kfd_runtime::{Result, Runtime};

use super::faults::on_the_gpu;

const SIZE: usize = 0x10000;
const ALLOC: u32 = 0x16;
const FREE: u32 = 0x17;
const SVM: u32 = 0x20;

/// A call with these words as its argument, which it may change; the error number if it fails.
fn call(kfd: RawFd, number: u32, words: &mut [u64]) -> std::result::Result<(), i32> {
    let request = 3 << 30 | size_of_val(words) << 16 | usize::from(b'K') << 8 | number as usize;
    // SAFETY: the request says how long the argument is.
    let result = unsafe { libc::ioctl(kfd, request as libc::c_ulong, words.as_mut_ptr()) };
    if result < 0 { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { Ok(()) }
}

/// Maps memory, anywhere or over what is there.
fn map(at: Option<u64>) -> u64 {
    let fixed = if at.is_some() { libc::MAP_FIXED } else { 0 };
    let at = std::ptr::with_exposed_provenance_mut(at.unwrap_or(0) as usize);
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed);
    // SAFETY: new memory, or over memory that only this test uses.
    let memory = unsafe { libc::mmap(at, SIZE, protection, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    memory.expose_provenance() as u64
}

/// Gives the gpu access to memory.
fn share(kfd: RawFd, gpu: u32, at: u64) -> std::result::Result<(), i32> {
    // Operation 0 sets attributes; there is one, which grants a gpu access.
    const GRANT: u64 = 2;
    call(kfd, SVM, &mut [at, SIZE as u64, 1 << 32, u64::from(gpu) << 32 | GRANT])
}

/// Allocates system memory at an address of the gpu, and frees it.
fn allocate(kfd: RawFd, gpu: u32, at: u64) -> std::result::Result<(), i32> {
    const WRITABLE_GTT: u64 = 1 << 31 | 1 << 1;
    let mut words = [at, SIZE as u64, 0, 0, WRITABLE_GTT << 32 | u64::from(gpu)];
    call(kfd, ALLOC, &mut words)?;
    call(kfd, FREE, &mut [words[2]])
}

fn with_gpu(body: impl FnOnce(RawFd, u32)) -> Result<()> {
    let runtime = Runtime::open()?;
    let kfd: OwnedFd = std::fs::File::open("/dev/kfd").expect("can be opened").into();
    body(kfd.as_raw_fd(), runtime.device(0)?.node().gpu.id.0);
    Ok(())
}

#[test]
fn addresses_of_shared_memory_are_free_again_when_it_is_unmapped() {
    on_the_gpu(this_test!(), || {
        with_gpu(|kfd, gpu| {
            let at = map(None);
            let pointer = || std::ptr::with_exposed_provenance_mut(at as usize);
            let ways: [fn(*mut libc::c_void); 3] = [
                // SAFETY: memory of this test alone.
                |pointer| assert_eq!(unsafe { libc::munmap(pointer, SIZE) }, 0),
                |pointer| _ = map(Some(pointer.addr() as u64)),
                // As the C library does it, past the hooks.
                // SAFETY: memory of this test alone.
                |pointer| assert_eq!(unsafe { libc::syscall(libc::SYS_munmap, pointer, SIZE) }, 0),
            ];
            for (way, unmap) in ways.into_iter().enumerate() {
                map(Some(at));
                assert_eq!(share(kfd, gpu, at), Ok(()), "way {way}");
                assert_eq!(allocate(kfd, gpu, at), Err(libc::EADDRINUSE), "way {way}");
                unmap(pointer());
                assert_eq!(allocate(kfd, gpu, at), Ok(()), "way {way}");
            }
        })
    });
}

#[test]
fn the_rest_of_shared_memory_stays_shared_when_a_part_is_unmapped() {
    on_the_gpu(this_test!(), || {
        with_gpu(|kfd, gpu| {
            let at = map(None);
            assert_eq!(share(kfd, gpu, at), Ok(()));
            let last = at + SIZE as u64 - 4096;
            // SAFETY: a page of this test.
            assert_eq!(unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(last as usize), 1) }, 0);
            assert_eq!(allocate(kfd, gpu, last), Ok(()));
            assert_eq!(allocate(kfd, gpu, last - 4096), Err(libc::EADDRINUSE));
        })
    });
}
