//! One connection: requests of one process, answered in order.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kfd_abi::debug::{DbgTrapArgs, TrapOp};
use kfd_abi::drm;
use kfd_abi::ioctl::{self, Lookup};
use linux_host::process::ProcStatus;

use super::ending;
use super::execute::execute;
use super::member::{CallGuard, Member};
use super::process_channel::ProcessChannel;
use super::sharing::Party;
use super::{Device, Supervisor};
use crate::control::Control;
use crate::driver::{
    Call, Clocks, DeviceEffect, Driver, Effects, Errno, FdKind, ProcessEffect, ProcessKey, QueueChange, layout,
};
use crate::kill_points::{self, Point};
use crate::protocol::{self, CallStage, Reply, SupervisorRequest, Welcome};
use crate::sys::{self, Frame};
use crate::sysfs::Node;

/// Files of debugfs, which are for root alone.
const DEBUGFS: &str = "/sys/kernel/debug/";

/// Serves a connection until the other end closes it.
pub(super) fn serve(supervisor: &Arc<Supervisor>, stream: &UnixStream) {
    let Ok((pid, uid)) = sys::peer(stream) else { return };
    match supervisor.admit(uid) {
        Admission::Granted => {}
        Admission::Early => return,
        Admission::Denied => return deny(stream),
    }
    // After an exec the same process comes with a new connection, perhaps before the old one is seen to be closed.
    let start = supervisor.accepted.fetch_add(1, Ordering::Relaxed);
    let key = ProcessKey::new(pid.cast_unsigned(), start);
    let mut client = Client { supervisor, stream, key, uid, attached: false, passed: None, kfd: None };
    while let Ok(Some(frame)) = sys::receive(stream) {
        let reply = client.answer(frame);
        let Ok(bytes) = serde_json::to_vec(&reply) else { break };
        let chip = supervisor.device().map(|device| device.chip_file.as_fd());
        let passed = client.passed.take();
        let along = match reply {
            Reply::Attached(..) => chip,
            _ => passed.as_ref().map(AsFd::as_fd),
        };
        if sys::send(stream, &bytes, along.as_slice()).is_err() {
            break;
        }
    }
}

/// Whether a user may use the gpu.
enum Admission {
    Granted,
    /// Not known before the first launcher has said what gpu it is. Launchers whose connection closes try again.
    Early,
    Denied,
}

impl Supervisor {
    /// Decides whether processes of a user may use the gpu: those of its own user and of root may, others if root
    /// shares it.
    fn admit(&self, uid: u32) -> Admission {
        // SAFETY: takes no argument and cannot fail.
        let own = unsafe { libc::geteuid() };
        match self.device() {
            _ if uid == own || uid == 0 => Admission::Granted,
            Some(device) if own == 0 && device.setup.shared => Admission::Granted,
            Some(_) => Admission::Denied,
            None => Admission::Early,
        }
    }
}

/// Tells a process of another user why it is not served.
fn deny(stream: &UnixStream) {
    let reply = Reply::Refused("the virtual gpu belongs to another user, who does not share it (--shared)".into());
    if let (Ok(Some(_)), Ok(bytes)) = (sys::receive(stream), serde_json::to_vec(&reply)) {
        // The process may not wait for the answer.
        let _ = sys::send(stream, &bytes, &[]);
    }
}

struct Client<'a> {
    supervisor: &'a Arc<Supervisor>,
    stream: &'a UnixStream,
    key: ProcessKey,
    /// User of the process when it connected.
    uid: u32,
    attached: bool,
    /// A file that goes with the answer.
    passed: Option<OwnedFd>,
    /// The kfd file of a process that has attached.
    kfd: Option<OwnedFd>,
}

impl Client<'_> {
    fn answer(&mut self, frame: Frame) -> Reply {
        let request: SupervisorRequest = match serde_json::from_slice(&frame.bytes) {
            Ok(request) => request,
            Err(error) => return Reply::Refused(format!("unreadable request: {error}")),
        };
        if let SupervisorRequest::Configure { setup, hold } = request {
            if hold.is_some_and(|pid| !self.is_own(pid)) {
                return Reply::Refused("only a process of the same user can keep the gpu".into());
            }
            return match self.supervisor.configure(*setup, hold) {
                Ok(()) => Reply::Done,
                Err(why) => Reply::Refused(why),
            };
        }
        let Some(device) = self.supervisor.device() else {
            return Reply::Refused("the virtual gpu is not configured yet".into());
        };
        match request {
            SupervisorRequest::Configure { .. } => Reply::Done,
            SupervisorRequest::Status => {
                self.supervisor.close_dmabufs();
                Reply::Status(Box::new(self.supervisor.status(device)))
            }
            SupervisorRequest::Lookup { path } if !self.may_read(&path) => Reply::Found(None),
            SupervisorRequest::Lookup { path } => Reply::Found(match self.supervisor.waiting.file(&path) {
                Some(text) => Some(Node::File(text)),
                None => device.driver().sysfs_observed(&path, &**self.supervisor),
            }),
            SupervisorRequest::Attach => self.attach(device, frame),
            SupervisorRequest::Belong { process } => {
                if self.attached || process.pid != self.key.pid || self.supervisor.member(process).is_none() {
                    return Reply::Refused("this is not the process that has the gpu open".into());
                }
                self.key = process;
                Reply::Done
            }
            SupervisorRequest::Call { device: target, number, call, site } => {
                let file = frame.fds.into_iter().next();
                let (result, call) = self.call(device, &Made { target, number, again: false }, call, file);
                // A call that has to wait is repeated at once: only then can a signal end its wait.
                self.supervisor.waiting.set(self.key.pid, site, false);
                Reply::Returned(result, Box::new(call))
            }
            SupervisorRequest::Retry { number, call, site } => {
                let made = Made { target: protocol::Device::Kfd, number, again: true };
                let (result, call) = self.call(device, &made, call, None);
                self.supervisor.waiting.set(self.key.pid, site, call.blocked.is_some());
                Reply::Returned(result, Box::new(call))
            }
            SupervisorRequest::Abandon { blocked, site } => {
                device.driver().abandon(self.key, blocked);
                self.supervisor.waiting.set(self.key.pid, site, false);
                Reply::Done
            }
            SupervisorRequest::Unmapped { ranges } => {
                let mut driver = device.driver();
                let forget = |(start, end): (u64, u64)| driver.svm_unmapped(self.key, start, end.saturating_sub(start));
                let process = ranges.into_iter().flat_map(forget).collect();
                let effects = Effects { process, ..Effects::default() };
                Reply::Returned(0, Box::new(Call { effects, ..Call::default() }))
            }
        }
    }

    /// Whether a process is one that this client's user may look at and keep the gpu for.
    fn is_own(&self, pid: u32) -> bool {
        self.uid == 0 || ProcStatus::read(pid).is_some_and(|status| status.uid == self.uid)
    }

    /// Whether the kernel would let this client's user read a file. Hooks refuse the others before they ask.
    fn may_read(&self, path: &str) -> bool {
        let of_process = path.strip_prefix("/proc/").and_then(|path| path.split('/').next()?.parse().ok());
        self.uid == 0 || !path.starts_with(DEBUGFS) && of_process.is_none_or(|pid| self.is_own(pid))
    }

    fn attach(&mut self, device: &Device, frame: Frame) -> Reply {
        let mut fds = frame.fds.into_iter();
        let (Some(kfd), Some(control)) = (fds.next(), fds.next()) else {
            return Reply::Refused("attach needs the kfd file and the control page".into());
        };
        if !sys::is_as_long_as(kfd.as_fd(), layout::kfd_file_size()) {
            return Reply::Refused("the kfd file has no room for doorbells".into());
        }
        // A debugger may have named the process before.
        self.key = self.supervisor.awaited.find(self.key.pid).unwrap_or(self.key);
        let channel = Control::open(control.as_fd())
            .and_then(|control| Ok(ProcessChannel::new(self.key, control, self.stream.try_clone()?, &device.chip)));
        let channel = match channel {
            Ok(Some(channel)) => Arc::new(channel),
            Ok(None) => return Reply::Refused("too many processes use the gpu".into()),
            Err(error) => return Reply::Refused(format!("cannot map the control page: {error}")),
        };
        let number = channel.slot.number();
        let (supervisor, watched) = (Arc::clone(self.supervisor), Arc::clone(&channel));
        let watch = move || ending::watch(&supervisor, &watched);
        let watcher = std::thread::Builder::new().name("process".into()).spawn(watch);
        if let Err(error) = watcher {
            return Reply::Refused(format!("there can be no more threads: {error}"));
        }
        let mut driver = device.driver();
        if let Err(errno) = driver.open(self.key) {
            return Reply::Refused(format!("the driver refuses: {errno:?}"));
        }
        self.attached = true;
        self.kfd = kfd.try_clone().ok();
        self.supervisor.poller.add(self.key, kfd, Arc::clone(&channel));
        let member = Member::new(channel);
        member.keep_file(self.supervisor.awaited.take(self.key));
        self.supervisor.lock_members().insert(self.key, Arc::new(member));
        Reply::Attached(Box::new(Welcome {
            profile: driver.profile().clone(),
            options: device.setup.options.clone(),
            slot: number,
            process: self.key,
        }))
    }

    fn call(&mut self, device: &Device, made: &Made, mut call: Call, file: Option<OwnedFd>) -> (i64, Call) {
        kill_points::hit_of(Point::IoctlSent, self.key.pid);
        call.clocks = Clocks { monotonic_raw_ns: sys::monotonic_raw_ns(), boottime_ns: sys::boottime_ns() };
        let own = self.supervisor.member(self.key);
        let progress = own.as_deref().map(|member| member.begin_call(made.name()));
        let stage = |stage| progress.iter().for_each(|progress: &CallGuard<'_>| progress.stage(stage));
        let debugged = self.find_target(made, &mut call);
        let foreseen = self.foresee(made, &mut call);
        if made.asks_for_memory() {
            self.supervisor.close_dmabufs();
        }
        if let Err(errno) = self.find_dmabuf(made, &mut call, file.as_ref()) {
            return (-i64::from(errno.0), call);
        }
        // As in the kernel, where a call holds its process, and a debugger's call the process it is about.
        let of = debugged.or_else(|| own.clone());
        let _busy = of.as_ref().map(|member| member.busy());
        stage(CallStage::InDriver);
        let mut driver = device.driver();
        // The target may have ended since it was found. The driver would open the gpu for it again, as for a target
        // that a debugger knows first, and that entry would stay: no thread watches the process any more.
        let is_known = |driver: &Driver, key: ProcessKey| driver.processes().any(|known| known == key);
        call.target = call.target.filter(|target| Some(*target) == foreseen || is_known(&driver, *target));
        let result = match made.target {
            protocol::Device::Kfd if made.again => driver.retry(self.key, made.number, &mut call),
            protocol::Device::Kfd => driver.ioctl(self.key, made.number, &mut call),
            protocol::Device::Render => driver.drm_ioctl(self.key, made.number, &mut call),
        };
        let (result, file) = self.share(&mut driver, &mut call, result, file);
        let awaited = foreseen.filter(|key| is_known(&driver, *key));
        drop(driver);
        awaited.into_iter().for_each(|key| self.supervisor.await_process(key));
        if made.number == u32::from(ioctl::CREATE_PROCESS.nr) && result.is_ok() {
            let kfd = self.kfd.as_ref().and_then(|kfd| kfd.try_clone().ok());
            kfd.into_iter().for_each(|kfd| self.supervisor.watch_opening(self.key, kfd, call.opening));
        }
        self.pass_points(&call.effects.device);
        stage(CallStage::Executing);
        let outcome = execute(self.supervisor, self.key, std::mem::take(&mut call.effects.device), file);
        let result = device.driver().complete(self.key, made.number, &mut call, result, &outcome);
        stage(CallStage::Completing);
        // What a failed call leaves to undo is undone as far as the gpu still answers.
        execute(self.supervisor, self.key, std::mem::take(&mut call.effects.device), None);
        (result.unwrap_or_else(|errno| -i64::from(errno.0)), call)
    }

    /// Finds the DMA buffer that a call names: what the process says about that is not believed, either.
    fn find_dmabuf(&self, made: &Made, call: &mut Call, file: Option<&OwnedFd>) -> Result<(), Errno> {
        let named = match made.target {
            protocol::Device::Kfd => &mut call.fd,
            protocol::Device::Render => &mut call.named,
        };
        if let Some(FdKind::Dmabuf { .. }) = named {
            *named = match file {
                Some(file) => Some(self.supervisor.sharing.recognise(file, self.uid)?),
                None => Some(FdKind::Other),
            };
        }
        Ok(())
    }

    /// Executes what a call does to buffers that processes share, while the driver is locked. Returns the result of the
    /// call, and the file that came with it if it was not for that.
    fn share(
        &mut self,
        driver: &mut Driver,
        call: &mut Call,
        result: Result<i64, Errno>,
        file: Option<OwnedFd>,
    ) -> (Result<i64, Errno>, Option<OwnedFd>) {
        let effects = std::mem::take(&mut call.effects.share);
        if effects.is_empty() {
            return (result, file);
        }
        let sharing = &self.supervisor.sharing;
        match sharing.execute(effects, Party { uid: self.uid, file }) {
            Ok(passed) => {
                self.passed = passed;
                (result, None)
            }
            Err(errno) => {
                for effect in std::mem::take(&mut call.effects.process) {
                    if let ProcessEffect::ExportDmabuf { token, .. } = effect {
                        sharing.discard_all(driver.dmabuf_closed(token));
                    }
                }
                (Err(errno), None)
            }
        }
    }

    /// Passes the kill points between the driver's decision and its execution on the device.
    fn pass_points(&self, effects: &[DeviceEffect]) {
        for effect in effects {
            match effect {
                DeviceEffect::Queue(QueueChange::Create(_)) => kill_points::hit_of(Point::QueueCreate, self.key.pid),
                DeviceEffect::Queue(QueueChange::Destroy { .. }) => {
                    kill_points::hit_of(Point::QueueDestroy, self.key.pid);
                }
                DeviceEffect::Queue(
                    QueueChange::Update { .. } | QueueChange::SetCuMask { .. } | QueueChange::AllocateGws { .. },
                )
                | DeviceEffect::Cycle { .. }
                | DeviceEffect::DebuggerFile { .. }
                | DeviceEffect::Then(_) => {}
            }
        }
    }

    /// Finds the process that a debugger's call is about, and whether the calling thread traces it.
    fn find_target(&self, made: &Made, call: &mut Call) -> Option<Arc<Member>> {
        // What the process says about that is not believed.
        (call.target, call.traces_target) = (None, false);
        if made.target != protocol::Device::Kfd || made.number != u32::from(ioctl::DBG_TRAP.nr) {
            return None;
        }
        let args: DbgTrapArgs = call.decode();
        // The number of the thread is what the process says it is.
        let is_own = ProcStatus::read(call.tid).is_some_and(|thread| thread.thread_group == self.key.pid);
        let tracer = ProcStatus::read(args.pid).and_then(|target| target.tracer);
        call.traces_target = is_own && tracer == Some(call.tid);
        let Some((key, member)) = self.supervisor.newest(args.pid) else {
            call.target = self.supervisor.awaited.find(args.pid);
            return None;
        };
        call.target = Some(key);
        Some(member)
    }

    /// Names an entry for a process that has none, if a debugger begins a session with it: the driver then makes it.
    fn foresee(&self, made: &Made, call: &mut Call) -> Option<ProcessKey> {
        if made.number != u32::from(ioctl::DBG_TRAP.nr) || made.target != protocol::Device::Kfd {
            return None;
        }
        let args: DbgTrapArgs = call.decode();
        if call.target.is_some() || !call.traces_target || args.op != TrapOp::ENABLE {
            return None;
        }
        call.target = Some(self.supervisor.foresee(args.pid));
        call.target
    }
}

/// A call, apart from its content.
struct Made {
    target: protocol::Device,
    number: u32,
    /// Whether it is the retry of a call that had to wait.
    again: bool,
}

impl Made {
    /// Whether the answer depends on how much memory is in use.
    fn asks_for_memory(&self) -> bool {
        let is = |command: ioctl::Command| self.number == u32::from(command.nr);
        match self.target {
            protocol::Device::Kfd => is(ioctl::ALLOC_MEMORY_OF_GPU) || is(ioctl::AVAILABLE_MEMORY),
            protocol::Device::Render => is(drm::AMDGPU_GEM_CREATE) || is(drm::AMDGPU_INFO),
        }
    }

    /// Returns the driver's name of the call.
    fn name(&self) -> &'static str {
        match (self.target, u8::try_from(self.number).map(ioctl::lookup)) {
            (protocol::Device::Kfd, Ok(Lookup::Known(command))) => command.name,
            (protocol::Device::Kfd, _) => "unknown",
            (protocol::Device::Render, _) => "DRM",
        }
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        if !self.attached {
            return;
        }
        self.supervisor.waiting.forget(self.key.pid);
        self.supervisor.close_process(self.key);
        self.supervisor.execute_end(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Setup;
    use crate::profile::Profile;

    fn ask(stream: &UnixStream, request: &SupervisorRequest, fds: &[std::os::fd::BorrowedFd<'_>]) -> Reply {
        let bytes = serde_json::to_vec(request).expect("can be written");
        sys::send(stream, &bytes, fds).expect("is served");
        let frame = sys::receive(stream).expect("is answered").expect("is open");
        serde_json::from_slice(&frame.bytes).expect("a reply")
    }

    fn attach(stream: &UnixStream) {
        let kfd = sys::memfd("kfd", layout::kfd_file_size()).expect("a file");
        let (_control, file) = Control::new().expect("a page");
        let reply = ask(stream, &SupervisorRequest::Attach, &[kfd.as_fd(), file.as_fd()]);
        assert!(matches!(reply, Reply::Attached(..)), "{reply:?}");
    }

    #[test]
    fn a_target_that_ends_before_its_debugger_has_its_turn_is_not_opened_again() {
        let supervisor = Arc::new(Supervisor::new().expect("a thread"));
        supervisor.configure(Setup::new(Profile::load("mi300x").expect("built in")), None).expect("not configured yet");
        let device = supervisor.device().expect("configured");
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("a process");
        let join = |pid| {
            let (ours, theirs) = UnixStream::pair().expect("sockets");
            let process = ProcessKey::new(pid, 0);
            let control = Control::new().expect("a page").0;
            let channel = Arc::new(ProcessChannel::new(process, control, ours, &device.chip).expect("room"));
            let member = Arc::new(Member::new(channel));
            device.driver().open(process).expect("room");
            supervisor.lock_members().insert(process, Arc::clone(&member));
            (process, member, theirs)
        };
        let (target, member, _theirs) = join(child.id());
        let (debugger, own, stream) = join(std::process::id());
        let mut busy = Some(member.busy());
        std::thread::scope(|scope| {
            let call = scope.spawn(|| {
                // SAFETY: begins to trace a child of this process, which this thread does not wait for.
                let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, target.pid, 0, 0) };
                assert_eq!(seized, 0, "{}", std::io::Error::last_os_error());
                let mut client = Client {
                    supervisor: &supervisor,
                    stream: &stream,
                    key: debugger,
                    uid: 0,
                    attached: false,
                    passed: None,
                    kfd: None,
                };
                let enable = kfd_abi::debug::Enable::default();
                // SAFETY: takes no argument and cannot fail.
                let tid = unsafe { libc::gettid() }.cast_unsigned();
                let call = Call { tid, ..Call::new(&DbgTrapArgs::new(target.pid, enable)) };
                let number = ioctl::DBG_TRAP.nr.into();
                client.call(device, &Made { target: protocol::Device::Kfd, number, again: false }, call, None).0
            });
            while own.calls().is_empty() {
                std::thread::yield_now();
            }
            // It has found its target, or is about to; either way there is none when its turn comes.
            std::thread::sleep(std::time::Duration::from_millis(50));
            supervisor.close_process(target);
            drop(busy.take());
            assert_eq!(call.join().expect("ends"), -i64::from(libc::ESRCH));
        });
        assert!(!device.driver().processes().any(|known| known == target));
        child.kill().expect("can be killed");
        child.wait().expect("ends");
    }

    #[test]
    fn the_end_of_an_old_connection_does_not_take_the_gpu_from_the_same_process_after_an_exec() {
        let supervisor = Arc::new(Supervisor::new().expect("a thread"));
        supervisor.configure(Setup::new(Profile::load("mi300x").expect("built in")), None).expect("not configured yet");
        let connect = || {
            let (ours, theirs) = UnixStream::pair().expect("sockets");
            let supervisor = Arc::clone(&supervisor);
            (ours, std::thread::spawn(move || serve(&supervisor, &theirs)))
        };
        let (before, thread) = connect();
        attach(&before);
        let (after, _) = connect();
        attach(&after);
        drop(before);
        thread.join().expect("ends");
        let driver = supervisor.device().expect("configured").driver();
        let proc = format!("/sys/class/kfd/kfd/proc/{}", std::process::id());
        assert!(driver.sysfs(&proc).is_some(), "the driver knows the process still");
        drop(driver);
        drop(after);
    }
}
