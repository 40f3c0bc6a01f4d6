//! What blocks of one arm come to.

use serde::Serialize;

use super::block::{Arm, Outcome};

/// Everything measured, in the order of time.
pub(crate) type Measured = [(Arm, u32, Outcome)];

/// The offline program.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Offline {
    pub(crate) alone_kernels_per_s: Option<f64>,
    pub(crate) without_kernels_per_s: Option<f64>,
    pub(crate) with_kernels_per_s: Option<f64>,
    /// Of its throughput alone.
    pub(crate) without_kept_share: Option<f64>,
    pub(crate) with_kept_share: Option<f64>,
    /// Share of the time that requests leave over when they run alone.
    pub(crate) ideal_share: Option<f64>,
    /// Of that share.
    pub(crate) with_kept_of_ideal: Option<f64>,
}

/// Blocks of an arm.
pub(crate) fn of_arm(measured: &Measured, arm: Arm) -> impl Iterator<Item = &Outcome> {
    measured.iter().filter(move |(found, ..)| *found == arm).map(|(_, _, outcome)| outcome)
}

/// Latencies of an arm, in microseconds.
pub(crate) fn latencies(measured: &Measured, arm: Arm) -> Vec<f64> {
    of_arm(measured, arm).flat_map(|outcome| outcome.requests.iter().map(|request| request.latency_us)).collect()
}

/// Kernels of the offline program in a second, over all blocks of an arm.
fn rate(measured: &Measured, arm: Arm) -> Option<f64> {
    let (mut kernels, mut seconds) = (0.0, 0.0);
    for outcome in of_arm(measured, arm) {
        kernels += outcome.window.kernels(&outcome.offline_ends)?;
        seconds += outcome.window.seconds();
    }
    (seconds > 0.0).then(|| kernels / seconds)
}

impl Offline {
    pub(crate) fn of(measured: &Measured) -> Offline {
        let alone = rate(measured, Arm::OfflineAlone);
        let (without, with) = (rate(measured, Arm::Without), rate(measured, Arm::With));
        let kept = |rate: Option<f64>| Some(rate? / alone.filter(|&alone| alone > 0.0)?);
        let seconds: f64 = of_arm(measured, Arm::Alone).map(|outcome| outcome.window.seconds()).sum();
        let busy: f64 =
            of_arm(measured, Arm::Alone).map(|outcome| outcome.busy_share() * outcome.window.seconds()).sum();
        let ideal = (seconds > 0.0).then(|| (1.0 - busy / seconds).max(0.0));
        Offline {
            alone_kernels_per_s: alone,
            without_kernels_per_s: without,
            with_kernels_per_s: with,
            without_kept_share: kept(without),
            with_kept_share: kept(with),
            ideal_share: ideal,
            with_kept_of_ideal: kept(with)
                .zip(ideal)
                .filter(|(_, ideal)| *ideal > 0.0)
                .map(|(kept, ideal)| kept / ideal),
        }
    }
}
