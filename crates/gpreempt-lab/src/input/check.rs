//! Checks shared by all formats: ranges, whole numbers, and the collection of everything that is wrong.

use std::fmt::Display;
use std::ops::RangeInclusive;

use gpreempt_core::Nanos;

use super::{InputError, Position, Problem};

/// After this many faults the rest of the file is not worth listing.
const MOST_PROBLEMS: usize = 20;

/// A document that knows where its values stand.
pub(crate) trait Located {
    /// The name for messages.
    fn file(&self) -> &str;
    /// Where the value of this key stands, or its nearest ancestor.
    fn position(&self, key: &str) -> Option<Position>;
    /// What the document says there, shortened; `nothing` when the key is absent.
    fn found(&self, key: &str) -> String;
}

/// Collects faults instead of stopping at the first. Its checks return a usable value in every case.
pub(crate) struct Checker<'d> {
    document: &'d dyn Located,
    problems: Vec<Problem>,
    omitted: usize,
}

impl<'d> Checker<'d> {
    pub(crate) fn new(document: &'d dyn Located) -> Checker<'d> {
        Checker { document, problems: Vec::new(), omitted: 0 }
    }

    /// Notes that `key` should have been something else.
    pub(crate) fn reject(&mut self, key: &str, expected: impl Display) {
        // Asked first, because looking a value up scans the document: once per fault would be quadratic.
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let found = self.document.found(key);
        self.note(key, format!("found {found}, expected {expected}"));
    }

    /// Notes a fault that is not about a single value.
    pub(crate) fn note(&mut self, key: &str, message: String) {
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        self.problems.push(Problem { at: self.document.position(key), key: key.to_string(), message });
    }

    /// Whether further faults are only counted.
    fn is_full(&self) -> bool {
        self.problems.len() >= MOST_PROBLEMS
    }

    /// A number within a range; `unit` is empty or like " us".
    pub(crate) fn number(&mut self, key: &str, value: f64, range: RangeInclusive<f64>, unit: &str) -> f64 {
        if range.contains(&value) {
            return value;
        }
        let (low, high) = (*range.start(), *range.end());
        self.reject(key, format_args!("a number from {low} to {high}{unit}"));
        low
    }

    /// A whole number within a range.
    pub(crate) fn whole(&mut self, key: &str, value: f64, range: RangeInclusive<u32>) -> u32 {
        let low = *range.start();
        self.whole_if_valid(key, value, range).unwrap_or(low)
    }

    /// The same for a number that other checks depend on: none when it is faulty, so that they can be left out.
    pub(crate) fn whole_if_valid(&mut self, key: &str, value: f64, range: RangeInclusive<u32>) -> Option<u32> {
        let (low, high) = (*range.start(), *range.end());
        if value.fract() == 0.0 && value >= f64::from(low) && value <= f64::from(high) {
            // In range and whole, so the conversion is exact.
            return Some(value as u32);
        }
        self.reject(key, format_args!("a whole number from {low} to {high}"));
        None
    }

    /// A time in microseconds.
    pub(crate) fn micros(&mut self, key: &str, value: f64, range: RangeInclusive<f64>) -> Nanos {
        nanos(self.number(key, value, range, " us"), 1e3)
    }

    /// A time in milliseconds.
    pub(crate) fn millis(&mut self, key: &str, value: f64, range: RangeInclusive<f64>) -> Nanos {
        nanos(self.number(key, value, range, " ms"), 1e6)
    }

    /// A time in seconds.
    pub(crate) fn seconds(&mut self, key: &str, value: f64, range: RangeInclusive<f64>) -> Nanos {
        nanos(self.number(key, value, range, " s"), 1e9)
    }

    /// A rate per second, as the time between two arrivals.
    pub(crate) fn interval(&mut self, key: &str, rate: f64, range: RangeInclusive<f64>) -> Nanos {
        nanos(1.0 / self.number(key, rate, range, " per second"), 1e9)
    }

    /// A text that says something.
    pub(crate) fn text(&mut self, key: &str, value: &str, expected: &str) {
        if value.trim().is_empty() {
            self.reject(key, expected);
        }
    }

    /// The value if nothing was wrong, else everything that was.
    pub(crate) fn finish<T>(mut self, value: T) -> Result<T, InputError> {
        if self.problems.is_empty() {
            return Ok(value);
        }
        if self.omitted > 0 {
            self.problems.push(Problem { at: None, key: String::new(), message: format!("and {} more", self.omitted) });
        }
        Err(InputError::Invalid { file: self.document.file().to_string(), problems: self.problems })
    }
}

/// Rounds a checked number of `unit` nanoseconds. The cast saturates, so no number can wrap.
fn nanos(value: f64, unit: f64) -> Nanos {
    Nanos((value * unit).round() as u64)
}

/// Shortens source text for a message: one line, at most 48 characters.
pub(super) fn excerpt(text: &str) -> String {
    const MOST: usize = 48;
    let line = text.lines().next().unwrap_or_default().trim_end();
    let shortened = line.chars().count() > MOST || line.len() < text.trim_end().len();
    let mut excerpt: String = line.chars().take(MOST).collect();
    if shortened {
        excerpt.push_str("...");
    }
    if excerpt.is_empty() {
        excerpt.push_str("nothing");
    }
    excerpt
}

/// The steps of a key path: `task[2].load.rate` is task, 2, load, rate.
pub(super) fn steps(key: &str) -> impl Iterator<Item = Step<'_>> {
    key.split('.').flat_map(|part| {
        let (name, indices) = part.split_once('[').unwrap_or((part, ""));
        let indices = indices.split('[').filter_map(|index| index.trim_end_matches(']').parse().ok()).map(Step::Index);
        let name = (!name.is_empty()).then_some(Step::Name(name));
        name.into_iter().chain(indices)
    })
}

/// One step of a key path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'k> {
    Name(&'k str),
    Index(usize),
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Counts how often it is searched.
    #[derive(Default)]
    struct Nowhere {
        searches: Cell<usize>,
    }

    impl Located for Nowhere {
        fn file(&self) -> &str {
            "nowhere"
        }
        fn position(&self, _: &str) -> Option<Position> {
            self.searches.update(|searches| searches + 1);
            None
        }
        fn found(&self, _: &str) -> String {
            self.searches.update(|searches| searches + 1);
            "it".to_string()
        }
    }

    #[test]
    fn nan_infinities_fractions_and_huge_numbers_are_never_whole() {
        for value in [f64::NAN, f64::INFINITY, -f64::INFINITY, 1.5, -1.0, 1e300] {
            let document = Nowhere::default();
            let mut checker = Checker::new(&document);
            assert_eq!(checker.whole("n", value, 1..=9), 1);
            assert!(checker.finish(()).is_err(), "{value} was accepted");
        }
        let document = Nowhere::default();
        let mut checker = Checker::new(&document);
        assert_eq!(checker.whole("n", 9.0, 1..=9), 9);
        assert!(checker.finish(()).is_ok());
    }

    #[test]
    fn a_rate_becomes_the_time_between_arrivals() {
        let document = Nowhere::default();
        let mut checker = Checker::new(&document);
        let interval = checker.interval("rate", 100.0, 0.1..=1e6);
        assert_eq!(interval, Nanos::from_millis(10));
    }

    #[test]
    fn all_problems_are_reported_up_to_a_limit() {
        let document = Nowhere::default();
        let mut checker = Checker::new(&document);
        for _ in 0..MOST_PROBLEMS + 5 {
            checker.reject("k", "something else");
        }
        let Err(InputError::Invalid { problems, .. }) = checker.finish(()) else {
            panic!("nothing was reported");
        };
        assert_eq!(problems.len(), MOST_PROBLEMS + 1);
        assert_eq!(problems[MOST_PROBLEMS].message, "and 5 more");
    }

    #[test]
    fn faults_beyond_the_limit_do_not_search_the_document() {
        let document = Nowhere::default();
        let mut checker = Checker::new(&document);
        for _ in 0..MOST_PROBLEMS {
            checker.reject("k", "something else");
        }
        let searches = document.searches.get();
        for _ in 0..1000 {
            checker.reject("k", "something else");
            checker.note("k", "something is wrong".to_string());
        }
        assert_eq!(document.searches.get(), searches);
        let said = checker.finish(()).expect_err("everything is wrong").to_string();
        assert!(said.ends_with("and 2000 more"), "{said}");
    }

    #[test]
    fn key_paths_split_into_names_and_indices() {
        let all: Vec<_> = steps("task[2].load.at_ms[10]").collect();
        assert_eq!(all, [Step::Name("task"), Step::Index(2), Step::Name("load"), Step::Name("at_ms"), Step::Index(10)]);
    }

    #[test]
    fn excerpts_are_short_and_on_one_line() {
        assert_eq!(excerpt("304"), "304");
        assert_eq!(excerpt(""), "nothing");
        assert_eq!(excerpt("[1,\n2]"), "[1,...");
        assert_eq!(excerpt(&"x".repeat(100)).len(), 48 + 3);
    }
}
