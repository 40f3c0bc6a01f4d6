//! Packed math, dot products, accumulation registers and matrix instructions.

use crate::inst::Op;

mod accumulation;
mod dot;
mod float;
mod half;
mod integer;
mod mfma;
mod mix;
mod packed;
mod single;

pub(crate) fn families() -> Vec<&'static [Op]> {
    vec![
        integer::OPS,
        half::OPS,
        single::OPS,
        mix::OPS,
        dot::OPS,
        accumulation::OPS,
        mfma::DENSE,
        mfma::DENSE_90A,
        mfma::SPARSE,
    ]
}
