//! A rule of the driver, and the list of all.

use serde::Serialize;

use crate::bench::Bench;
use crate::driver_kind::DriverKind;
use crate::rules;
use crate::verdict::Verdict;

/// Which part of the system keeps a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// amdkfd. Its tests need no work to be executed.
    Driver,
    /// The firmware that maps queues and reads packets.
    Firmware,
    /// Compute units and memory.
    Hardware,
}

impl Layer {
    /// All layers, from the program down.
    pub const ALL: [Layer; 3] = [Layer::Driver, Layer::Firmware, Layer::Hardware];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Layer::Driver => "driver",
            Layer::Firmware => "firmware",
            Layer::Hardware => "hardware",
        }
    }
}

/// A rule that gpreempt relies on.
#[derive(Debug)]
pub struct DriverRule {
    /// Its name: the interface, a dash, what it is about.
    pub id: &'static str,
    /// The rule in one sentence.
    pub about: &'static str,
    /// File and function of Linux 6.12 that keep it; a document for firmware and hardware.
    pub source: &'static str,
    /// What keeps it.
    pub layer: Layer,
    /// Drivers that keep another one.
    pub except: &'static [DriverKind],
    pub(crate) test: fn(&Bench<'_>) -> Verdict,
}

/// Returns all rules, by interface.
pub fn all() -> impl Iterator<Item = &'static DriverRule> {
    rules::ALL.iter().copied().flatten()
}

/// Returns the rule of this name.
#[must_use]
pub fn find(id: &str) -> Option<&'static DriverRule> {
    all().find(|rule| rule.id == id)
}

/// A table of rules of one layer: id, function, source, sentence, and drivers that keep another rule.
macro_rules! driver_rules {
    ($layer:ident: $($id:literal $test:path, $source:literal, $about:literal $(, except $($driver:ident)+)?;)*) => {
        pub(crate) const RULES: &[$crate::rule::DriverRule] = &[$($crate::rule::DriverRule {
            id: $id,
            about: $about,
            source: $source,
            layer: $crate::rule::Layer::$layer,
            except: &[$($($crate::driver_kind::DriverKind::$driver),+)?],
            test: $test,
        }),*];
    };
}
pub(crate) use driver_rules;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_unique_and_sentences_are_sentences() {
        let mut seen = BTreeSet::new();
        for rule in all() {
            assert!(seen.insert(rule.id), "{} twice", rule.id);
            assert!(rule.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte.is_ascii_digit()));
            assert!(rule.about.ends_with('.') && !rule.source.is_empty(), "{}", rule.id);
            assert!(find(rule.id).is_some());
        }
    }

    #[test]
    fn most_rules_need_no_work_to_be_executed() {
        let driver = all().filter(|rule| rule.layer == Layer::Driver).count();
        assert!(all().count() >= 80 && driver >= 50, "{driver} of {}", all().count());
    }
}
