//! Loads and stores: global memory, private memory, and flat addresses that may be either, or LDS.

use super::address::{Fields, base, by_high, common_base, common_high};
use crate::exec::access::value::{Load, Store, commit, operands};
use crate::exec::access::{Lds, file, lanes, private, to_lds, twice};
use crate::inst::{Env, Inst, Stop};
use crate::operand::{Aligned, aperture, write_masked};
use crate::wave::{LANES, Lanes, Scratch, Wave};

/// High half of addresses of LDS.
pub(super) const SHARED: u32 = (aperture::SHARED >> 32) as u32;
/// High half of addresses of private memory.
pub(super) const PRIVATE: u32 = (aperture::PRIVATE >> 32) as u32;

/// Offsets plus a constant.
pub(super) fn shifted(offsets: &Lanes, by: u32) -> Lanes {
    offsets.map(|offset| offset.wrapping_add(by))
}

fn merge<L: Load>(to: &mut L::Block, part: &L::Block, mask: u64) {
    for (to, part) in to.as_mut().iter_mut().zip(part.as_ref()) {
        write_masked(to, part, mask);
    }
}

/// Loads lanes whose addresses have different high halves, one high half after the other. Only flat addresses
/// (`FLAT`) have apertures.
#[inline(never)]
fn load_groups<L: Load, const FLAT: bool>(
    v: &[Lanes; 256],
    scratch: &mut Scratch,
    env: &mut Env<'_>,
    fields: &Fields,
    exec: u64,
    to: &mut L::Block,
) -> Result<(), Stop> {
    let (low, high) = fields.pair(v);
    let offset = if FLAT { fields.unsigned_offset() as i32 } else { fields.signed_offset() };
    by_high(high, exec, |high, mask| {
        let mut part = L::ZERO;
        match high {
            SHARED if FLAT => lanes::load::<L, _>(&mut Lds(env.lds), offset as u64, low, mask, &mut part)?,
            PRIVATE if FLAT => private::load::<L>(scratch, &shifted(low, offset as u32), mask, &mut part)?,
            _ => lanes::load::<L, _>(&mut env.memory, base(high, offset), low, mask, &mut part)?,
        }
        merge::<L>(to, &part, mask);
        Ok(())
    })
}

/// Stores likewise.
#[inline(never)]
fn store_groups<S: Store, const FLAT: bool>(
    v: &[Lanes; 256],
    scratch: &mut Scratch,
    env: &mut Env<'_>,
    fields: &Fields,
    exec: u64,
    from: &S::Block,
) -> Result<(), Stop> {
    let (low, high) = fields.pair(v);
    let offset = if FLAT { fields.unsigned_offset() as i32 } else { fields.signed_offset() };
    by_high(high, exec, |high, mask| match high {
        SHARED if FLAT => lanes::store::<S, _>(&mut Lds(env.lds), offset as u64, low, mask, from),
        PRIVATE if FLAT => private::store::<S>(scratch, &shifted(low, offset as u32), mask, from),
        _ => lanes::store::<S, _>(&mut env.memory, base(high, offset), low, mask, from),
    })
}

#[inline(always)]
fn load_global_block<L: Load>(
    wave: &mut Wave,
    fields: &Fields,
    env: &mut Env<'_>,
    to: &mut L::Block,
) -> Result<(), Stop> {
    let exec = wave.exec();
    match common_base(&wave.v, &wave.s, fields, exec) {
        Some(base) => lanes::load::<L, _>(&mut env.memory, base, fields.pair(&wave.v).0, exec, to),
        None => load_groups::<L, false>(&wave.v, &mut wave.scratch, env, fields, exec, to),
    }
}

#[inline(always)]
fn load_global<L: Load>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let exec = wave.exec();
    let Aligned(block) = &mut Aligned(L::ZERO);
    load_global_block::<L>(wave, &fields, env, block)?;
    commit::<L>(file(wave, fields.accumulation), fields.dst, block, exec);
    Ok(())
}

#[inline(always)]
fn store_global<S: Store>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let exec = wave.exec();
    let Aligned(block) = &Aligned(operands::<S>(file(wave, fields.accumulation), fields.data));
    match common_base(&wave.v, &wave.s, &fields, exec) {
        Some(base) => lanes::store::<S, _>(&mut env.memory, base, fields.pair(&wave.v).0, exec, block),
        None => store_groups::<S, false>(&wave.v, &mut wave.scratch, env, &fields, exec, block),
    }
}

#[inline(always)]
fn load_flat<L: Load>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let exec = wave.exec();
    let Aligned(block) = &mut Aligned(L::ZERO);
    let (low, high) = fields.pair(&wave.v);
    match common_high(high, exec) {
        None | Some(SHARED | PRIVATE) => {
            load_groups::<L, true>(&wave.v, &mut wave.scratch, env, &fields, exec, block)?;
        }
        Some(high) => {
            let base = base(high, fields.unsigned_offset() as i32);
            lanes::load::<L, _>(&mut env.memory, base, low, exec, block)?;
        }
    }
    commit::<L>(file(wave, fields.accumulation), fields.dst, block, exec);
    Ok(())
}

#[inline(always)]
fn store_flat<S: Store>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let exec = wave.exec();
    let Aligned(block) = &Aligned(operands::<S>(file(wave, fields.accumulation), fields.data));
    let (low, high) = fields.pair(&wave.v);
    match common_high(high, exec) {
        None | Some(SHARED | PRIVATE) => store_groups::<S, true>(&wave.v, &mut wave.scratch, env, &fields, exec, block),
        Some(high) => {
            let base = base(high, fields.unsigned_offset() as i32);
            lanes::store::<S, _>(&mut env.memory, base, low, exec, block)
        }
    }
}

#[inline(always)]
fn load_private<L: Load, const SVE: usize>(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let exec = wave.exec();
    let offsets = private_offsets::<SVE>(wave, &fields);
    let Aligned(block) = &mut Aligned(L::ZERO);
    private::load::<L>(&mut wave.scratch, &offsets, exec, block)?;
    commit::<L>(file(wave, fields.accumulation), fields.dst, block, exec);
    Ok(())
}

#[inline(always)]
fn store_private<S: Store, const SVE: usize>(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let exec = wave.exec();
    let offsets = private_offsets::<SVE>(wave, &fields);
    let Aligned(block) = &Aligned(operands::<S>(file(wave, fields.accumulation), fields.data));
    private::store::<S>(&mut wave.scratch, &offsets, exec, block)
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
