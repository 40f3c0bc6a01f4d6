//! Atomics on global memory and on flat addresses.

use super::address::{Fields, by_high, global};
use super::plain::{PRIVATE, SHARED, shifted};
use crate::exec::access::atomic::{Atomic, Data, Word};
use crate::exec::access::{Lds, end, file};
use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::wave::{Wave, mode};

fn data<A: Atomic>(wave: &mut Wave, fields: &Fields) -> Data {
    let second = fields.data + A::Word::REGISTERS as u32;
    Data::new::<A>(file(wave, fields.accumulation), fields.data, second)
}

fn finish<A: Atomic>(wave: &mut Wave, fields: &Fields, data: &Data) {
    if fields.returns {
        let exec = wave.exec();
        data.commit::<A>(file(wave, fields.accumulation), fields.dst, exec);
    }
}

fn run_global<A: Atomic>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
    let fields = Fields::new(inst);
    let mut data = data::<A>(wave, &fields);
    let result = global(&wave.v, &wave.s, &fields, wave.exec(), |base, offsets, mask| {
        data.run::<A, _>(&mut env.memory, base, offsets, mask, mode::USUAL)
    });
    if result.is_ok() {
        finish::<A>(wave, &fields, &data);
    }
    end(env, result)
}

fn run_flat<A: Atomic>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
    let fields = Fields::new(inst);
    let mut data = data::<A>(wave, &fields);
    let (exec, wave_mode) = (wave.exec(), wave.mode());
    let (low, high) = fields.pair(&wave.v);
    let offset = fields.unsigned_offset();
    let result = by_high(high, exec, |high, mask| match high {
        SHARED => data.run::<A, _>(&mut Lds(env.lds), u64::from(offset), low, mask, wave_mode),
        PRIVATE => data.run_private::<A>(&mut wave.scratch, &shifted(low, offset), mask, wave_mode),
        _ => {
            let base = (u64::from(high) << 32) + u64::from(offset);
            data.run::<A, _>(&mut env.memory, base, low, mask, mode::USUAL)
        }
    });
    if result.is_ok() {
        finish::<A>(wave, &fields, &data);
    }
    end(env, result)
}

/// A GLOBAL atomic.
pub(super) const fn global_atomic<A: Atomic>(opcode: u16, name: &'static str) -> Op {
    Op::new(Encoding::Global, opcode, name, run_global::<A>)
}

/// A FLAT atomic.
pub(super) const fn flat_atomic<A: Atomic>(opcode: u16, name: &'static str) -> Op {
    Op::new(Encoding::Flat, opcode, name, run_flat::<A>)
}
