//! Experiments: one run, all mechanisms side by side, one preemption in detail, and a comparison with publications.

mod compare;
mod plausibility;
mod run;
mod timeline;

pub use compare::{Comparison, OfflineFigures, OnlineFigures, Row, compare};
pub use plausibility::{Implausible, Plausibility, PlausibilityRow, plausibility};
pub use run::run;
pub use timeline::{Timeline, scenario, timeline};
