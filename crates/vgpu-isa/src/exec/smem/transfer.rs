//! Loads and stores.

use super::address::{Place, buffer, global, scratch};
use super::{data, faulted, registers, set_registers};
use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::memory::{Access, Fault};
use crate::wave::Wave;

/// Loads and stores of one kind of address: opcode, mnemonic and dwords of each.
macro_rules! transfers {
    ($($what:ident $addressing:ident: $($opcode:literal $name:literal $dwords:literal;)*)*) => {
        &[$($(Op::new(Encoding::Smem, $opcode, $name, |wave, inst, env| {
            let place = $addressing(wave, inst);
            $what::<$dwords>(wave, inst, env, &place)
        })),*),*]
    };
}

pub(super) static OPS: &[Op] = transfers!(
    load global:
        0 "s_load_dword" 1;
        1 "s_load_dwordx2" 2;
        2 "s_load_dwordx4" 4;
        3 "s_load_dwordx8" 8;
        4 "s_load_dwordx16" 16;
    load scratch:
        5 "s_scratch_load_dword" 1;
        6 "s_scratch_load_dwordx2" 2;
        7 "s_scratch_load_dwordx4" 4;
    load buffer:
        8 "s_buffer_load_dword" 1;
        9 "s_buffer_load_dwordx2" 2;
        10 "s_buffer_load_dwordx4" 4;
        11 "s_buffer_load_dwordx8" 8;
        12 "s_buffer_load_dwordx16" 16;
    store global:
        16 "s_store_dword" 1;
        17 "s_store_dwordx2" 2;
        18 "s_store_dwordx4" 4;
    store scratch:
        21 "s_scratch_store_dword" 1;
        22 "s_scratch_store_dwordx2" 2;
        23 "s_scratch_store_dwordx4" 4;
    store buffer:
        24 "s_buffer_store_dword" 1;
        25 "s_buffer_store_dwordx2" 2;
        26 "s_buffer_store_dwordx4" 4;
);

#[inline(always)]
fn load<const DWORDS: usize>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>, place: &Place) -> Flow {
    let mut values = [0; DWORDS];
    match fetch(env, place, &mut values) {
        Ok(()) => {
            set_registers(wave, data(inst), &values);
            Flow::Next
        }
        Err(fault) => faulted(env, fault),
    }
}

/// Dwords beyond a buffer read as zero. Nothing is loaded if any dword faults.
#[inline(always)]
fn fetch(env: &mut Env<'_>, place: &Place, values: &mut [u32]) -> Result<(), Fault> {
    let bytes = 4 * values.len() as u64;
    if place.holds(0, bytes)
        && let Some(host) = env.memory.direct(place.address, bytes, Access::Read)
    {
        for (n, value) in values.iter_mut().enumerate() {
            // SAFETY: `direct` vouches for all the bytes; volatile because others may write them meanwhile. GPU
            // addresses are whole dwords, but the memory behind them may start anywhere.
            *value = unsafe {
                let from = host.add(4 * n).cast::<u32>();
                if from.is_aligned() { from.read_volatile() } else { from.read_unaligned() }
            };
        }
        return Ok(());
    }
    for (n, value) in values.iter_mut().enumerate() {
        let skipped = 4 * n as u64;
        *value = if place.holds(skipped, 4) { env.memory.read_u32(place.address.wrapping_add(skipped))? } else { 0 };
    }
    Ok(())
}

/// Dwords beyond a buffer are dropped.
fn store<const DWORDS: usize>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>, place: &Place) -> Flow {
    let values = registers::<DWORDS>(wave, data(inst));
    for (n, value) in values.into_iter().enumerate() {
        let skipped = 4 * n as u64;
        if !place.holds(skipped, 4) {
            break;
        }
        if let Err(fault) = env.memory.write_u32(place.address.wrapping_add(skipped), value) {
            return faulted(env, fault);
        }
    }
    Flow::Next
}
