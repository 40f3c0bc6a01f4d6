//! Profiles of virtual machines, read from TOML.
//!
//! A profile names a real product and gives it a size that the host can carry. Everything a program can ask about the
//! gpu (topology, apertures, save-area sizes, device queries) is computed from it, so the answers agree.

mod cycle;
mod error;
mod gpu;
mod read;
mod read_index;

use std::path::Path;

use kfd_abi::cwsr::{Geometry, SaveAreaSize};
use kfd_abi::topology::GfxVersion;
use serde::{Deserialize, Serialize};
use toml_source::{ReadLimits, Source};

pub use cycle::Cycle;
pub use error::ProfileError;
pub use gpu::Gpu;
pub use read_index::ReadIndexKind;

/// The profiles that need no file, by name.
const BUILTIN: &[(&str, &str)] = &[
    ("mi300x", include_str!("../../profiles/mi300x.toml")),
    ("mi300x-cpx", include_str!("../../profiles/mi300x-cpx.toml")),
    ("mi308x", include_str!("../../profiles/mi308x.toml")),
    ("mi210", include_str!("../../profiles/mi210.toml")),
];

/// Gpus a profile may have: as many as one MI300X has partitions.
pub const MAX_GPUS: u32 = 8;

/// Most compute units of one XCC.
const MAX_CUS_PER_XCC: u32 = 128;

/// Files that are read.
const LIMITS: ReadLimits = ReadLimits { max_bytes: 1 << 20, regular_only: false };

/// An instruction set, with the versions of the blocks that come with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Gfx {
    /// MI300 family.
    #[serde(rename = "gfx942")]
    Gfx942,
    /// MI200 family.
    #[serde(rename = "gfx90a")]
    Gfx90a,
}

/// Version of a hardware block, as `ip_discovery` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpVersion {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Revision.
    pub revision: u32,
}

impl IpVersion {
    const fn new(major: u32, minor: u32, revision: u32) -> IpVersion {
        IpVersion { major, minor, revision }
    }
}

impl Gfx {
    /// The name compilers use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Gfx::Gfx942 => "gfx942",
            Gfx::Gfx90a => "gfx90a",
        }
    }

    /// The number of the topology.
    #[must_use]
    pub const fn version(self) -> GfxVersion {
        match self {
            Gfx::Gfx942 => GfxVersion::GFX942,
            Gfx::Gfx90a => GfxVersion::GFX90A,
        }
    }

    /// Graphics and compute block.
    #[must_use]
    pub const fn gc(self) -> IpVersion {
        match self {
            Gfx::Gfx942 => IpVersion::new(9, 4, 3),
            Gfx::Gfx90a => IpVersion::new(9, 4, 2),
        }
    }

    /// Copy engines.
    #[must_use]
    pub const fn sdma(self) -> IpVersion {
        match self {
            Gfx::Gfx942 => IpVersion::new(4, 4, 2),
            Gfx::Gfx90a => IpVersion::new(4, 4, 0),
        }
    }

    /// Bus interface.
    #[must_use]
    pub const fn nbif(self) -> IpVersion {
        match self {
            Gfx::Gfx942 => IpVersion::new(7, 9, 0),
            Gfx::Gfx90a => IpVersion::new(7, 4, 4),
        }
    }

    /// Revision of the chip.
    #[must_use]
    pub const fn chip_revision(self) -> u32 {
        1
    }

    /// Where the numbers start by which address libraries tell chips of one family apart.
    #[must_use]
    pub const fn first_external_revision(self) -> u32 {
        match self {
            Gfx::Gfx942 => 0x46,
            Gfx::Gfx90a => 0x3C,
        }
    }

    /// Version of the compute firmware that the driver reports.
    #[must_use]
    pub const fn mec_firmware(self) -> u32 {
        match self {
            Gfx::Gfx942 => 165,
            Gfx::Gfx90a => 78,
        }
    }

    /// Resources of global wave sync on each gpu (`kfd_gws_init` of Linux 6.12): gfx942 has them with any firmware,
    /// gfx90a from version 0x28 on. No dump of a real gpu's topology was at hand to compare.
    #[must_use]
    pub const fn num_gws(self) -> u32 {
        /// `gds.gws_size` of gfx9.
        const GWS_SIZE: u32 = 64;
        match self {
            Gfx::Gfx90a if self.mec_firmware() < 0x28 => 0,
            Gfx::Gfx90a | Gfx::Gfx942 => GWS_SIZE,
        }
    }

    /// Version of the copy firmware that the driver reports.
    #[must_use]
    pub const fn sdma_firmware(self) -> u32 {
        match self {
            Gfx::Gfx942 => 22,
            Gfx::Gfx90a => 8,
        }
    }
}

/// A machine with one or more equal gpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The product's name.
    pub marketing_name: String,
    /// Instruction set.
    pub gfx: Gfx,
    /// PCI device id.
    pub device_id: u32,
    /// PCI revision.
    pub revision_id: u32,
    /// Gpus of the machine.
    pub gpus: u32,
    /// Whether the gpus are partitions of one device: they then share its bus address.
    pub partitions: bool,
    /// XCCs of a gpu.
    pub xcc: u32,
    /// Shader engines of an XCC. Never more are shown than an XCC has compute units.
    pub shader_engines_per_xcc: u32,
    /// Compute units of a gpu, of all its XCCs.
    pub cus: u32,
    /// SIMDs of a compute unit.
    pub simd_per_cu: u32,
    /// Waves a SIMD can hold.
    pub waves_per_simd: u32,
    /// Local data share of a compute unit in KiB.
    pub lds_kib: u32,
    /// Video memory of a gpu in MiB.
    pub vram_mib: u64,
    /// System memory that all gpus together may use, in MiB.
    pub gtt_mib: u64,
    /// Highest engine clock.
    pub max_engine_clock_mhz: u32,
    /// Memory clock.
    pub memory_clock_mhz: u32,
    /// Width of the memory bus.
    pub memory_bus_bits: u32,
    /// What the product's memory can move, in MB/s. Shown, not simulated.
    pub memory_bandwidth_mbps: u32,
    /// Frequency of the clock counter that timestamps are taken from.
    pub timestamp_mhz: u32,
    /// Second-level cache of an XCC in KiB.
    pub l2_kib_per_xcc: u32,
    /// Last-level cache of the device in KiB; 0 if it has none.
    pub l3_kib: u32,
    /// Copy engines.
    pub sdma_engines: u32,
    /// Copy engines meant for other gpus.
    pub sdma_xgmi_engines: u32,
    /// Queues of a copy engine.
    pub sdma_queues_per_engine: u32,
    /// Compute queues the hardware holds at once.
    pub cp_queues: u32,
    /// PCI domain.
    pub pci_domain: u32,
    /// PCI bus of the first gpu; the others follow unless they are partitions.
    pub pci_bus: u32,
    /// When the read index of an AQL queue passes a packet.
    pub read_index: ReadIndexKind,
    /// What taking queues off a gpu costs.
    pub cycle: Cycle,
}

impl Profile {
    /// Returns the names of the built-in profiles.
    #[must_use]
    pub fn builtin_names() -> Vec<&'static str> {
        BUILTIN.iter().map(|(name, _)| *name).collect()
    }

    /// Returns the text of a built-in profile, to copy and edit.
    #[must_use]
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        BUILTIN.iter().find(|(builtin, _)| *builtin == name).map(|(_, text)| *text)
    }

    /// Loads the built-in profile of this name, or the file of this path.
    ///
    /// # Errors
    /// If there is neither, or the file has mistakes; all of them are listed.
    pub fn load(name_or_path: &str) -> Result<Profile, ProfileError> {
        if let Some(text) = Profile::builtin_text(name_or_path) {
            return Profile::parse(name_or_path, text);
        }
        let path = Path::new(name_or_path);
        if !name_or_path.contains('/') && !path.is_file() {
            return Err(ProfileError::Unknown {
                name: name_or_path.to_owned(),
                known: Profile::builtin_names().join(", "),
            });
        }
        let source = Source::read(path, LIMITS)
            .map_err(|error| ProfileError::Unreadable { file: name_or_path.to_owned(), error })?;
        read::profile(&source)
    }

    /// Reads the profile in `text`; `file` is its name in errors.
    ///
    /// # Errors
    /// If the text is no TOML, has unknown or missing keys, or describes a machine that cannot exist.
    pub fn parse(file: &str, text: &str) -> Result<Profile, ProfileError> {
        read::profile(&Source::new(file, text))
    }

    /// The same machine with `cus` compute units on every gpu.
    ///
    /// # Errors
    /// If they cannot be spread evenly over the XCCs, or are none or too many.
    pub fn with_cus(mut self, cus: u32) -> Result<Profile, ProfileError> {
        self.cus = cus;
        self.checked()
    }

    /// The same machine with `gpus` equal gpus, or partitions if its gpus are that.
    ///
    /// # Errors
    /// If they are none or too many.
    pub fn with_gpus(mut self, gpus: u32) -> Result<Profile, ProfileError> {
        self.gpus = gpus;
        self.checked()
    }

    /// Returns the profile if it describes a machine that can exist.
    fn checked(self) -> Result<Profile, ProfileError> {
        match self.check() {
            Ok(()) => Ok(self),
            Err((key, mismatch)) => Err(ProfileError::Impossible { profile: self.name, key, mismatch }),
        }
    }

    /// Checks the numbers that options can change, and those that must fit each other. Returns the key and the remedy.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let (gpus, cus, xcc) = (self.gpus, self.cus, self.xcc);
        if !(1..=MAX_GPUS).contains(&gpus) {
            return Err(("gpus", format!("found {gpus}, expected a whole number from 1 to {MAX_GPUS}")));
        }
        if cus == 0 || !cus.is_multiple_of(xcc) {
            let problem = format!("{cus} compute units do not spread evenly over {xcc} XCCs; use a multiple of {xcc}");
            return Err(("cus", problem));
        }
        if self.cus_per_xcc() > MAX_CUS_PER_XCC {
            return Err(("cus", format!("{cus} are too many; use at most {}", MAX_CUS_PER_XCC * xcc)));
        }
        if self.save_area().is_none() {
            let problem = "this geometry has no context save area; use the geometry of a real product";
            return Err(("cus", problem.to_owned()));
        }
        Ok(())
    }

    /// Compute units of one XCC.
    #[must_use]
    pub const fn cus_per_xcc(&self) -> u32 {
        match self.cus.checked_div(self.xcc) {
            Some(cus) => cus,
            None => 0,
        }
    }

    /// Shader engines of one XCC that have a compute unit.
    #[must_use]
    pub const fn engines_per_xcc(&self) -> u32 {
        let cus = self.cus_per_xcc();
        if self.shader_engines_per_xcc < cus { self.shader_engines_per_xcc } else { cus }
    }

    /// Compute units an engine has room for.
    #[must_use]
    pub const fn cus_per_engine(&self) -> u32 {
        let engines = self.engines_per_xcc();
        if engines == 0 { 0 } else { self.cus_per_xcc().div_ceil(engines) }
    }

    /// Compute units of each engine of an XCC.
    pub fn engine_cus(&self) -> impl Iterator<Item = u32> {
        let (engines, cus) = (self.engines_per_xcc(), self.cus_per_xcc());
        (0..engines).map(move |engine| (cus + engines - 1 - engine) / engines)
    }

    /// SIMDs of a gpu.
    #[must_use]
    pub const fn simd_count(&self) -> u32 {
        self.cus.saturating_mul(self.simd_per_cu)
    }

    /// What the save-area size is computed from. An engine has one shader array.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        Geometry {
            gfx: self.gfx.version(),
            simd_count: self.simd_count(),
            simd_per_cu: self.simd_per_cu,
            array_count: self.engines_per_xcc() * self.xcc,
            simd_arrays_per_engine: 1,
            num_xcc: self.xcc,
        }
    }

    /// Sizes of a queue's save area; a profile that was loaded always has them.
    #[must_use]
    pub const fn save_area(&self) -> Option<SaveAreaSize> {
        SaveAreaSize::of(&self.geometry())
    }

    /// Bytes of video memory of one gpu.
    #[must_use]
    pub const fn vram_bytes(&self) -> u64 {
        self.vram_mib.saturating_mul(1 << 20)
    }

    /// Bytes of system memory that all gpus together may use.
    #[must_use]
    pub const fn gtt_bytes(&self) -> u64 {
        self.gtt_mib.saturating_mul(1 << 20)
    }

    /// The gpus' clock counter at a time of `CLOCK_MONOTONIC_RAW` in nanoseconds. Timestamps that the device writes and
    /// the counters that the driver answers are both this.
    #[must_use]
    pub const fn gpu_clock(&self, monotonic_raw_ns: u64) -> u64 {
        (monotonic_raw_ns as u128 * self.timestamp_mhz as u128 / 1000) as u64
    }
}

#[cfg(test)]
mod tests;
