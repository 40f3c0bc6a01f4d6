//! FLAT, GLOBAL and SCRATCH instructions.

mod address;
mod atomic;
mod plain;

use crate::exec::access::atomic::{AddBf16, AddF16, AddF32, vector_atomics};
use crate::exec::access::value::{HIGH, LOW, Narrow, Part, WHOLE, Words};
use crate::inst::{Encoding, GFX90A, GFX942, Op};
pub(super) use address::by_high;
use atomic::{flat_atomic, global_atomic};
use plain::{flat_load, flat_store, global_lds, global_load, global_store, scratch_lds, scratch_load, scratch_store};

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

static FLAT: &[Op] = plain!(Flat, "flat_", flat_load, flat_store);
static GLOBAL: &[Op] = plain!(Global, "global_", global_load, global_store);
static SCRATCH: &[Op] = plain!(Scratch, "scratch_", scratch_load, scratch_store, 1, GFX942);
static SCRATCH_90A: &[Op] = plain!(Scratch, "scratch_", scratch_load, scratch_store, 0, GFX90A);

static FLAT_ATOMICS: &[Op] = vector_atomics!("flat_atomic_", flat_atomic);
static GLOBAL_ATOMICS: &[Op] = vector_atomics!("global_atomic_", global_atomic);

static OTHER_ATOMICS: &[Op] = &[
    flat_atomic::<AddBf16>(82, "flat_atomic_pk_add_bf16").on(GFX942),
    global_atomic::<AddBf16>(82, "global_atomic_pk_add_bf16").on(GFX942),
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
