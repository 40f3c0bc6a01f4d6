//! A thread that waits for actuators to end, so that the deciding thread does not.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use super::Link;

/// Handle of the thread. Dropping it waits for every actuator that was handed over.
#[derive(Debug)]
pub struct LinkReaper {
    links: Option<Sender<Link>>,
    thread: Option<JoinHandle<()>>,
}

impl LinkReaper {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub fn start() -> io::Result<LinkReaper> {
        let (links, received) = mpsc::channel();
        let thread = thread::Builder::new().name("reaper".to_owned()).spawn(move || reap(&received))?;
        Ok(LinkReaper { links: Some(links), thread: Some(thread) })
    }

    /// A handle without a thread, and the links that are handed to it.
    #[cfg(test)]
    pub(crate) fn detached() -> (LinkReaper, Receiver<Link>) {
        let (links, received) = mpsc::channel();
        (LinkReaper { links: Some(links), thread: None }, received)
    }

    /// Asks an actuator to end and leaves the waiting to the thread. Does not wait.
    pub fn end(&self, mut link: Link) {
        // Here, because the thread may still wait for the one before.
        link.close();
        if let Some(links) = &self.links {
            // The thread ends after this handle; if it failed, that ends the process.
            let _ = links.send(link);
        }
    }
}

impl Drop for LinkReaper {
    fn drop(&mut self) {
        drop(self.links.take());
        if let Some(thread) = self.thread.take() {
            // A panic of it ends the process.
            let _ = thread.join();
        }
    }
}

fn reap(links: &Receiver<Link>) {
    // Dropping a link waits for its processes, and ends them if they stay.
    links.iter().for_each(drop);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{ActuatorChoice, ActuatorEvent};
    use super::*;
    use crate::inbox::Input;

    #[test]
    fn every_actuator_has_ended_when_the_reaper_is_dropped() {
        let (to, inputs) = crate::os::channel::channel().unwrap();
        let reaper = LinkReaper::start().unwrap();
        for _ in 0..3 {
            reaper.end(Link::start(Path::new("/bin/false"), ActuatorChoice::Auto, to.clone()).unwrap());
        }
        drop(reaper);
        let lost = |input: &Input| matches!(input, Input::Actuator(ActuatorEvent::Lost { .. }));
        assert_eq!(inputs.try_iter().filter(lost).count(), 3);
    }
}
