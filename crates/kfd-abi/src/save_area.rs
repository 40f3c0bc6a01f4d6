//! The context save area of gfx9: its header, and what a saved wave consists of.
//!
//! One area for each XCC, one after the other. In each: the header; the control stack, which grows down from
//! `ctl_stack_size`; the waves, which grow up from there. How large it is: [`crate::cwsr`]. Which wave lies where:
//! [`crate::control_stack`].
//!
//! Sources: `kfd_ioctl.h`, `kfd_mqd_manager_v9.c` and `cwsr_trap_handler_gfx9.asm` of Linux 6.12; for the gap between
//! waves, which only hardware and debuggers know, ROCdbgapi 61dfa56 (`architecture.cpp`).

/// What was saved last (first part of `kfd_context_save_area_header`): the 16 bytes the driver writes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaveState {
    /// Lowest byte of the control stack in use.
    pub control_stack_offset: u32,
    /// Its bytes.
    pub control_stack_size: u32,
    /// End of the saved waves: the byte after the highest. (Runtimes document it as the lowest; the driver fills it
    /// so.)
    pub wave_state_offset: u32,
    /// Bytes of saved waves, below the offset.
    pub wave_state_size: u32,
}
plain!(WaveState { control_stack_offset, control_stack_size, wave_state_offset, wave_state_size });

impl WaveState {
    /// First byte and byte after the last of the control stack.
    #[must_use]
    pub const fn control_stack(self) -> (u32, u32) {
        (self.control_stack_offset, self.control_stack_offset.saturating_add(self.control_stack_size))
    }

    /// First byte and byte after the last of the saved waves.
    #[must_use]
    pub const fn waves(self) -> (u32, u32) {
        (self.wave_state_offset.saturating_sub(self.wave_state_size), self.wave_state_offset)
    }
}

/// Header of the area (`kfd_context_save_area_header`). The runtime fills all but the first part when it creates the
/// queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaveAreaHeader {
    /// What was saved last.
    pub wave_state: WaveState,
    /// From this header to the debugger's part, which follows the areas of all XCCs.
    pub debug_offset: u32,
    /// Bytes of the debugger's part, of all XCCs.
    pub debug_size: u32,
    /// Where exceptions of the queue are written.
    pub err_payload_addr: u64,
    /// Event raised then.
    pub err_event_id: u32,
    /// Zero.
    pub reserved1: u32,
}
plain!(SaveAreaHeader { wave_state, debug_offset, debug_size, err_payload_addr, err_event_id, reserved1 });

/// Bytes of the driver's trap handler and its memory, in every process.
pub const TRAP_AREA_SIZE: u32 = 2 * crate::PAGE_SIZE;
/// Where in it the memory is: addresses of the second-level handler's code and memory, then the debugger's flag.
pub const TRAP_MEMORY_OFFSET: u32 = crate::PAGE_SIZE + 2048;

/// Hardware registers in the saved block: the index of the 32-bit word.
pub mod hwreg {
    /// M0.
    pub const M0: u32 = 0;
    /// Program counter, low.
    pub const PC_LO: u32 = 1;
    /// Program counter, high: 16 bits.
    pub const PC_HI: u32 = 2;
    /// Lanes that execute, low.
    pub const EXEC_LO: u32 = 3;
    /// Lanes that execute, high.
    pub const EXEC_HI: u32 = 4;
    /// STATUS.
    pub const STATUS: u32 = 5;
    /// TRAPSTS.
    pub const TRAPSTS: u32 = 6;
    /// XNACK mask, low.
    pub const XNACK_MASK_LO: u32 = 7;
    /// XNACK mask, high.
    pub const XNACK_MASK_HI: u32 = 8;
    /// MODE.
    pub const MODE: u32 = 9;
}

/// What one wave saves. From low addresses to high: ordinary vector registers, accumulation registers, scalar
/// registers, hardware registers with the trap temporaries, the group's local data, a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveLayout {
    /// Ordinary vector registers.
    pub arch_vgprs: u32,
    /// Accumulation registers.
    pub acc_vgprs: u32,
    /// Scalar registers, without the trap temporaries.
    pub sgprs: u32,
    /// Bytes of local data; 0 unless the wave is the first of its group.
    pub lds_bytes: u32,
}

impl WaveLayout {
    /// Bytes of a vector register: 64 lanes.
    pub const VGPR_BYTES: u32 = 256;
    /// Bytes of the hardware registers and the trap temporaries.
    pub const HWREG_BYTES: u32 = 128;
    /// Where in them the trap temporaries start. Saved are 4 to 11 and 13.
    pub const TTMP_OFFSET: u32 = 64;
    /// Bytes between one wave's end and the next one's start.
    pub const GAP: u32 = 64;

    /// Offset of ordinary vector register `n` from the wave's lowest byte.
    #[must_use]
    pub const fn arch_vgpr(&self, n: u32) -> u32 {
        n * WaveLayout::VGPR_BYTES
    }

    /// Offset of accumulation register `n`.
    #[must_use]
    pub const fn acc_vgpr(&self, n: u32) -> u32 {
        (self.arch_vgprs + n) * WaveLayout::VGPR_BYTES
    }

    /// Offset of scalar register `n`.
    #[must_use]
    pub const fn sgpr(&self, n: u32) -> u32 {
        self.acc_vgpr(self.acc_vgprs) + n * 4
    }

    /// Offset of a hardware register: see [`hwreg`].
    #[must_use]
    pub const fn hwreg(&self, index: u32) -> u32 {
        self.sgpr(self.sgprs) + index * 4
    }

    /// Offset of trap temporary `n`.
    #[must_use]
    pub const fn ttmp(&self, n: u32) -> u32 {
        self.hwreg(0) + WaveLayout::TTMP_OFFSET + n * 4
    }

    /// Offset of the local data.
    #[must_use]
    pub const fn lds(&self) -> u32 {
        self.hwreg(0) + WaveLayout::HWREG_BYTES
    }

    /// Bytes from one wave to the next, gap included.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.lds() + self.lds_bytes + WaveLayout::GAP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(WaveState, 16, { control_stack_size: 4, wave_state_offset: 8, wave_state_size: 12 });
        layout!(SaveAreaHeader, 40, {
            wave_state: 0, debug_offset: 16, debug_size: 20, err_payload_addr: 24, err_event_id: 32, reserved1: 36,
        });
        assert_eq!((TRAP_AREA_SIZE, TRAP_MEMORY_OFFSET), (8192, 6144));
    }

    #[test]
    fn the_control_stack_ends_where_the_waves_begin() {
        let saved = WaveState {
            control_stack_offset: 12288 - 16,
            control_stack_size: 16,
            wave_state_offset: 12288 + 17024,
            wave_state_size: 17024,
        };
        assert_eq!(saved.control_stack().1, 12288);
        assert_eq!(saved.waves(), (12288, 12288 + 17024));
    }

    #[test]
    fn waves_have_their_known_sizes() {
        for (vgprs, size) in [(64, 17024), (128, 33408), (256, 66176), (512, 131_712)] {
            let layout = WaveLayout { arch_vgprs: vgprs / 2, acc_vgprs: vgprs / 2, sgprs: 112, lds_bytes: 0 };
            assert_eq!(layout.size(), size);
            assert_eq!(WaveLayout { lds_bytes: 1024, ..layout }.size(), size + 1024);
        }
    }

    #[test]
    fn the_parts_of_a_wave_follow_each_other() {
        let layout = WaveLayout { arch_vgprs: 24, acc_vgprs: 8, sgprs: 112, lds_bytes: 512 };
        let parts = [layout.arch_vgpr(1), layout.acc_vgpr(0), layout.sgpr(0), layout.hwreg(hwreg::M0)];
        assert_eq!(parts, [256, 24 * 256, 32 * 256, 32 * 256 + 448]);
        assert_eq!(layout.hwreg(hwreg::PC_LO), 32 * 256 + 448 + 4);
        assert_eq!((layout.ttmp(4) - layout.hwreg(0), layout.ttmp(13) - layout.hwreg(0)), (0x50, 0x74));
        assert_eq!(layout.size(), layout.lds() + 512 + 64);
    }
}
