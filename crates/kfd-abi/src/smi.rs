//! Events of a gpu for management tools, as lines of text on a descriptor.
//!
//! Source: `include/uapi/linux/kfd_ioctl.h` and `kfd_smi_events.c` of Linux 6.12. A 64-bit mask written to the
//! descriptor chooses the events. Each line starts with the event's number in hexadecimal. The driver keeps 1 KiB and
//! drops what does not fit. Suspending queues through the debugger raises none.

/// Argument of `SMI_EVENTS` (`kfd_ioctl_smi_events_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmiEventsArgs {
    /// The gpu.
    pub gpuid: u32,
    /// The descriptor, filled.
    pub anon_fd: u32,
}
plain!(SmiEventsArgs { gpuid, anon_fd } for SMI_EVENTS);

/// Longest line.
pub const MESSAGE_SIZE: usize = 96;

numbers! {
    /// An event (`kfd_smi_event`). The fields of its line, after the number and a blank, are given in C notation.
    SmiEvent: u32 {
        /// A gpu faulted: `%x:%s`, pid and name.
        VMFAULT = 1,
        /// It is too hot: `%llx:%llx`, mask and count.
        THERMAL_THROTTLE = 2,
        /// A reset begins: `%x %s`, sequence number and cause.
        GPU_PRE_RESET = 3,
        /// It ended: `%x %s`.
        GPU_POST_RESET = 4,
        /// Pages move: `%lld -%d @%lx(%lx) %x->%x %x:%x %d`, the last a [`MigrateTrigger`].
        MIGRATE_START = 5,
        /// They have moved: `%lld -%d @%lx(%lx) %x->%x %d`.
        MIGRATE_END = 6,
        /// A page fault: `%lld -%d @%lx(%x) %c`, `R` or `W`.
        PAGE_FAULT_START = 7,
        /// It is repaired: `%lld -%d @%lx(%x) %c`, `M` for moved, `U` for updated.
        PAGE_FAULT_END = 8,
        /// A process's queues are evicted: `%lld -%d %x %d`, nanoseconds, pid, gpu, [`EvictionTrigger`].
        QUEUE_EVICTION = 9,
        /// They are back: `%lld -%d %x %c`, `R` if it has to be tried again.
        QUEUE_RESTORE = 10,
        /// A range is unmapped: `%lld -%d @%lx(%lx) %x %d`, the last an [`UnmapTrigger`].
        UNMAP_FROM_GPU = 11,
        /// Not an event: asks for those of all processes, for administrators.
        ALL_PROCESS = 64,
    }
}

impl SmiEvent {
    /// Its bit in the mask: the one below its number. 0 for numbers that have none.
    #[must_use]
    pub const fn mask(self) -> u64 {
        match self.0 {
            1..=64 => 1 << (self.0 - 1),
            _ => 0,
        }
    }
}

numbers! {
    /// Why pages moved.
    MigrateTrigger: u32 {
        /// A program prefetched them.
        PREFETCH = 0,
        /// A gpu touched them.
        PAGEFAULT_GPU = 1,
        /// The host touched them.
        PAGEFAULT_CPU = 2,
        /// Memory was short.
        TTM_EVICTION = 3,
    }
}

numbers! {
    /// Why queues were evicted.
    EvictionTrigger: u32 {
        /// Shared memory moves.
        SVM = 0,
        /// Memory of the process moves.
        USERPTR = 1,
        /// A buffer moves.
        TTM = 2,
        /// The machine is suspended.
        SUSPEND = 3,
        /// The process is checkpointed.
        CRIU_CHECKPOINT = 4,
        /// The process is restored.
        CRIU_RESTORE = 5,
    }
}

numbers! {
    /// Why a range was unmapped.
    UnmapTrigger: u32 {
        /// The host moved it.
        MMU_NOTIFY = 0,
        /// Its pages moved.
        MMU_NOTIFY_MIGRATE = 1,
        /// The process freed it.
        UNMAP_FROM_CPU = 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(SmiEventsArgs, 8, { gpuid: 0, anon_fd: 4 });
    }

    #[test]
    fn the_mask_counts_from_one() {
        assert_eq!(SmiEvent::VMFAULT.mask(), 1);
        assert_eq!(SmiEvent::QUEUE_EVICTION.mask(), 0x100);
        assert_eq!(SmiEvent::ALL_PROCESS.mask(), 1 << 63);
        assert_eq!((SmiEvent(0).mask(), SmiEvent(65).mask()), (0, 0));
    }
}
