//! What the deciding thread is told.

use std::sync::mpsc::Sender;

use gpreempt_proto::{Answer, Request};

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
    /// Where the answer goes. It may be gone.
    pub answer: Sender<Answer>,
}
