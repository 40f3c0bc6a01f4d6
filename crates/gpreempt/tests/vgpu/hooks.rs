//! Programs that know nothing of the descriptors, processes and limits behind their gpu.

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use gpreempt_testkit::this_test;
use kfd_runtime::{
    Arguments, Buffer, CodeObject, Executable, Launch, Order, Placement, Queue, Result, Runtime, Signal,
};
use kfd_suite::suite;

use super::faults::on_the_gpu;
use super::life::{executors, until};
use super::shell;

const LIMIT: Duration = Duration::from_secs(60);
const GET_VERSION: libc::c_ulong = 0x8008_4B01;

fn open(path: &std::ffi::CStr, flags: i32) -> io::Result<RawFd> {
    // SAFETY: the path is a C string.
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(fd) }
}

/// The error of GET_VERSION, if any.
fn version(kfd: RawFd) -> Option<i32> {
    let mut version = [0_u32; 2];
    // SAFETY: the driver fills two words.
    let result = unsafe { libc::ioctl(kfd, GET_VERSION, version.as_mut_ptr()) };
    if result < 0 { io::Error::last_os_error().raw_os_error() } else { None }
}

/// Descriptors of this process that the library opened for itself.
fn hidden_descriptors() -> Vec<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("can be read").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|&fd| fd >= 200).collect()
}

/// Starts a kernel that takes as long as `iterations`; it completes `done`. What it needs is returned.
pub(super) fn start_spin(queue: &mut Queue, iterations: u32, done: &Signal) -> Result<(Executable, [Buffer; 2])> {
    let job = suite::find("spin").and_then(|test| test.job(1)).expect("in the suite");
    let program = Executable::load(queue, &CodeObject::parse(job.object)?)?;
    let kernel = program.kernel(job.kernel)?;
    let out = queue.device().allocate(4096, Placement::Vram)?;
    let block = Arguments::default().address(out.address()).u32(iterations).block(kernel.argument_bytes);
    let mut arguments = queue.device().allocate(block.len(), Placement::Gtt)?;
    arguments.write(0, &block)?;
    queue.dispatch(&kernel, arguments.address(), &Launch::linear(1, 64), Order::AfterPrevious, done)?;
    Ok((program, [out, arguments]))
}

#[test]
fn waits_end_when_the_executor_is_killed() {
    on_the_gpu(this_test!(), || {
        let runtime = Runtime::open()?;
        let mut queue = Queue::new(runtime.device(0)?)?;
        let done = Signal::new(queue.device(), 1)?;
        let kept = start_spin(&mut queue, u32::MAX, &done)?;
        until("an executor runs", || !executors(std::process::id()).is_empty());
        for executor in executors(std::process::id()) {
            // SAFETY: sends a signal to a process that this one started.
            unsafe { libc::kill(executor.cast_signed(), libc::SIGKILL) };
        }
        let outcome = queue.wait(&done, LIMIT);
        let text = format!("{:?}", outcome.expect_err("the signal is never completed"));
        assert!(!text.contains("Timeout"), "{text}");
        // Memory that the kernel used, and its queue, can be given back.
        drop((kept, queue));
        Ok(())
    });
}

#[test]
fn a_program_that_puts_its_own_files_in_place_of_ours_loses_the_gpu_and_nothing_else() {
    on_the_gpu(this_test!(), || {
        let kfd = open(c"/dev/kfd", libc::O_RDWR).expect("there is a gpu");
        assert_eq!(version(kfd), None);
        let (ours, mut other) = UnixStream::pair().expect("sockets");
        for fd in hidden_descriptors() {
            // SAFETY: a program may do this to any number.
            unsafe { libc::dup2(ours.as_raw_fd(), fd) };
        }
        assert_eq!(version(kfd), Some(libc::ENODEV));
        other.set_nonblocking(true).expect("can be");
        let unread = other.read(&mut [0; 16]).expect_err("nothing was written");
        assert_eq!(unread.kind(), io::ErrorKind::WouldBlock);
        Ok(())
    });
}

#[test]
fn a_program_that_closes_what_it_inherits_still_finds_the_gpu() {
    on_the_gpu(this_test!(), || {
        for fd in hidden_descriptors() {
            // SAFETY: a program may do this to any number.
            unsafe { libc::close(fd) };
        }
        let kfd = open(c"/dev/kfd", libc::O_RDWR).expect("there is a gpu");
        assert_eq!(version(kfd), None);
        Ok(())
    });
}

#[test]
fn calls_work_when_the_first_thread_has_ended() {
    on_the_gpu(this_test!(), || {
        extern "C" fn late(_: *mut libc::c_void) -> *mut libc::c_void {
            until("the first thread has ended", || {
                std::fs::read_to_string("/proc/self/stat").is_ok_and(|stat| stat.contains(") Z "))
            });
            let works = open(c"/dev/kfd", libc::O_RDWR).is_ok_and(|kfd| version(kfd).is_none());
            // SAFETY: ends the process.
            unsafe { libc::_exit(if works { 0 } else { 1 }) }
        }
        // SAFETY: a child of a fork with one thread, which starts another and ends its first.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the child has one thread, which starts another with a function that lives as long as the program.
            unsafe {
                let mut thread = std::mem::zeroed();
                libc::pthread_create(&raw mut thread, std::ptr::null(), late, std::ptr::null_mut());
                libc::syscall(libc::SYS_exit, 0);
            }
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        Ok(())
    });
}

#[test]
fn directories_can_be_listed_into_memory_of_the_caller_and_links_are_not_followed_against_its_will() {
    on_the_gpu(this_test!(), || {
        let mut names = Vec::new();
        // SAFETY: the functions are used as documented; an entry's name is a C string.
        unsafe {
            let directory = libc::opendir(c"/dev/dri".as_ptr());
            assert!(!directory.is_null());
            let mut entry: libc::dirent = std::mem::zeroed();
            let mut next = std::ptr::null_mut();
            while libc::readdir_r(directory, &raw mut entry, &raw mut next) == 0 && !next.is_null() {
                names.push(std::ffi::CStr::from_ptr(entry.d_name.as_ptr()).to_owned());
            }
            libc::closedir(directory);
        }
        assert!(names.iter().any(|name| name.as_c_str() == c"renderD128"), "{names:?}");
        let link = open(c"/sys/class/drm/renderD128", libc::O_NOFOLLOW).expect_err("is a link");
        assert_eq!(link.raw_os_error(), Some(libc::ELOOP));
        Ok(())
    });
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_kills_no_process() {
    let text = shell(
        "(ulimit -f 0; cat /sys/class/kfd/kfd/topology/generation_id 2>/dev/null; echo $? | cat; \
         cat /dev/kfd 2>/dev/null; echo $? | cat)",
    );
    assert_eq!(text, "1\n1\n");
}

#[test]
fn one_who_comes_too_late_does_not_take_the_gpu_from_others() {
    if std::env::var_os("GPREEMPT_VGPU").is_none() {
        let own = std::env::current_exe().expect("this test is a program");
        let test = this_test!().name();
        // The supervisor has the same limit.
        let script = format!(
            "ulimit -n 32; exec {} vgpu run -- {} --exact {test} --nocapture",
            super::executable().display(),
            own.display()
        );
        let output = Command::new("sh").args(["-c", &script]).output().expect("can be started");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    const PROGRAMS: usize = 30;
    let kfd = open(c"/dev/kfd", libc::O_RDWR).expect("there is a gpu");
    let (wait, go) = io::pipe().expect("a pipe");
    let (answers, answer) = io::pipe().expect("a pipe");
    // With `command`, a shell goes on after a redirection that fails.
    let script = "has_gpu() { command exec 4<>/dev/kfd; }; has_gpu && had=yes && echo open || echo refused; read line; \
         [ -z \"$had\" ] || { has_gpu && echo kept || echo lost; }";
    let start = || {
        let (wait, answer) = (wait.try_clone().expect("a copy"), answer.try_clone().expect("a copy"));
        let mut program = Command::new("sh");
        program.args(["-c", script]).stdin(OwnedFd::from(wait)).stdout(OwnedFd::from(answer)).stderr(Stdio::null());
        program.spawn().expect("can be started")
    };
    let mut answers = BufReader::new(answers).lines().map_while(io::Result::ok);
    // Of many that come at the same moment, each may find too little room left by the others.
    let mut programs = vec![start()];
    assert_eq!(answers.next().as_deref(), Some("open"));
    programs.extend((1..PROGRAMS).map(|_| start()));
    drop(answer);
    let lines: Vec<_> = answers.by_ref().take(PROGRAMS - 1).collect();
    let opened = 1 + lines.iter().filter(|line| *line == "open").count();
    assert!(opened < PROGRAMS, "{lines:?}");
    // The supervisor has looked at every process once more by then.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(version(kfd), None, "the first one has its gpu still");
    drop(go);
    let lines: Vec<_> = answers.collect();
    assert_eq!(lines, vec!["kept"; opened], "a program that was let in has its gpu still");
    for mut program in programs {
        program.wait().expect("ends");
    }
    assert_eq!(version(kfd), None);
}
