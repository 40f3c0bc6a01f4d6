//! What a call asks of the device, in order.
//!
//! The driver decides and keeps the books; the engine in the client's address space carries out. An effect is final:
//! the call that caused it was accepted, and no answer of the engine changes its result.

use kfd_abi::event::EventType;
use kfd_abi::exception::ExceptionMask;
use kfd_abi::memory::AllocFlags;
use serde::{Deserialize, Serialize};

use super::ProcessKey;

/// Where the bytes of a buffer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Backing {
    /// Video memory, at this offset of the render file.
    Vram {
        /// Offset.
        offset: u64,
    },
    /// System memory of the driver, at this offset of the render file.
    Gtt {
        /// Offset.
        offset: u64,
    },
    /// Memory of the process, at this address there.
    UserPtr {
        /// Address.
        address: u64,
    },
    /// The process's doorbells of a gpu, at this offset of the kfd file.
    Doorbell {
        /// Offset.
        offset: u64,
    },
    /// A gpu's page of registers, at this offset of the kfd file.
    MmioRemap {
        /// Offset.
        offset: u64,
    },
}

/// Kind of a queue, for the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum QueueKind {
    /// Compute, ring of AQL packets.
    Aql,
    /// Compute, ring of PM4 packets.
    Pm4,
    /// Copies, on this engine.
    Sdma {
        /// Engine, those for other gpus counted after the ordinary ones.
        engine: u32,
    },
}

/// What may change about a queue after it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSettings {
    /// Address of the ring.
    pub ring: u64,
    /// Bytes of the ring.
    pub ring_size: u64,
    /// 0 is off, anything up to 100 is on.
    pub percent: u32,
    /// 0 to 15.
    pub priority: u32,
    /// XCC that executes PM4 packets.
    pub target_xcc: u32,
    /// Whether it runs: it has a ring and its percentage is not 0.
    pub active: bool,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSpec {
    /// Its name in the process.
    pub id: u32,
    /// Kind.
    pub kind: QueueKind,
    /// Index of its gpu in the profile.
    pub gpu: u32,
    /// What may change later.
    pub settings: QueueSettings,
    /// Address of the read index.
    pub rptr: u64,
    /// Address of the write index.
    pub wptr: u64,
    /// Position of its doorbell among those of the process on this gpu.
    pub doorbell: u32,
    /// Offset of its doorbell in the kfd file.
    pub doorbell_offset: u64,
    /// End-of-packet buffer, or 0.
    pub eop: u64,
    /// Its bytes.
    pub eop_size: u64,
    /// Context save area, or 0.
    pub ctx_save: u64,
    /// Its bytes for one XCC, without the debugger's part.
    pub ctx_save_size: u32,
    /// Bytes of the control stack of one XCC.
    pub ctl_stack_size: u32,
}

/// Why the queues of a gpu were taken off it and put back.
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
    /// As reports name it.
    #[must_use]
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// Something for the device to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// A queue exists from now on.
    CreateQueue(QueueSpec),
    /// A queue has new settings; if it stops being active its waves are saved first.
    UpdateQueue {
        /// The queue.
        id: u32,
        /// All settings, changed or not.
        settings: QueueSettings,
    },
    /// A queue is gone; its waves are dropped.
    DestroyQueue {
        /// The queue.
        id: u32,
    },
    /// All queues of a gpu are taken off it, and those of the runlist put back.
    Cycle {
        /// Index of the gpu.
        gpu: u32,
        /// Why.
        cause: Cause,
        /// Grace period as the caller gave it, or the default. The hardware keeps 8 bits of it, and 0 becomes 1.
        grace: Option<u32>,
    },
    /// From now on a byte per event goes to the descriptor that the call names, until another effect of this kind
    /// says that it is to be closed.
    DebuggerFile {
        /// Whose events.
        target: ProcessKey,
        /// Whether the descriptor is kept from now on, or closed.
        keep: bool,
    },
    /// One byte, a dot, is written to the descriptor that is kept for this process.
    NotifyDebugger {
        /// Whose events.
        target: ProcessKey,
    },
    /// Calls of this process that wait are to be repeated.
    Wake {
        /// The process.
        process: ProcessKey,
    },
    /// Headers and control stacks of all compute queues of a process are to be written into their save areas; comes
    /// after the cycles that took queues off the gpus.
    CopyWaveStates {
        /// The process.
        process: ProcessKey,
    },
    /// A queue's exceptions are told to the runtime: added to the word that the header of its save area names, and the
    /// event that the header names is signalled.
    QueueException {
        /// The process.
        process: ProcessKey,
        /// The queue.
        queue: u32,
        /// What happened.
        #[serde(with = "wire::exceptions")]
        exceptions: ExceptionMask,
    },
    /// The process is told that it used memory that the gpu does not see.
    MemoryException {
        /// The process.
        process: ProcessKey,
        /// Index of the gpu.
        gpu: u32,
    },
    /// A queue's waves may only run on these compute units: bit i is on XCC i modulo their number.
    CuMask {
        /// The queue.
        id: u32,
        /// The mask.
        mask: Vec<u32>,
    },
    /// Header and control stacks of an inactive queue are to be written, and the two sizes of the first XCC put into
    /// the arguments.
    ReadWaveState {
        /// The queue.
        id: u32,
        /// Where they go.
        address: u64,
    },
    /// A buffer is visible to a gpu.
    MapMemory {
        /// Index of the gpu.
        gpu: u32,
        /// The buffer.
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
    /// It no longer is.
    UnmapMemory {
        /// Index of the gpu.
        gpu: u32,
        /// The buffer.
        handle: u64,
        /// Address on the gpu.
        va: u64,
        /// Bytes.
        size: u64,
    },
    /// A buffer's bytes are given back; its offset may be used again.
    FreeMemory {
        /// The buffer.
        handle: u64,
        /// Where its bytes were.
        backing: Backing,
        /// Bytes.
        size: u64,
    },
    /// A range of the process's own memory has become visible to a gpu, or ceased to be.
    SvmAccess {
        /// Index of the gpu.
        gpu: u32,
        /// Address, the same on both sides.
        va: u64,
        /// Bytes, whole pages.
        size: u64,
        /// Whether it is visible.
        access: bool,
        /// Whether the gpu may write it.
        writable: bool,
        /// Whether the gpu may execute it.
        executable: bool,
    },
    /// A buffer is to become a descriptor, and its number put into the arguments. The descriptor is later named by
    /// [`FdKind::Dmabuf`](super::FdKind::Dmabuf) with this token.
    ExportDmabuf {
        /// Names the buffer from now on.
        token: u64,
        /// Flags of the new descriptor.
        fd_flags: u32,
        /// Where its bytes are.
        backing: Backing,
        /// Bytes.
        size: u64,
    },
    /// The event page is this buffer from now on, and all its slots are unsignalled.
    EventPage {
        /// Where its bytes are.
        backing: Backing,
        /// Bytes.
        size: u64,
    },
    /// An event exists from now on, unsignalled.
    CreateEvent {
        /// Its name.
        id: u32,
        /// Kind.
        #[serde(with = "wire::event_type")]
        kind: EventType,
        /// Whether a wait that ends makes it unsignalled.
        auto_reset: bool,
        /// Its slot in the event page, for those that the device can raise.
        slot: Option<u32>,
    },
    /// An event is gone; whoever waits for it fails.
    DestroyEvent {
        /// The event.
        id: u32,
    },
    /// An event is signalled.
    SetEvent {
        /// The event.
        id: u32,
    },
    /// An event is unsignalled.
    ResetEvent {
        /// The event.
        id: u32,
    },
    /// The caller waits for these events, all of which exist.
    WaitEvents {
        /// The events.
        ids: Vec<u32>,
        /// Whether all must happen.
        all: bool,
        /// Milliseconds, or one of the two special values.
        timeout: u32,
    },
    /// Where scratch memory lies on a gpu.
    SetScratchBacking {
        /// Index of the gpu.
        gpu: u32,
        /// Address.
        va: u64,
    },
    /// The process's trap handler on a gpu.
    SetTrapHandler {
        /// Index of the gpu.
        gpu: u32,
        /// Code.
        tba: u64,
        /// Memory for it.
        tma: u64,
    },
    /// Page faults are retried from now on, or not.
    XnackMode {
        /// Whether.
        enabled: bool,
    },
    /// The runtime offers itself to a debugger, or no longer.
    RuntimeMode {
        /// Whether.
        enabled: bool,
        /// Whether trap temporaries are set up.
        ttmp_setup: bool,
        /// The runtime's list of loaded code.
        r_debug: u64,
    },
}

/// Who carries an effect out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// The process that made the call, or that ended: its memory, its events, its queues.
    Caller,
    /// Whoever owns the driver: the schedule of the gpus, the files of debuggers, calls that wait.
    Machine,
    /// This process, whoever made the call.
    Process(ProcessKey),
}

impl Effect {
    /// Who carries it out.
    #[must_use]
    pub fn addressee(&self) -> Addressee {
        match *self {
            Effect::Cycle { .. }
            | Effect::DebuggerFile { .. }
            | Effect::NotifyDebugger { .. }
            | Effect::Wake { .. } => Addressee::Machine,
            Effect::CopyWaveStates { process }
            | Effect::QueueException { process, .. }
            | Effect::MemoryException { process, .. } => Addressee::Process(process),
            _ => Addressee::Caller,
        }
    }
}

/// Numbers of the driver's interface on their way between processes of this project.
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
    number!(exceptions, kfd_abi::exception::ExceptionMask);
    number!(event_type, kfd_abi::event::EventType);
}
