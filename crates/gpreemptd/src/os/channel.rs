//! A channel for a receiver of high priority whose senders have none.
//!
//! A sender of the standard library's channel wakes the receiver while it holds a lock that the receiver takes before
//! it waits again. The receiver runs at once and takes the processor from the sender, which then waits for its turn
//! with the lock: on a busy machine that was seen to hold up a real-time thread for seconds. Here the receiver never
//! waits for that channel, but for an eventfd, in which the kernel holds no lock while a thread may lose its processor.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvError, RecvTimeoutError, SendError, TryRecvError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;

/// Makes a channel.
///
/// # Errors
///
/// If the system has no descriptor left.
pub fn channel<T>() -> io::Result<(Sender<T>, Receiver<T>)> {
    let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
    let (to, queue) = mpsc::channel();
    Ok((Sender { queue: Some(to), bell: Arc::clone(&bell) }, Receiver { queue, bell }))
}

/// The sending end. Sending does not wait.
#[derive(Debug)]
pub struct Sender<T> {
    /// Taken when this is dropped.
    queue: Option<mpsc::Sender<T>>,
    bell: Arc<EventFd>,
}

impl<T> Sender<T> {
    /// Sends a message and wakes the receiver.
    ///
    /// # Errors
    ///
    /// If the receiver is gone; with the message.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let Some(queue) = &self.queue else { return Err(SendError(message)) };
        queue.send(message)?;
        self.ring();
        Ok(())
    }

    fn ring(&self) {
        // It fails only if the receiver has been rung at for ever without looking.
        let _ = self.bell.write(1);
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender { queue: self.queue.clone(), bell: Arc::clone(&self.bell) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // The receiver must find this one gone when it is woken.
        drop(self.queue.take());
        self.ring();
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<T> {
    queue: mpsc::Receiver<T>,
    bell: Arc<EventFd>,
}

impl<T> Receiver<T> {
    /// Returns a message that has come.
    ///
    /// # Errors
    ///
    /// If there is none, or all senders are gone.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.queue.try_recv()
    }

    /// Waits for a message.
    ///
    /// # Errors
    ///
    /// If all senders are gone.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.wait(None).map_err(|_| RecvError)
    }

    /// Waits for a message, at most `limit`.
    ///
    /// # Errors
    ///
    /// If none has come, or all senders are gone.
    pub fn recv_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        // A time that the clock does not reach is none.
        self.wait(Instant::now().checked_add(limit))
    }

    /// Returns the messages that have come.
    pub fn try_iter(&self) -> impl Iterator<Item = T> {
        self.queue.try_iter()
    }

    /// Returns messages until all senders are gone.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.recv().ok())
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        loop {
            match self.queue.try_recv() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {}
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(RecvTimeoutError::Timeout);
            }
            // If it fails, there was a look too many. What is sent after the bell is silenced rings it again.
            let _ = ppoll(&mut [PollFd::new(self.bell.as_fd(), PollFlags::POLLIN)], left.map(TimeSpec::from), None);
            let _ = self.bell.read();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_the_end_of_the_senders_wake_the_receiver() {
        let (to, received) = channel().unwrap();
        let other = to.clone();
        let sending = std::thread::spawn(move || {
            for number in 0..10_000 {
                to.send(number).unwrap();
            }
        });
        assert!(received.iter().take(10_000).eq(0..10_000));
        sending.join().unwrap();
        assert_eq!(received.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(received.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
        let ending = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(other);
        });
        assert_eq!(received.recv(), Err(RecvError));
        ending.join().unwrap();
    }

    #[test]
    fn a_receiver_that_is_gone_gives_messages_back() {
        let (to, received) = channel().unwrap();
        drop(received);
        assert_eq!(to.send(7), Err(SendError(7)));
    }
}
