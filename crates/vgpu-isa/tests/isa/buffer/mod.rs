//! Cases of this family.

use crate::harness::Case;

pub(crate) fn cases() -> Vec<Case> {
    Vec::new()
}
