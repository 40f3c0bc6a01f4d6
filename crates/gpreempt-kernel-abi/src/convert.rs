//! Conversions between the structures and the types of the core. None loses anything; towards the core, each value is
//! checked, because another process wrote it.

use gpreempt_core::{Activity, Bound, GpuParams, JobParams, Level, Nanos, Patience, Permille, PolicyKind, Reason};

use crate::event::{RawBound, RawReason};
use crate::policy::{RawGpuParams, RawJobParams, RawPatience, RawPolicy};
use crate::status::RawActivity;

/// A value that the core has no word for. Has the name of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid(pub &'static str);

impl core::fmt::Display for Invalid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "no valid value of `{}`", self.0)
    }
}

impl core::error::Error for Invalid {}

/// Both directions between a number and an enumeration of the core. A value of the core without a number does not
/// compile.
macro_rules! both_ways {
    ($raw:ident, $core:ident, $field:literal { $($number:ident = $value:ident,)* }) => {
        impl From<$core> for $raw {
            fn from(value: $core) -> $raw {
                match value {
                    $($core::$value => $raw::$number,)*
                }
            }
        }

        impl TryFrom<$raw> for $core {
            type Error = Invalid;

            fn try_from(raw: $raw) -> Result<$core, Invalid> {
                match raw {
                    $($raw::$number => Ok($core::$value),)*
                    _ => Err(Invalid($field)),
                }
            }
        }
    };
}

both_ways!(RawPolicy, PolicyKind, "policy" {
    PRIORITY = Priority,
    FAIR = Fair,
    DEADLINE = Deadline,
});

both_ways!(RawActivity, Activity, "activity" {
    IDLE = Idle,
    WANTS = Wants,
    RUNNING = Running,
    BLOCKED = Blocked,
    EVICTED = Evicted,
});

both_ways!(RawReason, Reason, "reason" {
    HIGHER_WANTS = HigherWants,
    SLICE_OVER = SliceOver,
    SHARE_DUE = ShareDue,
    LIMIT_REACHED = LimitReached,
    EARLIER_DEADLINE = EarlierDeadline,
    HELD = Held,
    JOB_STOPPED = JobStopped,
    NOTHING_ABOVE = NothingAbove,
    TURN_DUE = TurnDue,
    AGED = Aged,
    STOP_SHARE_SPENT = StopShareSpent,
    RELEASED = Released,
    GAVE_UP = GaveUp,
});

both_ways!(RawBound, Bound, "bound" {
    DETECTION = Detection,
    PATIENCE = Patience,
    EXEMPT = Exempt,
    BUDGET = Budget,
    SMALL = Small,
    LINGER = Linger,
    SLICE = Slice,
    AGE = Age,
    RETRY = Retry,
});

/// Returns a share that is not above the whole.
fn share(value: u16, field: &'static str) -> Result<Permille, Invalid> {
    if value <= Permille::ALL.get() { Ok(Permille::new(value)) } else { Err(Invalid(field)) }
}

impl From<GpuParams> for RawGpuParams {
    fn from(params: GpuParams) -> RawGpuParams {
        RawGpuParams {
            policy: params.policy.into(),
            cycles_per_second: params.cycles_per_second,
            cycle_burst: params.cycle_burst,
            small_permille: params.small.get(),
            weigh: u16::from(params.weigh),
            slice_ns: params.slice.0,
            linger_max_ns: params.linger_max.0,
            cycle_estimate_ns: params.cycle_estimate.0,
            report_timeout_ns: params.report_timeout.0,
        }
    }
}

impl TryFrom<RawGpuParams> for GpuParams {
    type Error = Invalid;

    fn try_from(raw: RawGpuParams) -> Result<GpuParams, Invalid> {
        Ok(GpuParams {
            policy: raw.policy.try_into()?,
            slice: Nanos(raw.slice_ns),
            cycles_per_second: raw.cycles_per_second,
            cycle_burst: raw.cycle_burst,
            linger_max: Nanos(raw.linger_max_ns),
            small: share(raw.small_permille, "small_permille")?,
            weigh: match raw.weigh {
                0 => false,
                1 => true,
                _ => return Err(Invalid("weigh")),
            },
            cycle_estimate: Nanos(raw.cycle_estimate_ns),
            report_timeout: Nanos(raw.report_timeout_ns),
        })
    }
}

impl From<JobParams> for RawJobParams {
    fn from(params: JobParams) -> RawJobParams {
        let patience = match params.patience {
            Patience::Fixed(_) => RawPatience::FIXED,
            Patience::Adaptive { .. } => RawPatience::ADAPTIVE,
        };
        RawJobParams {
            level: params.level.get(),
            patience,
            stop_share_permille: params.stop_share.get(),
            weight: params.weight,
            request_permille: params.request.get(),
            limit_permille: params.limit.get(),
            reserved: [0; 3],
            patience_ns: params.patience.longest().0,
            min_run_ns: params.min_run.0,
            max_stop_ns: params.max_stop.0,
            age_step_ns: params.age_step.0,
            period_ns: params.period.0,
            deadline_ns: params.deadline.0,
            runtime_ns: params.runtime.0,
        }
    }
}

impl TryFrom<RawJobParams> for JobParams {
    type Error = Invalid;

    fn try_from(raw: RawJobParams) -> Result<JobParams, Invalid> {
        if raw.reserved != [0; 3] {
            return Err(Invalid("reserved"));
        }
        let patience = Nanos(raw.patience_ns);
        Ok(JobParams {
            level: Level::new(raw.level).ok_or(Invalid("level"))?,
            patience: match raw.patience {
                RawPatience::FIXED => Patience::Fixed(patience),
                RawPatience::ADAPTIVE => Patience::Adaptive { max: patience },
                _ => return Err(Invalid("patience")),
            },
            min_run: Nanos(raw.min_run_ns),
            max_stop: Nanos(raw.max_stop_ns),
            age_step: Nanos(raw.age_step_ns),
            stop_share: share(raw.stop_share_permille, "stop_share_permille")?,
            weight: raw.weight,
            request: share(raw.request_permille, "request_permille")?,
            limit: share(raw.limit_permille, "limit_permille")?,
            period: Nanos(raw.period_ns),
            deadline: Nanos(raw.deadline_ns),
            runtime: Nanos(raw.runtime_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString as _;

    /// Every number that the header defines, and one more.
    fn check<Raw: Copy, Core: Copy + Into<Raw> + TryFrom<Raw, Error = Invalid>>(
        defined: &[Raw],
        unknown: Raw,
        equal: impl Fn(Raw, Raw) -> bool,
    ) {
        for &raw in defined {
            assert!(Core::try_from(raw).is_ok_and(|core| equal(core.into(), raw)));
        }
        assert!(Core::try_from(unknown).is_err());
    }

    #[test]
    fn each_number_is_one_value_of_the_core_and_back() {
        check::<_, PolicyKind>(RawPolicy::DEFINED, RawPolicy(3), |a, b| a == b);
        check::<_, Reason>(RawReason::DEFINED, RawReason(13), |a, b| a == b);
        check::<_, Bound>(RawBound::DEFINED, RawBound(9), |a, b| a == b);
        let (unknown, known) = RawActivity::DEFINED.split_last().expect("some");
        assert_eq!(*unknown, RawActivity::UNKNOWN);
        check::<_, Activity>(known, *unknown, |a, b| a == b);
    }

    #[test]
    fn values_out_of_range_are_named() {
        let gpu = RawGpuParams::from(GpuParams::default());
        for (field, wrong) in [
            ("policy", RawGpuParams { policy: RawPolicy(3), ..gpu }),
            ("small_permille", RawGpuParams { small_permille: 1001, ..gpu }),
            ("weigh", RawGpuParams { weigh: 2, ..gpu }),
        ] {
            assert_eq!(GpuParams::try_from(wrong), Err(Invalid(field)));
        }
        let job = RawJobParams::from(JobParams::default());
        for (field, wrong) in [
            ("level", RawJobParams { level: 16, ..job }),
            ("patience", RawJobParams { patience: RawPatience(2), ..job }),
            ("stop_share_permille", RawJobParams { stop_share_permille: 1001, ..job }),
            ("request_permille", RawJobParams { request_permille: 1001, ..job }),
            ("limit_permille", RawJobParams { limit_permille: u16::MAX, ..job }),
            ("reserved", RawJobParams { reserved: [0, 0, 1], ..job }),
        ] {
            assert_eq!(JobParams::try_from(wrong), Err(Invalid(field)));
            assert_eq!(Invalid(field).to_string(), std::format!("no valid value of `{field}`"));
        }
    }

    proptest! {
        #[test]
        fn settings_of_a_gpu_are_kept_or_refused(
            (policy, small_permille, weigh) in (0_u32..4, 0_u16..1010, 0_u16..3),
            (cycles_per_second, cycle_burst) in any::<(u32, u32)>(),
            (slice_ns, linger_max_ns, cycle_estimate_ns, report_timeout_ns) in any::<(u64, u64, u64, u64)>(),
        ) {
            let raw = RawGpuParams {
                policy: RawPolicy(policy),
                cycles_per_second,
                cycle_burst,
                small_permille,
                weigh,
                slice_ns,
                linger_max_ns,
                cycle_estimate_ns,
                report_timeout_ns,
            };
            let valid = policy < 3 && small_permille <= 1000 && weigh < 2;
            prop_assert_eq!(GpuParams::try_from(raw).ok().map(RawGpuParams::from), valid.then_some(raw));
        }

        #[test]
        fn settings_of_a_job_are_kept_or_refused(
            (level, patience, weight) in (0_u8..18, 0_u8..3, any::<u16>()),
            (stop_share_permille, request_permille, limit_permille) in (0_u16..1010, 0_u16..1010, 0_u16..1010),
            (patience_ns, min_run_ns, max_stop_ns, age_step_ns) in any::<(u64, u64, u64, u64)>(),
            (period_ns, deadline_ns, runtime_ns) in any::<(u64, u64, u64)>(),
        ) {
            let raw = RawJobParams {
                level,
                patience: RawPatience(patience),
                stop_share_permille,
                weight,
                request_permille,
                limit_permille,
                reserved: [0; 3],
                patience_ns,
                min_run_ns,
                max_stop_ns,
                age_step_ns,
                period_ns,
                deadline_ns,
                runtime_ns,
            };
            let shares = [stop_share_permille, request_permille, limit_permille];
            let valid = level < 16 && patience < 2 && shares.into_iter().all(|share| share <= 1000);
            prop_assert_eq!(JobParams::try_from(raw).ok().map(RawJobParams::from), valid.then_some(raw));
        }
    }
}
