//! What the instructions do, one file per family.

use crate::inst::Op;

pub(crate) mod access;
pub(crate) mod buffer;
pub(crate) mod ds;
pub(crate) mod flat;
pub(crate) mod scalar;
pub(crate) mod smem;
pub(crate) mod vector;

/// All operations.
pub(crate) fn families() -> Vec<&'static [Op]> {
    [scalar::families(), smem::families(), vector::families(), ds::families(), flat::families(), buffer::families()]
        .concat()
}
