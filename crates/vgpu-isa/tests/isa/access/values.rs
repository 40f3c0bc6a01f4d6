//! Loads and stores of all widths: what bytes become registers, and registers bytes.

use super::{Place, State};

/// What a load makes of bytes.
type Decode = fn(&[u8]) -> Vec<u32>;
/// What a store makes of registers.
type Encode = fn(&[u32]) -> Vec<u8>;

/// A load: name in FLAT, GLOBAL, SCRATCH and MUBUF, name in DS, bytes, registers.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) ds: &'static str,
    pub(crate) size: usize,
    pub(crate) registers: usize,
    decode: Decode,
}

/// A store, likewise.
#[derive(Clone, Copy)]
pub(crate) struct Store {
    pub(crate) name: &'static str,
    pub(crate) ds: &'static str,
    pub(crate) size: usize,
    pub(crate) registers: usize,
    encode: Encode,
}

fn unsigned(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |sum, byte| sum * 256 + u32::from(*byte))
}

/// Two's complement by subtraction.
fn signed(bytes: &[u8]) -> i64 {
    let value = i64::from(unsigned(bytes));
    let range = 1 << (8 * bytes.len());
    if value >= range / 2 { value - range } else { value }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(unsigned).collect()
}

/// A half of the register; with SRAM ECC the other one becomes zero.
fn half(value: u32, high: bool) -> Vec<u32> {
    let value = value % 65536;
    vec![if high { value * 65536 } else { value }]
}

const fn load(name: &'static str, ds: &'static str, size: usize, decode: Decode) -> Load {
    Load { name, ds, size, registers: size.div_ceil(4), decode }
}

/// All loads.
pub(crate) const LOADS: [Load; 14] = [
    load("load_ubyte", "ds_read_u8", 1, |b| vec![unsigned(b)]),
    load("load_sbyte", "ds_read_i8", 1, |b| vec![signed(b) as u32]),
    load("load_ushort", "ds_read_u16", 2, |b| vec![unsigned(b)]),
    load("load_sshort", "ds_read_i16", 2, |b| vec![signed(b) as u32]),
    load("load_dword", "ds_read_b32", 4, words),
    load("load_dwordx2", "ds_read_b64", 8, words),
    load("load_dwordx3", "ds_read_b96", 12, words),
    load("load_dwordx4", "ds_read_b128", 16, words),
    load("load_ubyte_d16", "ds_read_u8_d16", 1, |b| half(unsigned(b), false)),
    load("load_ubyte_d16_hi", "ds_read_u8_d16_hi", 1, |b| half(unsigned(b), true)),
    load("load_sbyte_d16", "ds_read_i8_d16", 1, |b| half(signed(b) as u32, false)),
    load("load_sbyte_d16_hi", "ds_read_i8_d16_hi", 1, |b| half(signed(b) as u32, true)),
    load("load_short_d16", "ds_read_u16_d16", 2, |b| half(unsigned(b), false)),
    load("load_short_d16_hi", "ds_read_u16_d16_hi", 2, |b| half(unsigned(b), true)),
];

fn all_bytes(registers: &[u32]) -> Vec<u8> {
    registers.iter().flat_map(|word| (0..4).map(move |n| (word >> (8 * n)) as u8)).collect()
}

const fn store(name: &'static str, ds: &'static str, size: usize, encode: Encode) -> Store {
    Store { name, ds, size, registers: size.div_ceil(4), encode }
}

/// All stores.
pub(crate) const STORES: [Store; 8] = [
    store("store_byte", "ds_write_b8", 1, |r| all_bytes(r)[..1].to_vec()),
    store("store_byte_d16_hi", "ds_write_b8_d16_hi", 1, |r| all_bytes(r)[2..3].to_vec()),
    store("store_short", "ds_write_b16", 2, |r| all_bytes(r)[..2].to_vec()),
    store("store_short_d16_hi", "ds_write_b16_d16_hi", 2, |r| all_bytes(r)[2..].to_vec()),
    store("store_dword", "ds_write_b32", 4, all_bytes),
    store("store_dwordx2", "ds_write_b64", 8, all_bytes),
    store("store_dwordx3", "ds_write_b96", 12, all_bytes),
    store("store_dwordx4", "ds_write_b128", 16, all_bytes),
];

impl Load {
    /// The state after all lanes loaded from their places to registers from `dst` on.
    pub(crate) fn apply(&self, state: &mut State, accumulation: bool, dst: usize, place: &dyn Fn(usize) -> Place) {
        for lane in state.active() {
            let bytes = state.read(lane, place(lane), self.size);
            self.set(state, accumulation, dst, lane, &bytes);
        }
    }

    /// The state after one lane loaded these bytes.
    pub(crate) fn set(&self, state: &mut State, accumulation: bool, dst: usize, lane: usize, bytes: &[u8]) {
        for (n, value) in (self.decode)(bytes).into_iter().enumerate() {
            state.file(accumulation)[(dst + n) % 256][lane] = value;
        }
    }

    /// The word that a load to LDS puts there.
    pub(crate) fn word(&self, bytes: &[u8]) -> u32 {
        (self.decode)(bytes)[0]
    }
}

impl Store {
    /// The bytes that one lane stores.
    pub(crate) fn bytes(&self, state: &mut State, accumulation: bool, src: usize, lane: usize) -> Vec<u8> {
        let registers: Vec<u32> = (0..self.registers).map(|n| state.file(accumulation)[src + n][lane]).collect();
        (self.encode)(&registers)
    }

    /// The state after all lanes stored registers from `src` on to their places, in order.
    pub(crate) fn apply(&self, state: &mut State, accumulation: bool, src: usize, place: &dyn Fn(usize) -> Place) {
        for lane in state.active() {
            let bytes = self.bytes(state, accumulation, src, lane);
            state.write(lane, place(lane), &bytes);
        }
    }
}
