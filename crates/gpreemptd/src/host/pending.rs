//! What has to follow from the messages taken so far. Each mark has one setter and one taker.

/// Work that waits for the end of a batch of messages.
#[derive(Debug)]
pub(super) struct Pending {
    members: bool,
    observations: bool,
    status: bool,
    unplaced: bool,
}

impl Pending {
    /// Everything is to be worked out once.
    pub(super) fn new() -> Pending {
        Pending { members: true, observations: false, status: false, unplaced: false }
    }

    /// Members, levels, parameters, sessions or breakers changed: watch sets, sessions and what the core may stop have
    /// to be worked out again.
    pub(super) fn members_changed(&mut self) {
        self.members = true;
    }

    pub(super) fn take_members_changed(&mut self) -> bool {
        std::mem::take(&mut self.members)
    }

    /// The core was told something new, so that its next decision takes time.
    pub(super) fn core_informed(&mut self) {
        self.observations = true;
    }

    pub(super) fn take_core_informed(&mut self) -> bool {
        std::mem::take(&mut self.observations)
    }

    /// A client waits for the status.
    pub(super) fn status_wanted(&mut self) {
        self.status = true;
    }

    pub(super) fn is_status_wanted(&self) -> bool {
        self.status
    }

    pub(super) fn take_status_wanted(&mut self) -> bool {
        std::mem::take(&mut self.status)
    }

    /// The core had no room for a tenant, which is tried again when there is some.
    pub(super) fn no_room(&mut self) {
        self.unplaced = true;
    }

    pub(super) fn has_no_room(&self) -> bool {
        self.unplaced
    }

    pub(super) fn take_no_room(&mut self) -> bool {
        std::mem::take(&mut self.unplaced)
    }
}
