//! Reads a profile from TOML: every key with its range and default.

use std::ops::RangeInclusive;

use toml_source::{Document, Source, Table};

use super::{Cycle, Gfx, MAX_GPUS, Profile, ProfileError, ReadIndexKind};

/// Keys at the top of a profile.
const KEYS: &[&str] = &[
    "name",
    "marketing_name",
    "gfx",
    "device_id",
    "revision_id",
    "gpus",
    "partitions",
    "xcc",
    "shader_engines_per_xcc",
    "cus",
    "simd_per_cu",
    "waves_per_simd",
    "lds_kib",
    "vram_mib",
    "gtt_mib",
    "max_engine_clock_mhz",
    "memory_clock_mhz",
    "memory_bus_bits",
    "memory_bandwidth_mbps",
    "timestamp_mhz",
    "l2_kib_per_xcc",
    "l3_kib",
    "sdma_engines",
    "sdma_xgmi_engines",
    "sdma_queues_per_engine",
    "cp_queues",
    "pci_domain",
    "pci_bus",
    "read_index",
    "cycle",
];

/// Keys of `[cycle]`.
const CYCLE_KEYS: &[&str] =
    &["unmap_us", "map_us", "packet_us", "grace_steps", "host_bandwidth_mbps", "quantum_ms", "reset_ms"];

/// Instruction sets by the names that compilers use.
const GFX: [(&str, Gfx); 2] = [("gfx942", Gfx::Gfx942), ("gfx90a", Gfx::Gfx90a)];

/// Sizes of memory, in MiB.
const MEMORY_MIB: RangeInclusive<u32> = 64..=1 << 20;

/// Numbers that are shown and not computed with.
const ANY: RangeInclusive<u32> = 0..=u32::MAX;

/// Reads a profile. Reports every mistake of the text, not only the first.
pub(super) fn profile(source: &Source) -> Result<Profile, ProfileError> {
    let document = Document::parse(source)?;
    let root = document.root(KEYS);
    let gfx = root.required("gfx").choice(&GFX);
    let text = |key| root.required(key).words("a name in quotes").unwrap_or_default().to_owned();
    let number = |key, range| root.required(key).whole(range);
    let shown = |key| root.required(key).whole(ANY).unwrap_or_default();
    let optional = |key, range, default| root.field(key).whole(range).unwrap_or(default);
    let xccs = if gfx == Some(Gfx::Gfx90a) { 1 } else { 8 };
    let (xcc, cus) = (number("xcc", 1..=xccs), number("cus", ANY));
    let engines = number("shader_engines_per_xcc", 1..=8);
    let profile = Profile {
        name: text("name"),
        marketing_name: text("marketing_name"),
        gfx: gfx.unwrap_or(Gfx::Gfx942),
        device_id: number("device_id", 1..=0xFFFF).unwrap_or_default(),
        revision_id: optional("revision_id", 0..=0xFF, 0),
        gpus: number("gpus", 1..=MAX_GPUS).unwrap_or(1),
        partitions: root.field("partitions").flag().unwrap_or(false),
        xcc: xcc.unwrap_or(1),
        shader_engines_per_xcc: engines.unwrap_or(1),
        cus: cus.unwrap_or(1),
        simd_per_cu: optional("simd_per_cu", 1..=4, 4),
        waves_per_simd: optional("waves_per_simd", 1..=8, 8),
        lds_kib: optional("lds_kib", 1..=64, 64),
        vram_mib: number("vram_mib", MEMORY_MIB).unwrap_or_default().into(),
        gtt_mib: number("gtt_mib", MEMORY_MIB).unwrap_or_default().into(),
        max_engine_clock_mhz: number("max_engine_clock_mhz", 1..=10_000).unwrap_or(1),
        memory_clock_mhz: shown("memory_clock_mhz"),
        memory_bus_bits: shown("memory_bus_bits"),
        memory_bandwidth_mbps: shown("memory_bandwidth_mbps"),
        timestamp_mhz: optional("timestamp_mhz", 1..=1000, 100),
        l2_kib_per_xcc: shown("l2_kib_per_xcc"),
        l3_kib: shown("l3_kib"),
        sdma_engines: number("sdma_engines", 1..=2).unwrap_or(1),
        sdma_xgmi_engines: number("sdma_xgmi_engines", 0..=14).unwrap_or_default(),
        sdma_queues_per_engine: number("sdma_queues_per_engine", 1..=8).unwrap_or(1),
        cp_queues: number("cp_queues", 1..=128).unwrap_or(1),
        pci_domain: optional("pci_domain", 0..=0xFFFF, 0),
        pci_bus: number("pci_bus", 1..=0xFF - (MAX_GPUS - 1)).unwrap_or(1),
        read_index: root.field("read_index").choice(&ReadIndexKind::NAMES).unwrap_or_default(),
        cycle: root.field("cycle").table(CYCLE_KEYS).map_or_else(Cycle::default, |table| cycle(&table)),
    };
    // A geometry can only be judged if each of its numbers is valid.
    if let (Some(_), Some(_), Some(_), Some(_), Err((key, mismatch))) = (gfx, xcc, cus, engines, profile.check()) {
        root.field(key).report(mismatch);
    }
    Ok(document.finish(profile)?)
}

fn cycle(table: &Table<'_>) -> Cycle {
    let default = Cycle::default();
    let number = |key, default| table.field(key).whole(ANY).map_or(default, u64::from);
    Cycle {
        unmap_us: number("unmap_us", default.unmap_us),
        map_us: number("map_us", default.map_us),
        packet_us: number("packet_us", default.packet_us),
        grace_steps: table.field("grace_steps").whole(ANY).unwrap_or(default.grace_steps),
        host_bandwidth_mbps: number("host_bandwidth_mbps", default.host_bandwidth_mbps),
        quantum_ms: number("quantum_ms", default.quantum_ms),
        reset_ms: number("reset_ms", default.reset_ms),
    }
}
