//! DS instructions: LDS, values that move between lanes, and global wave sync.

mod atomic;
mod fields;
mod gws;
mod lanes;
mod plain;

use crate::exec::access::atomic::{
    Add, AddBf16, AddF16, AddF32, AddF64, And, CondSwap, Dec, Inc, MaskOr, MaxF32, MaxF64, MinF32, MinF64, Or, Rsub,
    Smax, Smin, Sub, Swap, SwapIfF32, SwapIfF64, SwapIfFirst, Umax, Umin, Wrap, Xor,
};
use crate::exec::access::value::{HIGH, LOW, Narrow, Part, WHOLE, Words};
use crate::inst::{Encoding::Ds, GFX942, Op};
use atomic::{atomic, exchange_two, returning};
use plain::{read, read_addtid, read2, write, write_addtid, write2};

static PLAIN: &[Op] = &[
    write::<Words<1>>(Ds, 13, "ds_write_b32"),
    write2::<1, 1>(Ds, 14, "ds_write2_b32"),
    write2::<1, 64>(Ds, 15, "ds_write2st64_b32"),
    write_addtid::<Words<1>>(Ds, 29, "ds_write_addtid_b32"),
    write::<Part<1, false>>(Ds, 30, "ds_write_b8"),
    write::<Part<2, false>>(Ds, 31, "ds_write_b16"),
    read::<Words<1>>(Ds, 54, "ds_read_b32"),
    read2::<1, 1>(Ds, 55, "ds_read2_b32"),
    read2::<1, 64>(Ds, 56, "ds_read2st64_b32"),
    read::<Narrow<1, true, WHOLE>>(Ds, 57, "ds_read_i8"),
    read::<Narrow<1, false, WHOLE>>(Ds, 58, "ds_read_u8"),
    read::<Narrow<2, true, WHOLE>>(Ds, 59, "ds_read_i16"),
    read::<Narrow<2, false, WHOLE>>(Ds, 60, "ds_read_u16"),
    write::<Words<2>>(Ds, 77, "ds_write_b64"),
    write2::<2, 1>(Ds, 78, "ds_write2_b64"),
    write2::<2, 64>(Ds, 79, "ds_write2st64_b64"),
    write::<Part<1, true>>(Ds, 84, "ds_write_b8_d16_hi"),
    write::<Part<2, true>>(Ds, 85, "ds_write_b16_d16_hi"),
    read::<Narrow<1, false, LOW>>(Ds, 86, "ds_read_u8_d16"),
    read::<Narrow<1, false, HIGH>>(Ds, 87, "ds_read_u8_d16_hi"),
    read::<Narrow<1, true, LOW>>(Ds, 88, "ds_read_i8_d16"),
    read::<Narrow<1, true, HIGH>>(Ds, 89, "ds_read_i8_d16_hi"),
    read::<Narrow<2, false, LOW>>(Ds, 90, "ds_read_u16_d16"),
    read::<Narrow<2, false, HIGH>>(Ds, 91, "ds_read_u16_d16_hi"),
    read::<Words<2>>(Ds, 118, "ds_read_b64"),
    read2::<2, 1>(Ds, 119, "ds_read2_b64"),
    read2::<2, 64>(Ds, 120, "ds_read2st64_b64"),
    read_addtid::<Words<1>>(Ds, 182, "ds_read_addtid_b32"),
    write::<Words<3>>(Ds, 222, "ds_write_b96"),
    write::<Words<4>>(Ds, 223, "ds_write_b128"),
    read::<Words<3>>(Ds, 254, "ds_read_b96"),
    read::<Words<4>>(Ds, 255, "ds_read_b128"),
];

/// Operations that exist in both widths, with and without a result.
macro_rules! integers {
    ($(($opcode:literal, $op:ident, $stem:literal, $kind:literal)),* $(,)?) => {
        &[$(
            atomic::<$op<u32>>($opcode, concat!("ds_", $stem, "_", $kind, "32")),
            atomic::<$op<u64>>(64 + $opcode, concat!("ds_", $stem, "_", $kind, "64")),
            returning::<$op<u32>>(32 + $opcode, concat!("ds_", $stem, "_rtn_", $kind, "32")),
            returning::<$op<u64>>(96 + $opcode, concat!("ds_", $stem, "_rtn_", $kind, "64")),
        )*]
    };
}

static INTEGERS: &[Op] = integers![
    (0, Add, "add", "u"),
    (1, Sub, "sub", "u"),
    (2, Rsub, "rsub", "u"),
    (3, Inc, "inc", "u"),
    (4, Dec, "dec", "u"),
    (5, Smin, "min", "i"),
    (6, Smax, "max", "i"),
    (7, Umin, "min", "u"),
    (8, Umax, "max", "u"),
    (9, And, "and", "b"),
    (10, Or, "or", "b"),
    (11, Xor, "xor", "b"),
    (12, MaskOr, "mskor", "b"),
    (16, SwapIfFirst, "cmpst", "b"),
];

static OTHERS: &[Op] = &[
    atomic::<SwapIfF32>(17, "ds_cmpst_f32"),
    atomic::<MinF32>(18, "ds_min_f32"),
    atomic::<MaxF32>(19, "ds_max_f32"),
    atomic::<AddF32>(21, "ds_add_f32"),
    atomic::<AddF16>(23, "ds_pk_add_f16").on(GFX942),
    atomic::<AddBf16>(24, "ds_pk_add_bf16").on(GFX942),
    returning::<Swap<u32>>(45, "ds_wrxchg_rtn_b32"),
    exchange_two::<u32, 1>(46, "ds_wrxchg2_rtn_b32"),
    exchange_two::<u32, 64>(47, "ds_wrxchg2st64_rtn_b32"),
    returning::<SwapIfF32>(49, "ds_cmpst_rtn_f32"),
    returning::<MinF32>(50, "ds_min_rtn_f32"),
    returning::<MaxF32>(51, "ds_max_rtn_f32"),
    returning::<Wrap<u32>>(52, "ds_wrap_rtn_b32"),
    returning::<AddF32>(53, "ds_add_rtn_f32"),
    atomic::<SwapIfF64>(81, "ds_cmpst_f64"),
    atomic::<MinF64>(82, "ds_min_f64"),
    atomic::<MaxF64>(83, "ds_max_f64"),
    atomic::<AddF64>(92, "ds_add_f64"),
    returning::<Swap<u64>>(109, "ds_wrxchg_rtn_b64"),
    exchange_two::<u64, 1>(110, "ds_wrxchg2_rtn_b64"),
    exchange_two::<u64, 64>(111, "ds_wrxchg2st64_rtn_b64"),
    returning::<SwapIfF64>(113, "ds_cmpst_rtn_f64"),
    returning::<MinF64>(114, "ds_min_rtn_f64"),
    returning::<MaxF64>(115, "ds_max_rtn_f64"),
    returning::<AddF64>(124, "ds_add_rtn_f64"),
    returning::<CondSwap>(126, "ds_condxchg32_rtn_b64"),
    returning::<AddF16>(183, "ds_pk_add_rtn_f16").on(GFX942),
    returning::<AddBf16>(184, "ds_pk_add_rtn_bf16").on(GFX942),
];

pub(crate) fn families() -> Vec<&'static [Op]> {
    vec![PLAIN, INTEGERS, OTHERS, lanes::OPS, gws::OPS]
}
