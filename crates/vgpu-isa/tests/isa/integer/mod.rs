//! Integer and bit operations, moves, carries, comparisons, and what modifies operands of all vector operations.

mod bytes;
mod carry;
mod compare;
mod cross;
mod dpp;
mod indexing;
mod operations;
mod sdwa;
mod support;
mod table;

use crate::harness::Case;

pub(crate) fn cases() -> Vec<Case> {
    [
        operations::cases(),
        bytes::cases(),
        carry::cases(),
        cross::cases(),
        compare::cases(),
        dpp::cases(),
        sdwa::cases(),
        indexing::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
