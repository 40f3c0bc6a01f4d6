//! Loads and stores: global memory, private memory, and flat addresses that may be either, or LDS.

use super::address::{Fields, by_high, global};
use crate::exec::access::value::{Load, Store, commit, operands};
use crate::exec::access::{Lds, file, lanes, private, to_lds, twice};
use crate::inst::{Env, Inst, Stop};
use crate::memory::Port;
use crate::operand::{aperture, write_masked};
use crate::wave::{LANES, Lanes, Scratch, Wave};

/// High half of addresses of LDS.
pub(super) const SHARED: u32 = (aperture::SHARED >> 32) as u32;
/// High half of addresses of private memory.
pub(super) const PRIVATE: u32 = (aperture::PRIVATE >> 32) as u32;

/// Offsets plus a constant.
pub(super) fn shifted(offsets: &Lanes, by: u32) -> Lanes {
    offsets.map(|offset| offset.wrapping_add(by))
}

/// Loads lanes of one of several groups without touching the others.
#[inline(never)]
fn load_group<L: Load>(
    memory: &mut Port<'_>,
    base: u64,
    offsets: &Lanes,
    mask: u64,
    to: &mut L::Block,
) -> Result<(), Stop> {
    let mut part = L::ZERO;
    lanes::load::<L, _>(memory, base, offsets, mask, &mut part)?;
    merge::<L>(to, &part, mask);
    Ok(())
}

fn merge<L: Load>(to: &mut L::Block, part: &L::Block, mask: u64) {
    for (to, part) in to.as_mut().iter_mut().zip(part.as_ref()) {
        write_masked(to, part, mask);
    }
}

#[inline(always)]
fn load_global_block<L: Load>(wave: &Wave, fields: &Fields, env: &mut Env<'_>, to: &mut L::Block) -> Result<(), Stop> {
    let exec = wave.exec();
    global(&wave.v, &wave.s, fields, exec, |base, offsets, mask| {
        if mask == exec {
            lanes::load::<L, _>(&mut env.memory, base, offsets, mask, to)
        } else {
            load_group::<L>(&mut env.memory, base, offsets, mask, to)
        }
    })
}

#[inline(always)]
fn load_global<L: Load>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let exec = wave.exec();
    let mut block = L::ZERO;
    load_global_block::<L>(wave, &fields, env, &mut block)?;
    commit::<L>(file(wave, fields.accumulation), fields.dst, &block, exec);
    Ok(())
}

#[inline(always)]
fn store_global<S: Store>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let block = operands::<S>(file(wave, fields.accumulation), fields.data);
    global(&wave.v, &wave.s, &fields, wave.exec(), |base, offsets, mask| {
        lanes::store::<S, _>(&mut env.memory, base, offsets, mask, &block)
    })
}

/// The part of a flat load that does not go to global memory.
#[inline(never)]
fn load_aperture<L: Load>(
    scratch: &mut Scratch,
    env: &mut Env<'_>,
    high: u32,
    offsets: &Lanes,
    mask: u64,
    to: &mut L::Block,
) -> Result<(), Stop> {
    let mut part = L::ZERO;
    match high {
        SHARED => lanes::load::<L, _>(&mut Lds(env.lds), 0, offsets, mask, &mut part)?,
        _ => private::load::<L>(scratch, offsets, mask, &mut part)?,
    }
    merge::<L>(to, &part, mask);
    Ok(())
}

#[inline(always)]
fn load_flat<L: Load>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let exec = wave.exec();
    let mut block = L::ZERO;
    let (low, high) = fields.pair(&wave.v);
    let offset = fields.unsigned_offset();
    by_high(high, exec, |high, mask| match high {
        SHARED | PRIVATE => load_aperture::<L>(&mut wave.scratch, env, high, &shifted(low, offset), mask, &mut block),
        _ => {
            let base = (u64::from(high) << 32) + u64::from(offset);
            if mask == exec {
                lanes::load::<L, _>(&mut env.memory, base, low, mask, &mut block)
            } else {
                load_group::<L>(&mut env.memory, base, low, mask, &mut block)
            }
        }
    })?;
    commit::<L>(file(wave, fields.accumulation), fields.dst, &block, exec);
    Ok(())
}

#[inline(always)]
fn store_flat<S: Store>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let exec = wave.exec();
    let block = operands::<S>(file(wave, fields.accumulation), fields.data);
    let (low, high) = fields.pair(&wave.v);
    let offset = fields.unsigned_offset();
    by_high(high, exec, |high, mask| match high {
        SHARED => lanes::store::<S, _>(&mut Lds(env.lds), u64::from(offset), low, mask, &block),
        PRIVATE => private::store::<S>(&mut wave.scratch, &shifted(low, offset), mask, &block),
        _ => {
            let base = (u64::from(high) << 32) + u64::from(offset);
            lanes::store::<S, _>(&mut env.memory, base, low, mask, &block)
        }
    })
}

#[inline(always)]
fn load_private<L: Load, const SVE: usize>(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let exec = wave.exec();
    let offsets = private_offsets::<SVE>(wave, &fields);
    let mut block = L::ZERO;
    private::load::<L>(&mut wave.scratch, &offsets, exec, &mut block)?;
    commit::<L>(file(wave, fields.accumulation), fields.dst, &block, exec);
    Ok(())
}

#[inline(always)]
fn store_private<S: Store, const SVE: usize>(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let exec = wave.exec();
    let offsets = private_offsets::<SVE>(wave, &fields);
    let block = operands::<S>(file(wave, fields.accumulation), fields.data);
    private::store::<S>(&mut wave.scratch, &offsets, exec, &block)
}

#[inline(always)]
fn private_offsets<const SVE: usize>(wave: &Wave, fields: &Fields) -> Lanes {
    if SVE == 1 { fields.private::<true>(&wave.v, &wave.s) } else { fields.private::<false>(&wave.v, &wave.s) }
}

#[inline(always)]
fn global_to_lds<L: Load<Block = [Lanes; 1]>>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let mut block = [[0; LANES]; 1];
    load_global_block::<L>(wave, &fields, env, &mut block)?;
    to_lds(wave, env, fields.signed_offset(), &block[0])
}

#[inline(always)]
fn private_to_lds<L: Load<Block = [Lanes; 1]>>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let offsets = private_offsets::<1>(wave, &fields);
    let mut block = [[0; LANES]; 1];
    let exec = wave.exec();
    private::load::<L>(&mut wave.scratch, &offsets, exec, &mut block)?;
    to_lds(wave, env, fields.signed_offset(), &block[0])
}

twice!(#[doc = "A GLOBAL load."] global_load, global_load_portable, global_load_wide, load_global, <L: Load>);
twice!(#[doc = "A GLOBAL store."] global_store, global_store_portable, global_store_wide, store_global, <S: Store>);
twice!(#[doc = "A FLAT load."] flat_load, flat_load_portable, flat_load_wide, load_flat, <L: Load>);
twice!(#[doc = "A FLAT store."] flat_store, flat_store_portable, flat_store_wide, store_flat, <S: Store>);
twice!(
    #[doc = "A SCRATCH load."]
    scratch_load, scratch_load_portable, scratch_load_wide, load_private, <L: Load>, const SVE
);
twice!(
    #[doc = "A SCRATCH store."]
    scratch_store, scratch_store_portable, scratch_store_wide, store_private, <S: Store>, const SVE
);
twice!(
    #[doc = "A GLOBAL load to LDS."]
    global_lds, global_lds_portable, global_lds_wide, global_to_lds, <L: LoadWord>
);
twice!(
    #[doc = "A SCRATCH load to LDS."]
    scratch_lds, scratch_lds_portable, scratch_lds_wide, private_to_lds, <L: LoadWord>
);

/// A load of one register.
pub(crate) trait LoadWord: Load<Block = [Lanes; 1]> {}
impl<L: Load<Block = [Lanes; 1]>> LoadWord for L {}
