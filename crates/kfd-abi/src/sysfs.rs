//! sysfs: files and names of the machine's nodes and their properties, and of the processes that use the driver.
//!
//! Source: `kfd_topology.c` and `kfd_process.c` of Linux 6.12. A file of properties has one `name value` line for each,
//! decimal. A program reads `generation_id` before and after the rest: equal means consistent. What the values mean:
//! [`crate::topology`].

/// Directory of the topology. Programs also reach it through `/sys/class/kfd/kfd/topology`.
pub const TOPOLOGY_DIR: &str = "/sys/devices/virtual/kfd/kfd/topology";
/// Directory of the processes.
pub const PROCESS_DIR: &str = "/sys/class/kfd/kfd/proc";

/// Directory of the driver in debugfs, for the superuser: queues and slots as the hardware has them.
pub const DEBUG_DIR: &str = "/sys/kernel/debug/kfd";

macro_rules! names {
    ($(#[$list_doc:meta])* $list:ident { $($(#[$doc:meta])* $name:ident = $text:literal,)* }) => {
        $($(#[$doc])* pub const $name: &str = $text;)*

        $(#[$list_doc])*
        pub const $list: &[&str] = &[$($name),*];
    };
}

/// Names of files and directories below [`TOPOLOGY_DIR`].
pub mod file {
    names! {
        /// All of them.
        ALL {
            /// A number that changes with the topology.
            GENERATION_ID = "generation_id",
            /// Properties of the machine.
            SYSTEM_PROPERTIES = "system_properties",
            /// One directory for each node, numbered.
            NODES = "nodes",
            /// In a node: its gpu id, 0 for a processor.
            GPU_ID = "gpu_id",
            /// In a node: its name.
            NAME = "name",
            /// In a node, bank, cache or link: its properties.
            PROPERTIES = "properties",
            /// In a node: its memory.
            MEM_BANKS = "mem_banks",
            /// In a node: its caches.
            CACHES = "caches",
            /// In a node: its links.
            IO_LINKS = "io_links",
            /// In a node: its links to other gpus.
            P2P_LINKS = "p2p_links",
            /// In a node: its performance counters.
            PERF = "perf",
        }
    }
}

/// Properties of the machine.
pub const SYSTEM_PROPERTIES: &[&str] = &["platform_oem", "platform_id", "platform_rev"];

/// Properties of a node, in the driver's order.
pub mod node {
    names! {
        /// Of every node.
        EVERY {
            /// Processors.
            CPU_CORES_COUNT = "cpu_cores_count",
            /// SIMDs, of all XCCs.
            SIMD_COUNT = "simd_count",
            /// Entries of `mem_banks`.
            MEM_BANKS_COUNT = "mem_banks_count",
            /// Entries of `caches`.
            CACHES_COUNT = "caches_count",
            /// Entries of `io_links`.
            IO_LINKS_COUNT = "io_links_count",
            /// Entries of `p2p_links`.
            P2P_LINKS_COUNT = "p2p_links_count",
            /// First processor.
            CPU_CORE_ID_BASE = "cpu_core_id_base",
            /// First SIMD.
            SIMD_ID_BASE = "simd_id_base",
            /// Waves a SIMD can hold.
            MAX_WAVES_PER_SIMD = "max_waves_per_simd",
            /// Local data share of a compute unit.
            LDS_SIZE_IN_KB = "lds_size_in_kb",
            /// Global data share.
            GDS_SIZE_IN_KB = "gds_size_in_kb",
            /// Global wave sync entries.
            NUM_GWS = "num_gws",
            /// Lanes of a wave.
            WAVE_FRONT_SIZE = "wave_front_size",
            /// Shader arrays, of all XCCs.
            ARRAY_COUNT = "array_count",
            /// Shader arrays of an engine.
            SIMD_ARRAYS_PER_ENGINE = "simd_arrays_per_engine",
            /// Compute units of a shader array.
            CU_PER_SIMD_ARRAY = "cu_per_simd_array",
            /// SIMDs of a compute unit.
            SIMD_PER_CU = "simd_per_cu",
            /// Waves with scratch a compute unit can hold.
            MAX_SLOTS_SCRATCH_CU = "max_slots_scratch_cu",
            /// Instruction set: [`GfxVersion`](crate::topology::GfxVersion).
            GFX_TARGET_VERSION = "gfx_target_version",
            /// PCI vendor.
            VENDOR_ID = "vendor_id",
            /// PCI device.
            DEVICE_ID = "device_id",
            /// PCI bus, device and function.
            LOCATION_ID = "location_id",
            /// PCI domain.
            DOMAIN = "domain",
            /// Number of the render node.
            DRM_RENDER_MINOR = "drm_render_minor",
            /// Hive of linked gpus.
            HIVE_ID = "hive_id",
            /// Copy engines.
            NUM_SDMA_ENGINES = "num_sdma_engines",
            /// Copy engines between gpus.
            NUM_SDMA_XGMI_ENGINES = "num_sdma_xgmi_engines",
            /// Queues of a copy engine.
            NUM_SDMA_QUEUES_PER_ENGINE = "num_sdma_queues_per_engine",
            /// Compute queues the hardware holds at once.
            NUM_CP_QUEUES = "num_cp_queues",
            /// Save area of one XCC: [`SaveAreaSize::cwsr`](crate::cwsr::SaveAreaSize::cwsr).
            CWSR_SIZE = "cwsr_size",
            /// Control stack of one XCC: [`SaveAreaSize::ctl_stack`](crate::cwsr::SaveAreaSize::ctl_stack).
            CTL_STACK_SIZE = "ctl_stack_size",
        }
    }
    names! {
        /// Only of gpus, after those of every node.
        GPU {
            /// Highest engine clock in MHz.
            MAX_ENGINE_CLK_FCOMPUTE = "max_engine_clk_fcompute",
            /// Always 0.
            LOCAL_MEM_SIZE = "local_mem_size",
            /// Version of the compute firmware.
            FW_VERSION = "fw_version",
            /// [`Capability`](crate::topology::Capability).
            CAPABILITY = "capability",
            /// Properties for debuggers.
            DEBUG_PROP = "debug_prop",
            /// Version of the copy firmware.
            SDMA_FW_VERSION = "sdma_fw_version",
            /// Serial number.
            UNIQUE_ID = "unique_id",
            /// XCCs.
            NUM_XCC = "num_xcc",
        }
    }
    /// More capabilities, after [`CAPABILITY`]: Linux 7.2.
    pub const CAPABILITY2: &str = "capability2";
    /// Highest processor clock in MHz: of every node, last.
    pub const MAX_ENGINE_CLK_CCOMPUTE: &str = "max_engine_clk_ccompute";
}

/// Properties of a bank of memory.
pub const MEM_BANK_PROPERTIES: &[&str] = &["heap_type", "size_in_bytes", "flags", "width", "mem_clk_max"];
/// Properties of a cache; `sibling_map` is a list of 0 and 1 separated by commas.
pub const CACHE_PROPERTIES: &[&str] = &[
    "processor_id_low",
    "level",
    "size",
    "cache_line_size",
    "cache_lines_per_tag",
    "association",
    "latency",
    "type",
    "sibling_map",
];
/// Properties of a link.
pub const IO_LINK_PROPERTIES: &[&str] = &[
    "type",
    "version_major",
    "version_minor",
    "node_from",
    "node_to",
    "weight",
    "min_latency",
    "max_latency",
    "min_bandwidth",
    "max_bandwidth",
    "recommended_transfer_size",
    "recommended_sdma_engine_id_mask",
    "flags",
];

/// Names below a process's directory in [`PROCESS_DIR`], which is named by its pid in the initial namespace.
pub mod process {
    names! {
        /// Those that are not followed by a gpu id.
        ALL {
            /// Its address space number.
            PASID = "pasid",
            /// One directory for each queue, named by its id.
            QUEUES = "queues",
            /// In a queue: bytes of the ring. No newline, as with the next two.
            QUEUE_SIZE = "size",
            /// In a queue: [`SysfsQueueType`](super::SysfsQueueType).
            QUEUE_TYPE = "type",
            /// In a queue: its gpu, decimal.
            QUEUE_GPUID = "gpuid",
            /// In a gpu's statistics: milliseconds of eviction.
            EVICTED_MS = "evicted_ms",
            /// In a gpu's statistics: compute units with waves; expensive to read.
            CU_OCCUPANCY = "cu_occupancy",
        }
    }
    /// Directory of a context that the process made beside its first, followed by its number: Linux 7.2. It has the
    /// same content as the directory of a process.
    pub const CONTEXT: &str = "context_";

    names! {
        /// Those that a gpu id follows, decimal.
        PER_GPU {
            /// Bytes of video memory.
            VRAM = "vram_",
            /// Microseconds of copies.
            SDMA = "sdma_",
            /// Directory of statistics.
            STATS = "stats_",
            /// Directory of page-fault counters.
            COUNTERS = "counters_",
        }
    }
}

numbers! {
    /// Kind of a queue in sysfs: the driver's inner numbering.
    SysfsQueueType: u32 {
        /// Compute, PM4 and AQL alike.
        COMPUTE = 0,
        /// Copies.
        SDMA = 1,
        /// The driver's own.
        HIQ = 2,
        /// Copies between gpus, in drivers without the retired debugger's queue (Linux 7.2). That queue had this number
        /// before, and was never shown.
        SDMA_XGMI_7_2 = 3,
        /// Copies between gpus.
        SDMA_XGMI = 4,
    }
}

impl SysfsQueueType {
    /// Returns whether it is a copy queue, in the numbering of any driver. One on a chosen engine is shown as a queue
    /// of the engine's kind.
    #[must_use]
    pub const fn is_copy(self) -> bool {
        matches!(self, SysfsQueueType::SDMA | SysfsQueueType::SDMA_XGMI | SysfsQueueType::SDMA_XGMI_7_2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_node_has_forty_properties() {
        assert_eq!((node::EVERY.len(), node::GPU.len()), (31, 8));
        assert_eq!(node::EVERY[18], "gfx_target_version");
    }

    #[test]
    fn copies_between_gpus_have_either_number() {
        assert!((0..6).filter(|kind| SysfsQueueType(*kind).is_copy()).eq([1, 3, 4]));
    }
}
