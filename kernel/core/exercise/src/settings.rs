//! Random settings of gpus and jobs, most of them such as operators make, and some that are invalid.

use gpreempt_kernel_abi::{RawGpuParams, RawJobParams, RawPatience, RawPolicy};

use crate::numbers::Random;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Returns settings of a gpu under a policy.
pub(crate) fn gpu(random: &mut Random, policy: RawPolicy) -> RawGpuParams {
    RawGpuParams {
        policy,
        cycles_per_second: random.one_of(&[0, 0, 100, 2_000], 0),
        cycle_burst: random.below(64),
        small_permille: random.one_of(&[0, 50, 300], 0),
        weigh: random.one_of(&[0, 1], 0),
        slice_ns: random.one_of(&[0, MS, 10 * MS], 0),
        linger_max_ns: random.one_of(&[0, 500 * US, 2 * MS], 0),
        cycle_estimate_ns: random.one_of(&[20 * US, 200 * US], 0),
        report_timeout_ns: random.one_of(&[5 * MS, 10_000 * MS], MS),
    }
}

/// Returns settings of a job. One in 32 has a level that there is not.
pub(crate) fn job(random: &mut Random) -> RawJobParams {
    let period_ns = random.one_of(&[0, 0, 5 * MS, 20 * MS], 0);
    RawJobParams {
        level: if random.once_in(32) { 16 } else { random.below(16) as u8 },
        patience: random.one_of(&[RawPatience::FIXED, RawPatience::ADAPTIVE], RawPatience::FIXED),
        stop_share_permille: random.one_of(&[1000, 1000, 300], 0),
        weight: random.one_of(&[1, 100, 400], 1),
        request_permille: random.one_of(&[0, 0, 250], 0),
        limit_permille: random.one_of(&[1000, 1000, 400], 0),
        reserved: [0; 3],
        patience_ns: random.one_of(&[0, 100 * US, 500 * US], 0),
        min_run_ns: random.one_of(&[0, MS, 3 * MS], 0),
        max_stop_ns: random.one_of(&[20 * MS, 10_000 * MS], MS),
        age_step_ns: random.one_of(&[0, 0, 2 * MS], 0),
        period_ns,
        deadline_ns: random.one_of(&[0, period_ns / 2], 0),
        runtime_ns: random.one_of(&[0, period_ns / 8, period_ns], 0),
    }
}
