//! The scheduler's words as words of the protocol.
//!
//! `gpreempt-proto` depends on nothing of the core, and Rust allows `From` between two foreign types in neither crate's
//! absence: hence a trait of the daemon. The matches are exhaustive, so a word added to the core does not compile
//! before it has a name on the wire.

use gpreempt_core as core;
use gpreempt_proto as proto;

/// Conversion of a core type into its counterpart on the wire.
pub(crate) trait ToWire {
    /// The counterpart.
    type Wire;

    /// Returns the counterpart of this value.
    fn to_wire(self) -> Self::Wire;
}

impl ToWire for core::Reason {
    type Wire = proto::Reason;

    fn to_wire(self) -> proto::Reason {
        match self {
            core::Reason::HigherWants => proto::Reason::HigherWants,
            core::Reason::SliceOver => proto::Reason::SliceOver,
            core::Reason::ShareDue => proto::Reason::ShareDue,
            core::Reason::LimitReached => proto::Reason::LimitReached,
            core::Reason::EarlierDeadline => proto::Reason::EarlierDeadline,
            core::Reason::Held => proto::Reason::Held,
            core::Reason::JobStopped => proto::Reason::JobStopped,
            core::Reason::NothingAbove => proto::Reason::NothingAbove,
            core::Reason::TurnDue => proto::Reason::TurnDue,
            core::Reason::Aged => proto::Reason::Aged,
            core::Reason::StopShareSpent => proto::Reason::StopShareSpent,
            core::Reason::Released => proto::Reason::Released,
            core::Reason::GaveUp => proto::Reason::GaveUp,
        }
    }
}

impl ToWire for core::Bound {
    type Wire = proto::Bound;

    fn to_wire(self) -> proto::Bound {
        match self {
            core::Bound::Detection => proto::Bound::Detection,
            core::Bound::Patience => proto::Bound::Patience,
            core::Bound::Exempt => proto::Bound::Exempt,
            core::Bound::Budget => proto::Bound::Budget,
            core::Bound::Small => proto::Bound::Small,
            core::Bound::Linger => proto::Bound::Linger,
            core::Bound::Slice => proto::Bound::Slice,
            core::Bound::Age => proto::Bound::Age,
            core::Bound::Retry => proto::Bound::Retry,
        }
    }
}

impl ToWire for core::PolicyKind {
    type Wire = proto::PolicyKind;

    fn to_wire(self) -> proto::PolicyKind {
        match self {
            core::PolicyKind::Priority => proto::PolicyKind::Priority,
            core::PolicyKind::Fair => proto::PolicyKind::Fair,
            core::PolicyKind::Deadline => proto::PolicyKind::Deadline,
        }
    }
}

impl ToWire for core::ActuatorKind {
    type Wire = proto::ActuatorKind;

    fn to_wire(self) -> proto::ActuatorKind {
        match self {
            core::ActuatorKind::DebugTrap => proto::ActuatorKind::DebugTrap,
            core::ActuatorKind::Combined => proto::ActuatorKind::Combined,
            // The daemon has no such actuator.
            core::ActuatorKind::PerQueue => proto::ActuatorKind::Other,
        }
    }
}

impl ToWire for core::Action {
    type Wire = proto::Action;

    fn to_wire(self) -> proto::Action {
        match self {
            core::Action::Preempt => proto::Action::Preempt,
            core::Action::Resume => proto::Action::Resume,
        }
    }
}
