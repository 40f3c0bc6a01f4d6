//! The interface of kernel/patch, by the names that the cases use.

use kfd_abi::sched::{self, Action, QueueFlags};

pub(crate) use kfd_abi::sched::{
    ALL_QUEUES, CONTEXT_PRIMARY, Entry, GRACE_DEFAULT, MAGIC, MAX_ENTRIES, OpenArgs, QueryArgs, Queue, SwitchArgs,
    VERSION,
};

pub(crate) const PREEMPT: Action = Action::PREEMPT;
pub(crate) const RESUME: Action = Action::RESUME;

pub(crate) const ACTIVE: QueueFlags = QueueFlags::ACTIVE;
pub(crate) const PREEMPTED: QueueFlags = QueueFlags::PREEMPTED;
pub(crate) const BY_ME: QueueFlags = QueueFlags::BY_ME;
pub(crate) const EVICTED: QueueFlags = QueueFlags::EVICTED;
pub(crate) const SUSPENDED: QueueFlags = QueueFlags::SUSPENDED;
pub(crate) const RESET: QueueFlags = QueueFlags::RESET;
pub(crate) const BORN_PREEMPTED: QueueFlags = QueueFlags::BORN_PREEMPTED;

pub(crate) const OPEN: u8 = sched::OPEN.nr;
pub(crate) const SWITCH: u8 = sched::SWITCH.nr;
pub(crate) const QUERY: u8 = sched::QUERY.nr;

/// Packs a request that the driver reads and fills. Cases make arguments of other sizes than the header's.
pub(crate) const fn request<T>(nr: u8) -> u32 {
    3 << 30 | (size_of::<T>() as u32) << 16 | (b'K' as u32) << 8 | nr as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_the_header() {
        assert_eq!(request::<OpenArgs>(OPEN), sched::OPEN.request().0);
        assert_eq!(request::<SwitchArgs>(SWITCH), sched::SWITCH.request().0);
        assert_eq!(request::<QueryArgs>(QUERY), sched::QUERY.request().0);
    }
}
