//! Loads and stores without format.

use super::resource::{Buffer, Fields, Places};
use crate::exec::access::value::{Load, Store, Words, commit, operands};
use crate::exec::access::{end, file, from_lds, lanes, private, to_lds, twice};
use crate::exec::flat::by_high;
use crate::inst::{Env, Flow, Inst, Stop};
use crate::memory::Port;
use crate::operand::{Aligned, write_masked};
use crate::wave::{LANES, Lanes, Wave};

const NO_OFFSETS: Lanes = [0; LANES];

/// Base of the lanes that share the high half of their offset.
fn base_of(places: &Places, high: u32) -> u64 {
    places.base.wrapping_add(u64::from(high) << 32)
}

/// Loads lanes wherever they go; those outside of the buffer get zero.
#[inline(never)]
fn load_places<L: Load>(memory: &mut Port<'_>, places: &Places, exec: u64, to: &mut L::Block) -> Result<(), Stop> {
    by_high(&places.high, exec & places.inside, |high, mask| {
        let mut part = L::ZERO;
        lanes::load::<L, _>(memory, base_of(places, high), &places.low, mask, &mut part)?;
        for (to, part) in to.as_mut().iter_mut().zip(part.as_ref()) {
            write_masked(to, part, mask);
        }
        Ok(())
    })
}

/// Loads with strides, swizzles, or lanes outside of the buffer.
#[inline(never)]
fn load_bent<L: Load>(wave: &Wave, buffer: &Buffer<'_>, env: &mut Env<'_>, to: &mut L::Block) -> Result<(), Stop> {
    let exec = wave.exec();
    let places = buffer.places(&wave.v, 0, L::SIZE as u32);
    if L::SIZE <= 4 || !buffer.swizzles() && places.inside & exec == exec {
        return load_places::<L>(&mut env.memory, &places, exec, to);
    }
    // Dwords of one lane are checked one by one, and may be apart.
    for (k, register) in to.as_mut().iter_mut().enumerate() {
        let mut word = [NO_OFFSETS];
        load_places::<Words<1>>(&mut env.memory, &buffer.places(&wave.v, 4 * k as u32, 4), exec, &mut word)?;
        *register = word[0];
    }
    Ok(())
}

#[inline(always)]
fn load<L: Load>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let buffer = Buffer::new(wave, &fields, inst);
    let exec = wave.exec();
    let Aligned(block) = &mut Aligned(L::ZERO);
    if let Some((base, offsets)) = buffer.straight(&wave.v, exec, L::SIZE as u32) {
        lanes::load::<L, _>(&mut env.memory, base, offsets.unwrap_or(&NO_OFFSETS), exec, block)?;
    } else if let Some(offsets) = buffer.private(&wave.v) {
        private::load::<L>(&mut wave.scratch, &offsets, exec, block)?;
    } else {
        load_bent::<L>(wave, &buffer, env, block)?;
    }
    if !fields.lds {
        commit::<L>(file(wave, fields.accumulation), fields.data, block, exec);
        return Ok(());
    }
    match block.as_ref() {
        [words] if !L::IS_HALF => to_lds(wave, env, fields.offset as i32, words),
        _ => Err(Stop::Illegal { mnemonic: Some(inst.op.name), words: inst.words }),
    }
}

#[inline(never)]
fn store_places<S: Store>(memory: &mut Port<'_>, places: &Places, exec: u64, from: &S::Block) -> Result<(), Stop> {
    by_high(&places.high, exec & places.inside, |high, mask| {
        lanes::store::<S, _>(memory, base_of(places, high), &places.low, mask, from)
    })
}

#[inline(never)]
fn store_bent<S: Store>(wave: &Wave, buffer: &Buffer<'_>, env: &mut Env<'_>, from: &S::Block) -> Result<(), Stop> {
    let exec = wave.exec();
    let places = buffer.places(&wave.v, 0, S::SIZE as u32);
    if S::SIZE <= 4 || !buffer.swizzles() && places.inside & exec == exec {
        return store_places::<S>(&mut env.memory, &places, exec, from);
    }
    for (k, register) in from.as_ref().iter().enumerate() {
        store_places::<Words<1>>(&mut env.memory, &buffer.places(&wave.v, 4 * k as u32, 4), exec, &[*register])?;
    }
    Ok(())
}

#[inline(always)]
fn store<S: Store>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let buffer = Buffer::new(wave, &fields, inst);
    let Aligned(block) = &Aligned(operands::<S>(file(wave, fields.accumulation), fields.data));
    store_block::<S>(wave, &buffer, env, block)
}

#[inline(always)]
fn store_block<S: Store>(
    wave: &mut Wave,
    buffer: &Buffer<'_>,
    env: &mut Env<'_>,
    block: &S::Block,
) -> Result<(), Stop> {
    let exec = wave.exec();
    if let Some((base, offsets)) = buffer.straight(&wave.v, exec, S::SIZE as u32) {
        return lanes::store::<S, _>(&mut env.memory, base, offsets.unwrap_or(&NO_OFFSETS), exec, block);
    }
    if let Some(offsets) = buffer.private(&wave.v) {
        return private::store::<S>(&mut wave.scratch, &offsets, exec, block);
    }
    store_bent::<S>(wave, buffer, env, block)
}

/// Stores words that come from LDS.
pub(super) fn store_lds(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
    let fields = Fields::new(inst);
    let buffer = Buffer::new(wave, &fields, inst);
    let words = from_lds(wave, env, fields.offset as i32);
    let result = words.and_then(|words| store_block::<Words<1>>(wave, &buffer, env, &words));
    end(env, result)
}

twice!(#[doc = "A load."] buffer_load, load_portable, load_wide, load, <L: Load>);
twice!(#[doc = "A store."] buffer_store, store_portable, store_wide, store, <S: Store>);
