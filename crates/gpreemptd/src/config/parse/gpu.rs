//! `[[gpu]]`.

use gpreempt_core::{GpuParams, PolicyKind};
use toml_source::Table;

use super::values::{glob, refuse_unmanaged, share, time};
use crate::config::{Glob, GpuRule};

/// Keys of `[[gpu]]`.
pub(in crate::config) const KEYS: &[&str] = &[
    "gpu",
    "manage",
    "policy",
    "slice_ms",
    "cycles_per_second",
    "cycle_burst",
    "linger_max_us",
    "small",
    "weigh",
    "cycle_estimate_us",
];

/// Index in [`KEYS`] of the first key that `manage = false` excludes.
const SETTINGS: usize = 2;

/// Reads one entry; `None` if its pattern is missing or wrong.
pub(super) fn gpu(table: &Table<'_>) -> Option<GpuRule> {
    let default = GpuParams::default();
    let params = GpuParams {
        policy: table
            .field("policy")
            .choice(&PolicyKind::ALL.map(|kind| (kind.name(), kind)))
            .unwrap_or(default.policy),
        slice: time(table.field("slice_ms"), 0.0..=10_000.0).unwrap_or(default.slice),
        cycles_per_second: table.field("cycles_per_second").whole(0..=100_000).unwrap_or(default.cycles_per_second),
        cycle_burst: table.field("cycle_burst").whole(1..=100_000).unwrap_or(default.cycle_burst),
        linger_max: time(table.field("linger_max_us"), 0.0..=1_000_000.0).unwrap_or(default.linger_max),
        small: share(table.field("small"), 0.0).unwrap_or(default.small),
        weigh: table.field("weigh").flag().unwrap_or(default.weigh),
        cycle_estimate: time(table.field("cycle_estimate_us"), 1.0..=1_000_000.0).unwrap_or(default.cycle_estimate),
        report_timeout: default.report_timeout,
    };
    let manage = table.field("manage").flag().unwrap_or(true);
    if !manage {
        refuse_unmanaged(table, &KEYS[SETTINGS..]);
    }
    if !table.has("gpu") {
        let message = "this [[gpu]] does not say which: add gpu = \"0000:c1:00.0\" (`gpreempt ps` shows addresses), or gpu = \"*\"";
        table.field("gpu").complain(message);
    }
    // Addresses are compared in lower case, as the kernel writes them.
    let gpu = glob(table.field("gpu")).and_then(|glob| Glob::new(&glob.as_str().to_lowercase()).ok())?;
    Some(GpuRule { gpu, manage, params })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_unmanaged_gpus_refuse_begin_behind_manage() {
        assert_eq!(KEYS[..SETTINGS], ["gpu", "manage"]);
    }
}
