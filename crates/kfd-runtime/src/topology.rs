//! The machine's gpus, as sysfs shows them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kfd_abi::PAGE_SIZE;
use kfd_abi::cwsr::{Geometry, SaveAreaSize};
use kfd_abi::sysfs::{TOPOLOGY_DIR, file, node};
use kfd_abi::topology::GfxVersion;

use crate::error::{Error, Result};

/// What the runtime has to know of a gpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuNode {
    /// Number of its node in the topology.
    pub node: u32,
    /// The driver's name for it.
    pub gpu_id: u32,
    /// Its name, for people.
    pub name: String,
    /// Its instruction set.
    pub gfx: GfxVersion,
    /// Number of its render node.
    pub render_minor: u32,
    /// Chips that share the work of a queue.
    pub num_xcc: u32,
    /// Shader engines, of all chips.
    pub engines: u32,
    /// Compute units, of all chips.
    pub compute_units: u32,
    /// Waves one compute unit holds.
    pub waves_per_cu: u32,
    /// Waves with scratch one compute unit holds.
    pub scratch_slots_per_cu: u32,
    /// Bytes of local memory a workgroup may use.
    pub local_memory: u32,
    /// Queues of the copy engines.
    pub copy_queues: u32,
    /// Context save area of a queue.
    pub save_area: SaveAreaSize,
}

impl GpuNode {
    /// Reads the gpus of the machine, in the order of the topology.
    pub(crate) fn all() -> Result<Vec<GpuNode>> {
        GpuNode::below(Path::new(TOPOLOGY_DIR))
    }

    fn below(topology: &Path) -> Result<Vec<GpuNode>> {
        loop {
            let before = read(&topology.join(file::GENERATION_ID))?;
            let nodes = GpuNode::read_nodes(&topology.join(file::NODES))?;
            // A gpu came or went meanwhile: what was read may belong to both.
            if read(&topology.join(file::GENERATION_ID))? == before {
                return Ok(nodes);
            }
        }
    }

    fn read_nodes(directory: &Path) -> Result<Vec<GpuNode>> {
        let unreadable = |source| Error::Sysfs { path: directory.to_owned(), source };
        let mut numbers = Vec::new();
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        let mut gpus = Vec::new();
        for number in numbers {
            gpus.extend(GpuNode::read_node(number, &directory.join(number.to_string()))?);
        }
        Ok(gpus)
    }

    /// The node if it is a gpu; processors have the id 0.
    fn read_node(number: u32, directory: &Path) -> Result<Option<GpuNode>> {
        let path = directory.join(file::GPU_ID);
        let unusable = |path: &Path, property: &str| Error::Property { path: path.into(), property: property.into() };
        let gpu_id: u32 = read(&path)?.trim().parse().map_err(|_| unusable(&path, file::GPU_ID))?;
        if gpu_id == 0 {
            return Ok(None);
        }
        let name = fs::read_to_string(directory.join(file::NAME)).unwrap_or_default();
        let properties = Properties::read(directory.join(file::PROPERTIES))?;
        let geometry = Geometry {
            gfx: GfxVersion(properties.get(node::GFX_TARGET_VERSION)?),
            simd_count: properties.get(node::SIMD_COUNT)?,
            simd_per_cu: properties.get(node::SIMD_PER_CU)?,
            array_count: properties.get(node::ARRAY_COUNT)?,
            simd_arrays_per_engine: properties.get(node::SIMD_ARRAYS_PER_ENGINE)?,
            num_xcc: properties.optional(node::NUM_XCC)?.unwrap_or(1),
        };
        let computed = SaveAreaSize::of(&geometry).ok_or_else(|| unusable(&properties.path, node::SIMD_COUNT))?;
        let engines_per_array = geometry.simd_arrays_per_engine.max(1);
        let simds_per_cu = geometry.simd_per_cu.max(1);
        Ok(Some(GpuNode {
            node: number,
            gpu_id,
            name: if name.trim().is_empty() { gfx_name(geometry.gfx) } else { name.trim().to_owned() },
            gfx: geometry.gfx,
            render_minor: properties.get(node::DRM_RENDER_MINOR)?,
            num_xcc: geometry.num_xcc,
            engines: geometry.array_count / engines_per_array,
            compute_units: geometry.simd_count / simds_per_cu,
            waves_per_cu: properties.get(node::MAX_WAVES_PER_SIMD)? * simds_per_cu,
            scratch_slots_per_cu: properties.get(node::MAX_SLOTS_SCRATCH_CU)?,
            local_memory: properties.get(node::LDS_SIZE_IN_KB)?.saturating_mul(1024),
            copy_queues: properties.get(node::NUM_SDMA_ENGINES)? * properties.get(node::NUM_SDMA_QUEUES_PER_ENGINE)?,
            save_area: properties.save_area(computed, geometry.num_xcc)?,
        }))
    }

    /// Name of its instruction set, such as gfx942.
    #[must_use]
    pub fn gfx_name(&self) -> String {
        gfx_name(self.gfx)
    }
}

fn gfx_name(gfx: GfxVersion) -> String {
    let (major, minor, stepping) = gfx.parts();
    format!("gfx{major}{minor}{stepping:x}")
}

/// A file of `name value` lines.
struct Properties {
    path: PathBuf,
    values: BTreeMap<String, u64>,
}

impl Properties {
    fn read(path: PathBuf) -> Result<Properties> {
        let text = read(&path)?;
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        let values = pairs.filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?))).collect();
        Ok(Properties { path, values })
    }

    fn optional(&self, name: &str) -> Result<Option<u32>> {
        let unusable = |_| Error::Property { path: self.path.clone(), property: name.to_owned() };
        self.values.get(name).map(|&value| value.try_into().map_err(unusable)).transpose()
    }

    fn get(&self, name: &str) -> Result<u32> {
        let missing = || Error::Property { path: self.path.clone(), property: name.to_owned() };
        self.optional(name)?.ok_or_else(missing)
    }

    /// The driver's own sizes where it shows them; older drivers do not, but check against the same computation.
    fn save_area(&self, computed: SaveAreaSize, num_xcc: u32) -> Result<SaveAreaSize> {
        let ctl_stack = self.optional(node::CTL_STACK_SIZE)?.unwrap_or(computed.ctl_stack);
        let cwsr = self.optional(node::CWSR_SIZE)?.unwrap_or(computed.cwsr);
        let bytes = (u64::from(cwsr) + u64::from(computed.debug)) * u64::from(num_xcc);
        Ok(SaveAreaSize { ctl_stack, cwsr, total: bytes.next_multiple_of(PAGE_SIZE.into()), ..computed })
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|source| Error::Sysfs { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MI300X: &str = "cpu_cores_count 0\nsimd_count 1216\nmax_waves_per_simd 8\nlds_size_in_kb 64\narray_count 32\n\
                          simd_arrays_per_engine 1\nsimd_per_cu 4\nmax_slots_scratch_cu 32\ngfx_target_version 90402\n\
                          drm_render_minor 128\nnum_sdma_engines 2\nnum_sdma_queues_per_engine 8\n\
                          cwsr_size 23203840\nctl_stack_size 12288\nunique_id 18446744073709551615\nnum_xcc 8\n";

    fn machine(properties: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("generation_id", "2\n"),
            ("nodes/0/gpu_id", "0\n"),
            ("nodes/1/gpu_id", "51110\n"),
            ("nodes/1/name", "\n"),
            ("nodes/1/properties", properties),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn an_mi300x_is_read_from_its_files() {
        let folder = machine(MI300X);
        let gpus = GpuNode::below(folder.path()).unwrap();
        let [gpu] = gpus.as_slice() else { panic!("{gpus:?}") };
        assert_eq!((gpu.node, gpu.gpu_id, gpu.render_minor), (1, 51110, 128));
        assert_eq!((gpu.name.as_str(), gpu.gfx_name().as_str()), ("gfx942", "gfx942"));
        assert_eq!((gpu.compute_units, gpu.engines, gpu.num_xcc, gpu.waves_per_cu), (304, 32, 8, 32));
        assert_eq!((gpu.local_memory, gpu.copy_queues), (65536, 16));
        assert_eq!(gpu.save_area.total, 186_019_840);
    }

    #[test]
    fn a_driver_that_hides_the_save_area_is_computed_with() {
        let older = MI300X.replace("cwsr_size", "x").replace("ctl_stack_size", "y");
        let gpus = GpuNode::below(machine(&older).path()).unwrap();
        assert_eq!((gpus[0].save_area.ctl_stack, gpus[0].save_area.cwsr), (12288, 23_203_840));
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = machine(&MI300X.replace("simd_per_cu", "simd_per_moon"));
        let said = GpuNode::below(folder.path()).unwrap_err().to_string();
        assert!(said.contains("nodes/1/properties") && said.contains("`simd_per_cu`"), "{said}");
        let said = GpuNode::below(Path::new("/no/such/topology")).unwrap_err().to_string();
        assert!(said.contains("/no/such/topology/generation_id"), "{said}");
    }
}
