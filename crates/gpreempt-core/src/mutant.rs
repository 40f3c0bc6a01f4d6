//! Mutants: one-line faults of the core, for tests only. Each property must detect its own.

use std::cell::Cell;

/// A fault. It is built in where the code says `mutant!(Name)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Patience never runs out.
    EndlessPatience,
    /// `max_stop` and ageing are forgotten.
    NoAgeing,
    /// A preemption is planned for tenants that are stopped already.
    RepeatedStop,
    /// Stopped jobs stay stopped when no job above wants their gpus.
    ForgottenResume,
    /// A preemption is planned for a tenant that cannot be stopped.
    StopsUnstoppable,
    /// Only the first tenant of a victim is stopped.
    PartialStop,
    /// Victims are stopped on every other gpu only, on different ones each.
    HoldsParts,
    /// A victim that is about to be stopped still reserves its gpus.
    VictimsReserve,
    /// Run time is not charged to shares.
    UnchargedShare,
    /// The job with the latest deadline goes first.
    LatestDeadline,
    /// A blocked tenant counts as wanting.
    BlockedWants,
    /// An evicted tenant counts as wanting.
    EvictedWants,
    /// Cycles are not charged to the budget.
    UnchargedCycles,
    /// Cycles that reports tell are not charged.
    BelievesCosts,
    /// Cycles that were not spent are given back although the budget has been full since.
    GivesBackTwice,
    /// Decisions depend on the number of calls.
    CountsCalls,
    /// An entry that the driver refused is not retried.
    NoRetry,
    /// The core waits for a lost report without a timeout.
    WaitsForever,
    /// Old observations overwrite new ones.
    AcceptsOldLooks,
    /// The report of an old entry is taken for that of a newer one.
    AcceptsOldReports,
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

/// Returns whether `mutant` is active on this thread.
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
