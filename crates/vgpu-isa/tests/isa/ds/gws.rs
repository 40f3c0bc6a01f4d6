//! Global wave sync: what each instruction asks of the device.
//!
//! Resource and value are those of the manuals' pseudo-code (DS_GWS_INIT and the like: the value is that of the first
//! valid lane), with M0 as LLVM's comment on `SelectDS_GWS` describes it.

use vgpu_isa::inst::GwsOperation::{Barrier, Init, SemaBr, SemaP, SemaReleaseAll, SemaV};
use vgpu_isa::inst::{GwsOperation, GwsRequest, Stop};

use crate::access::forms::{SOME, stops};
use crate::harness::{Case, Machine};

/// M0 before the instruction, lanes that are on, the offset in the text, and the resource that they make.
const PLACES: [(u32, u64, &str, u8); 5] = [
    (0, !0, "", 0),
    (0, SOME, " offset:5", 5),
    (7 << 16, 1 << 40, " offset:2", 9),
    // The sum wraps, and M0 has bits that do not count.
    (0xFFE0_1234, 1 << 63, " offset:40", 8),
    // No lane is on.
    (3 << 16, 0, " offset:65535", 2),
];

/// A value that tells in which lane and register it was.
fn value(register: u32, lane: usize) -> u32 {
    (register << 16) + lane as u32 + 1
}

fn case(name: &str, operation: GwsOperation, operand: Option<&str>, place: (u32, u64, &str, u8)) -> Case {
    let (m0, exec, offset, resource) = place;
    let first = (0..64).find(|lane| exec >> lane & 1 == 1).unwrap_or(0);
    let expected = match operand {
        Some("v2") => value(2, first),
        Some(_) => value(0x102, first),
        None => 0,
    };
    let operand = operand.map_or(String::new(), |operand| format!(" {operand}"));
    let setup = move |m: &mut Machine| {
        m.wave.s[124] = m0;
        m.wave.set_exec(exec);
        m.set_v(2, |lane| value(2, lane));
        m.wave.a[2] = std::array::from_fn(|lane| value(0x102, lane));
    };
    let request = GwsRequest { operation, resource, value: expected };
    stops(&format!("{name}{operand}{offset} gds"), setup, Stop::Gws(request))
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in PLACES {
        for (name, operation) in [("ds_gws_init", Init), ("ds_gws_barrier", Barrier), ("ds_gws_sema_br", SemaBr)] {
            cases.extend(["v2", "a2"].map(|operand| case(name, operation, Some(operand), place)));
        }
        for (name, operation) in
            [("ds_gws_sema_v", SemaV), ("ds_gws_sema_p", SemaP), ("ds_gws_sema_release_all", SemaReleaseAll)]
        {
            cases.push(case(name, operation, None, place));
        }
    }
    cases
}
