//! The actuator's way to the daemon.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use super::ActuatorEvent;
use super::json_lines::line;

/// The actuator's end of the socket, shared by its threads.
#[derive(Debug)]
pub(super) struct Reports(Mutex<UnixStream>);

impl Reports {
    pub(super) fn new(socket: UnixStream) -> Reports {
        Reports(Mutex::new(socket))
    }

    /// Tells the daemon. If it cannot be told it is gone, and the main thread sees that.
    pub(super) fn tell(&self, told: &ActuatorEvent) {
        let Ok(line) = line(told) else { return };
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
    }
}
