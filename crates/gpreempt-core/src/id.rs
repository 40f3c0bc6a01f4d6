//! Names of things: levels, gpus, jobs, tenants.

/// Software priority of a job, 0 to 15; higher wins. Unrelated to the driver's queue priority, which has three classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// The highest level.
    pub const MAX: Level = Level(15);
    /// The lowest level.
    pub const MIN: Level = Level(0);

    /// `None` above 15.
    #[must_use]
    pub const fn new(value: u8) -> Option<Level> {
        if value <= Level::MAX.0 { Some(Level(value)) } else { None }
    }

    /// The number, 0 to 15.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Thousandths, 0 to 1000: shares of time and of a gpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permille(u16);

impl Permille {
    /// The whole.
    pub const ALL: Permille = Permille(1000);
    /// Nothing.
    pub const NONE: Permille = Permille(0);

    /// Values above 1000 become 1000.
    #[must_use]
    pub const fn new(value: u16) -> Permille {
        if value < 1000 { Permille(value) } else { Permille::ALL }
    }

    /// The number, 0 to 1000.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// A gpu: the index of its slot in the host's storage, below [`GpuSet::CAPACITY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuId(pub u8);

/// A job. Carries a generation, so that a name kept too long matches nothing instead of a successor in the same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A tenant: all compute queues of one process on one gpu. Carries a generation like [`JobId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TenantId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl JobId {
    /// Slot in the host's storage.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

impl TenantId {
    /// Slot in the host's storage.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// A set of gpus of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GpuSet(u64);

impl GpuSet {
    /// Gpus a machine may have: eight MI300X in CPX mode show exactly this many.
    pub const CAPACITY: usize = 64;
    /// No gpu.
    pub const EMPTY: GpuSet = GpuSet(0);

    /// The set of this one gpu; empty if the id is out of range.
    #[must_use]
    pub const fn one(gpu: GpuId) -> GpuSet {
        if (gpu.0 as usize) < GpuSet::CAPACITY { GpuSet(1 << (gpu.0 & 63)) } else { GpuSet::EMPTY }
    }

    /// Whether no gpu is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `gpu` is in it.
    #[must_use]
    pub const fn has(self, gpu: GpuId) -> bool {
        self.0 & GpuSet::one(gpu).0 != 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 | other.0)
    }

    /// What both have.
    #[must_use]
    pub const fn both(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 & other.0)
    }

    /// This without `other`.
    #[must_use]
    pub const fn without(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 & !other.0)
    }

    /// The gpu with the lowest number.
    #[must_use]
    pub const fn first(self) -> Option<GpuId> {
        // At most 64, so the number fits.
        if self.0 == 0 { None } else { Some(GpuId(self.0.trailing_zeros() as u8)) }
    }
}

impl IntoIterator for GpuSet {
    type Item = GpuId;
    type IntoIter = Gpus;

    fn into_iter(self) -> Gpus {
        Gpus(self)
    }
}

/// Iterator over a [`GpuSet`], lowest number first.
#[derive(Clone, Debug)]
pub struct Gpus(GpuSet);

impl Iterator for Gpus {
    type Item = GpuId;

    fn next(&mut self) -> Option<GpuId> {
        let gpu = self.0.first()?;
        self.0 = self.0.without(GpuSet::one(gpu));
        Some(gpu)
    }
}
