//! Identifiers and small value types: levels, shares, gpus, jobs, tenants.

/// Software priority of a job, 0 to 15; higher wins. Unrelated to the driver's queue priority, which has three classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// The highest level.
    pub const MAX: Level = Level(15);
    /// The lowest level.
    pub const MIN: Level = Level(0);

    /// Returns the level of a number; `None` above 15.
    #[must_use]
    pub const fn new(value: u8) -> Option<Level> {
        if value <= Level::MAX.0 { Some(Level(value)) } else { None }
    }

    /// Returns the number, 0 to 15.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Thousandths, 0 to 1000: shares of time and of a gpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permille(u16);

impl Permille {
    /// The whole: 1000 thousandths.
    pub const ALL: Permille = Permille(1000);
    /// No share.
    pub const NONE: Permille = Permille(0);

    /// Returns a share; values above 1000 become 1000.
    #[must_use]
    pub const fn new(value: u16) -> Permille {
        if value < 1000 { Permille(value) } else { Permille::ALL }
    }

    /// Returns the number, 0 to 1000.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// A gpu: the index of its slot in the host's storage, below [`GpuSet::CAPACITY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuIndex(pub u8);

impl GpuIndex {
    /// Returns the index; `None` at [`GpuSet::CAPACITY`] and above.
    #[must_use]
    pub const fn new(index: usize) -> Option<GpuIndex> {
        // Below the capacity it fits.
        if index < GpuSet::CAPACITY { Some(GpuIndex(index as u8)) } else { None }
    }
}

/// Identifies a job. The generation makes an id that outlived its job match nothing, instead of the next job in its
/// slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Identifies a tenant: all compute queues of one process on one gpu. Has a generation like [`JobId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TenantId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl JobId {
    /// Returns the index of the slot in the host's storage.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// Returns the id as a number, for hosts that are not written in Rust. Never zero for a job of a scheduler.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        bits(self.index, self.generation)
    }

    /// Returns the id of a number; `None` if no id has it, as none has zero.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<JobId> {
        match parts(bits) {
            Some((index, generation)) => Some(JobId { index, generation }),
            None => None,
        }
    }
}

impl TenantId {
    /// Returns the index of the slot in the host's storage.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// Returns the id as a number, for hosts that are not written in Rust. Never zero for a tenant of a scheduler.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        bits(self.index, self.generation)
    }

    /// Returns the id of a number; `None` if no id has it, as none has zero.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<TenantId> {
        match parts(bits) {
            Some((index, generation)) => Some(TenantId { index, generation }),
            None => None,
        }
    }
}

/// Packs an id: the generation above, and the index plus one below. No slot has the index [`u32::MAX`].
const fn bits(index: u32, generation: u32) -> u64 {
    (generation as u64) << 32 | index.wrapping_add(1) as u64
}

/// Takes apart what [`bits`] made: index and generation.
const fn parts(bits: u64) -> Option<(u32, u32)> {
    // Cut to its lower half.
    match (bits as u32).checked_sub(1) {
        Some(index) => Some((index, (bits >> 32) as u32)),
        None => None,
    }
}

/// A set of gpus of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GpuSet(u64);

impl GpuSet {
    /// Most gpus of a machine: eight MI300X in CPX mode appear as 64.
    pub const CAPACITY: usize = 64;
    /// No gpu.
    pub const EMPTY: GpuSet = GpuSet(0);

    /// Returns the set of one gpu; empty if the id is out of range.
    #[must_use]
    pub const fn one(gpu: GpuIndex) -> GpuSet {
        if (gpu.0 as usize) < GpuSet::CAPACITY { GpuSet(1 << (gpu.0 & 63)) } else { GpuSet::EMPTY }
    }

    /// Returns whether the set has no gpu.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the set has `gpu`.
    #[must_use]
    pub const fn has(self, gpu: GpuIndex) -> bool {
        self.0 & GpuSet::one(gpu).0 != 0
    }

    /// Returns the union.
    #[must_use]
    pub const fn with(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 | other.0)
    }

    /// Returns the intersection.
    #[must_use]
    pub const fn both(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 & other.0)
    }

    /// Returns the difference: the gpus of `self` that are not in `other`.
    #[must_use]
    pub const fn without(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 & !other.0)
    }

    /// Returns the gpu with the lowest number; `None` if the set is empty.
    #[must_use]
    pub const fn first(self) -> Option<GpuIndex> {
        // At most 63, which fits.
        if self.0 == 0 { None } else { Some(GpuIndex(self.0.trailing_zeros() as u8)) }
    }
}

impl IntoIterator for GpuSet {
    type Item = GpuIndex;
    type IntoIter = Gpus;

    fn into_iter(self) -> Gpus {
        Gpus(self)
    }
}

/// Iterator over a [`GpuSet`], lowest number first.
#[derive(Clone, Debug)]
pub struct Gpus(GpuSet);

impl Iterator for Gpus {
    type Item = GpuIndex;

    fn next(&mut self) -> Option<GpuIndex> {
        let gpu = self.0.first()?;
        self.0 = self.0.without(GpuSet::one(gpu));
        Some(gpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_id_survives_the_way_through_a_number_that_is_not_zero(index in 0..u32::MAX, generation in any::<u32>()) {
            let (job, tenant) = (JobId { index, generation }, TenantId { index, generation });
            prop_assert!(job.to_bits() != 0 && tenant.to_bits() != 0);
            prop_assert_eq!(JobId::from_bits(job.to_bits()), Some(job));
            prop_assert_eq!(TenantId::from_bits(tenant.to_bits()), Some(tenant));
        }

        #[test]
        fn a_number_is_one_id_or_none(bits in any::<u64>()) {
            let found = JobId::from_bits(bits).map(JobId::to_bits);
            prop_assert_eq!(found, Some(bits).filter(|bits| bits & 0xFFFF_FFFF != 0));
        }
    }

    #[test]
    fn no_id_has_the_number_zero() {
        assert_eq!((JobId::from_bits(0), TenantId::from_bits(7 << 32)), (None, None));
    }
}
