//! The gpus of the machine, from the driver's topology in sysfs: the one parser of it.
//!
//! [`gpus`] describes what observers and schedulers need. [`gpus_with_properties`] adds the raw [`Properties`] for
//! programs that need more, such as a runtime that sizes context save areas.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kfd_abi::cwsr::Geometry;
use kfd_abi::sysfs::{TOPOLOGY_DIR, file, node};
use kfd_abi::topology::{Capability, GfxVersion};

use crate::error::{Error, Result};
use crate::id::GpuId;

const PCI_DIR: &str = "/sys/bus/pci/devices";
const MODULE_DIR: &str = "/sys/module/amdgpu";

/// A gpu: a whole one, or a partition of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The driver's id of the gpu.
    pub id: GpuId,
    /// Number of the node in the topology.
    pub node: u32,
    /// PCI address, with `/N` for partition N where several gpus share one.
    pub address: String,
    /// Product name where the driver tells it, else the name of the instruction set, such as gfx942.
    pub name: String,
    /// Instruction set.
    pub gfx: GfxVersion,
    /// The hardware's own number, the same on every boot; 0 if the driver does not tell.
    pub unique_id: u64,
    /// Compute units of all XCCs.
    pub cus: u32,
    /// Waves that one compute unit holds.
    pub waves_per_cu: u32,
    /// Accelerator complex dies (XCCs) that share the work of a queue.
    pub xccs: u32,
    /// Compute queues that the hardware holds at once; with more of them it takes turns.
    pub hardware_queues: u32,
    /// Capabilities.
    pub capability: Capability,
    /// Version of the compute firmware.
    pub firmware: u32,
    /// Minor number of the render node, `/dev/dri/renderD<N>`.
    pub render_minor: u32,
}

impl Gpu {
    /// Returns whether the driver can debug programs on it, and with that suspend their queues.
    #[must_use]
    pub fn can_debug(&self) -> bool {
        self.capability.has(Capability::TRAP_DEBUG_SUPPORT)
    }

    /// Returns whether its firmware can. Unless every gpu of the machine can, no runtime offers itself to debuggers.
    #[must_use]
    pub fn firmware_can_debug(&self) -> bool {
        self.capability.has(Capability::TRAP_DEBUG_FIRMWARE_SUPPORTED)
    }
}

/// Reads the gpus of the machine, in the order of their nodes.
///
/// # Errors
///
/// [`Error::Sysfs`] if the driver is not loaded, [`Error::Number`] or [`Error::Property`] if its files are not as
/// expected.
///
/// # References
///
/// `node_show` in `kfd_topology.c`.
pub fn gpus() -> Result<Vec<Gpu>> {
    Ok(gpus_with_properties()?.into_iter().map(|(gpu, _)| gpu).collect())
}

/// Reads the gpus of the machine with the properties of their nodes.
///
/// # Errors
///
/// As [`gpus`].
pub fn gpus_with_properties() -> Result<Vec<(Gpu, Properties)>> {
    gpus_below(Path::new(TOPOLOGY_DIR), Path::new(PCI_DIR))
}

/// Reads the generation of the topology: a number that changes whenever a gpu comes or goes.
///
/// # Errors
///
/// As [`gpus`].
pub fn generation() -> Result<u64> {
    number(Path::new(TOPOLOGY_DIR).join(file::GENERATION_ID))
}

/// Reads a parameter of the driver's module, such as `sched_policy`; `None` if the module is not loaded or has no such
/// parameter.
#[must_use]
pub fn module_parameter(name: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(MODULE_DIR).join("parameters").join(name)).ok()?;
    Some(text.trim_end().to_owned())
}

/// Reads the gpus of a topology at another place than `/sys`; `pci` is the directory of PCI devices. Reads again if a
/// gpu came or went meanwhile.
///
/// # Errors
///
/// As [`gpus`].
pub fn gpus_below(topology: &Path, pci: &Path) -> Result<Vec<(Gpu, Properties)>> {
    loop {
        let before = number(topology.join(file::GENERATION_ID))?;
        let mut gpus = read_nodes(&topology.join(file::NODES), pci)?;
        if number(topology.join(file::GENERATION_ID))? == before {
            name_partitions(gpus.iter_mut().map(|(gpu, _)| gpu).collect());
            return Ok(gpus);
        }
    }
}

fn read_nodes(directory: &Path, pci: &Path) -> Result<Vec<(Gpu, Properties)>> {
    let failed = |error| Error::Sysfs { path: directory.to_owned(), error };
    let mut nodes: Vec<u32> = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        nodes.extend(entry.map_err(failed)?.file_name().to_string_lossy().parse::<u32>().ok());
    }
    nodes.sort_unstable();
    let mut gpus = Vec::new();
    for number in nodes {
        gpus.extend(read_node(&directory.join(number.to_string()), number, pci)?);
    }
    Ok(gpus)
}

/// Reads the gpu of a node; `None` if the node is a processor, whose gpu id is 0.
fn read_node(directory: &Path, node: u32, pci: &Path) -> Result<Option<(Gpu, Properties)>> {
    let id = number(directory.join(file::GPU_ID))?;
    if id == 0 {
        return Ok(None);
    }
    let properties = Properties::read(directory.join(file::PROPERTIES))?;
    let simd_per_cu: u32 = properties.required(node::SIMD_PER_CU)?;
    let gfx = GfxVersion(properties.required(node::GFX_TARGET_VERSION)?);
    let address = pci_address(properties.required(node::DOMAIN)?, properties.required(node::LOCATION_ID)?, pci);
    let product = fs::read_to_string(pci.join(&address).join("product_name")).unwrap_or_default();
    let product = product.trim();
    let gpu = Gpu {
        id: GpuId(u32::try_from(id).unwrap_or(u32::MAX)),
        node,
        name: if product.is_empty() { gfx.to_string() } else { product.to_owned() },
        address,
        gfx,
        unique_id: properties.optional(node::UNIQUE_ID)?.unwrap_or_default(),
        cus: properties.required::<u32>(node::SIMD_COUNT)?.checked_div(simd_per_cu).unwrap_or(0),
        waves_per_cu: properties.required::<u32>(node::MAX_WAVES_PER_SIMD)?.saturating_mul(simd_per_cu),
        // Drivers from before gpus had several do not tell.
        xccs: properties.optional::<u32>(node::NUM_XCC)?.unwrap_or(1).max(1),
        hardware_queues: properties.optional(node::NUM_CP_QUEUES)?.unwrap_or_default(),
        capability: Capability(properties.required(node::CAPABILITY)?),
        firmware: properties.optional(node::FW_VERSION)?.unwrap_or_default(),
        render_minor: properties.optional(node::DRM_RENDER_MINOR)?.unwrap_or_default(),
    };
    Ok(Some((gpu, properties)))
}

/// Partitions share the PCI device: the driver writes the partition where other devices have their function, or above
/// bit 28, depending on its version. So the function is believed only if there is such a device.
fn pci_address(domain: u32, location: u32, pci: &Path) -> String {
    let (bus, device, function) = (location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7);
    let address = |function| format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}");
    if function != 0 && pci.join(address(function)).exists() { address(function) } else { address(0) }
}

/// Adds `/N` to addresses that several gpus share.
fn name_partitions(gpus: Vec<&mut Gpu>) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for gpu in &gpus {
        *seen.entry(gpu.address.clone()).or_default() += 1;
    }
    seen.retain(|_, count| *count > 1);
    for count in seen.values_mut() {
        *count = 0;
    }
    for gpu in gpus {
        if let Some(next) = seen.get_mut(&gpu.address) {
            gpu.address = format!("{}/{next}", gpu.address);
            *next += 1;
        }
    }
}

/// The `properties` file of a node: lines of a name and a number. Names are those of [`kfd_abi::sysfs::node`].
#[derive(Clone, Debug)]
pub struct Properties {
    path: PathBuf,
    values: BTreeMap<String, String>,
}

impl Properties {
    fn read(path: PathBuf) -> Result<Properties> {
        let text = read(&path)?;
        let pair = |line: &str| line.split_once(' ').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        Ok(Properties { values: text.lines().filter_map(pair).collect(), path })
    }

    /// Returns a property that every driver has.
    ///
    /// # Errors
    ///
    /// [`Error::Property`] if it is missing, [`Error::Number`] if it is no number that fits.
    pub fn required<T: FromStr>(&self, name: &'static str) -> Result<T> {
        self.optional(name)?.ok_or_else(|| self.unusable(name))
    }

    /// Returns a property that older drivers lack.
    ///
    /// # Errors
    ///
    /// [`Error::Number`] if it is no number that fits.
    pub fn optional<T: FromStr>(&self, name: &'static str) -> Result<Option<T>> {
        let Some(text) = self.values.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Error::Number { path: self.path.clone(), text: format!("{name} {text}") }),
        }
    }

    /// Reads what the size of a save area follows from.
    ///
    /// # Errors
    ///
    /// If a value is missing or no number.
    pub fn geometry(&self, gpu: &Gpu) -> Result<Geometry> {
        Ok(Geometry {
            gfx: gpu.gfx,
            simd_count: self.required(node::SIMD_COUNT)?,
            simd_per_cu: self.required(node::SIMD_PER_CU)?,
            array_count: self.required(node::ARRAY_COUNT)?,
            simd_arrays_per_engine: self.required(node::SIMD_ARRAYS_PER_ENGINE)?,
            num_xcc: gpu.xccs,
        })
    }

    /// Returns the error for a property whose value makes no sense together with the others.
    #[must_use]
    pub fn unusable(&self, name: &'static str) -> Error {
        Error::Property { path: self.path.clone(), name }
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| Error::Sysfs { path: path.to_owned(), error })
}

fn number(path: PathBuf) -> Result<u64> {
    let text = read(&path)?;
    match text.trim_end().parse() {
        Ok(value) => Ok(value),
        Err(_) => Err(Error::Number { path, text }),
    }
}

#[cfg(test)]
mod tests;
