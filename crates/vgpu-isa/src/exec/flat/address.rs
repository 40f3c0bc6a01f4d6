//! Fields and addresses of FLAT, GLOBAL and SCRATCH instructions.

use crate::inst::{Inst, Stop};
use crate::operand::{pack, spread};
use crate::wave::{LANES, Lanes};

/// The value of SADDR that means: no scalar register.
const OFF: usize = 0x7F;

/// What the two dwords say.
pub(super) struct Fields {
    /// Bits 0-12 of the offset.
    offset: u32,
    /// The vector register of a SCRATCH address counts (gfx942).
    sve: bool,
    /// Atomics return what memory held.
    pub(super) returns: bool,
    /// Data is in accumulation registers.
    pub(super) accumulation: bool,
    address: usize,
    /// First register of what is stored.
    pub(super) data: u32,
    scalar: usize,
    /// First register of what is loaded.
    pub(super) dst: u32,
}

impl Fields {
    #[inline(always)]
    pub(super) fn new(inst: &Inst) -> Self {
        let [w, x] = inst.words;
        Self {
            offset: w & 0x1FFF,
            sve: w & 1 << 13 != 0,
            returns: w & 1 << 16 != 0,
            accumulation: x & 1 << 23 != 0,
            address: (x & 0xFF) as usize,
            data: x >> 8 & 0xFF,
            scalar: (x >> 16 & 0x7F) as usize,
            dst: x >> 24,
        }
    }

    /// The offset of FLAT instructions: 12 bits without sign.
    #[inline(always)]
    pub(super) fn unsigned_offset(&self) -> u32 {
        self.offset & 0xFFF
    }

    /// The offset of GLOBAL and SCRATCH instructions: 13 bits with sign.
    #[inline(always)]
    pub(super) fn signed_offset(&self) -> i32 {
        (self.offset << 19) as i32 >> 19
    }

    /// Low and high halves of 64-bit vector addresses.
    #[inline(always)]
    pub(super) fn pair<'a>(&self, v: &'a [Lanes; 256]) -> (&'a Lanes, &'a Lanes) {
        (&v[self.address], &v[(self.address + 1) & 0xFF])
    }

    /// Offsets in private memory. Before gfx942 (`SVE` false) either register can be named, but not both.
    #[inline(always)]
    pub(super) fn private<const SVE: bool>(&self, v: &[Lanes; 256], s: &[u32; 128]) -> Lanes {
        let scalar = if self.scalar == OFF { 0 } else { s[self.scalar] };
        let base = scalar.wrapping_add_signed(self.signed_offset());
        let vector = if SVE { self.sve } else { self.scalar == OFF };
        let mut offsets = [base; LANES];
        if vector {
            for lane in 0..LANES {
                offsets[lane] = base.wrapping_add(v[self.address][lane]);
            }
        }
        offsets
    }
}

/// The high half that the addresses of all lanes that are on have, if it is one; nearly always it is.
#[inline(always)]
pub(crate) fn common_high(high: &Lanes, exec: u64) -> Option<u32> {
    let one = high[exec.trailing_zeros() as usize & 63];
    let mut difference = 0;
    if exec == !0 {
        for lane in 0..LANES {
            difference |= high[lane] ^ one;
        }
    } else {
        let on = spread(exec);
        for lane in 0..LANES {
            difference |= (high[lane] ^ one) & on[lane];
        }
    }
    (difference == 0).then_some(one)
}

/// Calls `access` for the lanes that share the high half of their address, until none is left.
pub(crate) fn by_high(
    high: &Lanes,
    exec: u64,
    mut access: impl FnMut(u32, u64) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut left = exec;
    while left != 0 {
        let one = high[left.trailing_zeros() as usize & 63];
        let mut bits = [0; LANES];
        for lane in 0..LANES {
            bits[lane] = u8::from(high[lane] == one);
        }
        let mask = pack(&bits) & left;
        access(one, mask)?;
        left &= !mask;
    }
    Ok(())
}

/// A high half of addresses and an offset as a base.
#[inline(always)]
pub(super) fn base(high: u32, offset: i32) -> u64 {
    (u64::from(high) << 32).wrapping_add_signed(i64::from(offset))
}

/// The base of a GLOBAL instruction, if its lanes have one; the offsets are in the first vector register then.
#[inline(always)]
pub(super) fn common_base(v: &[Lanes; 256], s: &[u32; 128], fields: &Fields, exec: u64) -> Option<u64> {
    let offset = fields.signed_offset();
    if fields.scalar != OFF {
        let base = u64::from(s[fields.scalar]) | u64::from(s[(fields.scalar + 1) & 127]) << 32;
        return Some(base.wrapping_add_signed(i64::from(offset)));
    }
    Some(base(common_high(fields.pair(v).1, exec)?, offset))
}
