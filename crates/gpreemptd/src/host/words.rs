//! The core's reasons in words for screens and logs.

use gpreempt_core::{Bound, PolicyKind, Reason};

pub(super) fn rule(rule: Reason) -> &'static str {
    match rule {
        Reason::HigherWants => "higher_wants",
        Reason::SliceOver => "slice_over",
        Reason::ShareDue => "share_due",
        Reason::LimitReached => "limit_reached",
        Reason::EarlierDeadline => "earlier_deadline",
        Reason::Held => "held",
        Reason::JobStopped => "job_stopped",
        Reason::NothingAbove => "nothing_above",
        Reason::TurnDue => "turn_due",
        Reason::Aged => "aged",
        Reason::StopShareSpent => "stop_share_spent",
        Reason::Released => "released",
        Reason::GaveUp => "gave_up",
    }
}

pub(super) fn bound(bound: Bound) -> &'static str {
    match bound {
        Bound::Detection => "detection",
        Bound::Patience => "patience",
        Bound::Exempt => "exempt",
        Bound::Budget => "budget",
        Bound::Small => "small",
        Bound::Linger => "linger",
        Bound::Slice => "slice",
        Bound::Age => "age",
        Bound::Retry => "retry",
    }
}

pub(super) fn policy(policy: PolicyKind) -> &'static str {
    match policy {
        PolicyKind::Priority => "priority",
        PolicyKind::Fair => "fair",
        PolicyKind::Deadline => "deadline",
    }
}
