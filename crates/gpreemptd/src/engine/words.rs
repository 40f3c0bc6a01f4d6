//! The core's reasons in words for screens and logs.

use gpreempt_core::{Bound, PolicyKind, Rule};

pub(super) fn rule(rule: Rule) -> &'static str {
    match rule {
        Rule::HigherWants => "higher_wants",
        Rule::SliceOver => "slice_over",
        Rule::ShareDue => "share_due",
        Rule::LimitReached => "limit_reached",
        Rule::EarlierDeadline => "earlier_deadline",
        Rule::Held => "held",
        Rule::JobStopped => "job_stopped",
        Rule::NothingAbove => "nothing_above",
        Rule::TurnDue => "turn_due",
        Rule::Aged => "aged",
        Rule::StopShareSpent => "stop_share_spent",
        Rule::Released => "released",
        Rule::GaveUp => "gave_up",
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
