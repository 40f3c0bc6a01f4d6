//! The door of the supervisor: accepts connections, and closes those for which there is no descriptor left.
//!
//! A process that connects waits for an answer, so one that cannot be served must be turned away and not left waiting:
//! descriptors become free only when others end, who may wait for it. accept(2) takes a free descriptor even for a
//! connection that is closed at once, and in the supervisor's table other threads would take it. The thread that turns
//! away has a table of its own, in which there is always room.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::sys::{self, PollFlags};

/// Pause when a connection cannot even be turned away, for lack of memory or of files in the whole system.
const PAUSE: Duration = Duration::from_millis(10);

/// A listening socket with the thread that turns away.
pub(super) struct Door {
    listener: UnixListener,
    /// Asks the thread to turn the next connection away.
    ask: Sender<()>,
    /// Tells that it has.
    done: Receiver<()>,
}

impl Door {
    /// Starts the thread that turns away.
    ///
    /// # Errors
    /// If there can be no thread, or no descriptor for it.
    pub(super) fn new(listener: UnixListener) -> io::Result<Self> {
        let ((ask, asked), (tell, done)) = (channel(), channel());
        let own = listener.try_clone()?;
        let turn_away = move || {
            // Where the kernel has no such call the table is the common one, and the process waits for a free place.
            let _ = sys::unshare_descriptors_above(own.as_raw_fd());
            for () in asked {
                turn_away(&own);
                if tell.send(()).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("door".into()).spawn(turn_away)?;
        Ok(Self { listener, ask, done })
    }

    /// Waits for the next connection that can be served.
    ///
    /// # Errors
    /// If the socket does not listen.
    pub(super) fn next(&self) -> io::Result<UnixStream> {
        loop {
            // Without a free descriptor accept fails before it looks for a connection.
            sys::wait_for_input(self.listener.as_fd());
            let error = match self.listener.accept() {
                Ok((stream, _)) => return Ok(stream),
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EINTR | libc::ECONNABORTED) => {}
                Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                    // The thread does not end before this does.
                    let _ = self.ask.send(()).map(|()| self.done.recv());
                }
                _ => return Err(error),
            }
        }
    }
}

/// Closes the next connection, if there is one. The connected processes keep their gpu; the new one learns that there
/// is none for it.
fn turn_away(listener: &UnixListener) {
    let comes = sys::poll_now(listener.as_fd(), PollFlags::IN).contains(PollFlags::IN);
    // The connection is closed when it is dropped.
    if comes && listener.accept().is_err() {
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::few_descriptors::{take_all, with_few_descriptors};
    use super::*;

    /// How long a process waits at the door at most.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn no_process_waits_at_the_door_while_other_threads_take_every_free_descriptor() {
        with_few_descriptors("no_process_waits_at_the_door", || {
            let name = format!("gpreempt-test-door-{}", std::process::id());
            let door = Door::new(sys::abstract_listener(&name).expect("a socket")).expect("a thread");
            let connect = || sys::connect(&name).expect("listens");
            let late: Vec<UnixStream> = (0..50).map(|_| connect()).collect();
            let taken = take_all();
            let enough = AtomicBool::new(false);
            let take_more = || {
                while !enough.load(Ordering::Relaxed) {
                    drop(take_all());
                }
            };
            std::thread::scope(|scope| {
                let others = [scope.spawn(take_more), scope.spawn(take_more)];
                let served = scope.spawn(move || door.next().expect("listens"));
                let refused = late.iter().all(|mut stream| {
                    stream.set_read_timeout(Some(PATIENCE)).expect("can be");
                    matches!(stream.read(&mut [0]), Ok(0))
                });
                enough.store(true, Ordering::Relaxed);
                others.into_iter().for_each(|thread| thread.join().expect("ends"));
                drop((taken, late));
                // One that comes while there is room is served.
                let _served = connect();
                served.join().expect("serves");
                assert!(refused, "a process waits at the door");
            });
        });
    }
}
