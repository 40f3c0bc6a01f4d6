//! Random numbers.

use rand_core::Rng;
use rand_pcg::Pcg64;

/// A number from 0 to below `end`; 0 if that is 0.
pub(crate) fn below(random: &mut Pcg64, end: u64) -> u64 {
    random.next_u64().checked_rem(end).unwrap_or(0)
}
