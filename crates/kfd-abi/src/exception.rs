//! Exceptions: what a queue, a gpu or a process can report to a debugger.
//!
//! Source: `include/uapi/linux/kfd_ioctl.h` of Linux 6.12. Snapshots and events carry them as masks.

numbers! {
    /// One exception (`kfd_dbg_trap_exception_code`).
    ExceptionCode: u32 {
        /// None.
        NONE = 0,
        /// Queue: a wave aborted.
        QUEUE_WAVE_ABORT = 1,
        /// Queue: a wave trapped.
        QUEUE_WAVE_TRAP = 2,
        /// Queue: arithmetic of a wave.
        QUEUE_WAVE_MATH_ERROR = 3,
        /// Queue: an instruction that does not exist.
        QUEUE_WAVE_ILLEGAL_INSTRUCTION = 4,
        /// Queue: a wave's access outside its memory.
        QUEUE_WAVE_MEMORY_VIOLATION = 5,
        /// Queue: a wave's access outside an aperture.
        QUEUE_WAVE_APERTURE_VIOLATION = 6,
        /// Queue: a dispatch with impossible dimensions.
        QUEUE_PACKET_DISPATCH_DIM_INVALID = 16,
        /// Queue: a dispatch with too much local data.
        QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID = 17,
        /// Queue: a dispatch of something that is no code.
        QUEUE_PACKET_DISPATCH_CODE_INVALID = 18,
        /// Queue: a packet of a reserved kind.
        QUEUE_PACKET_RESERVED = 19,
        /// Queue: a packet that is not supported.
        QUEUE_PACKET_UNSUPPORTED = 20,
        /// Queue: a dispatch with an impossible work-group.
        QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID = 21,
        /// Queue: a dispatch with too many registers.
        QUEUE_PACKET_DISPATCH_REGISTER_INVALID = 22,
        /// Queue: a vendor packet that is not supported.
        QUEUE_PACKET_VENDOR_UNSUPPORTED = 23,
        /// Queue: it could not be preempted.
        QUEUE_PREEMPTION_ERROR = 30,
        /// Queue: it is new. Until a snapshot clears this, it cannot be suspended.
        QUEUE_NEW = 31,
        /// Gpu: a queue was destroyed.
        DEVICE_QUEUE_DELETE = 32,
        /// Gpu: an access outside memory.
        DEVICE_MEMORY_VIOLATION = 33,
        /// Gpu: a hardware error.
        DEVICE_RAS_ERROR = 34,
        /// Gpu: stopped for good.
        DEVICE_FATAL_HALT = 35,
        /// Gpu: it is new.
        DEVICE_NEW = 36,
        /// Process: its runtime was enabled or disabled.
        PROCESS_RUNTIME = 48,
        /// Process: it lost a gpu.
        PROCESS_DEVICE_REMOVE = 49,
    }
}

impl ExceptionCode {
    /// The mask of this one: the bit below its number. Empty for `NONE` and for numbers beyond 64.
    #[must_use]
    pub const fn mask(self) -> ExceptionMask {
        match self.0 {
            1..=64 => ExceptionMask(1 << (self.0 - 1)),
            _ => ExceptionMask::EMPTY,
        }
    }
}

flags! {
    /// A set of exceptions.
    ExceptionMask: u64 {
        /// [`ExceptionCode::QUEUE_WAVE_ABORT`]
        QUEUE_WAVE_ABORT = 1 << 0,
        /// [`ExceptionCode::QUEUE_WAVE_TRAP`]
        QUEUE_WAVE_TRAP = 1 << 1,
        /// [`ExceptionCode::QUEUE_WAVE_MATH_ERROR`]
        QUEUE_WAVE_MATH_ERROR = 1 << 2,
        /// [`ExceptionCode::QUEUE_WAVE_ILLEGAL_INSTRUCTION`]
        QUEUE_WAVE_ILLEGAL_INSTRUCTION = 1 << 3,
        /// [`ExceptionCode::QUEUE_WAVE_MEMORY_VIOLATION`]
        QUEUE_WAVE_MEMORY_VIOLATION = 1 << 4,
        /// [`ExceptionCode::QUEUE_WAVE_APERTURE_VIOLATION`]
        QUEUE_WAVE_APERTURE_VIOLATION = 1 << 5,
        /// [`ExceptionCode::QUEUE_PACKET_DISPATCH_DIM_INVALID`]
        QUEUE_PACKET_DISPATCH_DIM_INVALID = 1 << 15,
        /// [`ExceptionCode::QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID`]
        QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID = 1 << 16,
        /// [`ExceptionCode::QUEUE_PACKET_DISPATCH_CODE_INVALID`]
        QUEUE_PACKET_DISPATCH_CODE_INVALID = 1 << 17,
        /// [`ExceptionCode::QUEUE_PACKET_RESERVED`]
        QUEUE_PACKET_RESERVED = 1 << 18,
        /// [`ExceptionCode::QUEUE_PACKET_UNSUPPORTED`]
        QUEUE_PACKET_UNSUPPORTED = 1 << 19,
        /// [`ExceptionCode::QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID`]
        QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID = 1 << 20,
        /// [`ExceptionCode::QUEUE_PACKET_DISPATCH_REGISTER_INVALID`]
        QUEUE_PACKET_DISPATCH_REGISTER_INVALID = 1 << 21,
        /// [`ExceptionCode::QUEUE_PACKET_VENDOR_UNSUPPORTED`]
        QUEUE_PACKET_VENDOR_UNSUPPORTED = 1 << 22,
        /// [`ExceptionCode::QUEUE_PREEMPTION_ERROR`]
        QUEUE_PREEMPTION_ERROR = 1 << 29,
        /// [`ExceptionCode::QUEUE_NEW`]
        QUEUE_NEW = 1 << 30,
        /// [`ExceptionCode::DEVICE_QUEUE_DELETE`]
        DEVICE_QUEUE_DELETE = 1 << 31,
        /// [`ExceptionCode::DEVICE_MEMORY_VIOLATION`]
        DEVICE_MEMORY_VIOLATION = 1 << 32,
        /// [`ExceptionCode::DEVICE_RAS_ERROR`]
        DEVICE_RAS_ERROR = 1 << 33,
        /// [`ExceptionCode::DEVICE_FATAL_HALT`]
        DEVICE_FATAL_HALT = 1 << 34,
        /// [`ExceptionCode::DEVICE_NEW`]
        DEVICE_NEW = 1 << 35,
        /// [`ExceptionCode::PROCESS_RUNTIME`]
        PROCESS_RUNTIME = 1 << 47,
        /// [`ExceptionCode::PROCESS_DEVICE_REMOVE`]
        PROCESS_DEVICE_REMOVE = 1 << 48,
    }
}

impl ExceptionMask {
    /// Those of a queue.
    pub const QUEUE: ExceptionMask = ExceptionMask(0x607F_803F);
    /// Those of a queue that a bad packet causes.
    pub const PACKET: ExceptionMask = ExceptionMask(0x007F_8000);
    /// Those of a gpu.
    pub const DEVICE: ExceptionMask = ExceptionMask(0x000F_8000_0000);
    /// Those of a process.
    pub const PROCESS: ExceptionMask = ExceptionMask(0x0001_8000_0000_0000);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_the_bit_of_its_name() {
        for code in &ExceptionCode::DEFINED[1..] {
            assert_eq!(std::format!("{code:?}"), std::format!("{:?}", code.mask()));
        }
        assert_eq!(ExceptionCode::NONE.mask(), ExceptionMask::EMPTY);
        assert_eq!(ExceptionCode(65).mask(), ExceptionMask::EMPTY);
        assert_eq!(ExceptionCode::QUEUE_NEW.mask().0, 1 << 30);
        assert_eq!(ExceptionCode::DEVICE_QUEUE_DELETE.mask().0, 1 << 31);
        assert_eq!(ExceptionCode::PROCESS_RUNTIME.mask().0, 1 << 47);
    }

    #[test]
    fn the_groups_follow_from_the_names() {
        let group = |prefix: &str| {
            let codes = ExceptionCode::DEFINED.iter().filter(|code| code.name().is_some_and(|n| n.starts_with(prefix)));
            codes.fold(ExceptionMask::EMPTY, |mask, code| mask | code.mask())
        };
        assert_eq!(ExceptionMask::QUEUE, group("QUEUE_"));
        assert_eq!(ExceptionMask::PACKET, group("QUEUE_PACKET_"));
        assert_eq!(ExceptionMask::DEVICE, group("DEVICE_"));
        assert_eq!(ExceptionMask::PROCESS, group("PROCESS_"));
        let all = ExceptionMask::QUEUE | ExceptionMask::DEVICE | ExceptionMask::PROCESS;
        assert_eq!(all, ExceptionMask::DEFINED);
    }
}
