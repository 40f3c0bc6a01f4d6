//! Vector instructions.

use crate::inst::Op;

pub(crate) mod float;
pub(crate) mod integer;
pub(crate) mod matrix;

pub(crate) fn families() -> Vec<&'static [Op]> {
    [integer::families(), float::families(), matrix::families()].concat()
}
