//! Memory of the process that is shared with the gpu: what its attributes allow, and that it is unmapped. The kernel's
//! driver notices, so ours has to.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use gpreempt_testkit::this_test;
use kfd_abi::svm::{LOCATION_UNDEFINED, SvmAttr, SvmFlags, SvmOp};
use kfd_runtime::{Error, GpuAddr, Placement, Queue, Result, Runtime, Signal};

use super::faults::{LIMIT, on_the_gpu, start_fill, start_fill_from};

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

/// Sets attributes of memory, or replaces them by those that it has.
fn svm(kfd: RawFd, op: SvmOp, at: u64, attributes: &mut [(SvmAttr, u32)]) -> std::result::Result<(), i32> {
    let mut words = vec![at, SIZE as u64, (attributes.len() as u64) << 32 | u64::from(op.0)];
    words.extend(attributes.iter().map(|(kind, value)| u64::from(*value) << 32 | u64::from(kind.0)));
    call(kfd, SVM, &mut words)?;
    for (attribute, word) in attributes.iter_mut().zip(&words[3..]) {
        *attribute = (SvmAttr(*word as u32), (word >> 32) as u32);
    }
    Ok(())
}

/// Gives the gpu access to memory.
fn share(kfd: RawFd, gpu: u32, at: u64) -> std::result::Result<(), i32> {
    svm(kfd, SvmOp::SET_ATTR, at, &mut [(SvmAttr::ACCESS, gpu)])
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

/// A queue, and memory of this process that can be shared with its gpu.
struct Sharing {
    queue: Queue,
    kfd: OwnedFd,
    gpu: u32,
    at: u64,
}

impl Sharing {
    fn new() -> Result<Sharing> {
        let runtime = Runtime::open()?;
        let device = runtime.device(0)?;
        let kfd = std::fs::File::open("/dev/kfd").expect("can be opened").into();
        Ok(Sharing { gpu: device.node().gpu.id.0, queue: Queue::new(device)?, kfd, at: map(None) })
    }

    fn set(&self, kind: SvmAttr, value: u32) {
        assert_eq!(svm(self.kfd.as_raw_fd(), SvmOp::SET_ATTR, self.at, &mut [(kind, value)]), Ok(()), "{kind:?}");
    }

    fn words(&mut self) -> &mut [u32] {
        let memory = std::ptr::with_exposed_provenance_mut(self.at as usize);
        // SAFETY: memory of this test alone, which no kernel uses now.
        unsafe { std::slice::from_raw_parts_mut(memory, SIZE / 4) }
    }

    /// A kernel writes words of its own into all of the memory.
    fn fill(&mut self) -> Result<()> {
        let done = Signal::new(self.queue.device(), 1)?;
        let _kept = start_fill(&mut self.queue, GpuAddr(self.at), SIZE as u32 / 4, &done)?;
        self.queue.wait(&done, LIMIT)
    }

    /// A kernel writes into the memory and is stopped at its first page; nothing is written.
    fn must_not_fill(&mut self) -> Result<()> {
        self.words().fill(u32::MAX);
        match self.fill() {
            Err(Error::MemoryFault { address, .. }) => assert_eq!(address, GpuAddr(self.at)),
            other => panic!("expected a fault, got {other:?}"),
        }
        assert!(self.words().iter().all(|word| *word == u32::MAX));
        Ok(())
    }
}

#[test]
fn a_kernel_writes_shared_memory_that_it_may_access() {
    on_the_gpu(this_test!(), || {
        let mut sharing = Sharing::new()?;
        let gpu = sharing.gpu;
        for (kind, value) in [
            (SvmAttr::ACCESS, gpu),
            (SvmAttr::ACCESS_IN_PLACE, gpu),
            (SvmAttr::PREFETCH_LOC, gpu),
            (SvmAttr::PREFETCH_LOC, 0),
        ] {
            sharing.words().fill(u32::MAX);
            sharing.set(kind, value);
            sharing.fill()?;
            assert!(!sharing.words().contains(&u32::MAX), "{kind:?}");
        }
        // What was taken away can be given again.
        sharing.set(SvmAttr::NO_ACCESS, gpu);
        sharing.set(SvmAttr::SET_FLAGS, SvmFlags::GPU_RO.0);
        sharing.set(SvmAttr::ACCESS, gpu);
        sharing.set(SvmAttr::CLR_FLAGS, SvmFlags::GPU_RO.0);
        sharing.fill()
    });
}

#[test]
fn a_kernel_faults_at_memory_that_it_was_never_given() {
    on_the_gpu(this_test!(), || {
        let mut sharing = Sharing::new()?;
        // That memory belongs on the gpu does not mean that the gpu may access it.
        sharing.set(SvmAttr::PREFETCH_LOC, sharing.gpu);
        sharing.must_not_fill()
    });
}

#[test]
fn a_kernel_faults_at_memory_that_was_taken_from_it() {
    on_the_gpu(this_test!(), || {
        let mut sharing = Sharing::new()?;
        sharing.set(SvmAttr::ACCESS, sharing.gpu);
        sharing.fill()?;
        sharing.set(SvmAttr::NO_ACCESS, sharing.gpu);
        sharing.must_not_fill()
    });
}

#[test]
fn a_kernel_faults_at_other_memory_in_the_place_of_shared_memory() {
    on_the_gpu(this_test!(), || {
        let mut sharing = Sharing::new()?;
        sharing.set(SvmAttr::ACCESS, sharing.gpu);
        sharing.fill()?;
        map(Some(sharing.at));
        sharing.must_not_fill()
    });
}

#[test]
fn a_kernel_reads_memory_that_is_read_only_for_it_and_faults_when_it_writes() {
    on_the_gpu(this_test!(), || {
        let mut sharing = Sharing::new()?;
        sharing.set(SvmAttr::ACCESS, sharing.gpu);
        sharing.fill()?;
        sharing.set(SvmAttr::SET_FLAGS, SvmFlags::GPU_RO.0);
        let to = sharing.queue.device().allocate(4096, Placement::Vram)?;
        let done = Signal::new(sharing.queue.device(), 1)?;
        let arguments = sharing.at;
        let _kept = start_fill_from(&mut sharing.queue, to.address(), 1024, &done, |block| {
            let memory = std::ptr::with_exposed_provenance_mut(arguments as usize);
            // SAFETY: memory of this test alone, and large enough.
            unsafe { std::slice::from_raw_parts_mut(memory, block.len()) }.copy_from_slice(block);
            Ok(GpuAddr(arguments))
        })?;
        sharing.queue.wait(&done, LIMIT)?;
        sharing.must_not_fill()
    });
}

#[test]
fn a_kernel_faults_at_memory_that_is_read_only_for_the_process() {
    on_the_gpu(this_test!(), || {
        let mut sharing = Sharing::new()?;
        sharing.set(SvmAttr::ACCESS, sharing.gpu);
        sharing.words().fill(u32::MAX);
        let memory = std::ptr::with_exposed_provenance_mut(sharing.at as usize);
        // SAFETY: memory of this test alone.
        assert_eq!(unsafe { libc::mprotect(memory, SIZE, libc::PROT_READ) }, 0);
        match sharing.fill() {
            Err(Error::MemoryFault { address, .. }) => assert_eq!(address, GpuAddr(sharing.at)),
            other => panic!("expected a fault, got {other:?}"),
        }
        Ok(())
    });
}

#[test]
fn memory_that_was_unmapped_has_no_attributes_and_cannot_be_moved() {
    on_the_gpu(this_test!(), || {
        with_gpu(|kfd, gpu| {
            let at = map(None);
            let mut moved = [(SvmAttr::PREFETCH_LOC, gpu), (SvmAttr::PREFERRED_LOC, gpu), (SvmAttr::ACCESS, gpu)];
            assert_eq!(svm(kfd, SvmOp::SET_ATTR, at, &mut moved), Ok(()));
            let mut found = [(SvmAttr::PREFETCH_LOC, 0), (SvmAttr::PREFERRED_LOC, 0), (SvmAttr::ACCESS, gpu)];
            assert_eq!(svm(kfd, SvmOp::GET_ATTR, at, &mut found), Ok(()));
            assert_eq!(found, moved);
            // SAFETY: memory of this test alone.
            assert_eq!(unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(at as usize), SIZE) }, 0);
            for op in [SvmOp::SET_ATTR, SvmOp::GET_ATTR] {
                assert_eq!(svm(kfd, op, at, &mut [(SvmAttr::PREFETCH_LOC, gpu)]), Err(libc::EFAULT), "{op:?}");
            }
            map(Some(at));
            assert_eq!(svm(kfd, SvmOp::GET_ATTR, at, &mut found), Ok(()));
            let nowhere = LOCATION_UNDEFINED;
            let fresh =
                [(SvmAttr::PREFETCH_LOC, nowhere), (SvmAttr::PREFERRED_LOC, nowhere), (SvmAttr::NO_ACCESS, gpu)];
            assert_eq!(found, fresh);
        })
    });
}
