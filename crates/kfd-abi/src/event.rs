//! Events: what a process sleeps on until its gpu, or a fault of it, wakes it.
//!
//! Source: `include/uapi/linux/kfd_ioctl.h` and `kfd_events.c` of Linux 6.12.

use crate::Union;

/// Signal events of one process.
pub const SIGNAL_EVENT_LIMIT: u32 = 4096;
/// Bytes of the event page: 8 for every signal event. The slot index is the event id.
pub const EVENT_PAGE_SIZE: u32 = SIGNAL_EVENT_LIMIT * 8;
/// What an unsignalled slot holds.
pub const UNSIGNALED_SLOT: u64 = u64::MAX;
/// Timeout of [`WaitEventsArgs`]: look, do not wait.
pub const TIMEOUT_IMMEDIATE: u32 = 0;
/// Timeout of [`WaitEventsArgs`]: for ever.
pub const TIMEOUT_INFINITE: u32 = 0xFFFF_FFFF;

numbers! {
    /// Kind of an event.
    EventType: u32 {
        /// Raised by packets and by the process itself.
        SIGNAL = 0,
        /// A node came or went.
        NODECHANGE = 1,
        /// A device changed its state.
        DEVICESTATECHANGE = 2,
        /// A gpu was reset: [`HwException`].
        HW_EXCEPTION = 3,
        /// A system event.
        SYSTEM_EVENT = 4,
        /// For debuggers.
        DEBUG_EVENT = 5,
        /// For profilers.
        PROFILE_EVENT = 6,
        /// For queues.
        QUEUE_EVENT = 7,
        /// A gpu faulted: [`MemoryException`].
        MEMORY = 8,
    }
}

/// Argument of `CREATE_EVENT` (`kfd_ioctl_create_event_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateEventArgs {
    /// In: handle of the buffer that is the event page, with the first event of a process that brings its own. Out:
    /// offset at which `/dev/kfd` maps the driver's.
    pub event_page_offset: u64,
    /// What an interrupt carries to raise it, filled, signal events only.
    pub event_trigger_data: u32,
    /// Kind.
    pub event_type: EventType,
    /// Whether a wait that ends makes it unsignalled.
    pub auto_reset: u32,
    /// Node, for some kinds.
    pub node_id: u32,
    /// Its name, filled.
    pub event_id: u32,
    /// Its slot in the event page, filled.
    pub event_slot_index: u32,
}
plain!(CreateEventArgs {
    event_page_offset, event_trigger_data, event_type, auto_reset, node_id, event_id, event_slot_index
} for CREATE_EVENT);

/// Argument of `DESTROY_EVENT` (`kfd_ioctl_destroy_event_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DestroyEventArgs {
    /// The event.
    pub event_id: u32,
    /// Zero.
    pub pad: u32,
}
plain!(DestroyEventArgs { event_id, pad } for DESTROY_EVENT);

/// Argument of `SET_EVENT` (`kfd_ioctl_set_event_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetEventArgs {
    /// The event.
    pub event_id: u32,
    /// Zero.
    pub pad: u32,
}
plain!(SetEventArgs { event_id, pad } for SET_EVENT);

/// Argument of `RESET_EVENT` (`kfd_ioctl_reset_event_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResetEventArgs {
    /// The event.
    pub event_id: u32,
    /// Zero.
    pub pad: u32,
}
plain!(ResetEventArgs { event_id, pad } for RESET_EVENT);

numbers! {
    /// How a wait ended.
    WaitResult: u32 {
        /// What was waited for happened.
        COMPLETE = 0,
        /// It did not in time.
        TIMEOUT = 1,
        /// An event vanished meanwhile.
        FAIL = 2,
    }
}

/// Argument of `WAIT_EVENTS` (`kfd_ioctl_wait_events_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitEventsArgs {
    /// Array of [`EventData`].
    pub events_ptr: u64,
    /// Entries of the array.
    pub num_events: u32,
    /// Whether all must happen.
    pub wait_for_all: u32,
    /// Milliseconds, [`TIMEOUT_IMMEDIATE`] or [`TIMEOUT_INFINITE`].
    pub timeout: u32,
    /// How it ended, filled.
    pub wait_result: WaitResult,
}
plain!(WaitEventsArgs { events_ptr, num_events, wait_for_all, timeout, wait_result } for WAIT_EVENTS);

/// One event of a wait (`kfd_event_data`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventData {
    /// By kind of event: [`MemoryException`], [`HwException`], [`SignalEvent`].
    pub data: Union<4>,
    /// Zero.
    pub kfd_event_data_ext: u64,
    /// The event.
    pub event_id: u32,
    /// Zero.
    pub pad: u32,
}
plain!(EventData { data, kfd_event_data_ext, event_id, pad });

/// What went wrong with an access (`kfd_memory_exception_failure`). Each is 0 or 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFailure {
    /// No page, or one not for users.
    pub not_present: u32,
    /// A write to a page that is only read.
    pub read_only: u32,
    /// An execution of a page that is not executable.
    pub no_execute: u32,
    /// The address is not exact.
    pub imprecise: u32,
}
plain!(MemoryFailure { not_present, read_only, no_execute, imprecise });

numbers! {
    /// Cause of a memory exception that is not an address.
    MemoryErrorType: u32 {
        /// None.
        NO_RAS = 0,
        /// An error in on-chip memory.
        SRAM_ECC = 1,
        /// Poisoned data was used.
        POISON_CONSUMED = 2,
        /// The gpu hung.
        GPU_HANG = 3,
    }
}

/// A fault of a gpu (`kfd_hsa_memory_exception_data`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryException {
    /// What went wrong.
    pub failure: MemoryFailure,
    /// Address of the access.
    pub va: u64,
    /// On which gpu.
    pub gpu_id: u32,
    /// Other causes.
    pub error_type: MemoryErrorType,
}
plain!(MemoryException { failure, va, gpu_id, error_type });

numbers! {
    /// How much was reset.
    ResetType: u32 {
        /// The gpu.
        WHOLE_GPU = 0,
        /// One engine of it.
        PER_ENGINE = 1,
    }
}

numbers! {
    /// Why it was reset.
    ResetCause: u32 {
        /// It hung.
        GPU_HANG = 0,
        /// A memory error.
        ECC = 1,
    }
}

/// A reset (`kfd_hsa_hw_exception_data`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HwException {
    /// Extent of the reset.
    pub reset_type: ResetType,
    /// Cause of the reset.
    pub reset_cause: ResetCause,
    /// Whether video memory is gone: 0 or 1.
    pub memory_lost: u32,
    /// The gpu that was reset.
    pub gpu_id: u32,
}
plain!(HwException { reset_type, reset_cause, memory_lost, gpu_id });

/// Age of a signal event (`kfd_hsa_signal_event_data`), from version 1.14 on: how often it has been signalled, starting
/// at 1. A wait that brings another age than the event's ends at once, so nothing is missed between two waits; 0 turns
/// this off.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalEvent {
    /// In: the age seen last. Out: the age now.
    pub last_event_age: u64,
}
plain!(SignalEvent { last_event_age });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(CreateEventArgs, 32, {
            event_trigger_data: 8, event_type: 12, auto_reset: 16, node_id: 20, event_id: 24, event_slot_index: 28,
        });
        layout!(DestroyEventArgs, 8, { event_id: 0 });
        layout!(SetEventArgs, 8, { event_id: 0 });
        layout!(ResetEventArgs, 8, { event_id: 0 });
        layout!(WaitEventsArgs, 24, { events_ptr: 0, num_events: 8, wait_for_all: 12, timeout: 16, wait_result: 20 });
        layout!(EventData, 48, { data: 0, kfd_event_data_ext: 32, event_id: 40 });
        layout!(MemoryFailure, 16, { not_present: 0, read_only: 4, no_execute: 8, imprecise: 12 });
        layout!(MemoryException, 32, { failure: 0, va: 16, gpu_id: 24, error_type: 28 });
        layout!(HwException, 16, { reset_type: 0, reset_cause: 4, memory_lost: 8, gpu_id: 12 });
        layout!(SignalEvent, 8, { last_event_age: 0 });
    }

    #[test]
    fn a_memory_fault_travels_in_the_union() {
        let fault = MemoryException {
            failure: MemoryFailure { not_present: 1, ..Default::default() },
            va: 0xDEAD_0000,
            gpu_id: 9,
            ..Default::default()
        };
        let event = EventData { data: Union::of(&fault), event_id: 3, ..Default::default() };
        assert_eq!(event.data.get::<MemoryException>(), fault);
        // The first eight bytes are where a signal event would have its age.
        assert_eq!(event.data.get::<SignalEvent>().last_event_age, 1);
    }
}
