//! JSON documents that know where each value stands.
//!
//! `serde_json` knows positions only while it parses, so the place of a value is found by walking the text a second
//! time. That happens only to report a mistake, and only on text that is known to be valid.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use gpreempt_core::Nanos;
use serde_json::Value;
use toml_source::{Diagnostics, InvalidDocument, Source};

use super::nanos;

/// A parsed JSON file beside its text, and what is wrong with it so far. Its checks return a usable value in every
/// case.
pub(crate) struct JsonDocument<'s> {
    source: &'s Source,
    /// The document.
    pub(crate) root: Value,
    diagnostics: Diagnostics<'s>,
    /// How often the text was walked.
    #[cfg(test)]
    walks: std::cell::Cell<usize>,
}

impl<'s> JsonDocument<'s> {
    /// Parses a text.
    pub(crate) fn parse(source: &'s Source) -> Result<JsonDocument<'s>, InvalidDocument> {
        let diagnostics = Diagnostics::new(source);
        let root = serde_json::from_str(source.text()).unwrap_or_else(|error| {
            let at = offset(source.text(), error.line(), error.column());
            diagnostics.add(at..at, without_place(&error.to_string()));
            Value::Null
        });
        let root = diagnostics.finish(root)?;
        Ok(JsonDocument {
            source,
            root,
            diagnostics: Diagnostics::new(source),
            #[cfg(test)]
            walks: std::cell::Cell::default(),
        })
    }

    /// Follows a path as far as it exists. Returns the offset reached, and whether the whole path exists.
    fn walk(&self, key: &str) -> (usize, bool) {
        #[cfg(test)]
        self.walks.update(|walks| walks + 1);
        let mut scanner = Scanner { bytes: self.source.text().as_bytes(), at: 0 };
        scanner.space();
        for step in steps(key) {
            let start = scanner.at;
            let entered = match step {
                Step::Name(name) => scanner.enter_object(name),
                Step::Index(index) => scanner.enter_array(index),
            };
            if !entered {
                return (start, false);
            }
        }
        (scanner.at, true)
    }

    /// Returns where the value of a key stands and the text of it. For absent keys that is the first byte of the
    /// nearest ancestor, and `nothing`.
    fn locate(&self, key: &str) -> (Range<usize>, String) {
        let (start, exists) = self.walk(key);
        if !exists {
            return (start..start + 1, "nothing".to_string());
        }
        let mut scanner = Scanner { bytes: self.source.text().as_bytes(), at: start };
        scanner.skip();
        (start..scanner.at, self.diagnostics.quote(start..scanner.at))
    }

    /// Reports that another value is expected.
    pub(crate) fn reject(&self, key: &str, expected: impl Display) {
        // Asked first, because a walk over the text for every mistake would be quadratic.
        if self.diagnostics.is_full() {
            return self.diagnostics.add_omitted();
        }
        let (span, found) = self.locate(key);
        self.diagnostics.add(span, format!("{key}: found {found}, expected {expected}"));
    }

    /// Reports a mistake in words that follow the key.
    pub(crate) fn report(&self, key: &str, message: impl Display) {
        if self.diagnostics.is_full() {
            return self.diagnostics.add_omitted();
        }
        self.diagnostics.add(self.locate(key).0, format!("{key}: {message}"));
    }

    /// Checks a number; `unit` is empty or begins with a blank.
    fn number(&self, key: &str, value: f64, range: RangeInclusive<f64>, unit: &str) -> f64 {
        if range.contains(&value) {
            return value;
        }
        let (low, high) = (*range.start(), *range.end());
        self.reject(key, format_args!("a number from {low} to {high}{unit}"));
        low
    }

    /// Checks a whole number.
    pub(crate) fn whole(&self, key: &str, value: f64, range: RangeInclusive<u32>) -> u32 {
        let (low, high) = (*range.start(), *range.end());
        if value.fract() == 0.0 && value >= f64::from(low) && value <= f64::from(high) {
            // In range and whole, so the conversion is exact.
            return value as u32;
        }
        self.reject(key, format_args!("a whole number from {low} to {high}"));
        low
    }

    /// Checks a time in milliseconds.
    pub(crate) fn millis(&self, key: &str, value: f64, range: RangeInclusive<f64>) -> Nanos {
        nanos(self.number(key, value, range, " ms"), 1e6)
    }

    /// Checks a time in seconds.
    pub(crate) fn seconds(&self, key: &str, value: f64, range: RangeInclusive<f64>) -> Nanos {
        nanos(self.number(key, value, range, " s"), 1e9)
    }

    /// Checks a rate per second and returns the time between two arrivals.
    pub(crate) fn interval(&self, key: &str, rate: f64, range: RangeInclusive<f64>) -> Nanos {
        super::interval(self.number(key, rate, range, " per second"))
    }

    /// Returns `value` if nothing was wrong, else everything that was.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, InvalidDocument> {
        self.diagnostics.finish(value)
    }
}

/// Returns the offset of a line and a byte of it, both counted from one.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let lines = text.split_inclusive('\n').take(line.saturating_sub(1));
    lines.map(str::len).sum::<usize>() + column.saturating_sub(1)
}

/// One step of a key path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'k> {
    Name(&'k str),
    Index(usize),
}

/// Returns the steps of a key path: `task[2].load.rate` is task, 2, load, rate.
fn steps(key: &str) -> impl Iterator<Item = Step<'_>> {
    key.split('.').flat_map(|part| {
        let (name, indices) = part.split_once('[').unwrap_or((part, ""));
        let indices = indices.split('[').filter_map(|index| index.trim_end_matches(']').parse().ok()).map(Step::Index);
        let name = (!name.is_empty()).then_some(Step::Name(name));
        name.into_iter().chain(indices)
    })
}

/// `serde_json` ends its messages with the place, which is already in front of ours.
fn without_place(message: &str) -> &str {
    message.rfind(" at line ").map_or(message, |end| &message[..end])
}

/// A cursor over valid JSON. On anything else it stops somewhere harmless.
struct Scanner<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Moves over one value without recursion: to its end, by counting brackets outside strings.
    fn skip(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.string(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth == 0 => return,
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return,
                _ => {
                    self.at += 1;
                    continue;
                }
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Moves over a string.
    fn string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                return;
            }
        }
    }

    /// Moves to the value of `name` in the object here. The last of equal names counts, as for the parser.
    fn enter_object(&mut self, name: &str) -> bool {
        if self.peek() != Some(b'{') {
            return false;
        }
        let mut found = None;
        self.at += 1;
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                break;
            }
            let start = self.at;
            self.string();
            let key = self.bytes.get(start..self.at).unwrap_or_default();
            self.space();
            // Over the colon.
            self.at += 1;
            self.space();
            if serde_json::from_slice::<String>(key).is_ok_and(|key| key == name) {
                found = Some(self.at);
            }
            self.skip();
            self.space();
            if self.peek() != Some(b',') {
                break;
            }
            self.at += 1;
        }
        if let Some(at) = found {
            self.at = at;
        }
        found.is_some()
    }

    /// Moves to an element of the array here.
    fn enter_array(&mut self, index: usize) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.at += 1;
        for _ in 0..index {
            self.space();
            self.skip();
            self.space();
            if self.peek() != Some(b',') {
                return false;
            }
            self.at += 1;
        }
        self.space();
        self.peek().is_some_and(|byte| byte != b']')
    }
}

#[cfg(test)]
mod tests {
    use toml_source::{MAX_LISTED, Position};

    use super::*;

    const SAMPLE: &str = r#"{
    "time": 60,
    "tasks": [
        { "id": "a]\"", "load": { "type": "periodic", "frequency": 1e3 } },
        { "load": { "trace": [1, [2], 3] } }
    ]
}"#;

    fn text(text: &str) -> Source {
        Source::new("sample.json", text)
    }

    /// The text of a value.
    fn found(document: &JsonDocument<'_>, key: &str) -> String {
        document.locate(key).1
    }

    /// Line and column of a value, or of its nearest ancestor.
    fn position(document: &JsonDocument<'_>, key: &str) -> Position {
        Position::of(SAMPLE, document.locate(key).0.start)
    }

    #[test]
    fn values_are_found_by_path_with_their_text_and_place() {
        let source = text(SAMPLE);
        let document = JsonDocument::parse(&source).expect("the sample is valid");
        assert_eq!(found(&document, "time"), "60");
        assert_eq!(found(&document, "tasks[0].id"), r#""a]\"""#);
        assert_eq!(found(&document, "tasks[0].load.frequency"), "1e3");
        assert_eq!(found(&document, "tasks[1].load.trace[1]"), "[2]");
        assert_eq!(found(&document, "tasks[1].load.trace[2]"), "3");
        let at = position(&document, "tasks[1].load.trace[2]");
        assert_eq!(at, Position { line: 5, column: 39 });
    }

    #[test]
    fn what_is_absent_is_placed_at_its_nearest_ancestor() {
        let source = text(SAMPLE);
        let document = JsonDocument::parse(&source).expect("the sample is valid");
        assert_eq!(found(&document, "tasks[1].id"), "nothing");
        assert_eq!(found(&document, "tasks[2]"), "nothing");
        let at = position(&document, "tasks[1].id");
        assert_eq!(at, Position { line: 5, column: 9 });
    }

    #[test]
    fn broken_syntax_is_reported_with_line_and_column() {
        let source = text("{\n  \"time\": ,\n}");
        let Err(error) = JsonDocument::parse(&source) else {
            panic!("a missing value was accepted");
        };
        assert_eq!(error.to_string(), "sample.json:2:11: expected value\n  2 |   \"time\": ,\n    |           ^");
    }

    #[test]
    fn faults_beyond_the_limit_do_not_search_the_document() {
        let source = text(SAMPLE);
        let document = JsonDocument::parse(&source).expect("the sample is valid");
        for _ in 0..MAX_LISTED {
            document.reject("time", "something else");
        }
        let walks = document.walks.get();
        for _ in 0..1000 {
            document.reject("time", "something else");
            document.report("time", "something is wrong");
        }
        assert_eq!(document.walks.get(), walks);
        let said = document.finish(()).expect_err("everything is wrong").to_string();
        assert!(said.ends_with("and 2000 more"), "{said}");
    }

    #[test]
    fn key_paths_split_into_names_and_indices() {
        let all: Vec<_> = steps("task[2].load.at_ms[10]").collect();
        assert_eq!(all, [Step::Name("task"), Step::Index(2), Step::Name("load"), Step::Name("at_ms"), Step::Index(10)]);
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
        let source = text(&"[".repeat(100_000));
        assert!(JsonDocument::parse(&source).is_err());
    }
}
