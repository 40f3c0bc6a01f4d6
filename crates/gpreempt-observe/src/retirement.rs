//! What is known about the read index of a tenant: whether it waits for the end of packets.
//!
//! Where it does, an index that has reached the write index is the end of a burst: no signal has to be followed and no
//! occupancy sampled. Nothing documents it, so it is believed on evidence only, and the evidence is the tenant's own: a
//! tenant owns its indices and can make evidence up, and then deceives the host about itself alone, as it could with
//! its signals. A single counter-example, of any tenant, ends the belief for the gpu. That a tenant can make up as
//! well; it costs the others samples, and nothing that is said about them becomes wrong.

/// Kernels that must have been found on the gpu while the index stood at them. One could be due to a queue that was
/// saved and restored twice within a look.
const EVIDENCE: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// Kernels that ran while the index stood at them, so far.
    Open(u32),
    Retires,
    Refuted,
}

/// What is known about the read index of a tenant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadIndexTrust {
    belief: Belief,
    /// Address of the index and number of the packet that were evidence last.
    last: Option<(u64, u64)>,
    /// Bursts whose end the index told.
    ends: u32,
    /// The end that the index told last has yet to be checked by a sample.
    unchecked: bool,
}

impl ReadIndexTrust {
    pub(crate) const fn new() -> ReadIndexTrust {
        ReadIndexTrust { belief: Belief::Open(0), last: None, ends: 0, unchecked: false }
    }

    /// Whether the index passes packets only when they have retired.
    pub(crate) fn retires(&self) -> bool {
        self.belief == Belief::Retires
    }

    /// Whether the index was seen to pass unfinished work.
    pub(crate) fn is_refuted(&self) -> bool {
        self.belief == Belief::Refuted
    }

    /// A kernel of this number was on the gpu while the index at this address stood at it.
    pub(crate) fn runs_at(&mut self, index: u64, number: u64) {
        let Belief::Open(evidence) = self.belief else { return };
        if self.last.replace((index, number)) != Some((index, number)) {
            self.belief = if evidence + 1 >= EVIDENCE { Belief::Retires } else { Belief::Open(evidence + 1) };
        }
    }

    /// The index passed unfinished work, of this tenant or of another.
    pub(crate) fn refute(&mut self) {
        *self = ReadIndexTrust { belief: Belief::Refuted, ..ReadIndexTrust::new() };
    }

    /// The index told the end of a burst. The first is checked by a sample, and then ever fewer.
    pub(crate) fn told_end(&mut self) {
        self.ends = self.ends.saturating_add(1);
        self.unchecked = self.ends.is_power_of_two();
    }

    /// Whether a sample should show that the last burst has ended.
    pub(crate) fn wants_check(&self) -> bool {
        self.unchecked && self.retires()
    }

    /// A sample was taken, or there is work again.
    pub(crate) fn checked(&mut self) {
        self.unchecked = false;
    }
}
