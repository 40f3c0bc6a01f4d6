//! Reads and writes of LDS.

use super::fields::Fields;
use crate::exec::access::value::{Load, Store, Words, commit, operands};
use crate::exec::access::{Lds, file, lanes, twice};
use crate::inst::{Env, Inst, Stop};
use crate::operand::Aligned;
use crate::wave::{Lanes, M0, Wave};

#[inline(always)]
fn load<L: Load>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst)?;
    let exec = wave.exec();
    let Aligned(block) = &mut Aligned(L::ZERO);
    let offsets = &wave.v[fields.address];
    lanes::load::<L, _>(&mut Lds(env.lds), u64::from(fields.offset), offsets, exec, block)?;
    commit::<L>(file(wave, fields.accumulation), fields.dst, block, exec);
    Ok(())
}

#[inline(always)]
fn store<S: Store>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst)?;
    let Aligned(block) = &Aligned(operands::<S>(file(wave, fields.accumulation), fields.data0));
    let offsets = &wave.v[fields.address];
    lanes::store::<S, _>(&mut Lds(env.lds), u64::from(fields.offset), offsets, wave.exec(), block)
}

/// Two values of `N` words, at offsets in units of `SCALE` values.
#[inline(always)]
fn load_two<const N: usize, const SCALE: usize>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst)?;
    let exec = wave.exec();
    let Aligned(blocks) = &mut Aligned([<Words<N> as Load>::ZERO; 2]);
    let offsets = &wave.v[fields.address];
    for (block, base) in blocks.iter_mut().zip(fields.offsets((4 * N * SCALE) as u32)) {
        lanes::load::<Words<N>, _>(&mut Lds(env.lds), base, offsets, exec, block)?;
    }
    for (n, block) in blocks.iter().enumerate() {
        commit::<Words<N>>(file(wave, fields.accumulation), fields.dst + (n * N) as u32, block, exec);
    }
    Ok(())
}

#[inline(always)]
fn store_two<const N: usize, const SCALE: usize>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst)?;
    let sources = [fields.data0, fields.data1];
    let Aligned(blocks) = &Aligned(sources.map(|src| operands::<Words<N>>(file(wave, fields.accumulation), src)));
    let offsets = &wave.v[fields.address];
    for (block, base) in blocks.iter().zip(fields.offsets((4 * N * SCALE) as u32)) {
        lanes::store::<Words<N>, _>(&mut Lds(env.lds), base, offsets, wave.exec(), block)?;
    }
    Ok(())
}

/// Offsets of the operations that add the number of the lane: M0 plus four bytes a lane.
fn by_lane(wave: &Wave) -> Lanes {
    std::array::from_fn(|lane| (wave.s[M0] & 0xFFFF) + 4 * lane as u32)
}

#[inline(always)]
fn load_by_lane<L: Load>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst)?;
    let exec = wave.exec();
    let Aligned(block) = &mut Aligned(L::ZERO);
    lanes::load::<L, _>(&mut Lds(env.lds), u64::from(fields.offset), &by_lane(wave), exec, block)?;
    commit::<L>(file(wave, fields.accumulation), fields.dst, block, exec);
    Ok(())
}

#[inline(always)]
fn store_by_lane<S: Store>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst)?;
    let Aligned(block) = &Aligned(operands::<S>(file(wave, fields.accumulation), fields.data0));
    lanes::store::<S, _>(&mut Lds(env.lds), u64::from(fields.offset), &by_lane(wave), wave.exec(), block)
}

twice!(#[doc = "A read."] read, read_portable, read_wide, load, <L: Load>);
twice!(#[doc = "A write."] write, write_portable, write_wide, store, <S: Store>);
twice!(#[doc = "A read at M0 and the number of the lane."] read_addtid, read_addtid_portable, read_addtid_wide, load_by_lane, <L: Load>);
twice!(#[doc = "A write at M0 and the number of the lane."] write_addtid, write_addtid_portable, write_addtid_wide, store_by_lane, <S: Store>);
twice!(#[doc = "Two reads."] read2, read2_portable, read2_wide, load_two, <>, const N, SCALE);
twice!(#[doc = "Two writes."] write2, write2_portable, write2_wide, store_two, <>, const N, SCALE);
