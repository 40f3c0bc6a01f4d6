//! Warnings that are given once, however often their reason is met.

use std::collections::BTreeSet;

/// Warnings that are remembered. With more different ones, some are repeated.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(super) struct WarnOnce {
    told: BTreeSet<String>,
}

impl WarnOnce {
    /// Says whether it was new.
    pub(super) fn warn(&mut self, message: String) -> bool {
        if self.told.contains(&message) {
            return false;
        }
        if self.told.len() == MOST {
            self.told.clear();
        }
        tracing::warn!("{message}");
        self.told.insert(message)
    }
}
