//! What the suite asks of an actor, and what the actor answers: one JSON document a line.

use serde::{Deserialize, Serialize};

/// One step of an actor. Addresses and descriptors are the actor's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Opens a device node for reading and writing.
    Open { path: String },
    /// Closes a descriptor.
    Close { fd: i32 },
    /// Calls `ioctl`; without an argument the pointer is null.
    Call { fd: i32, request: u32, args: Option<Vec<u8>> },
    /// The same in a thread of its own. One at a time.
    Begin { fd: i32, request: u32, args: Vec<u8> },
    /// Asks for the result of [`Request::Begin`].
    Finish,
    /// Interrupts the thread of [`Request::Begin`] with a signal that does not restart calls.
    Interrupt,
    /// Maps memory: of a descriptor at an offset, or fresh. `at` is replaced, where it is given.
    Map { at: Option<u64>, length: usize, file: Option<(i32, u64)>, accessible: bool },
    /// Unmaps memory.
    Unmap { at: u64, length: usize },
    /// Reads memory.
    Read { at: u64, length: usize },
    /// Writes memory.
    Write { at: u64, bytes: Vec<u8> },
    /// Stores one 64-bit word at once, as a doorbell wants it.
    Store { at: u64, value: u64 },
    /// Traces a process from the thread that serves requests.
    Seize { pid: u32 },
    /// Ends that.
    Detach { pid: u32 },
    /// Creates a pipe whose ends do not block.
    Pipe,
    /// Reads what is in a pipe.
    Drain { fd: i32 },
    /// Carries a request out in a forked child.
    Forked(Box<Request>),
    /// Begins work on the gpu: kernels of so many workgroups and steps, one after the other.
    BeginWork { groups: u32, steps: u32 },
    /// Asks how many kernels have completed.
    WorkDone,
    /// Ends the work and compares what it left.
    EndWork,
    /// Answers, then replaces the program by the same program.
    Exec,
}

/// What came of a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Nothing to tell.
    Done,
    /// A descriptor or an address.
    Number(u64),
    /// Both ends of a pipe, the one to read from first.
    Pipe(i32, i32),
    /// Bytes read.
    Bytes(Vec<u8>),
    /// The result of `ioctl`, an error number negated, the argument as it is now, and how long the call took.
    Called { result: i64, args: Vec<u8>, nanoseconds: u64 },
    /// The call of [`Request::Begin`] has not returned.
    Pending,
    /// The system refused: an error number.
    Refused(i32),
}
