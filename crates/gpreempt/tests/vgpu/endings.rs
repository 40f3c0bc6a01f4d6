//! Calls that a thread or a process makes on its way out, when its thread-local data is gone already.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use gpreempt_testkit::this_test;
use kfd_abi::debug::{DbgTrapArgs, SuspendQueues};
use kfd_abi::ioctl::{Argument, Request};

use super::faults::on_the_gpu;

fn open() -> RawFd {
    // SAFETY: the path is a C string.
    unsafe { libc::open(c"/dev/kfd".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) }
}

/// The error of a debugger's call, which has a connection of its own in each thread: this process is not debugged.
fn debug(kfd: RawFd) -> i32 {
    let mut args = DbgTrapArgs::new(std::process::id(), SuspendQueues::default());
    let Request(request) = DbgTrapArgs::COMMAND.request();
    // SAFETY: the argument is as large as the request says and names no memory.
    let result = unsafe { libc::ioctl(kfd, request.into(), &raw mut args) };
    if result < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}

/// Descriptor of the driver; -1 if it is not open.
static KFD: AtomicI32 = AtomicI32::new(-1);
/// What the driver says in ordinary code.
static EXPECTED: AtomicI32 = AtomicI32::new(0);
/// What it said in the destructor.
static SAID: AtomicI32 = AtomicI32::new(0);

#[test]
fn a_destructor_of_thread_data_may_call_the_driver() {
    extern "C" fn destroy(_: *mut c_void) {
        SAID.store(debug(KFD.load(Ordering::SeqCst)), Ordering::SeqCst);
    }
    on_the_gpu(this_test!(), || {
        let kfd = std::fs::File::options().read(true).write(true).open("/dev/kfd").expect("there is a gpu");
        KFD.store(kfd.as_raw_fd(), Ordering::SeqCst);
        let thread = std::thread::spawn(|| {
            let mut key = 0;
            // SAFETY: the key is made before it is used; the value is not null and is no pointer to anything.
            unsafe {
                assert_eq!(libc::pthread_key_create(&raw mut key, Some(destroy)), 0);
                assert_eq!(libc::pthread_setspecific(key, std::ptr::dangling()), 0);
            }
            debug(KFD.load(Ordering::SeqCst))
        });
        let expected = thread.join().expect("ends");
        assert!(![0, libc::EIO, libc::ENODEV].contains(&expected), "{expected}");
        assert_eq!(SAID.load(Ordering::SeqCst), expected);
        Ok(())
    });
}

/// Whether the driver answers as it did before; a gpu that was not open yet is opened now.
fn answers_as_before() -> bool {
    let kfd = match KFD.load(Ordering::SeqCst) {
        -1 => open(),
        kfd => kfd,
    };
    debug(kfd) == EXPECTED.load(Ordering::SeqCst)
}

#[test]
fn an_exit_handler_may_open_the_gpu_and_call_the_driver() {
    extern "C" fn late() {
        let code = i32::from(!answers_as_before());
        // SAFETY: ends the process.
        unsafe { libc::_exit(code) }
    }
    on_the_gpu(this_test!(), || {
        EXPECTED.store(debug(open()), Ordering::SeqCst);
        assert!(![0, libc::EIO, libc::ENODEV].contains(&EXPECTED.load(Ordering::SeqCst)));
        for is_open_before in [true, false] {
            // SAFETY: the child calls the driver, as any program may, and ends with its exit handlers.
            let child = unsafe { libc::fork() };
            if child == 0 {
                if is_open_before {
                    KFD.store(open(), Ordering::SeqCst);
                }
                let code = if is_open_before && !answers_as_before() { 2 } else { 3 };
                // SAFETY: the handler lives as long as the program; `exit` runs it after destructors of thread data.
                unsafe {
                    if code == 3 {
                        libc::atexit(late);
                    }
                    libc::exit(code)
                }
            }
            let mut status = 0;
            // SAFETY: waits for the child made above.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0, "opened before: {is_open_before}");
        }
        Ok(())
    });
}
