//! Warnings that are logged once, however often their cause occurs.

use std::collections::BTreeSet;

/// Warnings that are remembered. With more different ones, some are repeated.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(super) struct WarnOnce {
    told: BTreeSet<String>,
}

impl WarnOnce {
    /// Logs a warning, unless it was logged before.
    pub(super) fn warn(&mut self, message: String) {
        if self.told.contains(&message) {
            return;
        }
        if self.told.len() == MOST {
            self.told.clear();
        }
        tracing::warn!("{message}");
        self.told.insert(message);
    }

    #[cfg(test)]
    pub(super) fn has_warned(&self, message: &str) -> bool {
        self.told.contains(message)
    }
}
