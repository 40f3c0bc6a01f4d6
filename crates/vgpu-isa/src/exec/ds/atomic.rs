//! Atomics on LDS.

use super::fields::Fields;
use crate::exec::access::atomic::{Atomic, Data, Swap, Word};
use crate::exec::access::{Lds, end, file};
use crate::inst::{Encoding, Env, Flow, Inst, Op, Stop};
use crate::wave::Wave;

#[inline(always)]
fn run<A: Atomic, const RETURNS: bool>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst)?;
    let mut data = Data::new::<A>(file(wave, fields.accumulation), fields.data0, fields.data1);
    let exec = wave.exec();
    let offsets = &wave.v[fields.address];
    data.run::<A, _>(&mut Lds(env.lds), u64::from(fields.offset), offsets, exec, wave.mode())?;
    if RETURNS {
        data.commit::<A>(file(wave, fields.accumulation), fields.dst, exec);
    }
    Ok(())
}

fn handle<A: Atomic, const RETURNS: bool>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
    let result = run::<A, RETURNS>(wave, inst, env);
    end(env, result)
}

fn run_two<W: Word, const SCALE: u32>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop>
where
    Swap<W>: Atomic<Word = W>,
{
    let fields = Fields::new(inst)?;
    let exec = wave.exec();
    let mut both = [fields.data0, fields.data1]
        .map(|register| Data::new::<Swap<W>>(file(wave, fields.accumulation), register, register));
    let offsets = &wave.v[fields.address];
    for (data, base) in both.iter_mut().zip(fields.offsets(4 * W::REGISTERS as u32 * SCALE)) {
        data.run::<Swap<W>, _>(&mut Lds(env.lds), base, offsets, exec, wave.mode())?;
    }
    for (n, data) in both.iter().enumerate() {
        let dst = fields.dst + (n * W::REGISTERS) as u32;
        data.commit::<Swap<W>>(file(wave, fields.accumulation), dst, exec);
    }
    Ok(())
}

fn handle_two<W: Word, const SCALE: u32>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow
where
    Swap<W>: Atomic<Word = W>,
{
    let result = run_two::<W, SCALE>(wave, inst, env);
    end(env, result)
}

/// An atomic without result.
pub(super) const fn atomic<A: Atomic>(opcode: u16, name: &'static str) -> Op {
    Op::new(Encoding::Ds, opcode, name, handle::<A, false>)
}

/// An atomic that returns what LDS held.
pub(super) const fn returning<A: Atomic>(opcode: u16, name: &'static str) -> Op {
    Op::new(Encoding::Ds, opcode, name, handle::<A, true>)
}

/// Two exchanges at offsets in units of `SCALE` words.
pub(super) const fn exchange_two<W: Word, const SCALE: u32>(opcode: u16, name: &'static str) -> Op
where
    Swap<W>: Atomic<Word = W>,
{
    Op::new(Encoding::Ds, opcode, name, handle_two::<W, SCALE>)
}
