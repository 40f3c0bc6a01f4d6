//! Vector operations on floating point numbers.
//!
//! Each file is one kind of operation. The usual mode (nearest even, denormals kept) uses the CPU's own arithmetic in
//! loops that vectorise; other rounding modes go through [`soft`].

mod convert;
mod cube;
mod define;
mod divide;
mod double;
mod eight;
mod exponent;
mod extreme;
mod half;
mod integral;
mod packing;
mod series;
mod short;
mod single;
mod soft;
mod transcendental;
mod trig;
mod unfused;

use crate::inst::Op;

pub(crate) fn families() -> Vec<&'static [Op]> {
    vec![
        single::OPS,
        double::OPS,
        short::OPS,
        extreme::OPS,
        integral::OPS,
        exponent::OPS,
        transcendental::OPS,
        convert::OPS,
        packing::OPS,
        eight::OPS,
        divide::OPS,
        cube::OPS,
        trig::OPS,
        unfused::OPS,
    ]
}
