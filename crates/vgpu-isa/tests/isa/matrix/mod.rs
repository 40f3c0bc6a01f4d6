//! Cases of packed math, dot products, accumulation registers and matrix instructions.

mod accumulation;
mod dot;
mod exact;
mod form;
mod layout;
mod mfma;
mod mi200;
mod mix;
mod packed;
mod single;
mod smfmac;

use crate::harness::Case;

pub(crate) fn cases() -> Vec<Case> {
    [
        packed::cases(),
        single::cases(),
        mix::cases(),
        dot::cases(),
        accumulation::cases(),
        mfma::cases(),
        smfmac::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What only MI200 has.
pub(crate) fn cases_of_mi200() -> Vec<Case> {
    mi200::cases()
}
