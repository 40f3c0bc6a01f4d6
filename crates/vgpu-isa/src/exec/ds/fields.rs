//! Fields of DS instructions.

use crate::inst::{Inst, Stop};

/// What the two dwords say.
pub(super) struct Fields {
    /// The 16-bit offset.
    pub(super) offset: u32,
    /// Data is in accumulation registers.
    pub(super) accumulation: bool,
    /// Register of the address.
    pub(super) address: usize,
    /// First register of the first operand.
    pub(super) data0: u32,
    /// First register of the second operand.
    pub(super) data1: u32,
    /// First register of the result.
    pub(super) dst: u32,
}

impl Fields {
    /// The fields, unless the instruction wants global data share, which these devices do not have.
    #[inline(always)]
    pub(super) fn new(inst: &Inst) -> Result<Self, Stop> {
        let [w, x] = inst.words;
        if w & 1 << 16 != 0 {
            return Err(Stop::Illegal { mnemonic: Some(inst.op.name), words: inst.words });
        }
        Ok(Self {
            offset: w & 0xFFFF,
            accumulation: w & 1 << 25 != 0,
            address: (x & 0xFF) as usize,
            data0: x >> 8 & 0xFF,
            data1: x >> 16 & 0xFF,
            dst: x >> 24,
        })
    }

    /// The two 8-bit offsets, in units of `scale` bytes.
    #[inline(always)]
    pub(super) fn offsets(&self, scale: u32) -> [u64; 2] {
        [u64::from((self.offset & 0xFF) * scale), u64::from((self.offset >> 8) * scale)]
    }
}
