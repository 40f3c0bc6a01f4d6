//! Loads and stores that convert between registers and the format of the buffer.

use super::format::{Format, from_half, to_half};
use super::resource::{Buffer, Fields, Places};
use crate::exec::access::lanes::Active;
use crate::exec::access::{Bytes, Memory, end, file, to_lds};
use crate::inst::Encoding::{Mtbuf, Mubuf};
use crate::inst::{Encoding, Env, Flow, Inst, Op, Stop};
use crate::wave::{LANES, Lanes, Wave};

/// Values fill whole registers.
const FULL: u8 = 0;
/// Values are packed in halves.
const HALVES: u8 = 1;
/// One value in the high half.
const HIGH_HALF: u8 = 2;

fn illegal(inst: &Inst) -> Stop {
    Stop::Illegal { mnemonic: Some(inst.op.name), words: inst.words }
}

fn address(places: &Places, lane: usize) -> u64 {
    places.base.wrapping_add(u64::from(places.low[lane]) | u64::from(places.high[lane]) << 32)
}

/// Returns the format that applies: MTBUF instructions bring their own, with the destination selects of the resource.
fn format(buffer: &Buffer<'_>, inst: &Inst) -> Result<Format, Stop> {
    let control = if inst.op.encoding == Mtbuf {
        let [data, number] = [inst.words[0] >> 19 & 0xF, inst.words[0] >> 23 & 7];
        buffer.control & 0xFFF | number << 12 | data << 15
    } else {
        buffer.control
    };
    Format::new(control).ok_or_else(|| illegal(inst))
}

fn load<const N: usize, const PACKING: u8>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let buffer = Buffer::new(wave, &fields, inst);
    let exec = wave.exec();
    let format = format(&buffer, inst)?;
    let places = buffer.places(&wave.v, 0, format.size());
    let mut values = [[0; LANES]; N];
    for lane in Active(exec) {
        let results = if places.inside >> lane & 1 != 0 {
            let mut bytes = Bytes::default();
            Memory::read(&mut env.memory, address(&places, lane), &mut bytes.0[..format.size() as usize])?;
            format.load(u128::from_le_bytes(bytes.0))
        } else {
            format.outside()
        };
        for (value, result) in values.iter_mut().zip(results) {
            value[lane] = if PACKING == FULL { result } else { to_half(&format, result) };
        }
    }
    // MTBUF has no such field.
    if fields.lds && inst.op.encoding == Mubuf {
        return match &values[..] {
            [words] if PACKING == FULL => to_lds(wave, env, fields.offset as i32, words),
            _ => Err(illegal(inst)),
        };
    }
    write_results::<N, PACKING>(file(wave, fields.accumulation), fields.data, &values, exec);
    Ok(())
}

/// Writes converted values to registers from `dst` on. A half that no value fills becomes zero, as for all D16 loads
/// ([`Narrow`](crate::exec::access::value::Narrow)).
fn write_results<const N: usize, const PACKING: u8>(file: &mut [Lanes; 256], dst: u32, values: &[Lanes; N], exec: u64) {
    for (n, value) in values.iter().enumerate() {
        let register = if PACKING == FULL { n } else { n / 2 };
        let to = &mut file[(dst as usize + register) & 0xFF];
        for lane in Active(exec) {
            to[lane] = match PACKING {
                FULL => value[lane],
                HIGH_HALF => value[lane] << 16,
                _ if n % 2 == 1 => to[lane] & 0xFFFF | value[lane] << 16,
                _ => value[lane],
            };
        }
    }
}

fn store<const N: usize, const PACKING: u8>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let buffer = Buffer::new(wave, &fields, inst);
    let exec = wave.exec();
    let format = format(&buffer, inst)?;
    let size = format.size();
    let places = buffer.places(&wave.v, 0, size);
    let file = file(wave, fields.accumulation);
    for lane in Active(exec & places.inside) {
        let values: [u32; N] = std::array::from_fn(|n| {
            let register = if PACKING == FULL { n } else { n / 2 };
            let word = file[(fields.data as usize + register) & 0xFF][lane];
            match PACKING {
                FULL => word,
                _ if PACKING == HIGH_HALF || n % 2 == 1 => from_half(&format, word >> 16),
                _ => from_half(&format, word),
            }
        });
        let bytes = Bytes(format.store(&values).to_le_bytes());
        Memory::write(&mut env.memory, address(&places, lane), &bytes.0[..size as usize])?;
    }
    Ok(())
}

fn handle_load<const N: usize, const PACKING: u8>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
    let result = load::<N, PACKING>(wave, inst, env);
    end(env, result)
}

fn handle_store<const N: usize, const PACKING: u8>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
    let result = store::<N, PACKING>(wave, inst, env);
    end(env, result)
}

const fn load_op<const N: usize, const PACKING: u8>(encoding: Encoding, opcode: u16, name: &'static str) -> Op {
    Op::new(encoding, opcode, name, handle_load::<N, PACKING>)
}

const fn store_op<const N: usize, const PACKING: u8>(encoding: Encoding, opcode: u16, name: &'static str) -> Op {
    Op::new(encoding, opcode, name, handle_store::<N, PACKING>)
}

/// The opcodes that MUBUF and MTBUF share.
macro_rules! formats {
    ($encoding:ident, $prefix:literal) => {
        &[
            load_op::<1, FULL>($encoding, 0, concat!($prefix, "load_format_x")),
            load_op::<2, FULL>($encoding, 1, concat!($prefix, "load_format_xy")),
            load_op::<3, FULL>($encoding, 2, concat!($prefix, "load_format_xyz")),
            load_op::<4, FULL>($encoding, 3, concat!($prefix, "load_format_xyzw")),
            store_op::<1, FULL>($encoding, 4, concat!($prefix, "store_format_x")),
            store_op::<2, FULL>($encoding, 5, concat!($prefix, "store_format_xy")),
            store_op::<3, FULL>($encoding, 6, concat!($prefix, "store_format_xyz")),
            store_op::<4, FULL>($encoding, 7, concat!($prefix, "store_format_xyzw")),
            load_op::<1, HALVES>($encoding, 8, concat!($prefix, "load_format_d16_x")),
            load_op::<2, HALVES>($encoding, 9, concat!($prefix, "load_format_d16_xy")),
            load_op::<3, HALVES>($encoding, 10, concat!($prefix, "load_format_d16_xyz")),
            load_op::<4, HALVES>($encoding, 11, concat!($prefix, "load_format_d16_xyzw")),
            store_op::<1, HALVES>($encoding, 12, concat!($prefix, "store_format_d16_x")),
            store_op::<2, HALVES>($encoding, 13, concat!($prefix, "store_format_d16_xy")),
            store_op::<3, HALVES>($encoding, 14, concat!($prefix, "store_format_d16_xyz")),
            store_op::<4, HALVES>($encoding, 15, concat!($prefix, "store_format_d16_xyzw")),
        ]
    };
}

pub(super) static MUBUF: &[Op] = formats!(Mubuf, "buffer_");
pub(super) static MTBUF: &[Op] = formats!(Mtbuf, "tbuffer_");

pub(super) static HIGH: &[Op] = &[
    load_op::<1, HIGH_HALF>(Mubuf, 38, "buffer_load_format_d16_hi_x"),
    store_op::<1, HIGH_HALF>(Mubuf, 39, "buffer_store_format_d16_hi_x"),
];
