//! Buffer resources (V#) and the addresses MUBUF instructions make with them.

use crate::inst::Inst;
use crate::operand::{Type, pack};
use crate::wave::{LANES, Lanes, Wave};

/// What the two dwords of the instruction say.
pub(super) struct Fields {
    /// The 12-bit offset.
    pub(super) offset: u32,
    offen: bool,
    idxen: bool,
    /// Atomics return what memory held.
    pub(super) returns: bool,
    /// Loads go to LDS.
    pub(super) lds: bool,
    /// Data is in accumulation registers.
    pub(super) accumulation: bool,
    address: usize,
    /// First register of the data.
    pub(super) data: u32,
    resource: usize,
    scalar: u16,
}

impl Fields {
    #[inline(always)]
    pub(super) fn new(inst: &Inst) -> Self {
        let [w, x] = inst.words;
        Self {
            offset: w & 0xFFF,
            offen: w & 1 << 12 != 0,
            idxen: w & 1 << 13 != 0,
            returns: w & 1 << 14 != 0,
            lds: w & 1 << 16 != 0,
            accumulation: x & 1 << 23 != 0,
            address: (x & 0xFF) as usize,
            data: x >> 8 & 0xFF,
            resource: (x >> 16 & 0x1F) as usize * 4,
            scalar: (x >> 24) as u16,
        }
    }
}

/// A buffer as an instruction sees it.
pub(super) struct Buffer<'a> {
    fields: &'a Fields,
    base: u64,
    stride: u64,
    swizzles: bool,
    records: u32,
    /// Format, destination selects and flags.
    pub(super) control: u32,
    scalar: u32,
}

/// Where the lanes go, and which of them stay inside the buffer.
pub(super) struct Places {
    /// Added to the offsets.
    pub(super) base: u64,
    /// Low halves.
    pub(super) low: Lanes,
    /// High halves.
    pub(super) high: Lanes,
    /// Lanes inside the buffer.
    pub(super) inside: u64,
}

impl<'a> Buffer<'a> {
    #[inline(always)]
    pub(super) fn new(wave: &Wave, fields: &'a Fields, inst: &Inst) -> Self {
        let word = |n: usize| wave.s[(fields.resource + n) & 127];
        let control = word(3);
        let adds_lane = control & 1 << 23 != 0;
        // With the number of the lane added, the data format is the upper part of the stride.
        let extension = if adds_lane { u64::from(control >> 15 & 0xF) << 14 } else { 0 };
        Self {
            fields,
            base: u64::from(word(0)) | u64::from(word(1) & 0xFFFF) << 32,
            stride: u64::from(word(1) >> 16 & 0x3FFF) | extension,
            swizzles: word(1) >> 31 != 0,
            records: word(2),
            control,
            scalar: wave.scalar(fields.scalar, inst, Type::B32),
        }
    }

    fn adds_lane(&self) -> bool {
        self.control & 1 << 23 != 0
    }

    /// NUM_RECORDS counts records, not bytes.
    fn structured(&self) -> bool {
        self.fields.idxen && self.stride != 0
    }

    /// Bytes that offsets may reach, if NUM_RECORDS counts bytes.
    fn limit(&self) -> u64 {
        u64::from(self.records.saturating_sub(self.scalar))
    }

    /// Each dword has an address of its own.
    #[inline(always)]
    pub(super) fn swizzles(&self) -> bool {
        self.swizzles
    }

    /// Returns the offsets in the wave's private memory, if the resource describes it: dwords of 64 lanes interleaved
    /// by lane. No other resource has this layout. The base is ignored, because the wave record holds the memory.
    #[inline(always)]
    pub(super) fn private(&self, v: &[Lanes; 256]) -> Option<Lanes> {
        if !(self.swizzles && self.adds_lane() && self.control >> 21 & 3 == 3 && !self.fields.idxen) {
            return None;
        }
        let base = self.fields.offset.wrapping_add(self.scalar / LANES as u32);
        let vector = &v[self.fields.address];
        Some(if self.fields.offen { vector.map(|offset| offset.wrapping_add(base)) } else { [base; LANES] })
    }

    /// Base and offsets of a plain run of bytes, if all lanes that are on stay inside with all of `size` bytes.
    #[inline(always)]
    pub(super) fn straight<'v>(&self, v: &'v [Lanes; 256], exec: u64, size: u32) -> Option<(u64, Option<&'v Lanes>)> {
        if self.fields.idxen || self.adds_lane() || self.swizzles {
            return None;
        }
        // The last dword is what the range check looks at.
        let last = u64::from(self.fields.offset + (size.max(4) - 4));
        let base = self.base.wrapping_add(u64::from(self.scalar)).wrapping_add(u64::from(self.fields.offset));
        if !self.fields.offen {
            return (last < self.limit()).then_some((base, None));
        }
        let offsets = &v[self.fields.address];
        let mut largest = 0;
        for lane in 0..LANES {
            largest = largest.max(offsets[lane] & ((exec >> lane) as u32 & 1).wrapping_neg());
        }
        (u64::from(largest) + last < self.limit()).then_some((base, Some(offsets)))
    }

    /// Addresses of a value of `size` bytes that begins `extra` bytes after where the instruction points.
    pub(super) fn places(&self, v: &[Lanes; 256], extra: u32, size: u32) -> Places {
        let fields = self.fields;
        let second = (fields.address + usize::from(fields.idxen)) & 0xFF;
        let base = self.base.wrapping_add(u64::from(self.scalar));
        let mut places = Places { base, low: [0; LANES], high: [0; LANES], inside: 0 };
        let mut inside = [0; LANES];
        for lane in 0..LANES {
            let index = if fields.idxen { u64::from(v[fields.address][lane]) } else { 0 }
                + if self.adds_lane() { lane as u64 } else { 0 };
            let offset = u64::from(fields.offset + extra) + if fields.offen { u64::from(v[second][lane]) } else { 0 };
            let at = self.resolve(index, offset);
            let fits = if self.structured() {
                index < u64::from(self.records)
            } else {
                at.saturating_add(u64::from(size.max(4) - 4)) < self.limit()
            };
            places.low[lane] = at as u32;
            places.high[lane] = (at >> 32) as u32;
            inside[lane] = u8::from(fits);
        }
        places.inside = pack(&inside);
        places
    }

    /// Byte of the buffer for a record and an offset in it.
    fn resolve(&self, index: u64, offset: u64) -> u64 {
        if !self.swizzles {
            return index * self.stride + offset;
        }
        // Records in groups; within a group, one dword of each record after the other.
        const ELEMENT: u64 = 4;
        let group = 8 << (self.control >> 21 & 3);
        let (outer, inner) = (index / group, index % group);
        (outer * self.stride + offset / ELEMENT * ELEMENT) * group + inner * ELEMENT + offset % ELEMENT
    }
}
