//! The topology: one node for the processor, one for each gpu, with their memory, caches and links.
//!
//! The text is that of `kfd_topology.c` of Linux 6.12: one `name value` line for each property, decimal, in the
//! driver's order.

use std::fmt::Write as _;

use kfd_abi::sysfs::{self, CACHE_PROPERTIES, IO_LINK_PROPERTIES, MEM_BANK_PROPERTIES, file, node};
use kfd_abi::topology::{CacheType, Capability, HeapType, IoLinkFlags, IoLinkType};

use super::{Host, KFD_DEVICE_DIR, KFD_MAJOR, Tree};
use crate::profile::{Gfx, Gpu, Profile};

/// Where the driver starts to number SIMDs and compute units, so that they do not look like processors.
const SIMD_ID_BASE: u32 = 0x8000_1000;
/// Waves with scratch memory that a compute unit can hold.
const SCRATCH_SLOTS_PER_CU: u32 = 32;
const LANES_PER_WAVE: u32 = 64;
const AMD_VENDOR_ID: u32 = 0x1002;
/// `debug_prop` of a gpu whose dispatch id is valid and whose watch addresses have bits 7 to 29.
const DEBUG_PROPERTIES: u64 = 0x400 | 29 << 4 | 7;

pub(super) fn build(tree: &mut Tree, profile: &Profile, host: Host) {
    tree.own(KFD_DEVICE_DIR);
    tree.own("/sys/class/kfd");
    tree.link("/sys/class/kfd/kfd", KFD_DEVICE_DIR);
    tree.line(&format!("{KFD_DEVICE_DIR}/dev"), format_args!("{KFD_MAJOR}:0"));
    tree.text(&format!("{KFD_DEVICE_DIR}/uevent"), format!("MAJOR={KFD_MAJOR}\nMINOR=0\nDEVNAME=kfd\n"));
    tree.link(&format!("{KFD_DEVICE_DIR}/subsystem"), "/sys/class/kfd");
    tree.dir(&format!("{KFD_DEVICE_DIR}/proc"));

    let dir = sysfs::TOPOLOGY_DIR;
    let gpus = profile.gpu_list();
    tree.line(&format!("{dir}/{}", file::GENERATION_ID), gpus.len() + 1);
    let zeros: Vec<u64> = vec![0; sysfs::SYSTEM_PROPERTIES.len()];
    tree.text(&format!("{dir}/{}", file::SYSTEM_PROPERTIES), properties(sysfs::SYSTEM_PROPERTIES, &zeros));

    let nodes = format!("{dir}/{}", file::NODES);
    processor(tree, &format!("{nodes}/0"), &gpus, host);
    for gpu in &gpus {
        gpu_node(tree, &format!("{nodes}/{}", gpu.node), profile, gpu, &gpus);
    }
}

/// `name value` lines.
fn properties(names: &[&str], values: &[u64]) -> String {
    names.iter().zip(values).fold(String::new(), |mut text, (name, value)| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name} {value}");
        text
    })
}

fn processor(tree: &mut Tree, dir: &str, gpus: &[Gpu], host: Host) {
    let mut caches: u64 = 0;
    // A level-1 and a level-2 cache for each core, and a level-3 cache for all, in KiB.
    for (level, kib, shared) in [(1, 32, false), (2, 1024, false), (3, 32_768, true)] {
        let owners = if shared { 1 } else { host.cores };
        for core in 0..owners {
            let siblings = if shared { 0..host.cores } else { core..core + 1 };
            let cache = Cache { first: core, level, kib, kind: CacheType::DATA | CacheType::CPU, siblings };
            tree.text(&format!("{dir}/{}/{caches}/{}", file::CACHES, file::PROPERTIES), cache.text(host.cores));
            caches += 1;
        }
    }
    for (at, gpu) in gpus.iter().enumerate() {
        tree.text(&format!("{dir}/{}/{at}/{}", file::IO_LINKS, file::PROPERTIES), pcie_link(0, gpu.node));
    }
    memory_bank(tree, dir, HeapType::SYSTEM, host.memory_bytes, 64, 3200);
    let text = node_text(node::EVERY, |name| match name {
        node::CPU_CORES_COUNT => host.cores.into(),
        node::MEM_BANKS_COUNT => 1,
        node::CACHES_COUNT => caches,
        node::IO_LINKS_COUNT => gpus.len() as u64,
        _ => 0,
    });
    finish(tree, dir, 0, "", text);
}

fn gpu_node(tree: &mut Tree, dir: &str, profile: &Profile, gpu: &Gpu, gpus: &[Gpu]) {
    memory_bank(
        tree,
        dir,
        HeapType::FB_PUBLIC,
        profile.vram_bytes(),
        profile.memory_bus_bits,
        profile.memory_clock_mhz,
    );
    let caches = gpu_caches(profile);
    for (at, cache) in caches.iter().enumerate() {
        tree.text(&format!("{dir}/{}/{at}/{}", file::CACHES, file::PROPERTIES), cache.text(profile.cus));
    }
    tree.text(&format!("{dir}/{}/0/{}", file::IO_LINKS, file::PROPERTIES), pcie_link(gpu.node, 0));
    let peers = gpus.iter().filter(|peer| peer.index != gpu.index);
    for (at, peer) in peers.enumerate() {
        let path = format!("{dir}/{}/{}/{}", file::IO_LINKS, at + 1, file::PROPERTIES);
        tree.text(&path, xgmi_link(gpu.node, peer.node));
    }

    let save_area = profile.save_area();
    let geometry = profile.geometry();
    // Gpus that are linked to each other form one hive, named by its first member.
    let hive = if gpus.len() > 1 { gpus[0].unique_id } else { 0 };
    let value = |name: &str| -> u64 {
        match name {
            node::SIMD_COUNT => profile.simd_count().into(),
            node::MEM_BANKS_COUNT => 1,
            node::CACHES_COUNT => caches.len() as u64,
            node::IO_LINKS_COUNT => gpus.len() as u64,
            node::SIMD_ID_BASE => SIMD_ID_BASE.into(),
            node::MAX_WAVES_PER_SIMD => profile.waves_per_simd.into(),
            node::LDS_SIZE_IN_KB => profile.lds_kib.into(),
            node::WAVE_FRONT_SIZE => LANES_PER_WAVE.into(),
            node::ARRAY_COUNT => geometry.array_count.into(),
            node::SIMD_ARRAYS_PER_ENGINE => geometry.simd_arrays_per_engine.into(),
            node::CU_PER_SIMD_ARRAY => profile.cus_per_xcc().div_ceil(profile.engines_per_xcc().max(1)).into(),
            node::SIMD_PER_CU => profile.simd_per_cu.into(),
            node::MAX_SLOTS_SCRATCH_CU => SCRATCH_SLOTS_PER_CU.into(),
            node::GFX_TARGET_VERSION => profile.gfx.version().0.into(),
            node::VENDOR_ID => AMD_VENDOR_ID.into(),
            node::DEVICE_ID => profile.device_id.into(),
            node::LOCATION_ID => gpu.location_id.into(),
            node::DOMAIN => profile.pci_domain.into(),
            node::DRM_RENDER_MINOR => gpu.render_minor.into(),
            node::HIVE_ID => hive,
            node::NUM_SDMA_ENGINES => profile.sdma_engines.into(),
            node::NUM_SDMA_XGMI_ENGINES => profile.sdma_xgmi_engines.into(),
            node::NUM_SDMA_QUEUES_PER_ENGINE => profile.sdma_queues_per_engine.into(),
            node::NUM_CP_QUEUES => profile.cp_queues.into(),
            node::CWSR_SIZE => save_area.map_or(0, |size| size.cwsr.into()),
            node::CTL_STACK_SIZE => save_area.map_or(0, |size| size.ctl_stack.into()),
            node::MAX_ENGINE_CLK_FCOMPUTE => profile.max_engine_clock_mhz.into(),
            node::FW_VERSION => profile.gfx.mec_firmware().into(),
            node::CAPABILITY => capability(profile.gfx).0.into(),
            node::DEBUG_PROP => DEBUG_PROPERTIES,
            node::SDMA_FW_VERSION => profile.gfx.sdma_firmware().into(),
            node::UNIQUE_ID => gpu.unique_id,
            node::NUM_XCC => profile.xcc.into(),
            // No processors here, no global data share, no links beside the direct ones.
            _ => 0,
        }
    };
    let text = node_text(node::EVERY, value) + &node_text(node::GPU, value);
    let name = match profile.gfx {
        // The driver knows chips that tell it what they are only by this name.
        Gfx::Gfx942 => "ip discovery",
        Gfx::Gfx90a => "aldebaran",
    };
    finish(tree, dir, gpu.gpu_id, name, text);
}

fn node_text(names: &[&str], value: impl Fn(&str) -> u64) -> String {
    let values: Vec<u64> = names.iter().map(|name| value(name)).collect();
    properties(names, &values)
}

fn finish(tree: &mut Tree, dir: &str, gpu_id: u32, name: &str, mut text: String) {
    // The processor's clock is not the driver's to know.
    text += &properties(&[node::MAX_ENGINE_CLK_CCOMPUTE], &[0]);
    tree.text(&format!("{dir}/{}", file::PROPERTIES), text);
    tree.line(&format!("{dir}/{}", file::GPU_ID), gpu_id);
    tree.line(&format!("{dir}/{}", file::NAME), name);
    for list in [file::MEM_BANKS, file::CACHES, file::IO_LINKS, file::P2P_LINKS] {
        tree.dir(&format!("{dir}/{list}"));
    }
}

/// What the virtual gpus can do. Debugging is complete; without it on every gpu a runtime would not enable itself.
fn capability(gfx: Gfx) -> Capability {
    let debugger = Capability::TRAP_DEBUG_SUPPORT
        | Capability::TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED
        | Capability::TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED
        | Capability::TRAP_DEBUG_FIRMWARE_SUPPORTED;
    let memory = Capability::SRAM_EDCSUPPORTED | Capability::MEM_EDCSUPPORTED | Capability::SVMAPI_SUPPORTED;
    let precise = match gfx {
        Gfx::Gfx942 => Capability::TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED,
        Gfx::Gfx90a => Capability::EMPTY,
    };
    (debugger | memory | precise).with_doorbell_type(Capability::DOORBELL_2_0)
}

fn memory_bank(tree: &mut Tree, dir: &str, heap: HeapType, bytes: u64, width: u32, clock_mhz: u32) {
    let values = [heap.0.into(), bytes, 0, width.into(), clock_mhz.into()];
    let path = format!("{dir}/{}/0/{}", file::MEM_BANKS, file::PROPERTIES);
    tree.text(&path, properties(MEM_BANK_PROPERTIES, &values));
}

fn pcie_link(from: u32, to: u32) -> String {
    link(IoLinkType::PCIEXPRESS, from, to, 20, 64_000)
}

fn xgmi_link(from: u32, to: u32) -> String {
    link(IoLinkType::XGMI, from, to, 15, 64_000)
}

fn link(kind: IoLinkType, from: u32, to: u32, weight: u64, megabytes_per_second: u64) -> String {
    let flags = IoLinkFlags::ENABLED.0.into();
    let values = [
        kind.0.into(),
        0,
        0,
        from.into(),
        to.into(),
        weight,
        0,
        0,
        megabytes_per_second,
        megabytes_per_second,
        0,
        0,
        flags,
    ];
    properties(IO_LINK_PROPERTIES, &values)
}

/// A cache and the units that share it, numbered within their node.
struct Cache {
    first: u32,
    level: u32,
    kib: u32,
    kind: CacheType,
    siblings: std::ops::Range<u32>,
}

impl Cache {
    /// Its properties in a node of so many units. The map has whole words of 32 units.
    fn text(&self, units: u32) -> String {
        const LINE_BYTES: u64 = 64;
        let values = [self.first.into(), self.level.into(), self.kib.into(), LINE_BYTES, 1, 0, 0, self.kind.0.into()];
        let map: Vec<&str> =
            (0..units.next_multiple_of(32)).map(|unit| if self.siblings.contains(&unit) { "1" } else { "0" }).collect();
        let (map_name, others) = CACHE_PROPERTIES.split_last().unwrap_or((&"sibling_map", &[]));
        properties(others, &values) + &format!("{map_name} {}\n", map.join(","))
    }
}

/// Vector, scalar and instruction caches of the compute units, the XCCs' second level, the device's last level.
fn gpu_caches(profile: &Profile) -> Vec<Cache> {
    let data = CacheType::DATA | CacheType::HSACU;
    let instruction = CacheType::INSTRUCTION | CacheType::HSACU;
    let xcc_cus = profile.cus_per_xcc();
    let vector_kib = if profile.gfx == Gfx::Gfx942 { 32 } else { 16 };
    let instruction_kib = if profile.gfx == Gfx::Gfx942 { 64 } else { 32 };
    let mut kinds = vec![
        // Level, size, kind, compute units that share one.
        (1, vector_kib, data, 1),
        (1, 16, data, 2),
        (1, instruction_kib, instruction, 2),
        (2, profile.l2_kib_per_xcc, data, xcc_cus),
    ];
    if profile.l3_kib > 0 {
        kinds.push((3, profile.l3_kib, data, profile.cus));
    }
    let mut caches = Vec::new();
    for (level, kib, kind, share) in kinds {
        // A cache never spans two XCCs, except the last level.
        let whole = if level == 3 { profile.cus } else { xcc_cus };
        for start in (0..profile.cus).step_by(whole.max(1) as usize) {
            let end = start + whole;
            for first in (start..end).step_by(share.max(1) as usize) {
                let siblings = first..(first + share).min(end);
                caches.push(Cache { first: SIMD_ID_BASE + first, level, kib, kind, siblings });
            }
        }
    }
    caches
}
