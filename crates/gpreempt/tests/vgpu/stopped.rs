//! Kernels go on while their program is stopped, however it is stopped.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use gpreempt_testkit::scene::{process, status};
use gpreempt_testkit::this_test;
use kfd_runtime::{Queue, Result, Runtime, Signal};

use super::faults::on_the_gpu;
use super::hooks::start_spin;
use super::life::{executors, until};

const LIMIT: Duration = Duration::from_secs(60);

/// Starts a process in a group of its own that continues this one when the kernel of `done` has ended while this
/// process was stopped, and that fails if it has not within half a minute. The value follows the signal's first word.
fn observer(done: &Signal, is_stopped: &str, go_on: &str) -> Child {
    let pid = std::process::id();
    let script = format!(
        "stopped() {{ {is_stopped}; }}; \
         value() {{ dd if=/proc/{pid}/mem bs=8 count=1 skip={} iflag=skip_bytes status=none | od -An -td8; }}; \
         tries=0; until stopped && [ \"$(value)\" -eq 0 ] || [ $tries -ge 3000 ]; do tries=$((tries+1)); sleep 0.01; done; \
         stopped && [ \"$(value)\" -eq 0 ]; code=$?; {go_on}; exit $code",
        done.handle().0 + 8
    );
    Command::new("sh").args(["-c", &script]).process_group(0).spawn().expect("can be started")
}

/// Starts an observer and a kernel, stops this process by `stop`, and asserts that the kernel has ended when the
/// process is continued.
fn goes_on_while(observe: impl FnOnce(&Signal) -> Child, stop: impl FnOnce()) -> Result<()> {
    let runtime = Runtime::open()?;
    let mut queue = Queue::new(runtime.device(0)?)?;
    let done = Signal::new(queue.device(), 1)?;
    let mut observer = observe(&done);
    let _kept = start_spin(&mut queue, 1_000_000, &done).expect("can be started");
    stop();
    assert!(observer.wait().expect("ends").success());
    queue.wait(&done, LIMIT)
}

fn goes_on_while_stopped(stop: impl FnOnce()) -> Result<()> {
    let pid = std::process::id();
    let is_stopped = format!("grep -q '^State:.T' /proc/{pid}/status");
    goes_on_while(|done| observer(done, &is_stopped, &format!("kill -CONT {pid}")), stop)
}

#[test]
fn a_kernel_goes_on_while_the_program_is_stopped() {
    on_the_gpu(this_test!(), || {
        goes_on_while_stopped(|| {
            // SAFETY: stops this process until the observer continues it.
            unsafe { libc::raise(libc::SIGSTOP) };
        })
    });
}

#[test]
fn a_kernel_goes_on_while_the_programs_whole_process_group_is_stopped() {
    on_the_gpu(this_test!(), || {
        // SAFETY: leaves the session of the test, which must not stop.
        assert!(unsafe { libc::setsid() } > 0);
        goes_on_while_stopped(|| {
            let own = std::process::id().cast_signed();
            for executor in executors(std::process::id()) {
                // SAFETY: asks for the process group of a process.
                let group = unsafe { libc::getpgid(executor.cast_signed()) };
                assert_ne!(group, own, "it can be stopped with the group");
            }
            // SAFETY: stops this process's group, of which the observer is no member.
            unsafe { libc::kill(-own, libc::SIGSTOP) };
        })
    });
}

/// A control group that this process is in.
struct Group {
    above: PathBuf,
    path: PathBuf,
}

impl Group {
    /// Enters a new group of cgroup v2; `None` where that is not possible.
    fn enter() -> Option<Group> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let above = Path::new(mount).join(own);
        let path = above.join(format!("gpreempt-test-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        let group = Group { above, path };
        move_to(&group.path).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What is left in it keeps it, which harms nothing.
        let _ = move_to(&self.above);
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// Whether a group has no process but this one.
fn is_alone_in(group: &Path) -> bool {
    let procs = std::fs::read_to_string(group.join("cgroup.procs")).expect("can be read");
    procs.lines().eq([std::process::id().to_string()])
}

fn move_to(group: &Path) -> std::io::Result<()> {
    std::fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

#[test]
fn a_kernel_goes_on_while_the_programs_control_group_is_frozen() {
    on_the_gpu(this_test!(), || {
        let Some(group) = Group::enter() else {
            eprintln!("skipped: this user can make no group of cgroup v2");
            return Ok(());
        };
        let Group { above, path } = &group;
        let [procs, events, freeze] =
            [above.join("cgroup.procs"), path.join("cgroup.events"), path.join("cgroup.freeze")];
        let leave = format!("echo $$ > {}", procs.display());
        let is_frozen = format!("grep -q '^frozen 1' {}", events.display());
        let thaw = format!("echo 0 > {}", freeze.display());
        let observe = |done: &Signal| {
            let pid = std::process::id();
            let shares = || process(&status(), pid).is_none_or(|process| process["shares_cgroup"] == true);
            until("executors run", || !executors(pid).is_empty());
            until("executors have left the group", || !shares());
            let observer = observer(done, &format!("[ \"$left\" ] || {{ {leave}; left=yes; }}; {is_frozen}"), &thaw);
            // One that is still in the group would freeze with it, and no process would be left to thaw them.
            until("the observer has left the group", || is_alone_in(path));
            observer
        };
        goes_on_while(observe, || std::fs::write(&freeze, "1").expect("can be frozen"))
    });
}
