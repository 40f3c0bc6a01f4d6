//! One-line breaks of the core, for tests only: each property must notice its own.

use std::cell::Cell;

/// A break. Its place in the code is where `mutant!(Name)` stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Patience never runs out.
    EndlessPatience,
    /// `max_stop` and ageing are forgotten.
    NoAgeing,
    /// A preemption is planned for tenants that are stopped already.
    RepeatedStop,
    /// Stopped jobs stay stopped when nothing above wants.
    ForgottenResume,
    /// A tenant that cannot be stopped is asked to all the same.
    StopsUnstoppable,
    /// Only the first tenant of a victim is stopped.
    PartialStop,
    /// Victims are stopped on every other gpu only, on different ones each.
    HoldsParts,
    /// A victim that is about to be stopped reserves its gpus all the same.
    VictimsReserve,
    /// Run time is not charged to shares.
    UnchargedShare,
    /// The latest deadline goes first.
    LatestDeadline,
    /// A blocked tenant counts as wanting.
    BlockedWants,
    /// An evicted tenant counts as wanting.
    EvictedWants,
    /// Cycles are not charged to the budget.
    UnchargedCycles,
    /// Decisions depend on how often the core was asked.
    CountsCalls,
    /// What the driver refused is not tried again.
    NoRetry,
    /// An entry whose report got lost is waited for without end.
    WaitsForever,
    /// Old looks overwrite new ones.
    AcceptsOldLooks,
    /// The share of stopping time is not counted.
    UncountedStopShare,
    /// The exempt time after a resume is forgotten.
    NoExemptTime,
    /// The smallest victim is stopped first.
    SmallestFirst,
    /// The gate between the turns of aged jobs stays open.
    OpenGate,
    /// Use above a limit is not noticed.
    NoLimit,
}

std::thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Whether `mutant` is active on this thread.
pub(crate) fn active(mutant: Mutant) -> bool {
    ACTIVE.with(|active| active.get() == Some(mutant))
}

/// Runs `body` with `mutant` active on this thread.
pub(crate) fn with<R>(mutant: Mutant, body: impl FnOnce() -> R) -> R {
    ACTIVE.with(|active| active.set(Some(mutant)));
    let result = body();
    ACTIVE.with(|active| active.set(None));
    result
}
