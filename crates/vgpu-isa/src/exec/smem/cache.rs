//! Caches and clocks.

use super::data;
use crate::inst::{Encoding, Flow, Handler, Op};

/// Memory is coherent here: scalar data caches hold nothing that could be written back, thrown away or fetched ahead.
const NOTHING: Handler = |_, _, _| Flow::Next;

/// Shader clocks in one tick of the 100 MHz counter: MI300X at 2100 MHz.
const CLOCKS: u64 = 21;

pub(super) static OPS: &[Op] = &[
    Op::new(Encoding::Smem, 32, "s_dcache_inv", NOTHING),
    Op::new(Encoding::Smem, 33, "s_dcache_wb", NOTHING),
    Op::new(Encoding::Smem, 34, "s_dcache_inv_vol", NOTHING),
    Op::new(Encoding::Smem, 35, "s_dcache_wb_vol", NOTHING),
    Op::new(Encoding::Smem, 36, "s_memtime", |wave, inst, env| {
        wave.set_s64(data(inst), (env.clock)().wrapping_mul(CLOCKS));
        Flow::Next
    }),
    Op::new(Encoding::Smem, 37, "s_memrealtime", |wave, inst, env| {
        wave.set_s64(data(inst), (env.clock)());
        Flow::Next
    }),
    Op::new(Encoding::Smem, 38, "s_atc_probe", NOTHING),
    Op::new(Encoding::Smem, 39, "s_atc_probe_buffer", NOTHING),
    Op::new(Encoding::Smem, 40, "s_dcache_discard", NOTHING),
    Op::new(Encoding::Smem, 41, "s_dcache_discard_x2", NOTHING),
];
