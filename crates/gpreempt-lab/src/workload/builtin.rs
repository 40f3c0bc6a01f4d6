//! The workloads that ship with the laboratory.

use crate::input::Builtin;

/// Names and texts, in the order of listings.
pub(super) const ALL: &[Builtin] = &[
    Builtin { name: "quick", text: include_str!("../../workloads/quick.toml") },
    Builtin { name: "disb-a", text: include_str!("../../workloads/disb-a.toml") },
    Builtin { name: "disb-b", text: include_str!("../../workloads/disb-b.toml") },
    Builtin { name: "disb-c", text: include_str!("../../workloads/disb-c.toml") },
    Builtin { name: "disb-d", text: include_str!("../../workloads/disb-d.toml") },
    Builtin { name: "disb-e", text: include_str!("../../workloads/disb-e.toml") },
    Builtin { name: "all-reduce", text: include_str!("../../workloads/all-reduce.toml") },
];
