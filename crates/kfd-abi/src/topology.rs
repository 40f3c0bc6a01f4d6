//! What the properties of a node mean: instruction set, capabilities, kinds of memory, caches and links.
//!
//! Source: `include/uapi/linux/kfd_sysfs.h` of Linux 6.12. Where the properties are found: [`crate::sysfs`].

/// An instruction set: major * 10000 + minor * 100 + stepping.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GfxVersion(pub u32);
transparent!(GfxVersion);

impl GfxVersion {
    /// MI100.
    pub const GFX908: GfxVersion = GfxVersion(90008);
    /// MI200 family.
    pub const GFX90A: GfxVersion = GfxVersion(90010);
    /// MI300 family.
    pub const GFX942: GfxVersion = GfxVersion(90402);

    /// Major, minor, stepping. The stepping of a name like gfx90a is hexadecimal.
    #[must_use]
    pub const fn parts(self) -> (u32, u32, u32) {
        (self.0 / 10_000, self.0 / 100 % 100, self.0 % 100)
    }
}

/// As compilers write it, such as gfx942 or gfx90a: the stepping is hexadecimal.
impl core::fmt::Display for GfxVersion {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (major, minor, stepping) = self.parts();
        write!(f, "gfx{major}{minor}{stepping:x}")
    }
}

flags! {
    /// What a node can do: bits of `capability`. Two fields are numbers: [`Capability::doorbell_type`] and
    /// [`Capability::asic_revision`].
    Capability: u32 {
        /// It can come and go.
        HOT_PLUGGABLE = 0x0000_0001,
        /// It translates addresses with the host.
        ATS_PRESENT = 0x0000_0002,
        /// It shows pictures too.
        SHARED_WITH_GRAPHICS = 0x0000_0004,
        /// Rings are powers of two.
        QUEUE_SIZE_POW2 = 0x0000_0008,
        /// Rings have 32-bit sizes.
        QUEUE_SIZE_32BIT = 0x0000_0010,
        /// It tells when a queue is idle.
        QUEUE_IDLE_EVENT = 0x0000_0020,
        /// Addresses are limited.
        VA_LIMIT = 0x0000_0040,
        /// It can watch addresses; bits 8-11 are the logarithm of how many.
        WATCH_POINTS_SUPPORTED = 0x0000_0080,
        /// Rings are mapped twice.
        AQL_QUEUE_DOUBLE_MAP = 0x0000_4000,
        /// It can be debugged.
        TRAP_DEBUG_SUPPORT = 0x0000_8000,
        /// What makes waves trap can be chosen.
        TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED = 0x0001_0000,
        /// How waves start can be chosen.
        TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED = 0x0002_0000,
        /// Memory faults can be made precise.
        TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED = 0x0004_0000,
        /// Its memory detects errors.
        MEM_EDCSUPPORTED = 0x0010_0000,
        /// It reports hardware errors.
        RASEVENTNOTIFY = 0x0020_0000,
        /// Its on-chip memory detects errors.
        SRAM_EDCSUPPORTED = 0x0400_0000,
        /// Shared virtual memory.
        SVMAPI_SUPPORTED = 0x0800_0000,
        /// The host reads its memory coherently.
        FLAGS_COHERENTHOSTACCESS = 0x1000_0000,
        /// Its firmware can be debugged. Without it on every gpu a runtime does not enable itself, and its queues
        /// cannot be suspended from outside.
        TRAP_DEBUG_FIRMWARE_SUPPORTED = 0x2000_0000,
        /// Arithmetic faults can be made precise.
        TRAP_DEBUG_PRECISE_ALU_OPERATIONS_SUPPORTED = 0x4000_0000,
    }
}

impl Capability {
    /// Doorbells of 32 bits.
    pub const DOORBELL_1_0: u32 = 1;
    /// Doorbells of 64 bits: gfx9 and later.
    pub const DOORBELL_2_0: u32 = 2;

    const WATCH_POINTS_SHIFT: u32 = 8;
    const DOORBELL_SHIFT: u32 = 12;
    const REVISION_SHIFT: u32 = 22;

    /// Addresses that can be watched at once.
    #[must_use]
    pub const fn watch_points(self) -> u32 {
        if self.has(Capability::WATCH_POINTS_SUPPORTED) {
            1 << (self.0 >> Capability::WATCH_POINTS_SHIFT & 0xF)
        } else {
            0
        }
    }

    /// Kind of doorbells: [`Capability::DOORBELL_2_0`].
    #[must_use]
    pub const fn doorbell_type(self) -> u32 {
        self.0 >> Capability::DOORBELL_SHIFT & 3
    }

    /// With this kind of doorbells.
    #[must_use]
    pub const fn with_doorbell_type(self, kind: u32) -> Capability {
        Capability(self.0 & !(3 << Capability::DOORBELL_SHIFT) | (kind & 3) << Capability::DOORBELL_SHIFT)
    }

    /// Revision of the chip.
    #[must_use]
    pub const fn asic_revision(self) -> u32 {
        self.0 >> Capability::REVISION_SHIFT & 0xF
    }
}

numbers! {
    /// Kind of a bank of memory.
    HeapType: u32 {
        /// The host's.
        SYSTEM = 0,
        /// A gpu's, and the host can reach all of it.
        FB_PUBLIC = 1,
        /// A gpu's alone.
        FB_PRIVATE = 2,
        /// Global data share.
        GPU_GDS = 3,
        /// Local data share.
        GPU_LDS = 4,
        /// Scratch.
        GPU_SCRATCH = 5,
    }
}

flags! {
    /// Kind of a cache.
    CacheType: u32 {
        /// Data.
        DATA = 1,
        /// Instructions.
        INSTRUCTION = 2,
        /// Of a processor.
        CPU = 4,
        /// Of compute units.
        HSACU = 8,
    }
}

numbers! {
    /// Kind of a link. Kinds no AMD machine shows are left out.
    IoLinkType: u32 {
        /// Not known.
        UNDEFINED = 0,
        /// HyperTransport.
        HYPERTRANSPORT = 1,
        /// PCI Express.
        PCIEXPRESS = 2,
        /// Between processors.
        QPI_1_1 = 5,
        /// Between gpus.
        XGMI = 11,
    }
}

flags! {
    /// Properties of a link.
    IoLinkFlags: u32 {
        /// The others are valid.
        ENABLED = 1 << 0,
        /// Not coherent.
        NON_COHERENT = 1 << 1,
        /// No atomics of 32 bits.
        NO_ATOMICS_32_BIT = 1 << 2,
        /// No atomics of 64 bits.
        NO_ATOMICS_64_BIT = 1 << 3,
        /// No direct access between gpus.
        NO_PEER_TO_PEER_DMA = 1 << 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_of_an_mi300_falls_into_its_parts() {
        let debugger = Capability::TRAP_DEBUG_SUPPORT
            | Capability::TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED
            | Capability::TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED;
        assert_eq!(debugger.0, 0x38000);
        assert_eq!(Capability::TRAP_DEBUG_FIRMWARE_SUPPORTED.0, 0x2000_0000);
        let all = (debugger | Capability::SRAM_EDCSUPPORTED | Capability::SVMAPI_SUPPORTED)
            .with_doorbell_type(Capability::DOORBELL_2_0);
        assert_eq!(all.0, 0x38000 | 2 << 12 | 1 << 26 | 1 << 27);
        assert_eq!((all.doorbell_type(), all.asic_revision(), all.watch_points()), (2, 0, 0));
        assert_eq!(Capability(0x280).watch_points(), 4);
    }

    #[test]
    fn versions_fall_into_their_parts() {
        assert_eq!(GfxVersion::GFX942.parts(), (9, 4, 2));
        assert_eq!(GfxVersion::GFX90A.parts(), (9, 0, 10));
    }
}
