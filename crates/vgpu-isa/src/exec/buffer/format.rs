//! Data and number formats of buffers: how a record's components are packed, and what numbers they are.

use half::f16;

/// How the bits of a component are a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    Unorm,
    Snorm,
    Uscaled,
    Sscaled,
    Uint,
    Sint,
    Float,
}

/// Format of the records of a buffer.
pub(super) struct Format {
    /// Bits of the components, from the lowest bit of the record on.
    components: &'static [u32],
    number: Number,
    selects: [u32; 4],
}

/// Components by data format.
const COMPONENTS: [&[u32]; 16] = [
    &[],
    &[8],
    &[16],
    &[8, 8],
    &[32],
    &[16, 16],
    &[11, 11, 10],
    &[10, 11, 11],
    &[10, 10, 10, 2],
    &[2, 10, 10, 10],
    &[8, 8, 8, 8],
    &[32, 32],
    &[16, 16, 16, 16],
    &[32, 32, 32],
    &[32, 32, 32, 32],
    &[],
];

impl Format {
    /// From the last dword of a resource; none if the format does not exist.
    pub(super) fn new(control: u32) -> Option<Self> {
        let number = match control >> 12 & 7 {
            0 => Number::Unorm,
            1 => Number::Snorm,
            2 => Number::Uscaled,
            3 => Number::Sscaled,
            4 => Number::Uint,
            5 => Number::Sint,
            7 => Number::Float,
            _ => return None,
        };
        let components = COMPONENTS[(control >> 15 & 0xF) as usize];
        let selects = std::array::from_fn(|n| control >> (3 * n) & 7);
        (!components.is_empty()).then_some(Self { components, number, selects })
    }

    /// Bytes of a record's components.
    pub(super) fn size(&self) -> u32 {
        self.components.iter().sum::<u32>() / 8
    }

    /// Registers hold floats.
    pub(super) fn is_float(&self) -> bool {
        !matches!(self.number, Number::Uint | Number::Sint)
    }

    fn one(&self) -> u32 {
        if self.is_float() { 1.0_f32.to_bits() } else { 1 }
    }

    /// The four results of a load, selected and converted.
    pub(super) fn load(&self, record: u128) -> [u32; 4] {
        let mut values = [0, 0, 0, self.one()];
        let mut low = 0;
        for (value, &bits) in values.iter_mut().zip(self.components) {
            *value = self.decode((record >> low) as u32, bits);
            low += bits;
        }
        self.select(values)
    }

    /// The results of a load outside of the buffer: zero, except where the resource asks for one.
    pub(super) fn outside(&self) -> [u32; 4] {
        self.select([0; 4])
    }

    fn select(&self, values: [u32; 4]) -> [u32; 4] {
        self.selects.map(|select| match select {
            1 => self.one(),
            4..=7 => values[select as usize - 4],
            _ => 0,
        })
    }

    /// A record that holds the first values of a store; those that the store does not have are zero.
    pub(super) fn store(&self, values: &[u32]) -> u128 {
        let mut record = 0;
        let mut low = 0;
        for (n, &bits) in self.components.iter().enumerate() {
            let value = values.get(n).copied().unwrap_or(0);
            record |= u128::from(self.encode(value, bits)) << low;
            low += bits;
        }
        record
    }

    fn decode(&self, raw: u32, bits: u32) -> u32 {
        let unsigned = raw & mask(bits);
        let signed = (raw << (32 - bits)) as i32 >> (32 - bits);
        let float = match self.number {
            Number::Uint => return unsigned,
            Number::Sint => return signed as u32,
            Number::Float => match bits {
                32 => return raw,
                16 => f16::from_bits(raw as u16).to_f32(),
                // Small floats have no sign and the exponent of a half.
                10 | 11 => f16::from_bits((unsigned << (15 - bits)) as u16).to_f32(),
                _ => 0.0,
            },
            Number::Unorm => (f64::from(unsigned) / f64::from(mask(bits))) as f32,
            Number::Snorm => (f64::from(signed) / f64::from(mask(bits - 1))).max(-1.0) as f32,
            Number::Uscaled => unsigned as f32,
            Number::Sscaled => signed as f32,
        };
        float.to_bits()
    }

    fn encode(&self, value: u32, bits: u32) -> u32 {
        let float = f64::from(f32::from_bits(value));
        let (smallest, largest) = (-f64::from(mask(bits - 1)) - 1.0, f64::from(mask(bits - 1)));
        let encoded = match self.number {
            Number::Uint => value.min(mask(bits)),
            Number::Sint => (value as i32).clamp(smallest as i32, largest as i32) as u32,
            Number::Float => match bits {
                32 => value,
                16 => u32::from(f16::from_f64(float).to_bits()),
                10 | 11 => small_float(float, bits),
                _ => 0,
            },
            // The casts saturate and turn NaN into zero.
            Number::Unorm => (float.clamp(0.0, 1.0) * f64::from(mask(bits))).round_ties_even() as u32,
            Number::Snorm => (float.clamp(-1.0, 1.0) * largest).round_ties_even() as i32 as u32,
            Number::Uscaled => (float as u32).min(mask(bits)),
            Number::Sscaled => float.clamp(smallest, largest) as i32 as u32,
        };
        encoded & mask(bits)
    }
}

/// The lowest bits set.
fn mask(bits: u32) -> u32 {
    u32::MAX >> (32 - bits)
}

/// A float without sign, cut from a half: negative numbers become zero.
fn small_float(value: f64, bits: u32) -> u32 {
    if value < 0.0 {
        return 0;
    }
    u32::from(f16::from_f64(value).to_bits() & 0x7FFF) >> (15 - bits)
}

/// A register half from a result in single precision or an integer.
pub(super) fn to_half(format: &Format, value: u32) -> u32 {
    if format.is_float() { u32::from(f16::from_f32(f32::from_bits(value)).to_bits()) } else { value & 0xFFFF }
}

/// The value of a register half, as a store in full width would have it.
pub(super) fn from_half(format: &Format, half: u32) -> u32 {
    match format.number {
        Number::Uint => half & 0xFFFF,
        Number::Sint => i32::from(half as i16) as u32,
        _ => f16::from_bits(half as u16).to_f32().to_bits(),
    }
}
