//! What the deciding thread is told.

use std::fmt;
use std::sync::mpsc::{Receiver, channel};

use gpreempt_proto::{Answer, Refusal, RefusalKind, Request};

use crate::actuate::ActuatorEvent;
use crate::config::Config;
use crate::discovery::DiscoveryEvent;

/// A message for the deciding thread. Sending one wakes it.
#[derive(Debug)]
pub enum Input {
    /// Processes, queues and gpus.
    Discovery(DiscoveryEvent),
    /// From the actuator process.
    Actuator(ActuatorEvent),
    /// A change that a client asked for. Questions are answered elsewhere, from what the host publishes.
    Request(ClientRequest),
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
pub struct ClientRequest {
    /// Who, from the socket itself.
    pub uid: u32,
    /// What; only requests that change something.
    pub request: Request,
    /// Where the answer goes.
    pub answer: Responder,
}

/// Where one answer goes. Whoever asked may be gone meanwhile. Dropped without an answer, it says that the daemon ends.
pub struct Responder(Option<Box<dyn FnOnce(Answer) + Send>>);

impl Responder {
    /// An answer is handed to this function.
    pub fn new(take: impl FnOnce(Answer) + Send + 'static) -> Responder {
        Responder(Some(Box::new(take)))
    }

    /// The answer comes out of a channel.
    #[must_use]
    pub fn channel() -> (Responder, Receiver<Answer>) {
        let (sender, receiver) = channel();
        // Whoever does not wait any more does not need the answer.
        (Responder::new(move |answer| drop(sender.send(answer))), receiver)
    }

    /// Answers.
    pub fn send(mut self, answer: Answer) {
        if let Some(take) = self.0.take() {
            take(answer);
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if let Some(take) = self.0.take() {
            let message = "the daemon ends; whether it was done shows when it runs again".to_owned();
            take(Answer::Refused(Refusal { kind: RefusalKind::Busy, message }));
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}
