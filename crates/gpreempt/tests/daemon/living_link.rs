//! The daemon's end of an actuator, kept alive as the daemon keeps it: one thread, of the daemon's priority, gives the
//! signs of life and sends the commands. A lock between two threads would let one of low priority hold up the signs of
//! life, for which the guardian of an actuator ends it on a busy machine.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;

use gpreemptd::actuate::{ActuatorChoice, ActuatorCommand, BEAT, Link};
use gpreemptd::inbox::Inbox;
use gpreemptd::os::channel::{Receiver, Sender, channel};

use super::executable;

type Work = Box<dyn FnOnce(&mut Link) + Send>;

/// Handle of the thread. Dropping it ends the actuator and waits for that.
pub(super) struct LivingLink {
    work: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl LivingLink {
    /// Starts guardian and actuator; what is heard of them.
    pub(super) fn start() -> (LivingLink, Inbox) {
        let (to, told) = channel().expect("a descriptor");
        let (work, received) = channel().expect("a descriptor");
        let thread = std::thread::spawn(move || {
            let _ = gpreemptd::os::priority::raise();
            let link = Link::start(&executable(), ActuatorChoice::Auto, to).expect("can be started");
            keep_alive(link, &received);
        });
        (LivingLink { work: Some(work), thread: Some(thread) }, told)
    }

    fn with<T: Send + 'static>(&self, act: impl FnOnce(&mut Link) -> T + Send + 'static) -> T {
        let (to, answer) = mpsc::channel();
        let work: Work = Box::new(move |link| to.send(act(link)).expect("is awaited"));
        self.work.as_ref().and_then(|sender| sender.send(work).ok()).expect("the thread runs");
        answer.recv().expect("the thread runs")
    }

    /// Sends a command; whether the actuator takes it.
    pub(super) fn send(&self, command: ActuatorCommand) -> bool {
        self.with(move |link| link.send(&command))
    }

    /// The actuator's process, once it has started.
    pub(super) fn pid(&self) -> Option<u32> {
        self.with(|link| link.pid())
    }
}

impl Drop for LivingLink {
    fn drop(&mut self) {
        drop(self.work.take());
        if let Some(thread) = self.thread.take() {
            // A panic of it was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn keep_alive(mut link: Link, work: &Receiver<Work>) {
    loop {
        link.beat();
        match work.recv_timeout(BEAT / 2) {
            Ok(act) => act(&mut link),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
