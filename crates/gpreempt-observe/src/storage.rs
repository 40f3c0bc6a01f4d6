//! Where the states of a tenant's rings lie.

use crate::RingState;

/// Memory for the states of rings, which the host provides.
///
/// The representation of a state is unspecified: slots are filled with [`RingState::EMPTY`] before they are handed
/// over, and are changed in place afterwards.
pub trait RingStorage {
    /// All slots there are.
    fn slots(&self) -> &[RingState];

    /// All slots there are, to write them. The same in every call until [`RingStorage::make_room`].
    fn slots_mut(&mut self) -> &mut [RingState];

    /// Asks for room for so many rings. Storage that grows adds [`RingState::EMPTY`] slots and keeps those it has;
    /// other storage does nothing.
    fn make_room(&mut self, rings: usize) {
        let _ = rings;
    }
}

impl RingStorage for &mut [RingState] {
    fn slots(&self) -> &[RingState] {
        self
    }

    fn slots_mut(&mut self) -> &mut [RingState] {
        self
    }
}
