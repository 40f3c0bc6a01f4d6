//! Global wave sync: barriers and semaphores that waves of different workgroups share. The interpreter says what a wave
//! asks for; the unit itself belongs to the device.

use crate::exec::access::file;
use crate::inst::{Encoding, Env, Flow, GwsOperation, GwsRequest, Inst, Op, Stop};
use crate::wave::{M0, Wave};

/// Units have so many resources.
const RESOURCES: u32 = 64;

/// Stops the wave with its request. The resource is M0's bits 16 to 21 plus the offset, modulo 64 (LLVM,
/// `AMDGPUDAGToDAGISel::SelectDS_GWS`); a value comes from the first lane that is on.
fn ask(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>, operation: GwsOperation) -> Flow {
    let [w, x] = inst.words;
    if w & 1 << 16 == 0 {
        return env.stopped(Stop::Illegal { mnemonic: Some(inst.op.name), words: inst.words });
    }
    let resource = (((wave.s[M0] >> 16) + (w & 0xFFFF)) % RESOURCES) as u8;
    let value = if operation.has_value() {
        let lane = wave.exec().trailing_zeros() as usize % crate::wave::LANES;
        file(wave, w & 1 << 25 != 0)[(x & 0xFF) as usize][lane]
    } else {
        0
    };
    env.stopped(Stop::Gws(GwsRequest { operation, resource, value }))
}

/// An operation.
macro_rules! op {
    ($opcode:literal, $name:literal, $operation:ident) => {
        Op::new(Encoding::Ds, $opcode, $name, |wave, inst, env| ask(wave, inst, env, GwsOperation::$operation))
    };
}

pub(super) static OPS: &[Op] = &[
    op!(152, "ds_gws_sema_release_all", SemaReleaseAll),
    op!(153, "ds_gws_init", Init),
    op!(154, "ds_gws_sema_v", SemaV),
    op!(155, "ds_gws_sema_br", SemaBr),
    op!(156, "ds_gws_sema_p", SemaP),
    op!(157, "ds_gws_barrier", Barrier),
];
