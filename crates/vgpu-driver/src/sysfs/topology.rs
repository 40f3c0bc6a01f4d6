//! The topology: one node for the processor, one for each gpu, with their memory, caches and links.
//!
//! The text is that of `kfd_topology.c` of Linux 6.12: one `name value` line for each property, decimal, in the
//! driver's order.

use std::fmt::Write as _;

use kfd_abi::sysfs::{self, CACHE_PROPERTIES, IO_LINK_PROPERTIES, MEM_BANK_PROPERTIES, file, node};
use kfd_abi::topology::{CacheType, Capability, HeapType, IoLinkFlags, IoLinkType};

use super::{Host, KFD_DEVICE_DIR, KFD_MAJOR, Tree};
use crate::Behaviours;
use crate::profile::{Gfx, Gpu, Profile};

/// Where the driver starts to number SIMDs and compute units, so that they do not look like processors.
const SIMD_ID_BASE: u32 = 0x8000_1000;
/// Waves with scratch memory that a compute unit can hold.
const SCRATCH_SLOTS_PER_CU: u32 = 32;
const LANES_PER_WAVE: u32 = 64;
pub(crate) const AMD_VENDOR_ID: u32 = 0x1002;
/// Addresses a gpu can watch, as a power of two.
const WATCH_POINTS_LOG2: u32 = 2;
/// Weight and bandwidth of a link between partitions of one device.
const INTRA_SOCKET_LINK: (u64, u64) = (13, 819_200);
/// The same between devices one hop apart.
const XGMI_LINK: (u64, u64) = (15, 64_000);

pub(super) fn build(tree: &mut Tree, profile: &Profile, host: Host, kernel: &Behaviours) {
    tree.own(KFD_DEVICE_DIR);
    tree.own("/sys/class/kfd");
    tree.own(sysfs::DEBUG_DIR);
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
        gpu_node(tree, &format!("{nodes}/{}", gpu.node), (profile, kernel), gpu, &gpus);
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

/// The processor. The driver knows neither its caches nor its memory's width and clock; runtimes ask the kernel itself.
fn processor(tree: &mut Tree, dir: &str, gpus: &[Gpu], host: Host) {
    for (at, gpu) in gpus.iter().enumerate() {
        tree.text(&format!("{dir}/{}/{at}/{}", file::IO_LINKS, file::PROPERTIES), pcie_link(0, gpu.node));
    }
    memory_bank(tree, dir, HeapType::SYSTEM, host.memory_bytes, 0, 0);
    let text = node_text(node::EVERY, |name| match name {
        node::CPU_CORES_COUNT => host.cores.into(),
        node::MEM_BANKS_COUNT => 1,
        node::IO_LINKS_COUNT => gpus.len() as u64,
        _ => 0,
    });
    finish(tree, dir, 0, "", text);
}

fn gpu_node(tree: &mut Tree, dir: &str, machine: (&Profile, &Behaviours), gpu: &Gpu, gpus: &[Gpu]) {
    let (profile, kernel) = machine;
    memory_bank(
        tree,
        dir,
        HeapType::FB_PUBLIC,
        profile.vram_bytes(),
        profile.memory_bus_bits,
        profile.memory_clock_mhz,
    );
    let simd_id_base = simd_id_base(profile, gpu);
    let caches = gpu_caches(profile, simd_id_base);
    for (at, cache) in caches.iter().enumerate() {
        tree.text(&format!("{dir}/{}/{at}/{}", file::CACHES, file::PROPERTIES), cache.text());
    }
    tree.text(&format!("{dir}/{}/0/{}", file::IO_LINKS, file::PROPERTIES), pcie_link(gpu.node, 0));
    let peers = gpus.iter().filter(|peer| peer.index != gpu.index);
    for (at, peer) in peers.enumerate() {
        let path = format!("{dir}/{}/{}/{}", file::IO_LINKS, at + 1, file::PROPERTIES);
        let (weight, bandwidth) = if profile.partitions { INTRA_SOCKET_LINK } else { XGMI_LINK };
        tree.text(&path, link(IoLinkType::XGMI, gpu.node, peer.node, weight, bandwidth));
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
            node::SIMD_ID_BASE => simd_id_base.into(),
            node::MAX_WAVES_PER_SIMD => profile.waves_per_simd.into(),
            node::LDS_SIZE_IN_KB => profile.lds_kib.into(),
            node::WAVE_FRONT_SIZE => LANES_PER_WAVE.into(),
            node::ARRAY_COUNT => geometry.array_count.into(),
            node::SIMD_ARRAYS_PER_ENGINE => geometry.simd_arrays_per_engine.into(),
            node::CU_PER_SIMD_ARRAY => profile.cus_per_engine().into(),
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
            node::DEBUG_PROP => debug_properties(profile.gfx),
            node::SDMA_FW_VERSION => profile.gfx.sdma_firmware().into(),
            node::UNIQUE_ID => gpu.unique_id,
            node::NUM_XCC => profile.xcc.into(),
            node::NUM_GWS => profile.gfx.num_gws().into(),
            // No processors here, no global data share, no links beside the direct ones.
            _ => 0,
        }
    };
    let mut names = node::GPU.to_vec();
    if kernel.capability2 {
        let after = names.iter().position(|name| *name == node::CAPABILITY).map_or(0, |at| at + 1);
        names.insert(after, node::CAPABILITY2);
    }
    let text = node_text(node::EVERY, value) + &node_text(&names, value);
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
    for list in [file::MEM_BANKS, file::CACHES, file::IO_LINKS, file::P2P_LINKS, file::PERF] {
        tree.dir(&format!("{dir}/{list}"));
    }
}

/// What a gpu can do, as `kfd_topology_add_device` puts it together. Debugging is complete; without it on every gpu a
/// runtime would not enable itself.
pub(crate) fn capability(gfx: Gfx) -> Capability {
    let debugger = Capability::TRAP_DEBUG_SUPPORT
        | Capability::TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED
        | Capability::TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED
        | Capability::TRAP_DEBUG_FIRMWARE_SUPPORTED;
    let precise = Capability::TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED;
    let memory = Capability::SRAM_EDCSUPPORTED | Capability::MEM_EDCSUPPORTED | Capability::RASEVENTNOTIFY;
    let watch = Capability::WATCH_POINTS_SUPPORTED | Capability(WATCH_POINTS_LOG2 << 8);
    let revision = Capability(gfx.chip_revision() << 22);
    (debugger | precise | memory | Capability::SVMAPI_SUPPORTED | watch | revision)
        .with_doorbell_type(Capability::DOORBELL_2_0)
}

/// For debuggers: which bits of an address can be watched, and whether the dispatch id in a trap is always valid.
pub(crate) const fn debug_properties(gfx: Gfx) -> u64 {
    match gfx {
        Gfx::Gfx942 => 0x400 | 30 << 4 | 7,
        Gfx::Gfx90a => 29 << 4 | 6,
    }
}

fn memory_bank(tree: &mut Tree, dir: &str, heap: HeapType, bytes: u64, width: u32, clock_mhz: u32) {
    let values = [heap.0.into(), bytes, 0, width.into(), clock_mhz.into()];
    let path = format!("{dir}/{}/0/{}", file::MEM_BANKS, file::PROPERTIES);
    tree.text(&path, properties(MEM_BANK_PROPERTIES, &values));
}

fn pcie_link(from: u32, to: u32) -> String {
    link(IoLinkType::PCIEXPRESS, from, to, 20, 64_000)
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

/// Number of a gpu's first compute unit. The driver counts those of one XCC only, whatever their number.
fn simd_id_base(profile: &Profile, gpu: &Gpu) -> u32 {
    SIMD_ID_BASE + gpu.index * profile.engines_per_xcc() * profile.cus_per_engine()
}

/// A cache, and the compute units that share it.
struct Cache {
    first: u32,
    level: u32,
    kib: u32,
    line_bytes: u32,
    kind: CacheType,
    /// Words of 32 units each, the first unit in the lowest bit.
    siblings: Vec<u32>,
}

impl Cache {
    fn text(&self) -> String {
        let values = [self.first, self.level, self.kib, self.line_bytes, 0, 0, 0, self.kind.0].map(u64::from);
        let map: Vec<&str> = self
            .siblings
            .iter()
            .flat_map(|word| (0..32).map(move |unit| if word >> unit & 1 == 1 { "1" } else { "0" }))
            .collect();
        let (map_name, others) = CACHE_PROPERTIES.split_last().unwrap_or((&"sibling_map", &[]));
        properties(others, &values) + &format!("{map_name} {}\n", map.join(","))
    }
}

/// The lowest `units` bits.
fn units(units: u32) -> u32 {
    u32::try_from((1_u64 << units.min(32)) - 1).unwrap_or(u32::MAX)
}

/// Vector, instruction and scalar caches of the compute units, then one entry each for the second and the last level.
///
/// As in the driver, the map of a first-level cache starts with its own first unit. The one of the other levels has a
/// word for each engine of each XCC; the driver takes the first engine's for the first two.
fn gpu_caches(profile: &Profile, first: u32) -> Vec<Cache> {
    let data = CacheType::DATA | CacheType::HSACU;
    let instruction = CacheType::INSTRUCTION | CacheType::HSACU;
    // Size, line, kind, compute units that share one.
    let level_1 = match profile.gfx {
        Gfx::Gfx942 => [(32, 128, data, 1), (64, 64, instruction, 2), (16, 64, data, 2)],
        Gfx::Gfx90a => [(16, 64, data, 1), (32, 64, instruction, 2), (16, 64, data, 2)],
    };
    let room = profile.cus_per_engine();
    let engines = || (0..profile.xcc).flat_map(|_| profile.engine_cus());
    let mut caches = Vec::new();
    for (kib, line_bytes, kind, share) in level_1 {
        for (engine, here) in (0..).zip(engines()) {
            for at in (0..here).step_by(share as usize) {
                let siblings = vec![units(share.min(here - at))];
                caches.push(Cache { first: first + engine * room + at, level: 1, kib, line_bytes, kind, siblings });
            }
        }
    }
    let words: Vec<u32> = engines().map(units).collect();
    let siblings: Vec<u32> = words.first().into_iter().chain(&words).take(words.len()).copied().collect();
    for (level, kib, line_bytes) in [(2, profile.l2_kib_per_xcc, 128), (3, profile.l3_kib, 64)] {
        if kib > 0 {
            caches.push(Cache { first, level, kib, line_bytes, kind: data, siblings: siblings.clone() });
        }
    }
    caches
}
