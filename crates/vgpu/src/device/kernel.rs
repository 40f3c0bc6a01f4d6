//! The kernel descriptor: resources and initial state that a kernel requires.

use vgpu_isa::inst::Target;
use vgpu_isa::memory::{Fault, Port};
use vgpu_isa::wave::mode;

/// Bytes of a descriptor.
const DESCRIPTOR: usize = 64;

/// Flags of the descriptor, in the order in which they claim scalar registers.
pub(crate) mod properties {
    pub(crate) const PRIVATE_SEGMENT_BUFFER: u16 = 1 << 0;
    pub(crate) const DISPATCH_PTR: u16 = 1 << 1;
    pub(crate) const QUEUE_PTR: u16 = 1 << 2;
    pub(crate) const KERNARG_PTR: u16 = 1 << 3;
    pub(crate) const DISPATCH_ID: u16 = 1 << 4;
    pub(crate) const FLAT_SCRATCH_INIT: u16 = 1 << 5;
    pub(crate) const PRIVATE_SEGMENT_SIZE: u16 = 1 << 6;
    pub(crate) const DYNAMIC_STACK: u16 = 1 << 11;
}

/// Where a kernel starts and the resource registers it was compiled for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Address of the first instruction.
    pub(crate) entry: u64,
    /// COMPUTE_PGM_RSRC1.
    pub(crate) rsrc1: u32,
    /// COMPUTE_PGM_RSRC2.
    pub(crate) rsrc2: u32,
    /// COMPUTE_PGM_RSRC3.
    pub(crate) rsrc3: u32,
    /// Flags of the descriptor.
    pub(crate) properties: u16,
    /// Arguments that are loaded to scalar registers: dwords (bits 0-6) from dword (bits 7-15).
    pub(crate) preload: u16,
}

fn bits(value: u32, low: u32, count: u32) -> u32 {
    value >> low & ((1 << count) - 1)
}

impl Kernel {
    /// Reads the descriptor at `object`. The 256-byte header of older compilers has the fields at the same places.
    pub(crate) fn read(memory: &mut Port<'_>, object: u64) -> Result<Self, Fault> {
        let mut bytes = [0; DESCRIPTOR];
        memory.read(object, &mut bytes)?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let offset = u64::from(word(16)) | u64::from(word(20)) << 32;
        Ok(Self {
            entry: object.wrapping_add(offset),
            rsrc1: word(48),
            rsrc2: word(52),
            rsrc3: word(44),
            properties: word(56) as u16,
            preload: (word(56) >> 16) as u16,
        })
    }

    pub(crate) fn has(&self, property: u16) -> bool {
        self.properties & property != 0
    }

    /// Returns the number of vector registers: all of them, and how many of those are architectural. The rest are
    /// accumulation registers.
    pub(crate) fn vgprs(&self) -> (u32, u32) {
        let all = (bits(self.rsrc1, 0, 6) + 1) * 8;
        let architectural = (bits(self.rsrc3, 0, 6) + 1) * 4;
        (all, architectural.min(all).min(256))
    }

    /// Returns the number of scalar registers as allocated.
    pub(crate) fn sgprs(&self) -> u32 {
        (bits(self.rsrc1, 6, 4) / 2 + 1) * 16
    }

    /// Returns the number of scalar registers that the packet fills.
    pub(crate) fn user_sgprs(&self) -> usize {
        bits(self.rsrc2, 1, 5) as usize
    }

    /// Returns whether workgroup numbers x, y, z and the workgroup's info word follow the user registers.
    pub(crate) fn system_sgprs(&self) -> [bool; 4] {
        [7, 8, 9, 10].map(|bit| bits(self.rsrc2, bit, 1) != 0)
    }

    /// Returns whether the wave uses private memory; before gfx942 it also gets the offset of its part.
    pub(crate) fn private_segment(&self) -> bool {
        self.rsrc2 & 1 != 0
    }

    /// Returns the dimensions of the work item's number in v0.
    pub(crate) fn item_dimensions(&self) -> u32 {
        (bits(self.rsrc2, 11, 2) + 1).min(3)
    }

    /// Returns the bytes of LDS that the register asks for (PM4 dispatches; AQL packets contain their own number).
    pub(crate) fn lds(&self) -> u32 {
        bits(self.rsrc2, 15, 9) * LDS_GRANULE
    }

    /// Returns the MODE register of a new wave.
    pub(crate) fn mode(&self) -> u32 {
        const EXCEPTIONS_SHIFT: u32 = 12;
        bits(self.rsrc1, 12, 8)
            | (bits(self.rsrc1, 21, 1) * mode::DX10_CLAMP)
            | (bits(self.rsrc1, 23, 1) * mode::IEEE)
            | (bits(self.rsrc1, 26, 1) * mode::FP16_OVFL)
            | (bits(self.rsrc2, 24, 7) << EXCEPTIONS_SHIFT)
    }

    /// Returns the dwords of arguments to load and the dword they start at; none where the device cannot load any.
    pub(crate) fn preloaded(&self, target: Target) -> (u64, u64) {
        if target == Target::Gfx90a {
            return (0, 0);
        }
        (u64::from(self.preload & 0x7F), u64::from(self.preload >> 7))
    }
}

/// LDS is allocated in pieces of so many bytes.
pub(crate) const LDS_GRANULE: u32 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_registers_fall_into_their_parts() {
        let kernel = Kernel {
            rsrc1: 5 | 2 << 6 | 0xC0 << 12 | 1 << 21 | 1 << 23,
            rsrc2: 1 | 8 << 1 | 1 << 7 | 1 << 9 | 2 << 11 | 3 << 15 | 1 << 26,
            rsrc3: 7,
            ..Kernel::default()
        };
        assert_eq!(kernel.vgprs(), (48, 32));
        assert_eq!(kernel.sgprs(), 32);
        assert_eq!(kernel.user_sgprs(), 8);
        assert_eq!(kernel.system_sgprs(), [true, false, true, false]);
        assert!(kernel.private_segment());
        assert_eq!(kernel.item_dimensions(), 3);
        assert_eq!(kernel.lds(), 1536);
        assert_eq!(kernel.mode(), 0xC0 | mode::DX10_CLAMP | mode::IEEE | 1 << 14);
    }

    #[test]
    fn the_largest_wave_has_as_many_registers_of_either_kind() {
        let kernel = Kernel { rsrc1: 63, rsrc3: 63, ..Kernel::default() };
        assert_eq!(kernel.vgprs(), (512, 256));
    }
}
