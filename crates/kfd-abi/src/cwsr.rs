//! How large a queue's context save area has to be (CWSR: compute wave save and restore).
//!
//! Source: `kfd_queue.c` of Linux 6.12, `kfd_queue_ctx_save_restore_size`. The driver refuses a queue whose control
//! stack is not exactly this large or whose area is smaller; sysfs shows its numbers as `ctl_stack_size` and
//! `cwsr_size`.

use crate::topology::GfxVersion;
use crate::{PAGE_SIZE, align_up};

/// What the size of a save area follows from, as sysfs shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// `gfx_target_version`.
    pub gfx: GfxVersion,
    /// `simd_count`, of all XCCs.
    pub simd_count: u32,
    /// `simd_per_cu`.
    pub simd_per_cu: u32,
    /// `array_count`, of all XCCs. The driver computes with the arrays of one XCC and multiplies only for sysfs.
    pub array_count: u32,
    /// `simd_arrays_per_engine`.
    pub simd_arrays_per_engine: u32,
    /// `num_xcc`.
    pub num_xcc: u32,
}

/// Sizes of a queue's context save area, in bytes except the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveAreaSize {
    /// Waves that fit on one XCC.
    pub waves: u32,
    /// Header and control stack of one XCC. sysfs: `ctl_stack_size`.
    pub ctl_stack: u32,
    /// Header, control stack and wave state of one XCC. sysfs: `cwsr_size`.
    pub cwsr: u32,
    /// The debugger's part for one XCC; those of all XCCs follow their areas.
    pub debug: u32,
    /// All of it, for all XCCs: what a queue's buffer has to have.
    pub total: u64,
}

impl SaveAreaSize {
    const HEADER: u64 = 40;
    const DEBUG_BYTES_PER_WAVE: u64 = 32;
    const DEBUG_ALIGN: u64 = 64;
    const SGPR_BYTES_PER_CU: u64 = 0x4000;
    const LDS_BYTES_PER_CU: u64 = 0x1_0000;
    const HWREG_BYTES_PER_CU: u64 = 0x1000;

    /// The driver's computation (`kfd_queue_ctx_save_restore_size`). `None` for chips without context save and for
    /// geometries that no chip has.
    #[must_use]
    pub const fn of(geometry: &Geometry) -> Option<SaveAreaSize> {
        let gfx = geometry.gfx.0;
        let (Some(cus), Some(arrays)) =
            (geometry.simd_count.checked_div(geometry.simd_per_cu), geometry.array_count.checked_div(geometry.num_xcc))
        else {
            return None;
        };
        let (Some(cus), Some(engines)) =
            (cus.checked_div(geometry.num_xcc), arrays.checked_div(geometry.simd_arrays_per_engine))
        else {
            return None;
        };
        // Bounds that keep every product below 64 bits and no chip comes near.
        if gfx < 80001 || cus > 0xFFFF || engines > 0xFFFF || geometry.num_xcc > 0xFF {
            return None;
        }
        let (cus, engines) = (cus as u64, engines as u64);
        let page = PAGE_SIZE as u64;
        let before_gfx10 = gfx < 100_100;
        let waves = if !before_gfx10 {
            cus * 32
        } else if cus * 40 < engines * 512 {
            cus * 40
        } else {
            engines * 512
        };
        let stack_bytes = waves * if before_gfx10 { 8 } else { 12 } + 8;
        let mut ctl_stack = align_up(SaveAreaSize::HEADER + stack_bytes, page);
        // The hardware of gfx10 cannot use more.
        if gfx / 10_000 == 10 && ctl_stack > 0x7000 {
            ctl_stack = 0x7000;
        }
        let cwsr = ctl_stack + align_up(cus * SaveAreaSize::bytes_per_cu(geometry.gfx), page);
        let debug = align_up(waves * SaveAreaSize::DEBUG_BYTES_PER_WAVE, SaveAreaSize::DEBUG_ALIGN);
        if cwsr > u32::MAX as u64 {
            return None;
        }
        Some(SaveAreaSize {
            waves: waves as u32,
            ctl_stack: ctl_stack as u32,
            cwsr: cwsr as u32,
            debug: debug as u32,
            total: align_up((cwsr + debug) * geometry.num_xcc as u64, page),
        })
    }

    /// Registers and local data of one compute unit.
    const fn bytes_per_cu(gfx: GfxVersion) -> u64 {
        let vgpr = match gfx.0 {
            90008 | 90010 | 90400..=90499 => 0x8_0000,
            110_000 | 110_001 | 110_501 | 120_000 | 120_001 => 0x6_0000,
            _ => 0x4_0000,
        };
        vgpr + SaveAreaSize::SGPR_BYTES_PER_CU + SaveAreaSize::LDS_BYTES_PER_CU + SaveAreaSize::HWREG_BYTES_PER_CU
    }
}

/// Smallest end-of-packet buffer the driver accepts.
#[must_use]
pub const fn eop_buffer_size(gfx: GfxVersion) -> u32 {
    match gfx.0 {
        ..=79_999 => 0,
        80002 => 0x8000,
        _ => 4096,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cdna(gfx: GfxVersion, num_xcc: u32, cus: u32, engines: u32) -> SaveAreaSize {
        let geometry = Geometry {
            gfx,
            simd_count: num_xcc * cus * 4,
            simd_per_cu: 4,
            array_count: num_xcc * engines,
            simd_arrays_per_engine: 1,
            num_xcc,
        };
        SaveAreaSize::of(&geometry).unwrap()
    }

    #[test]
    fn save_areas_of_the_chips_have_their_known_sizes() {
        let mi300 = |xccs| cdna(GfxVersion::GFX942, xccs, 38, 4);
        for (name, size, waves, ctl_stack, cwsr, total) in [
            ("MI300X SPX", mi300(8), 1520, 12288, 23_203_840, 186_019_840),
            ("MI300X DPX", mi300(4), 1520, 12288, 23_203_840, 93_011_968),
            ("MI300X QPX", mi300(2), 1520, 12288, 23_203_840, 46_505_984),
            ("MI300X CPX", mi300(1), 1520, 12288, 23_203_840, 23_252_992),
            ("MI300A SPX", mi300(6), 1520, 12288, 23_203_840, 139_517_952),
            ("MI250X GCD", cdna(GfxVersion::GFX90A, 1, 110, 8), 4096, 36864, 67_170_304, 67_301_376),
            ("MI210", cdna(GfxVersion::GFX90A, 1, 104, 8), 4096, 36864, 63_508_480, 63_639_552),
        ] {
            assert_eq!((size.waves, size.ctl_stack, size.cwsr, size.total), (waves, ctl_stack, cwsr, total), "{name}");
        }
    }

    #[test]
    fn impossible_geometries_have_no_save_area() {
        let fine = Geometry {
            gfx: GfxVersion::GFX942,
            simd_count: 4,
            simd_per_cu: 4,
            array_count: 1,
            simd_arrays_per_engine: 1,
            num_xcc: 1,
        };
        assert!(SaveAreaSize::of(&fine).is_some());
        for broken in [
            Geometry { simd_per_cu: 0, ..fine },
            Geometry { simd_arrays_per_engine: 0, ..fine },
            Geometry { num_xcc: 0, ..fine },
            Geometry { gfx: GfxVersion(70000), ..fine },
            Geometry { simd_count: u32::MAX, simd_per_cu: 1, ..fine },
        ] {
            assert_eq!(SaveAreaSize::of(&broken), None);
        }
    }
}
