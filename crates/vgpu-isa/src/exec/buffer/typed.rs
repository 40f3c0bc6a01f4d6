//! Loads and stores that convert between registers and the format of the buffer.

use super::format::{Format, from_half, to_half};
use super::resource::{Buffer, Fields, Places};
use crate::exec::access::lanes::Active;
use crate::exec::access::{Bytes, Memory, end, file, to_lds};
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

fn load<const N: usize, const PACKING: u8>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let buffer = Buffer::new(wave, &fields, inst);
    let exec = wave.exec();
    let format = Format::new(buffer.control).ok_or_else(|| illegal(inst))?;
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
    if fields.lds {
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
    let format = Format::new(buffer.control).ok_or_else(|| illegal(inst))?;
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

const fn load_op<const N: usize, const PACKING: u8>(opcode: u16, name: &'static str) -> Op {
    Op::new(Encoding::Mubuf, opcode, name, handle_load::<N, PACKING>)
}

const fn store_op<const N: usize, const PACKING: u8>(opcode: u16, name: &'static str) -> Op {
    Op::new(Encoding::Mubuf, opcode, name, handle_store::<N, PACKING>)
}

pub(super) static OPS: &[Op] = &[
    load_op::<1, FULL>(0, "buffer_load_format_x"),
    load_op::<2, FULL>(1, "buffer_load_format_xy"),
    load_op::<3, FULL>(2, "buffer_load_format_xyz"),
    load_op::<4, FULL>(3, "buffer_load_format_xyzw"),
    store_op::<1, FULL>(4, "buffer_store_format_x"),
    store_op::<2, FULL>(5, "buffer_store_format_xy"),
    store_op::<3, FULL>(6, "buffer_store_format_xyz"),
    store_op::<4, FULL>(7, "buffer_store_format_xyzw"),
    load_op::<1, HALVES>(8, "buffer_load_format_d16_x"),
    load_op::<2, HALVES>(9, "buffer_load_format_d16_xy"),
    load_op::<3, HALVES>(10, "buffer_load_format_d16_xyz"),
    load_op::<4, HALVES>(11, "buffer_load_format_d16_xyzw"),
    store_op::<1, HALVES>(12, "buffer_store_format_d16_x"),
    store_op::<2, HALVES>(13, "buffer_store_format_d16_xy"),
    store_op::<3, HALVES>(14, "buffer_store_format_d16_xyz"),
    store_op::<4, HALVES>(15, "buffer_store_format_d16_xyzw"),
    load_op::<1, HIGH_HALF>(38, "buffer_load_format_d16_hi_x"),
    store_op::<1, HIGH_HALF>(39, "buffer_store_format_d16_hi_x"),
];
