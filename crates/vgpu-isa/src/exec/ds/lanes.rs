//! Operations that move values between lanes, and those that count lanes.

use super::fields::Fields;
use crate::exec::access::lanes::Active;
use crate::exec::access::{Lds, Memory, end, file};
use crate::inst::{Encoding, Env, Flow, Inst, Op, Stop};
use crate::operand::write_masked;
use crate::wave::{LANES, Lanes, M0, Wave};

/// The values of lanes that are on; zero for the others.
fn visible(register: &Lanes, exec: u64) -> Lanes {
    let mut values = [0; LANES];
    write_masked(&mut values, register, exec);
    values
}

/// Each lane sends its value to a lane; the highest sender wins.
fn permute(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
    cross(wave, inst, env, |fields, address, data, exec| {
        let mut out = [0; LANES];
        for lane in Active(exec) {
            out[(address[lane].wrapping_add(fields.offset) >> 2) as usize % LANES] = data[lane];
        }
        out
    })
}

/// Each lane takes the value of a lane; lanes that are off give zero.
fn bpermute(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
    cross(wave, inst, env, |fields, address, data, exec| {
        let data = visible(data, exec);
        let mut out = [0; LANES];
        for lane in 0..LANES {
            out[lane] = data[(address[lane].wrapping_add(fields.offset) >> 2) as usize % LANES];
        }
        out
    })
}

fn cross(
    wave: &mut Wave,
    inst: &Inst,
    env: &mut Env<'_>,
    move_lanes: impl Fn(&Fields, &Lanes, &Lanes, u64) -> Lanes,
) -> Flow {
    let fields = match Fields::new(inst) {
        Ok(fields) => fields,
        Err(why) => return env.stopped(why),
    };
    let exec = wave.exec();
    let data = file(wave, fields.accumulation)[fields.data0 as usize];
    let out = move_lanes(&fields, &wave.v[fields.address], &data, exec);
    write_masked(&mut file(wave, fields.accumulation)[fields.dst as usize], &out, exec);
    Flow::Next
}

/// The lane whose value a lane takes in a swizzle.
#[inline(always)]
fn swizzled(lane: usize, control: u32) -> usize {
    let (group, within) = (lane & 0x20, lane & 0x1F);
    let low = (control & 0x1F) as usize;
    let from = match control {
        // Decomposition of an FFT: lanes in the order of their reversed bits.
        0xE000.. => (within.reverse_bits() >> (usize::BITS - 5)) >> low.count_ones() | within & low,
        // Rotation within the lanes that agree in the masked bits.
        0xC000.. => {
            let by = (control >> 5 & 0x1F) as usize;
            let turned = if control & 1 << 10 == 0 { within + by } else { within + 32 - by };
            within & low | turned & !low
        }
        // Any lane of the four.
        0x8000.. => within & !3 | (control >> (2 * (within & 3)) & 3) as usize,
        // And, or, exclusive or with the number of the lane.
        _ => (within & low | (control >> 5 & 0x1F) as usize) ^ (control >> 10 & 0x1F) as usize,
    };
    group | from & 0x1F
}

fn swizzle(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
    let fields = match Fields::new(inst) {
        Ok(fields) => fields,
        Err(why) => return env.stopped(why),
    };
    let exec = wave.exec();
    let values = visible(&wave.v[fields.address], exec);
    let out: Lanes = std::array::from_fn(|lane| values[swizzled(lane, fields.offset)]);
    write_masked(&mut file(wave, fields.accumulation)[fields.dst as usize], &out, exec);
    Flow::Next
}

/// Adds to a counter in LDS what `next` makes of it and the number of lanes that are on; all lanes get the old value.
fn count(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>, next: fn(u32, u32) -> u32) -> Result<(), Stop> {
    let fields = Fields::new(inst)?;
    let exec = wave.exec();
    let address = u64::from((wave.s[M0] & 0xFFFF) + fields.offset);
    let old = Lds(env.lds).change_u32(address, |old| next(old, exec.count_ones()))?;
    write_masked(&mut file(wave, fields.accumulation)[fields.dst as usize], &[old; LANES], exec);
    Ok(())
}

fn append(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
    let result = count(wave, inst, env, u32::wrapping_add);
    end(env, result)
}

fn consume(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
    let result = count(wave, inst, env, u32::wrapping_sub);
    end(env, result)
}

fn nothing(_wave: &mut Wave, _inst: &Inst, _env: &mut Env<'_>) -> Flow {
    Flow::Next
}

pub(super) static OPS: &[Op] = &[
    Op::new(Encoding::Ds, 20, "ds_nop", nothing),
    Op::new(Encoding::Ds, 61, "ds_swizzle_b32", swizzle),
    Op::new(Encoding::Ds, 62, "ds_permute_b32", permute),
    Op::new(Encoding::Ds, 63, "ds_bpermute_b32", bpermute),
    Op::new(Encoding::Ds, 189, "ds_consume", consume),
    Op::new(Encoding::Ds, 190, "ds_append", append),
];
