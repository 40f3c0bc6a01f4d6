//! FLAT, GLOBAL and SCRATCH instructions.

mod address;
mod atomic;
mod plain;

use crate::exec::access::atomic::{
    Add, AddBf16, AddF16, AddF32, AddF64, And, Dec, Inc, MaxF64, MinF64, Or, Smax, Smin, Sub, Swap, SwapIfSecond, Umax,
    Umin, Xor,
};
use crate::exec::access::value::{HIGH, LOW, Narrow, Part, WHOLE, Words};
use crate::inst::{Encoding, GFX90A, GFX942, Op};
use atomic::{flat_atomic, global_atomic};
use plain::{
    flat_load, flat_store, global_lds, global_load, global_store, scratch_lds, scratch_load, scratch_store,
};

/// Loads and stores of one encoding: opcodes are the same in all of them.
macro_rules! plain {
    ($encoding:ident, $prefix:literal, $load:ident, $store:ident $(, $sve:literal, $targets:ident)?) => {
        &[
            plain!(@ $encoding 16 $prefix "load_ubyte" $load [Narrow<1, false, WHOLE> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 17 $prefix "load_sbyte" $load [Narrow<1, true, WHOLE> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 18 $prefix "load_ushort" $load [Narrow<2, false, WHOLE> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 19 $prefix "load_sshort" $load [Narrow<2, true, WHOLE> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 20 $prefix "load_dword" $load [Words<1> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 21 $prefix "load_dwordx2" $load [Words<2> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 22 $prefix "load_dwordx3" $load [Words<3> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 23 $prefix "load_dwordx4" $load [Words<4> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 24 $prefix "store_byte" $store [Part<1, false> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 25 $prefix "store_byte_d16_hi" $store [Part<1, true> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 26 $prefix "store_short" $store [Part<2, false> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 27 $prefix "store_short_d16_hi" $store [Part<2, true> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 28 $prefix "store_dword" $store [Words<1> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 29 $prefix "store_dwordx2" $store [Words<2> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 30 $prefix "store_dwordx3" $store [Words<3> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 31 $prefix "store_dwordx4" $store [Words<4> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 32 $prefix "load_ubyte_d16" $load [Narrow<1, false, LOW> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 33 $prefix "load_ubyte_d16_hi" $load [Narrow<1, false, HIGH> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 34 $prefix "load_sbyte_d16" $load [Narrow<1, true, LOW> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 35 $prefix "load_sbyte_d16_hi" $load [Narrow<1, true, HIGH> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 36 $prefix "load_short_d16" $load [Narrow<2, false, LOW> $(, $sve)?] $($targets)?),
            plain!(@ $encoding 37 $prefix "load_short_d16_hi" $load [Narrow<2, false, HIGH> $(, $sve)?] $($targets)?),
        ]
    };
    (@ $encoding:ident $opcode:literal $prefix:literal $name:literal $make:ident [$($generic:tt)*] $($targets:ident)?) => {
        $make::<$($generic)*>(Encoding::$encoding, $opcode, concat!($prefix, $name))$(.on($targets))?
    };
}

/// Atomics that FLAT and GLOBAL have in common.
macro_rules! atomics {
    ($prefix:literal, $make:ident) => {
        &[
            $make::<Swap<u32>>(64, concat!($prefix, "swap")),
            $make::<SwapIfSecond<u32>>(65, concat!($prefix, "cmpswap")),
            $make::<Add<u32>>(66, concat!($prefix, "add")),
            $make::<Sub<u32>>(67, concat!($prefix, "sub")),
            $make::<Smin<u32>>(68, concat!($prefix, "smin")),
            $make::<Umin<u32>>(69, concat!($prefix, "umin")),
            $make::<Smax<u32>>(70, concat!($prefix, "smax")),
            $make::<Umax<u32>>(71, concat!($prefix, "umax")),
            $make::<And<u32>>(72, concat!($prefix, "and")),
            $make::<Or<u32>>(73, concat!($prefix, "or")),
            $make::<Xor<u32>>(74, concat!($prefix, "xor")),
            $make::<Inc<u32>>(75, concat!($prefix, "inc")),
            $make::<Dec<u32>>(76, concat!($prefix, "dec")),
            $make::<AddF64>(79, concat!($prefix, "add_f64")),
            $make::<MinF64>(80, concat!($prefix, "min_f64")),
            $make::<MaxF64>(81, concat!($prefix, "max_f64")),
            $make::<AddBf16>(82, concat!($prefix, "pk_add_bf16")).on(GFX942),
            $make::<Swap<u64>>(96, concat!($prefix, "swap_x2")),
            $make::<SwapIfSecond<u64>>(97, concat!($prefix, "cmpswap_x2")),
            $make::<Add<u64>>(98, concat!($prefix, "add_x2")),
            $make::<Sub<u64>>(99, concat!($prefix, "sub_x2")),
            $make::<Smin<u64>>(100, concat!($prefix, "smin_x2")),
            $make::<Umin<u64>>(101, concat!($prefix, "umin_x2")),
            $make::<Smax<u64>>(102, concat!($prefix, "smax_x2")),
            $make::<Umax<u64>>(103, concat!($prefix, "umax_x2")),
            $make::<And<u64>>(104, concat!($prefix, "and_x2")),
            $make::<Or<u64>>(105, concat!($prefix, "or_x2")),
            $make::<Xor<u64>>(106, concat!($prefix, "xor_x2")),
            $make::<Inc<u64>>(107, concat!($prefix, "inc_x2")),
            $make::<Dec<u64>>(108, concat!($prefix, "dec_x2")),
        ]
    };
}

static FLAT: &[Op] = plain!(Flat, "flat_", flat_load, flat_store);
static GLOBAL: &[Op] = plain!(Global, "global_", global_load, global_store);
static SCRATCH: &[Op] = plain!(Scratch, "scratch_", scratch_load, scratch_store, 1, GFX942);
static SCRATCH_90A: &[Op] = plain!(Scratch, "scratch_", scratch_load, scratch_store, 0, GFX90A);

static FLAT_ATOMICS: &[Op] = atomics!("flat_atomic_", flat_atomic);
static GLOBAL_ATOMICS: &[Op] = atomics!("global_atomic_", global_atomic);

static OTHER_ATOMICS: &[Op] = &[
    flat_atomic::<AddF32>(77, "flat_atomic_add_f32").on(GFX942),
    flat_atomic::<AddF16>(78, "flat_atomic_pk_add_f16").on(GFX942),
    global_atomic::<AddF32>(77, "global_atomic_add_f32"),
    global_atomic::<AddF16>(78, "global_atomic_pk_add_f16"),
];

static TO_LDS: &[Op] = &[
    global_lds::<Narrow<1, false, WHOLE>>(Encoding::Global, 38, "global_load_lds_ubyte").on(GFX942),
    global_lds::<Narrow<1, true, WHOLE>>(Encoding::Global, 39, "global_load_lds_sbyte").on(GFX942),
    global_lds::<Narrow<2, false, WHOLE>>(Encoding::Global, 40, "global_load_lds_ushort").on(GFX942),
    global_lds::<Narrow<2, true, WHOLE>>(Encoding::Global, 41, "global_load_lds_sshort").on(GFX942),
    global_lds::<Words<1>>(Encoding::Global, 42, "global_load_lds_dword").on(GFX942),
    scratch_lds::<Narrow<1, false, WHOLE>>(Encoding::Scratch, 38, "scratch_load_lds_ubyte").on(GFX942),
    scratch_lds::<Narrow<1, true, WHOLE>>(Encoding::Scratch, 39, "scratch_load_lds_sbyte").on(GFX942),
    scratch_lds::<Narrow<2, false, WHOLE>>(Encoding::Scratch, 40, "scratch_load_lds_ushort").on(GFX942),
    scratch_lds::<Narrow<2, true, WHOLE>>(Encoding::Scratch, 41, "scratch_load_lds_sshort").on(GFX942),
    scratch_lds::<Words<1>>(Encoding::Scratch, 42, "scratch_load_lds_dword").on(GFX942),
];

pub(crate) fn families() -> Vec<&'static [Op]> {
    vec![FLAT, GLOBAL, SCRATCH, SCRATCH_90A, FLAT_ATOMICS, GLOBAL_ATOMICS, OTHER_ATOMICS, TO_LDS]
}
