//! MUBUF and MTBUF instructions: buffers described by a resource of four scalar registers.

mod atomic;
mod format;
mod plain;
mod resource;
mod typed;

use crate::exec::access::atomic::{AddF16, AddF32, vector_atomics};
use crate::exec::access::value::{HIGH, LOW, Narrow, Part, WHOLE, Words};
use crate::inst::{Encoding::Mubuf, Env, Flow, GFX90A, GFX942, Inst, Op};
use crate::wave::Wave;
use atomic::buffer_atomic;
use plain::{buffer_load, buffer_store, store_lds};

static PLAIN: &[Op] = &[
    buffer_load::<Narrow<1, false, WHOLE>>(Mubuf, 16, "buffer_load_ubyte"),
    buffer_load::<Narrow<1, true, WHOLE>>(Mubuf, 17, "buffer_load_sbyte"),
    buffer_load::<Narrow<2, false, WHOLE>>(Mubuf, 18, "buffer_load_ushort"),
    buffer_load::<Narrow<2, true, WHOLE>>(Mubuf, 19, "buffer_load_sshort"),
    buffer_load::<Words<1>>(Mubuf, 20, "buffer_load_dword"),
    buffer_load::<Words<2>>(Mubuf, 21, "buffer_load_dwordx2"),
    buffer_load::<Words<3>>(Mubuf, 22, "buffer_load_dwordx3"),
    buffer_load::<Words<4>>(Mubuf, 23, "buffer_load_dwordx4"),
    buffer_store::<Part<1, false>>(Mubuf, 24, "buffer_store_byte"),
    buffer_store::<Part<1, true>>(Mubuf, 25, "buffer_store_byte_d16_hi"),
    buffer_store::<Part<2, false>>(Mubuf, 26, "buffer_store_short"),
    buffer_store::<Part<2, true>>(Mubuf, 27, "buffer_store_short_d16_hi"),
    buffer_store::<Words<1>>(Mubuf, 28, "buffer_store_dword"),
    buffer_store::<Words<2>>(Mubuf, 29, "buffer_store_dwordx2"),
    buffer_store::<Words<3>>(Mubuf, 30, "buffer_store_dwordx3"),
    buffer_store::<Words<4>>(Mubuf, 31, "buffer_store_dwordx4"),
    buffer_load::<Narrow<1, false, LOW>>(Mubuf, 32, "buffer_load_ubyte_d16"),
    buffer_load::<Narrow<1, false, HIGH>>(Mubuf, 33, "buffer_load_ubyte_d16_hi"),
    buffer_load::<Narrow<1, true, LOW>>(Mubuf, 34, "buffer_load_sbyte_d16"),
    buffer_load::<Narrow<1, true, HIGH>>(Mubuf, 35, "buffer_load_sbyte_d16_hi"),
    buffer_load::<Narrow<2, false, LOW>>(Mubuf, 36, "buffer_load_short_d16"),
    buffer_load::<Narrow<2, false, HIGH>>(Mubuf, 37, "buffer_load_short_d16_hi"),
];

static ATOMICS: &[Op] = vector_atomics!("buffer_atomic_", buffer_atomic);

/// Caches are those of the CPU, which are coherent: there is nothing to write back or throw away.
fn cache(_wave: &mut Wave, _inst: &Inst, _env: &mut Env<'_>) -> Flow {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    Flow::Next
}

static OTHERS: &[Op] = &[
    buffer_atomic::<AddF32>(77, "buffer_atomic_add_f32"),
    buffer_atomic::<AddF16>(78, "buffer_atomic_pk_add_f16"),
    Op::new(Mubuf, 40, "buffer_wbl2", cache),
    Op::new(Mubuf, 41, "buffer_inv", cache).on(GFX942),
    Op::new(Mubuf, 41, "buffer_invl2", cache).on(GFX90A),
    Op::new(Mubuf, 61, "buffer_store_lds_dword", store_lds),
    Op::new(Mubuf, 62, "buffer_wbinvl1", cache),
    Op::new(Mubuf, 63, "buffer_wbinvl1_vol", cache),
];

pub(crate) fn families() -> Vec<&'static [Op]> {
    vec![PLAIN, typed::MUBUF, typed::MTBUF, typed::HIGH, ATOMICS, OTHERS]
}
