//! What an accepted call changes outside of the driver's own state.
//!
//! Effects are split by the side that carries them out, so that a new one that its side does not handle does not
//! compile: [`DeviceEffect`]s are executed by the supervisor, on gpus, executors and debuggers' files, before the call
//! returns; [`ProcessEffect`]s are applied by the calling process to its own memory and events when it has the answer.
//! An effect is final: the call that caused it was accepted, and only [`Driver::complete`](super::Driver::complete) may
//! change the call's result afterwards.

use kfd_abi::event::EventType;
use kfd_abi::exception::ExceptionMask;
use kfd_abi::memory::AllocFlags;
use serde::{Deserialize, Serialize};

use super::{ProcessKey, QueueChange, VmFault};

/// Where the bytes of a buffer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Backing {
    /// Video memory, a range of the render file.
    Vram {
        /// Byte offset in that file.
        offset: u64,
    },
    /// System memory of the driver, a range of the render file.
    Gtt {
        /// Byte offset in that file.
        offset: u64,
    },
    /// Memory of the process itself.
    UserPtr {
        /// Address in the process.
        address: u64,
    },
    /// The process's doorbells of a gpu, a range of the kfd file.
    Doorbell {
        /// Byte offset in that file.
        offset: u64,
    },
    /// A gpu's page of registers, a range of the kfd file.
    MmioRemap {
        /// Byte offset in that file.
        offset: u64,
    },
}

impl Backing {
    /// Returns the offset in the render file, if the bytes are there.
    #[must_use]
    pub fn render_offset(self) -> Option<u64> {
        match self {
            Backing::Vram { offset } | Backing::Gtt { offset } => Some(offset),
            Backing::UserPtr { .. } | Backing::Doorbell { .. } | Backing::MmioRemap { .. } => None,
        }
    }

    /// Returns memory of the same kind elsewhere in a render file.
    #[must_use]
    pub(super) fn moved_to(self, offset: u64) -> Backing {
        if let Backing::Vram { .. } = self { Backing::Vram { offset } } else { Backing::Gtt { offset } }
    }
}

/// Why all queues of a gpu are unmapped and mapped again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A queue was made.
    CreateQueue,
    /// A queue was destroyed.
    DestroyQueue,
    /// A queue has other settings.
    UpdateQueue,
    /// A queue has other compute units.
    CuMask,
    /// A debugger stopped queues.
    Suspend,
    /// A debugger let queues go on.
    Resume,
    /// A debugger came, went, or changed how waves start.
    Debug,
    /// A process's queues had to leave the gpu.
    Evict,
    /// They came back.
    Restore,
    /// A process ended.
    ProcessEnd,
    /// More queues than the hardware holds: others have their turn.
    Quantum,
}

impl Cause {
    /// Returns the name that reports use, in snake case.
    #[must_use]
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// The effects of a call, by the side that carries them out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effects {
    /// Executed by the supervisor before the call returns; they never leave it.
    #[serde(skip)]
    pub device: Vec<DeviceEffect>,
    /// Executed by the supervisor while the driver is locked; they never leave it, either.
    #[serde(skip)]
    pub share: Vec<ShareEffect>,
    /// Applied by the calling process, in order.
    pub process: Vec<ProcessEffect>,
}

impl Effects {
    /// Whether nothing is to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.device.is_empty() && self.share.is_empty() && self.process.is_empty()
    }
}

/// An effect on a buffer that processes share. The supervisor executes it before another call can find the buffer's
/// place in its file free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareEffect {
    /// A buffer becomes a descriptor, which is passed to the caller. If it cannot be made, that is the same as if it
    /// were closed: [`Driver::dmabuf_closed`](super::Driver::dmabuf_closed).
    ExportDmabuf {
        /// Names the descriptor.
        token: u64,
        /// The buffer. If it was not exported before, its file comes with the call.
        buffer: u64,
        /// Byte offset in that file.
        offset: u64,
        /// Bytes, whole pages.
        size: u64,
    },
    /// The file of an exported buffer is passed to the caller.
    PassBuffer {
        /// The buffer.
        buffer: u64,
    },
    /// The bytes of an exported buffer are given back.
    DiscardBuffer {
        /// The buffer.
        buffer: u64,
    },
}

/// An effect that the supervisor executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceEffect {
    /// The executors of the calling process change a queue, during the call's first cycle if it has one.
    Queue(QueueChange),
    /// All queues of a gpu are unmapped, and those of the runlist mapped again.
    Cycle {
        /// Index of the gpu.
        gpu: u32,
        /// Reason, for the statistics.
        cause: Cause,
        /// Grace period as the caller gave it, or the default. The hardware keeps 8 bits of it, and 0 becomes 1.
        grace: Option<u32>,
    },
    /// The file to which a debugger's events go is replaced.
    DebuggerFile {
        /// Process whose events go there.
        target: ProcessKey,
        /// Whether the descriptor that came with the call is kept; otherwise the one kept so far is closed.
        keep: bool,
    },
    /// Executed after all queue changes and cycles of the call.
    Then(FollowUp),
}

/// A device effect that follows the queue changes and cycles of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowUp {
    /// One byte, a dot, is written to the debugger's file of this process.
    NotifyDebugger {
        /// Process that the event is about.
        target: ProcessKey,
    },
    /// Blocked calls of this process are retried.
    Wake {
        /// Process whose calls are blocked.
        process: ProcessKey,
    },
    /// Executors write headers and control stacks of all suspended compute queues of a process into their save areas.
    CopyWaveStates {
        /// Process that owns the queues.
        process: ProcessKey,
    },
    /// Executors report a queue's exceptions to the runtime: they are added to the word that the header of the queue's
    /// save area names, and the event that the header names is signalled.
    QueueException {
        /// Process that owns the queue.
        process: ProcessKey,
        /// Id of the queue.
        queue: u32,
        /// Exceptions to add.
        exceptions: ExceptionMask,
    },
    /// An interrupt of the gpu signals an event of a process.
    EventInterrupt {
        /// Process that owns the event.
        process: ProcessKey,
        /// Number of the event; 0 if the slots tell which one it is.
        event: u32,
    },
    /// Executors report to the process that it used memory that the gpu does not see.
    MemoryException {
        /// Process to tell.
        process: ProcessKey,
        /// Index of the gpu.
        gpu: u32,
        /// The access.
        fault: VmFault,
    },
    /// Executors write header and control stacks of an inactive queue of the caller; the sizes of the first XCC are
    /// reported in [`Outcome::wave_state`](super::Outcome::wave_state).
    ReadWaveState {
        /// Id of the queue.
        id: u32,
        /// Address they are written to.
        address: u64,
    },
}

impl From<QueueChange> for DeviceEffect {
    fn from(change: QueueChange) -> Self {
        Self::Queue(change)
    }
}

impl From<FollowUp> for DeviceEffect {
    fn from(follow_up: FollowUp) -> Self {
        Self::Then(follow_up)
    }
}

/// The events that the caller of WAIT_EVENTS waits for, all of which exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventWait {
    /// Ids of the events.
    pub ids: Vec<u32>,
    /// Whether all of them must be signalled; otherwise one is enough.
    pub all: bool,
    /// Milliseconds, or one of the interface's two special values.
    pub timeout: u32,
}

/// An effect that the calling process applies to itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessEffect {
    /// A buffer becomes visible to a gpu.
    MapMemory {
        /// Index of the gpu.
        gpu: u32,
        /// Handle of the buffer.
        handle: u64,
        /// Address on the gpu.
        va: u64,
        /// Bytes, whole pages.
        size: u64,
        /// Where its bytes are.
        backing: Backing,
        /// Kind and properties, whether the gpu may write or execute among them.
        #[serde(with = "wire::flags")]
        flags: AllocFlags,
    },
    /// A buffer is no longer visible to a gpu.
    UnmapMemory {
        /// Index of the gpu.
        gpu: u32,
        /// Handle of the buffer.
        handle: u64,
        /// Address on the gpu.
        va: u64,
        /// Bytes, whole pages.
        size: u64,
    },
    /// A buffer's bytes are given back; its offset may be used again.
    FreeMemory {
        /// Handle of the buffer.
        handle: u64,
        /// Where its bytes were.
        backing: Backing,
        /// Bytes, whole pages.
        size: u64,
    },
    /// A range of the process's own memory becomes visible to a gpu, or ceases to be.
    SvmAccess {
        /// Index of the gpu.
        gpu: u32,
        /// Address, the same on both sides.
        va: u64,
        /// Bytes, whole pages.
        size: u64,
        /// Whether the gpu sees it.
        access: bool,
        /// Whether the gpu may write it.
        writable: bool,
        /// Whether the gpu may execute it.
        executable: bool,
    },
    /// A process lets go of a buffer that others hold, or that the supervisor gives back.
    ForgetMemory {
        /// Where its bytes were, as this process saw them.
        backing: Backing,
        /// Bytes, whole pages.
        size: u64,
    },
    /// A buffer of another process appears in the render file of this one. The file behind it came with the answer,
    /// as [`ShareEffect::PassBuffer`] says.
    ImportMemory {
        /// Where its bytes are to be seen.
        backing: Backing,
        /// Byte offset in the file that came.
        from: u64,
        /// Bytes, whole pages.
        size: u64,
    },
    /// The descriptor of a DMA buffer, which came with the answer, gets a number, which is put into the arguments.
    /// Later calls name the descriptor by [`FdKind::Dmabuf`](super::FdKind::Dmabuf) with this token.
    ExportDmabuf {
        /// Names the descriptor.
        token: u64,
        /// Flags of the new descriptor.
        fd_flags: u32,
        /// Offset in the arguments at which its number is put.
        argument: usize,
    },
    /// The event page is this buffer from now on, and all its slots are unsignalled.
    EventPage {
        /// Where its bytes are.
        backing: Backing,
        /// Bytes, whole pages.
        size: u64,
    },
    /// An event exists from now on, unsignalled.
    CreateEvent {
        /// Id of the event.
        id: u32,
        /// Type as the caller gave it.
        #[serde(with = "wire::event_type")]
        kind: EventType,
        /// Whether the end of a wait makes it unsignalled.
        auto_reset: bool,
        /// Its slot in the event page, for events that the device can raise.
        slot: Option<u32>,
    },
    /// An event is gone; waits for it fail.
    DestroyEvent {
        /// Id of the event.
        id: u32,
    },
    /// An event is signalled.
    SetEvent {
        /// Id of the event.
        id: u32,
    },
    /// An event is unsignalled.
    ResetEvent {
        /// Id of the event.
        id: u32,
    },
    /// Scratch memory of a gpu lies here.
    SetScratchBacking {
        /// Index of the gpu.
        gpu: u32,
        /// Address on the gpu.
        va: u64,
    },
    /// The process has a trap handler on a gpu.
    SetTrapHandler {
        /// Index of the gpu.
        gpu: u32,
        /// Address of its code.
        tba: u64,
        /// Address of its memory.
        tma: u64,
    },
    /// Page faults are retried from now on, or not.
    XnackMode {
        /// Whether they are retried.
        enabled: bool,
    },
    /// The runtime offers itself to a debugger, or no longer.
    RuntimeMode {
        /// Whether it does.
        enabled: bool,
        /// Whether trap temporaries are set up.
        ttmp_setup: bool,
        /// Address of the runtime's list of loaded code.
        r_debug: u64,
    },
}

/// Serialises numbers of the driver's interface, whose crate has no dependencies, as plain integers.
mod wire {
    macro_rules! number {
        ($module:ident, $type:ty) => {
            pub(super) mod $module {
                use serde::{Deserialize, Deserializer, Serialize, Serializer};

                pub(in super::super) fn serialize<S: Serializer>(value: &$type, to: S) -> Result<S::Ok, S::Error> {
                    value.0.serialize(to)
                }

                pub(in super::super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<$type, D::Error> {
                    Deserialize::deserialize(from).map(|number| {
                        let mut value = <$type>::default();
                        value.0 = number;
                        value
                    })
                }
            }
        };
    }

    number!(flags, kfd_abi::memory::AllocFlags);
    number!(event_type, kfd_abi::event::EventType);
}
