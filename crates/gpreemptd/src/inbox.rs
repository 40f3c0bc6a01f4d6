//! The inbox of the deciding thread.

use std::fmt;
use std::sync::mpsc::{Receiver, channel};

use gpreempt_proto::{Answer, Refusal, RefusalKind, Request};

use crate::actuate::ActuatorEvent;
use crate::config::Config;
use crate::discovery::DiscoveryEvent;

/// What the deciding thread takes its messages from.
pub type Inbox = crate::os::channel::Receiver<Input>;

/// Where messages for the deciding thread go.
pub type InputSender = crate::os::channel::Sender<Input>;

/// A message for the deciding thread. Sending one wakes it.
#[derive(Debug)]
pub enum Input {
    /// From the discovery thread: processes, queues, gpus, and outcomes of requests.
    Discovery(DiscoveryEvent),
    /// From the actuator process.
    Actuator(ActuatorEvent),
    /// A change that a client asks for. Questions are answered by the control thread from what the host publishes.
    Request(ClientRequest),
    /// A client says that a process has submitted work: its rings are polled now.
    Notified {
        /// The process.
        pid: u32,
        /// The client's user, as the kernel reports it for the socket. Only the process's owner and the operator count.
        uid: u32,
    },
    /// A client waits for the present state to be published.
    Publish,
    /// The configuration was read again and is valid.
    Configured(Box<Config>),
    /// Resume everything, detach and end.
    Stop,
}

/// A change that a client asks for.
#[derive(Debug)]
pub struct ClientRequest {
    /// The client's user, as the kernel reports it for the socket.
    pub uid: u32,
    /// A request that changes something.
    pub request: Request,
    /// Where the answer goes.
    pub answer: Responder,
}

/// Sends one answer to a client, which may be gone meanwhile. Dropped without an answer, it says that the daemon ends.
pub struct Responder(Option<Box<dyn FnOnce(Answer) + Send>>);

impl Responder {
    /// Makes a responder that hands the answer to this function.
    pub fn new(take: impl FnOnce(Answer) + Send + 'static) -> Responder {
        Responder(Some(Box::new(take)))
    }

    /// Makes a responder whose answer comes out of a channel.
    #[must_use]
    pub fn channel() -> (Responder, Receiver<Answer>) {
        let (sender, receiver) = channel();
        // A client that no longer waits does not need the answer.
        (Responder::new(move |answer| drop(sender.send(answer))), receiver)
    }

    /// Sends the answer.
    pub fn send(mut self, answer: Answer) {
        if let Some(take) = self.0.take() {
            take(answer);
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if let Some(take) = self.0.take() {
            let message = "the daemon is shutting down; ask again when it runs to learn the outcome".to_owned();
            take(Answer::Refused(Refusal { kind: RefusalKind::Busy, message }));
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}
