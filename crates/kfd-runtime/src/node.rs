//! A gpu with the sizes that queues, scratch memory and save areas depend on.

use kfd::topology::{Gpu, Properties};
use kfd_abi::PAGE_SIZE;
use kfd_abi::cwsr::SaveAreaSize;
use kfd_abi::sysfs::node;

use crate::error::Result;

/// A gpu of the topology and the sizes that the runtime computes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuNode {
    /// Identity, instruction set and compute units.
    pub gpu: Gpu,
    /// Shader engines of all XCCs.
    pub engines: u32,
    /// Waves with scratch memory that one compute unit holds.
    pub scratch_slots_per_cu: u32,
    /// Bytes of local memory that a workgroup may use.
    pub local_memory: u32,
    /// Queues of all copy engines.
    pub copy_queues: u32,
    /// Context save area of a queue.
    pub save_area: SaveAreaSize,
}

impl GpuNode {
    /// Reads the gpus of the machine, in the order of the topology.
    pub(crate) fn all() -> Result<Vec<GpuNode>> {
        let gpus = kfd::topology::gpus_with_properties()?;
        gpus.into_iter().map(|(gpu, properties)| GpuNode::new(gpu, &properties)).collect()
    }

    fn new(gpu: Gpu, properties: &Properties) -> Result<GpuNode> {
        let geometry = properties.geometry(&gpu)?;
        let computed = SaveAreaSize::of(&geometry).ok_or_else(|| properties.unusable(node::SIMD_COUNT))?;
        let copy_engines: u32 = properties.required(node::NUM_SDMA_ENGINES)?;
        Ok(GpuNode {
            engines: geometry.array_count / geometry.simd_arrays_per_engine.max(1),
            scratch_slots_per_cu: properties.required(node::MAX_SLOTS_SCRATCH_CU)?,
            local_memory: properties.required::<u32>(node::LDS_SIZE_IN_KB)?.saturating_mul(1024),
            copy_queues: copy_engines.saturating_mul(properties.required(node::NUM_SDMA_QUEUES_PER_ENGINE)?),
            save_area: save_area(properties, computed, geometry.num_xcc)?,
            gpu,
        })
    }
}

/// Returns the driver's own sizes where it shows them; older drivers do not, but check against the same computation.
fn save_area(properties: &Properties, computed: SaveAreaSize, num_xcc: u32) -> Result<SaveAreaSize> {
    let ctl_stack = properties.optional(node::CTL_STACK_SIZE)?.unwrap_or(computed.ctl_stack);
    let cwsr = properties.optional(node::CWSR_SIZE)?.unwrap_or(computed.cwsr);
    let bytes = (u64::from(cwsr) + u64::from(computed.debug)) * u64::from(num_xcc);
    Ok(SaveAreaSize { ctl_stack, cwsr, total: bytes.next_multiple_of(PAGE_SIZE.into()), ..computed })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const MI300X: &str = "cpu_cores_count 0\nsimd_count 1216\nmax_waves_per_simd 8\nlds_size_in_kb 64\narray_count 32\n\
                          simd_arrays_per_engine 1\nsimd_per_cu 4\nmax_slots_scratch_cu 32\ngfx_target_version 90402\n\
                          drm_render_minor 128\nnum_sdma_engines 2\nnum_sdma_queues_per_engine 8\n\
                          cwsr_size 23203840\nctl_stack_size 12288\nunique_id 18446744073709551615\nnum_xcc 8\n\
                          domain 0\nlocation_id 4864\ncapability 671343232\n";

    fn read(properties: &str) -> Result<Vec<GpuNode>> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("generation_id", "2\n"),
            ("nodes/0/gpu_id", "0\n"),
            ("nodes/1/gpu_id", "51110\n"),
            ("nodes/1/properties", properties),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let gpus = kfd::topology::gpus_below(folder.path(), Path::new("/nonexistent"))?;
        gpus.into_iter().map(|(gpu, properties)| GpuNode::new(gpu, &properties)).collect()
    }

    #[test]
    fn an_mi300x_is_read_from_its_files() {
        let nodes = read(MI300X).unwrap();
        let [node] = nodes.as_slice() else { panic!("{nodes:?}") };
        assert_eq!((node.gpu.node, node.gpu.id, node.gpu.render_minor), (1, kfd::GpuId(51110), 128));
        assert_eq!(node.gpu.name, "gfx942");
        assert_eq!((node.gpu.cus, node.engines, node.gpu.xccs, node.gpu.waves_per_cu), (304, 32, 8, 32));
        assert_eq!((node.local_memory, node.copy_queues), (65536, 16));
        assert_eq!(node.save_area.total, 186_019_840);
    }

    #[test]
    fn a_driver_that_hides_the_save_area_is_computed_with() {
        let older = MI300X.replace("cwsr_size", "x").replace("ctl_stack_size", "y");
        let save_area = read(&older).unwrap()[0].save_area;
        assert_eq!((save_area.ctl_stack, save_area.cwsr), (12288, 23_203_840));
    }

    #[test]
    fn what_is_missing_is_named() {
        let said = read(&MI300X.replace("array_count", "array_moon")).unwrap_err().to_string();
        assert!(said.contains("nodes/1/properties") && said.contains("`array_count`"), "{said}");
        let said = read(&MI300X.replace("simd_per_cu 4", "simd_per_cu 0")).unwrap_err().to_string();
        assert!(said.contains("nodes/1/properties") && said.contains("`simd_count`"), "{said}");
    }
}
