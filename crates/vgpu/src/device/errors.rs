//! Errors that stop a queue, and the codes by which its runtime learns of them.

use kfd_abi::exception::ExceptionCode;
use vgpu_isa::inst::Stop;
use vgpu_isa::memory::Fault;

/// Reasons for which a queue stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// An access of the queue or of one of its waves failed.
    Fault(Fault),
    /// Something that cannot be executed.
    Error {
        /// Exception that the driver reports.
        code: ExceptionCode,
        /// Description for the log.
        text: String,
    },
}

impl Halt {
    pub(crate) fn error(code: ExceptionCode, text: impl Into<String>) -> Self {
        Self::Error { code, text: text.into() }
    }

    /// Makes the error for a packet that the device does not execute.
    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Self::error(ExceptionCode::QUEUE_PACKET_UNSUPPORTED, text)
    }
}

impl std::fmt::Display for Halt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fault(fault) => write!(f, "{fault:?}"),
            Self::Error { code, text } => write!(f, "{text} ({code:?})"),
        }
    }
}

impl From<Fault> for Halt {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Packet errors start here.
const FIRST_PACKET_ERROR: u32 = ExceptionCode::QUEUE_PACKET_DISPATCH_DIM_INVALID.0;
const LAST_PACKET_ERROR: u32 = ExceptionCode::QUEUE_PACKET_VENDOR_UNSUPPORTED.0;

/// Returns whether the packet processor raised an exception; otherwise a wave did.
pub(crate) fn is_of_packet(code: ExceptionCode) -> bool {
    (FIRST_PACKET_ERROR..=LAST_PACKET_ERROR).contains(&code.0)
}

/// Codes that the packet processor, or the trap handler of older runtimes, stores in the queue's inactive signal.
pub(crate) fn inactive_bits(code: ExceptionCode) -> u64 {
    match code {
        // The bits of packet errors start at the second.
        ExceptionCode(number @ FIRST_PACKET_ERROR..=LAST_PACKET_ERROR) => 2 << (number - FIRST_PACKET_ERROR),
        ExceptionCode::QUEUE_WAVE_MEMORY_VIOLATION | ExceptionCode::QUEUE_WAVE_APERTURE_VIOLATION => 0x2000_0000,
        ExceptionCode::QUEUE_WAVE_ILLEGAL_INSTRUCTION => 0x4000_0000,
        _ => 0x8000_0000,
    }
}

/// `s_trap` of `llvm.trap` and `abort`.
const TRAP_ABORT: u8 = 2;
/// `s_trap` of `llvm.debugtrap`.
pub(crate) const TRAP_DEBUG: u8 = 3;

/// Returns the error of the queue whose wave stopped.
pub(crate) fn of_wave(stop: &Stop, pc: u64) -> Halt {
    match stop {
        Stop::Memory(fault) => Halt::Fault(*fault),
        Stop::Illegal { mnemonic, words } => {
            let name = mnemonic.unwrap_or("no instruction");
            let [first, second] = words;
            let text = format!("{name} (encoding {first:08x} {second:08x}) at {pc:#x} is not executed");
            Halt::error(ExceptionCode::QUEUE_WAVE_ILLEGAL_INSTRUCTION, text)
        }
        Stop::Lds { offset } => aperture(format!("atomic on LDS at {offset:#x}, which is not aligned, at {pc:#x}")),
        Stop::Scratch { offset } => {
            aperture(format!("private memory access at {offset:#x}, beyond the allocation, at {pc:#x}"))
        }
        Stop::Address(address) => aperture(format!("access to {address:#x}, which is no address, at {pc:#x}")),
        Stop::Trap(TRAP_ABORT) => {
            Halt::error(ExceptionCode::QUEUE_WAVE_ABORT, format!("the program aborts at {pc:#x}"))
        }
        Stop::Trap(id) => Halt::error(ExceptionCode::QUEUE_WAVE_TRAP, format!("s_trap {id} at {pc:#x}")),
        Stop::Gws(request) => Halt::error(
            ExceptionCode::QUEUE_WAVE_MEMORY_VIOLATION,
            format!("global wave sync resource {}, which the process does not have, at {pc:#x}", request.resource),
        ),
        Stop::Exception(bits) => {
            Halt::error(ExceptionCode::QUEUE_WAVE_MATH_ERROR, format!("arithmetic exception {bits:#x} at {pc:#x}"))
        }
    }
}

fn aperture(text: String) -> Halt {
    Halt::error(ExceptionCode::QUEUE_WAVE_APERTURE_VIOLATION, text)
}
