//! One connection: requests of one process, answered in order.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Device, Supervisor};
use crate::driver::{Call, Clocks, Effect, Errno, ProcessKey};
use crate::protocol::{self, Reply, Request};
use crate::sys::{self, Frame};

/// Serves until the other end closes.
pub(super) fn serve(supervisor: &Arc<Supervisor>, stream: &UnixStream) {
    let Ok((pid, uid)) = sys::peer(stream) else { return };
    // SAFETY: takes no argument and cannot fail.
    let own = unsafe { libc::geteuid() };
    if uid != own && uid != 0 {
        return;
    }
    // After an exec the same process comes with a new connection, perhaps before the old one is seen to be closed.
    let start = supervisor.accepted.fetch_add(1, Ordering::Relaxed);
    let key = ProcessKey { pid: pid.cast_unsigned(), start };
    let mut client = Client { supervisor, pid, key, attached: false };
    while let Ok(Some(frame)) = sys::receive(stream) {
        let reply = client.answer(frame);
        let Ok(bytes) = serde_json::to_vec(&reply) else { break };
        if sys::send(stream, &bytes, &[]).is_err() {
            break;
        }
    }
}

struct Client<'a> {
    supervisor: &'a Arc<Supervisor>,
    pid: i32,
    key: ProcessKey,
    attached: bool,
}

impl Client<'_> {
    fn answer(&mut self, frame: Frame) -> Reply {
        let request: Request = match serde_json::from_slice(&frame.bytes) {
            Ok(request) => request,
            Err(error) => return Reply::Refused(format!("unreadable request: {error}")),
        };
        if let Request::Configure { setup, hold } = request {
            return match self.supervisor.configure(*setup, hold) {
                Ok(()) => Reply::Done,
                Err(why) => Reply::Refused(why),
            };
        }
        let Some(device) = self.supervisor.device() else {
            return Reply::Refused("the virtual gpu is not configured yet".into());
        };
        match request {
            Request::Configure { .. } => Reply::Done,
            Request::Status => Reply::Status(Box::new(self.supervisor.status(device))),
            Request::Lookup { path } => Reply::Found(device.driver().sysfs(&path)),
            Request::Attach => self.attach(device, frame),
            Request::Call { device: target, number, call } => {
                let (result, call) = self.call(device, target, number, call);
                Reply::Returned(result, call)
            }
        }
    }

    fn attach(&mut self, device: &Device, frame: Frame) -> Reply {
        let mut fds = frame.fds.into_iter();
        let (Some(kfd), Some(control)) = (fds.next(), fds.next()) else {
            return Reply::Refused("attach needs the kfd file and the control page".into());
        };
        if let Err(error) = self.supervisor.poller.add(self.key, kfd, &control) {
            return Reply::Refused(format!("cannot map the control page: {error}"));
        }
        let mut driver = device.driver();
        match driver.open(self.key) {
            Ok(()) => {
                self.attached = true;
                Reply::Attached(driver.profile().clone(), device.setup.options.clone())
            }
            Err(errno) => Reply::Refused(format!("the driver refuses: {errno:?}")),
        }
    }

    fn call(&self, device: &Device, target: protocol::Device, number: u32, mut call: Call) -> (i64, Call) {
        call.clocks = Clocks { monotonic_raw_ns: sys::monotonic_raw_ns(), boottime_ns: sys::boottime_ns() };
        let mut driver = device.driver();
        let result = match target {
            protocol::Device::Kfd => driver.ioctl(self.key, number, &mut call),
            protocol::Device::Render => driver.drm_ioctl(self.key, number, &mut call),
        };
        drop(driver);
        for effect in &call.effects {
            if let Err(error) = self.watch(effect) {
                let _ = writeln!(std::io::stderr(), "vgpu: cannot watch the doorbell of process {}: {error}", self.pid);
                return (-i64::from(Errno::ENOMEM.0), call);
            }
        }
        (result.unwrap_or_else(|errno| -i64::from(errno.0)), call)
    }

    /// Doorbells are watched from the moment the queue exists.
    fn watch(&self, effect: &Effect) -> std::io::Result<()> {
        let poller = &self.supervisor.poller;
        match effect {
            Effect::CreateQueue(queue) => poller.add_queue(self.key, queue.id, queue.gpu, queue.doorbell),
            Effect::DestroyQueue { id } => {
                poller.remove_queue(self.key, *id);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        if self.attached {
            self.supervisor.poller.remove(self.key);
            if let Some(device) = self.supervisor.device() {
                device.driver().close(self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::control::Control;
    use crate::driver::layout;
    use crate::launch::Setup;
    use crate::profile::Profile;

    fn ask(stream: &UnixStream, request: &Request, fds: &[std::os::fd::BorrowedFd<'_>]) -> Reply {
        let bytes = serde_json::to_vec(request).expect("can be written");
        sys::send(stream, &bytes, fds).expect("is served");
        let frame = sys::receive(stream).expect("is answered").expect("is open");
        serde_json::from_slice(&frame.bytes).expect("a reply")
    }

    fn attach(stream: &UnixStream) {
        let kfd = sys::memfd("kfd", layout::kfd_file_size()).expect("a file");
        let (_control, file) = Control::new().expect("a page");
        let reply = ask(stream, &Request::Attach, &[kfd.as_fd(), file.as_fd()]);
        assert!(matches!(reply, Reply::Attached(..)), "{reply:?}");
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
