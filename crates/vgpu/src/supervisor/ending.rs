//! The end of a process: its entry in the driver, its executors, and the cycles that its end costs.
//!
//! An entry must not outlive its process because something else is slow. The connection's thread may be in a call that
//! waits for another process's executors, so a thread of its own watches every process and closes its entry as soon as
//! it exits; the status closes entries itself that it finds without a process. Whichever comes first wins: closing
//! twice does nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Supervisor;
use super::execute::execute;
use super::process_channel::ProcessChannel;
use crate::driver::{DeviceEffect, Effects, ProcessKey};

/// Device effects of processes that were closed, until they are executed.
#[derive(Default)]
pub(super) struct Ended {
    effects: Mutex<Vec<(ProcessKey, Vec<DeviceEffect>)>>,
}

impl Ended {
    fn effects(&self) -> MutexGuard<'_, Vec<(ProcessKey, Vec<DeviceEffect>)>> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches a process until it exits or closes its connection, then closes its entry and executes what its end changes.
pub(super) fn watch(supervisor: &Arc<Supervisor>, channel: &ProcessChannel) {
    channel.wait_for_end();
    supervisor.close_process(channel.process);
    // Before any cycle: executors of others may wait for a lock of the chip that this process died with.
    channel.end();
    supervisor.execute_end(channel.process);
}

impl Supervisor {
    /// Removes a process that is over from the driver, from the doorbells and from the members. Waits for no executor.
    /// What remains to be done on the gpus is left to [`Supervisor::execute_end`].
    pub(super) fn close_process(&self, process: ProcessKey) {
        let Some(device) = self.device() else { return };
        let mut ended = self.ended.effects();
        let mut driver = device.driver();
        let Effects { device: effects, share, .. } = driver.close(process);
        self.sharing.discard_all(share);
        drop(driver);
        if !effects.is_empty() {
            ended.push((process, effects));
        }
        drop(ended);
        let watch = self.poller.remove(process);
        let member = self.leave(process);
        // The last reference to a channel waits for executors, so it is not dropped with a lock held.
        drop((watch, member));
    }

    /// Executes what the end of a process changes on the gpus and for processes that it debugged.
    pub(super) fn execute_end(self: &Arc<Self>, process: ProcessKey) {
        let own: Vec<_> = self.ended.effects().extract_if(.., |(key, _)| *key == process).collect();
        for (key, effects) in own {
            execute(self, key, effects, None);
        }
    }

    /// Closes all processes that have exited. The thread that watches each executes the rest.
    pub(super) fn close_exited(&self) {
        for member in self.members() {
            if member.channel.has_exited() {
                self.close_process(member.channel.process);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use linux_host::process::ThreadCall;

    use super::super::hws::Hws;
    use super::super::member::Member;
    use super::*;
    use crate::control::Control;
    use crate::driver::Cause;
    use crate::launch::Setup;
    use crate::profile::Profile;

    /// A process with the driver open whose executors take no orders.
    struct Client {
        child: Child,
        control: Control,
        channel: Arc<ProcessChannel>,
        _stream: UnixStream,
    }

    impl Client {
        fn join(supervisor: &Supervisor) -> Self {
            let device = supervisor.device().expect("configured");
            let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a process");
            let process = ProcessKey::new(child.id(), 0);
            let (ours, stream) = UnixStream::pair().expect("sockets");
            let (control, page) = Control::new().expect("a page");
            let theirs = Control::open(page.as_fd()).expect("a page");
            let channel = ProcessChannel::new(process, theirs, ours, &device.chip).expect("room");
            let channel = Arc::new(channel);
            device.driver().open(process).expect("room");
            supervisor.lock_members().insert(process, Arc::new(Member::new(Arc::clone(&channel))));
            Self { child, control, channel, _stream: stream }
        }

        fn kill(&mut self) {
            self.child.kill().expect("can be killed");
            self.child.wait().expect("is reaped");
        }
    }

    /// A supervisor that waits a minute for executors before it resets a gpu.
    fn supervisor() -> Arc<Supervisor> {
        let supervisor = Arc::new(Supervisor::new().expect("a thread"));
        let mut setup = Setup::new(Profile::load("mi300x").expect("built in"));
        setup.options.preemption_timeout_ms = 60_000;
        supervisor.configure(setup, None).expect("not configured yet");
        supervisor
    }

    /// Runs `during` while a cycle waits for the executors of a process that is halted, and while a call of another
    /// process waits for that cycle.
    fn while_a_cycle_waits(supervisor: &Arc<Supervisor>, during: impl FnOnce(&mut Client)) {
        let (mut halted, mut client) = (Client::join(supervisor), Client::join(supervisor));
        let hws = supervisor.hws(0).expect("a gpu");
        hws.put_on_gpu(Arc::clone(&halted.channel));
        let member = supervisor.member(client.channel.process).expect("has joined");
        std::thread::scope(|scope| {
            scope.spawn(|| hws.cycle(supervisor, Cause::Debug, None, || {}));
            while !halted.control.has_orders() {
                std::thread::yield_now();
            }
            scope.spawn(|| {
                let _busy = member.busy();
                hws.cycle(supervisor, Cause::CreateQueue, None, || {})
            });
            during(&mut client);
            // The cycle ends with the executors.
            halted.control.lose();
        });
        halted.kill();
    }

    #[test]
    fn the_end_of_a_process_is_booked_while_its_own_call_waits_for_a_cycle() {
        let supervisor = supervisor();
        let device = supervisor.device().expect("configured");
        while_a_cycle_waits(&supervisor, |client| {
            let (watching, channel) = (Arc::clone(&supervisor), Arc::clone(&client.channel));
            std::thread::spawn(move || watch(&watching, &channel));
            client.kill();
            let until = Instant::now() + Duration::from_secs(50);
            while device.driver().processes().any(|key| key == client.channel.process) {
                assert!(Instant::now() < until, "the entry outlives the process");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }

    /// Waits until a thread of this process waits for the lock of a scheduler.
    fn wait_until_blocked(thread: u32, hws: &Hws) {
        let begin = std::ptr::from_ref(hws).addr() as u64;
        let within = begin..begin + size_of::<Hws>() as u64;
        let until = Instant::now() + Duration::from_secs(50);
        loop {
            // The first argument of `futex` is the address of the word that the lock consists of.
            if let Some(ThreadCall::Inside { number: libc::SYS_futex, arguments: [word, ..] }) =
                ThreadCall::read(std::process::id(), thread)
                && within.contains(&word)
            {
                return;
            }
            assert!(Instant::now() < until, "the thread does not wait for the cycle");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn status_does_not_list_a_process_that_ends_while_the_question_waits_for_a_cycle() {
        let supervisor = supervisor();
        let device = supervisor.device().expect("configured");
        let mut asked = None;
        while_a_cycle_waits(&supervisor, |client| {
            let (asking, (tell, told)) = (Arc::clone(&supervisor), mpsc::channel());
            let status = std::thread::spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).expect("is awaited");
                asking.status(asking.device().expect("configured"))
            });
            // A list that was made before the cycle is waited for has the client in it.
            wait_until_blocked(told.recv().expect("runs"), supervisor.hws(0).expect("a gpu"));
            client.kill();
            asked = Some((client.child.id(), status));
        });
        let (pid, status) = asked.expect("was asked");
        let status = status.join().expect("is answered");
        assert!(!status.processes.iter().any(|process| process.pid == pid), "{:?}", status.processes);
        assert_eq!(status.processes.len(), device.driver().processes().count());
    }
}
