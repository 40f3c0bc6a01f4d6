//! One connection: requests of one process, answered in order.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

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
    let key = ProcessKey { pid: pid.cast_unsigned(), start: sys::start_time(pid) };
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
        if let Request::Configure { profile, hold } = request {
            return match self.supervisor.configure(profile, hold) {
                Ok(()) => Reply::Done,
                Err(why) => Reply::Refused(why),
            };
        }
        let Some(device) = self.supervisor.device() else {
            return Reply::Refused("the virtual gpu is not configured yet".into());
        };
        match request {
            Request::Configure { .. } => Reply::Done,
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
        if let Err(error) = self.supervisor.poller.add(self.pid, kfd, &control) {
            return Reply::Refused(format!("cannot map the control page: {error}"));
        }
        let mut driver = device.driver();
        match driver.open(self.key) {
            Ok(()) => {
                self.attached = true;
                Reply::Attached(driver.profile().clone())
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
                eprintln!("vgpu: cannot watch the doorbell of process {}: {error}", self.pid);
                return (-i64::from(Errno::ENOMEM.0), call);
            }
        }
        (result.unwrap_or_else(|errno| -i64::from(errno.0)), call)
    }

    /// Doorbells are watched from the moment the queue exists.
    fn watch(&self, effect: &Effect) -> std::io::Result<()> {
        let poller = &self.supervisor.poller;
        match effect {
            Effect::CreateQueue(queue) => poller.add_queue(self.pid, queue.id, queue.gpu, queue.doorbell),
            Effect::DestroyQueue { id } => {
                poller.remove_queue(self.pid, *id);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        if self.attached {
            self.supervisor.poller.remove(self.pid);
            if let Some(device) = self.supervisor.device() {
                device.driver().close(self.key);
            }
        }
    }
}
