//! What the deciding thread is told.

use std::fmt;
use std::sync::mpsc::{Receiver, channel};

use gpreempt_proto::{Answer, Refusal, RefusalKind, Request};

use crate::actuate::Told;
use crate::config::Config;
use crate::scout::Scouted;

/// A message for the deciding thread. Sending one wakes it.
#[derive(Debug)]
pub enum Input {
    /// Processes, queues and gpus.
    Scouted(Scouted),
    /// From the actuator process.
    Told(Told),
    /// A change that a client asked for. Questions are answered elsewhere, from what the engine publishes.
    Asked(Asked),
    /// Somebody submitted work: look now.
    Notified {
        /// Who.
        pid: u32,
        /// Who says so, from the socket itself: the owner, or nothing comes of it.
        uid: u32,
    },
    /// Publish the present state soon: somebody waits for it.
    Publish,
    /// The configuration was read again and is good.
    Configured(Box<Config>),
    /// Resume everything, detach and end.
    Stop,
}

/// A change that a client asked for.
#[derive(Debug)]
pub struct Asked {
    /// Who, from the socket itself.
    pub uid: u32,
    /// What; only requests that change something.
    pub request: Request,
    /// Where the answer goes.
    pub answer: Reply,
}

/// Where one answer goes. Whoever asked may be gone meanwhile. Dropped without an answer, it says that the daemon ends.
pub struct Reply(Option<Box<dyn FnOnce(Answer) + Send>>);

impl Reply {
    /// An answer is handed to this function.
    pub fn new(take: impl FnOnce(Answer) + Send + 'static) -> Reply {
        Reply(Some(Box::new(take)))
    }

    /// The answer comes out of a channel.
    #[must_use]
    pub fn channel() -> (Reply, Receiver<Answer>) {
        let (sender, receiver) = channel();
        // Whoever does not wait any more does not need the answer.
        (Reply::new(move |answer| drop(sender.send(answer))), receiver)
    }

    /// Answers.
    pub fn send(mut self, answer: Answer) {
        if let Some(take) = self.0.take() {
            take(answer);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(take) = self.0.take() {
            let message = "the daemon ends; whether it was done shows when it runs again".to_owned();
            take(Answer::Refused(Refusal { kind: RefusalKind::Busy, message }));
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
