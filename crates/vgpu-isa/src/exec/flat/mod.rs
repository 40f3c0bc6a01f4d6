//! Filled by its family.

use crate::inst::Op;

pub(crate) fn families() -> Vec<&'static [Op]> {
    vec![]
}
