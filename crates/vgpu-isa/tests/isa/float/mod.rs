//! Cases of the float operations.
//!
//! A [`Spec`] names an operation, its sources and what it computes; [`Spec::cases`] makes instructions of it in every
//! form and mode. Expectations come from [`exact`], from host functions in wider precision, or from the manual's
//! tables.

mod accuracy;
mod arithmetic;
mod conversions;
mod division;
mod exact;
mod extremes;
mod sequences;
mod spec;
mod transcendental;

use crate::harness::Case;

pub(crate) fn cases() -> Vec<Case> {
    let specs =
        [arithmetic::specs(), extremes::specs(), conversions::specs(), transcendental::specs(), division::specs()];
    let mut cases: Vec<Case> = specs.into_iter().flatten().flat_map(|spec| spec.cases()).collect();
    cases.extend(division::cases());
    cases.extend(conversions::cases());
    cases.extend(sequences::cases());
    cases
}
