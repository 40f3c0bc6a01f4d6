//! What a client prints: lines that end with a value. Two runs agree if every line does.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Names of jobs whose result is right only if everything happened exactly once.
const COUNTING: [&str; 2] = ["exactly_once", "counter"];

/// The lines of a run: everything before the last word is a name, the last word its value. Their order does not count,
/// because a client may have several threads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    values: BTreeMap<String, String>,
    repeated: Vec<String>,
}

impl Lines {
    /// Takes one more line.
    pub(super) fn add(&mut self, line: &str) {
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        let (name, value) = line.rsplit_once(' ').unwrap_or((line, ""));
        match self.values.entry(name.trim_end().to_owned()) {
            Entry::Vacant(entry) => {
                entry.insert(value.to_owned());
            }
            Entry::Occupied(entry) => self.repeated.push(entry.key().clone()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// How these differ from those of an undisturbed run.
    pub(super) fn differences(&self, reference: &Lines) -> Vec<String> {
        let repeated = self.repeated.iter().map(|name| format!("{name}: printed twice"));
        let wrong = reference.values.iter().filter_map(|(name, expected)| match self.values.get(name) {
            Some(found) if found == expected => None,
            Some(found) => Some(format!("{name}: {found}, undisturbed {expected}")),
            None => Some(format!("{name}: missing")),
        });
        let more = self.values.keys().filter(|name| !reference.values.contains_key(*name));
        repeated.chain(wrong).chain(more.map(|name| format!("{name}: only in the storm"))).collect()
    }

    /// Whether the jobs that count agree with those of an undisturbed run; `None` if there is no such job.
    pub(super) fn counted_once(&self, reference: &Lines) -> Option<bool> {
        let is_counting = |name: &&String| COUNTING.contains(&name.split(' ').next().unwrap_or_default());
        let mut counting = reference.values.keys().filter(is_counting).peekable();
        counting.peek()?;
        let agrees = |name: &String| self.values.get(name) == reference.values.get(name);
        Some(counting.all(agrees) && !self.repeated.iter().any(|name| is_counting(&name)))
    }
}

#[cfg(test)]
impl Lines {
    pub(super) fn of(text: &str) -> Lines {
        let mut lines = Lines::default();
        text.lines().for_each(|line| lines.add(line));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_lines_does_not_count_but_every_value_does() {
        let reference = Lines::of("vadd 0 aa\nvadd 1 bb\n\nready");
        assert!(Lines::of("ready\nvadd 1 bb\nvadd 0 aa").differences(&reference).is_empty());
        let wrong = Lines::of("vadd 0 ab\nvadd 1 bb\nready").differences(&reference);
        assert_eq!(wrong, ["vadd 0: ab, undisturbed aa"]);
    }

    #[test]
    fn lines_that_are_missing_repeated_or_new_are_differences() {
        let reference = Lines::of("vadd 0 aa\nvadd 1 bb");
        let found = Lines::of("vadd 0 aa\nvadd 0 aa\nvadd 2 cc").differences(&reference);
        assert_eq!(found, ["vadd 0: printed twice", "vadd 1: missing", "vadd 2: only in the storm"]);
    }

    #[test]
    fn counting_jobs_decide_whether_everything_happened_once() {
        let reference = Lines::of("exactly_once 0 aa\nvadd 0 bb");
        assert_eq!(Lines::of("exactly_once 0 aa\nvadd 0 xx").counted_once(&reference), Some(true));
        assert_eq!(Lines::of("exactly_once 0 ab\nvadd 0 bb").counted_once(&reference), Some(false));
        assert_eq!(Lines::of("vadd 0 bb").counted_once(&reference), Some(false));
        assert_eq!(Lines::of("exactly_once 0 aa\nexactly_once 0 aa").counted_once(&reference), Some(false));
        assert_eq!(Lines::of("vadd 0 bb").counted_once(&Lines::of("vadd 0 bb")), None);
    }
}
