//! Atomics on buffers.

use super::resource::{Buffer, Fields};
use crate::exec::access::atomic::{Atomic, Data, Word};
use crate::exec::access::{end, file};
use crate::exec::flat::by_high;
use crate::inst::{Encoding, Env, Flow, Inst, Op, Stop};
use crate::wave::{Wave, mode};

fn run<A: Atomic>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<(), Stop> {
    let fields = Fields::new(inst);
    let buffer = Buffer::new(wave, &fields, inst);
    let exec = wave.exec();
    let second = fields.data + A::Word::REGISTERS as u32;
    let mut data = Data::new::<A>(file(wave, fields.accumulation), fields.data, second);
    if let Some(offsets) = buffer.private(&wave.v) {
        data.run_private::<A>(&mut wave.scratch, &offsets, exec, mode::USUAL)?;
    } else {
        let places = buffer.places(&wave.v, 0, 4 * A::Word::REGISTERS as u32);
        by_high(&places.high, exec & places.inside, |high, mask| {
            let base = places.base.wrapping_add(u64::from(high) << 32);
            data.run::<A, _>(&mut env.memory, base, &places.low, mask, mode::USUAL)
        })?;
    }
    if fields.returns {
        data.commit::<A>(file(wave, fields.accumulation), fields.data, exec);
    }
    Ok(())
}

fn handle<A: Atomic>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
    let result = run::<A>(wave, inst, env);
    end(env, result)
}

/// An atomic on a buffer.
pub(super) const fn buffer_atomic<A: Atomic>(opcode: u16, name: &'static str) -> Op {
    Op::new(Encoding::Mubuf, opcode, name, handle::<A>)
}
