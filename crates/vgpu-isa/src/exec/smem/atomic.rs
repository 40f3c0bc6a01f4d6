//! Scalar atomics: read, change, write in one step.

use super::address::{Addressing, buffer, global};
use super::{data, faulted, registers, returns, set_registers};
use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::memory::{Fault, Port};
use crate::wave::Wave;

/// The four forms of each change: buffer and global, 32 and 64 bits. The function gets what memory holds, the operand,
/// and what s_atomic_cmpswap compares with.
macro_rules! atomics {
    ($($opcode:literal $name:literal $change:expr;)*) => {
        &[$(
            atomic($opcode, concat!("s_buffer_atomic_", $name), |w, i, e| narrow(w, i, e, buffer, $change)),
            atomic($opcode + 32, concat!("s_buffer_atomic_", $name, "_x2"), |w, i, e| wide(w, i, e, buffer, $change)),
            atomic($opcode + 64, concat!("s_atomic_", $name), |w, i, e| narrow(w, i, e, global, $change)),
            atomic($opcode + 96, concat!("s_atomic_", $name, "_x2"), |w, i, e| wide(w, i, e, global, $change)),
        )*]
    };
}

pub(super) static OPS: &[Op] = atomics!(
    64 "swap" |_, data, _| data;
    65 "cmpswap" |old, data, compare| if old == compare { data } else { old };
    66 "add" |old, data, _| old.wrapping_add(data);
    67 "sub" |old, data, _| old.wrapping_sub(data);
    68 "smin" |old, data, _| if signed(data) < signed(old) { data } else { old };
    69 "umin" |old, data, _| data.min(old);
    70 "smax" |old, data, _| if signed(data) >= signed(old) { data } else { old };
    71 "umax" |old, data, _| data.max(old);
    72 "and" |old, data, _| old & data;
    73 "or" |old, data, _| old | data;
    74 "xor" |old, data, _| old ^ data;
    75 "inc" |old, data, _| if old >= data { 0 } else { old + 1 };
    76 "dec" |old, data, _| if old == 0 || old > data { data } else { old - 1 };
);

const fn atomic(opcode: u16, name: &'static str, handler: crate::inst::Handler) -> Op {
    Op::new(Encoding::Smem, opcode, name, handler)
}

/// Turns the order of signed numbers into that of unsigned ones.
trait Signed: Copy {
    fn signed(self) -> Self;
}

impl Signed for u32 {
    fn signed(self) -> Self {
        self ^ 1 << 31
    }
}

impl Signed for u64 {
    fn signed(self) -> Self {
        self ^ 1 << 63
    }
}

fn signed<T: Signed>(value: T) -> T {
    value.signed()
}

fn narrow(
    wave: &mut Wave,
    inst: &Inst,
    env: &mut Env<'_>,
    addressing: Addressing,
    change: impl Fn(u32, u32, u32) -> u32,
) -> Flow {
    let [data, compare] = registers(wave, data(inst));
    run(wave, inst, env, addressing, 4, |memory, address| {
        let old = memory.atomic_u32(address, |old| change(old, data, compare))?;
        Ok([old, 0])
    })
}

fn wide(
    wave: &mut Wave,
    inst: &Inst,
    env: &mut Env<'_>,
    addressing: Addressing,
    change: impl Fn(u64, u64, u64) -> u64,
) -> Flow {
    let [data_low, data_high, compare_low, compare_high] = registers(wave, data(inst));
    let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let (data, compare) = (join(data_low, data_high), join(compare_low, compare_high));
    run(wave, inst, env, addressing, 8, |memory, address| {
        let old = memory.atomic_u64(address, |old| change(old, data, compare))?;
        Ok([old as u32, (old >> 32) as u32])
    })
}

/// Outside of a buffer nothing happens and zero comes back.
fn run(
    wave: &mut Wave,
    inst: &Inst,
    env: &mut Env<'_>,
    addressing: Addressing,
    bytes: u64,
    access: impl FnOnce(&mut Port<'_>, u64) -> Result<[u32; 2], Fault>,
) -> Flow {
    let place = addressing(wave, inst);
    let old = if place.holds(0, bytes) { access(&mut env.memory, place.address) } else { Ok([0; 2]) };
    match old {
        Ok(old) => {
            if returns(inst) {
                set_registers(wave, data(inst), &old[..bytes as usize / 4]);
            }
            Flow::Next
        }
        Err(fault) => faulted(env, fault),
    }
}
