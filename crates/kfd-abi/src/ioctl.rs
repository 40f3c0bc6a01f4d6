//! Request numbers and the table of commands.
//!
//! A request packs direction, argument size, device class and command number into 32 bits, as `asm-generic/ioctl.h`
//! defines. The commands are those of `include/uapi/linux/kfd_ioctl.h` of Linux 6.12, interface version 1.17.
//!
//! The driver's dispatcher (`kfd_chardev.c`, `kfd_ioctl`) looks at the number only. It takes the direction from its own
//! table, reads as many bytes as the caller's size field says, fills a shorter argument up with zeros and copies the
//! caller's size back. So an old program's smaller structure works, and its request differs from the one in the table.

use crate::Abi;

/// Which side reads and writes the argument, seen from the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Neither; the command has no argument.
    None = 0,
    /// The driver reads it (`_IOW`).
    Write = 1,
    /// The driver fills it (`_IOR`).
    Read = 2,
    /// Both (`_IOWR`).
    ReadWrite = 3,
}

/// The number given to `ioctl`.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request(pub u32);

impl Request {
    /// Device class of `/dev/kfd`.
    pub const KFD: u8 = b'K';
    /// Device class of a DRM render node.
    pub const DRM: u8 = b'd';

    const CLASS_SHIFT: u32 = 8;
    const SIZE_SHIFT: u32 = 16;
    const SIZE_MASK: u32 = (1 << 14) - 1;
    const DIRECTION_SHIFT: u32 = 30;

    /// Packs the four parts. A size has 14 bits; more are cut off, as in C.
    #[must_use]
    pub const fn new(direction: Direction, class: u8, nr: u8, size: u16) -> Request {
        let size = (size as u32) & Request::SIZE_MASK;
        Request(
            (direction as u32) << Request::DIRECTION_SHIFT
                | size << Request::SIZE_SHIFT
                | (class as u32) << Request::CLASS_SHIFT
                | nr as u32,
        )
    }

    /// Command number.
    #[must_use]
    pub const fn nr(self) -> u8 {
        self.0 as u8
    }

    /// Device class: [`Request::KFD`], [`Request::DRM`].
    #[must_use]
    pub const fn class(self) -> u8 {
        (self.0 >> Request::CLASS_SHIFT) as u8
    }

    /// Bytes of the argument, as the caller knows it.
    #[must_use]
    pub const fn size(self) -> u16 {
        (self.0 >> Request::SIZE_SHIFT & Request::SIZE_MASK) as u16
    }

    /// Direction, as the caller knows it.
    #[must_use]
    pub const fn direction(self) -> Direction {
        match self.0 >> Request::DIRECTION_SHIFT {
            0 => Direction::None,
            1 => Direction::Write,
            2 => Direction::Read,
            _ => Direction::ReadWrite,
        }
    }
}

impl core::fmt::Debug for Request {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Request({:#010x})", self.0)
    }
}

/// One command of a device: an entry of the driver's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Device class: [`Request::KFD`], [`Request::DRM`].
    pub class: u8,
    /// Command number.
    pub nr: u8,
    /// Whether the driver reads the argument, fills it, or both.
    pub direction: Direction,
    /// Bytes of the argument's fixed part.
    pub size: u16,
    /// The driver's name without its prefix.
    pub name: &'static str,
}

impl Command {
    /// The request.
    #[must_use]
    pub const fn request(self) -> Request {
        self.request_with(0)
    }

    /// The request with `tail` bytes of variable length behind the argument; only `SVM` takes any.
    #[must_use]
    pub const fn request_with(self, tail: u16) -> Request {
        Request::new(self.direction, self.class, self.nr, self.size.saturating_add(tail))
    }

    /// Whether the driver only keeps the number: it answers `EPERM` to every caller.
    #[must_use]
    pub const fn is_retired(self) -> bool {
        self.class == Request::KFD && self.nr >= DBG_REGISTER.nr && self.nr <= DBG_WAVE_CONTROL.nr
    }
}

/// The argument structure of exactly one command.
pub trait Argument: Abi {
    /// The command.
    const COMMAND: Command;
}

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $nr:literal, $direction:ident, $size:literal;)*) => {
        $($(#[$doc])* pub const $name: Command = Command {
            class: Request::KFD,
            nr: $nr,
            direction: Direction::$direction,
            size: $size,
            name: stringify!($name),
        };)*

        /// Every command of `/dev/kfd`, by number.
        pub const COMMANDS: &[Command] = &[$($name),*];
    };
}

commands! {
    /// Version of the interface.
    GET_VERSION = 0x01, Read, 8;
    /// Create a user-mode queue.
    CREATE_QUEUE = 0x02, ReadWrite, 96;
    /// Destroy one. Blocks while the queue is suspended by a debugger.
    DESTROY_QUEUE = 0x03, ReadWrite, 8;
    /// Default and alternate cache policy.
    SET_MEMORY_POLICY = 0x04, Write, 32;
    /// GPU and CPU clocks read together.
    GET_CLOCK_COUNTERS = 0x05, ReadWrite, 40;
    /// Apertures of at most seven gpus; superseded.
    GET_PROCESS_APERTURES = 0x06, Read, 400;
    /// Change ring, percentage or priority; percentage 0 stops the queue.
    UPDATE_QUEUE = 0x07, Write, 24;
    /// Create an event.
    CREATE_EVENT = 0x08, ReadWrite, 32;
    /// Destroy one.
    DESTROY_EVENT = 0x09, Write, 8;
    /// Signal one.
    SET_EVENT = 0x0A, Write, 8;
    /// Make one unsignalled.
    RESET_EVENT = 0x0B, Write, 8;
    /// Wait for one or all of a list.
    WAIT_EVENTS = 0x0C, ReadWrite, 24;
    /// Retired debugger interface.
    DBG_REGISTER = 0x0D, Write, 8;
    /// Retired debugger interface.
    DBG_UNREGISTER = 0x0E, Write, 8;
    /// Retired debugger interface.
    DBG_ADDRESS_WATCH = 0x0F, Write, 16;
    /// Retired debugger interface.
    DBG_WAVE_CONTROL = 0x10, Write, 16;
    /// Where scratch memory lies.
    SET_SCRATCH_BACKING_VA = 0x11, ReadWrite, 16;
    /// Tiling of images.
    GET_TILE_CONFIG = 0x12, ReadWrite, 40;
    /// Second-level trap handler.
    SET_TRAP_HANDLER = 0x13, Write, 24;
    /// Apertures of all gpus.
    GET_PROCESS_APERTURES_NEW = 0x14, ReadWrite, 16;
    /// Bind the process to the address space of a render node.
    ACQUIRE_VM = 0x15, Write, 8;
    /// Allocate a buffer.
    ALLOC_MEMORY_OF_GPU = 0x16, ReadWrite, 40;
    /// Free one.
    FREE_MEMORY_OF_GPU = 0x17, Write, 8;
    /// Map one into gpus.
    MAP_MEMORY_TO_GPU = 0x18, ReadWrite, 24;
    /// Take it out again.
    UNMAP_MEMORY_FROM_GPU = 0x19, ReadWrite, 24;
    /// Restrict a queue to some compute units.
    SET_CU_MASK = 0x1A, Write, 16;
    /// Copy header and control stack of an inactive queue to its save area.
    GET_QUEUE_WAVE_STATE = 0x1B, ReadWrite, 24;
    /// What a DMA buffer is.
    GET_DMABUF_INFO = 0x1C, ReadWrite, 32;
    /// Import one.
    IMPORT_DMABUF = 0x1D, ReadWrite, 24;
    /// Global wave sync for a queue.
    ALLOC_QUEUE_GWS = 0x1E, ReadWrite, 16;
    /// A descriptor that reports events of a gpu.
    SMI_EVENTS = 0x1F, ReadWrite, 8;
    /// Attributes of shared virtual memory; a list of them follows the argument.
    SVM = 0x20, ReadWrite, 24;
    /// Set or query retryable page faults.
    SET_XNACK_MODE = 0x21, ReadWrite, 4;
    /// Checkpoint and restore.
    CRIU_OP = 0x22, ReadWrite, 56;
    /// Memory left on a gpu.
    AVAILABLE_MEMORY = 0x23, ReadWrite, 16;
    /// Export a buffer as DMA buffer.
    EXPORT_DMABUF = 0x24, ReadWrite, 16;
    /// The runtime offers itself to a debugger.
    RUNTIME_ENABLE = 0x25, ReadWrite, 16;
    /// All debugger operations.
    DBG_TRAP = 0x26, ReadWrite, 32;
}

/// A new context of the process behind this descriptor: interface version 1.19.
pub const CREATE_PROCESS: Command =
    Command { class: Request::KFD, nr: 0x27, direction: Direction::None, size: 0, name: "CREATE_PROCESS" };
/// Performance counters and clocks: interface version 1.23.
pub const PROFILER: Command =
    Command { class: Request::KFD, nr: 0x28, direction: Direction::ReadWrite, size: 16, name: "PROFILER" };
/// The same call in AMD's DKMS driver.
pub const DKMS_PROFILER: Command = Command { nr: 0x86, ..PROFILER };
/// Second range of AMD's DKMS driver: its first number, and the first behind it.
pub const DKMS_COMMANDS: core::ops::Range<u8> = 0x80..0x88;

/// First command number.
pub const COMMAND_START: u8 = 0x01;
/// First number behind the commands (`AMDKFD_COMMAND_END`).
pub const COMMAND_END: u8 = 0x27;

/// What the driver does with a command number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Runs it.
    Known(Command),
    /// A number inside the range that has no handler: `EINVAL`. Linux 6.12 has none, drivers with a second range do.
    Hole,
    /// A number outside the range: `ENOTTY`. Zero is one of them.
    Unknown,
}

/// Finds a command by number, as the dispatcher does: class, size and direction of the request do not matter.
#[must_use]
pub fn lookup(nr: u8) -> Lookup {
    if !(COMMAND_START..COMMAND_END).contains(&nr) {
        return Lookup::Unknown;
    }
    COMMANDS.iter().find(|command| command.nr == nr).map_or(Lookup::Hole, |&command| Lookup::Known(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_numbers_seen_in_traces() {
        for (command, request) in [
            (GET_VERSION, 0x8008_4B01),
            (CREATE_QUEUE, 0xC060_4B02),
            (DESTROY_QUEUE, 0xC008_4B03),
            (UPDATE_QUEUE, 0x4018_4B07),
            (WAIT_EVENTS, 0xC018_4B0C),
            (ACQUIRE_VM, 0x4008_4B15),
            (ALLOC_MEMORY_OF_GPU, 0xC028_4B16),
            (SVM, 0xC018_4B20),
            (SET_XNACK_MODE, 0xC004_4B21),
            (CRIU_OP, 0xC038_4B22),
            (RUNTIME_ENABLE, 0xC010_4B25),
            (DBG_TRAP, 0xC020_4B26),
            (CREATE_PROCESS, 0x0000_4B27),
            (PROFILER, 0xC010_4B28),
        ] {
            assert_eq!(command.request(), Request(request), "{}", command.name);
        }
        // Six attributes, as a runtime registers its save area with.
        assert_eq!(SVM.request_with(6 * 8), Request(0xC048_4B20));
    }

    #[test]
    fn a_request_falls_into_its_parts() {
        for &command in COMMANDS {
            let request = command.request();
            assert_eq!((request.class(), request.nr()), (Request::KFD, command.nr));
            assert_eq!((request.direction(), request.size()), (command.direction, command.size));
        }
        // The argument of CREATE_QUEUE before version 1.17 was 8 bytes shorter.
        assert_eq!((Request(0xC058_4B02).nr(), Request(0xC058_4B02).size()), (CREATE_QUEUE.nr, 88));
    }

    #[test]
    fn the_table_is_complete_and_in_order() {
        assert_eq!(COMMANDS.len(), usize::from(COMMAND_END - COMMAND_START));
        for (command, nr) in COMMANDS.iter().zip(COMMAND_START..) {
            assert_eq!(command.nr, nr);
            assert_eq!(lookup(nr), Lookup::Known(*command));
        }
    }

    #[test]
    fn numbers_outside_the_table_are_unknown() {
        for nr in [0, COMMAND_END, PROFILER.nr, 0x80, 0x82, 0xC0, 0xFF] {
            assert_eq!(lookup(nr), Lookup::Unknown);
        }
    }

    #[test]
    fn the_retired_commands_are_the_four_old_debugger_calls() {
        assert!(COMMANDS.iter().all(|command| command.is_retired() == (0x0D..=0x10).contains(&command.nr)));
    }
}
