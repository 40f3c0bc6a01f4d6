//! What members of the stress say on their stdout, a word and a value each line.

use super::crowd::Kind;

/// Kernels done so far.
pub(super) const JOBS: &str = "jobs";
/// A result that is not what it should be.
pub(super) const WRONG: &str = "wrong";
/// Queues stopped since the last time.
pub(super) const SUSPENDED: &str = "suspended";
/// Queues let go since the last time.
pub(super) const RESUMED: &str = "resumed";

/// How this executable is made to be a member.
pub(super) fn subcommand(kind: Kind) -> &'static str {
    match kind {
        Kind::Client => "stress-client",
        Kind::Tracer => "stress-tracer",
    }
}
