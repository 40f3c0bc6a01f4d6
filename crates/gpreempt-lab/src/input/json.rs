//! JSON documents that remember where each value stands.
//!
//! `serde_json` knows positions only while it parses, so the place of a value is found by walking the text a second time.
//! That happens only to report a fault, and only on text that is known to be valid.

use serde_json::Value;

use super::check::{Located, Step, excerpt, steps};
use super::{InputError, Position, Problem, Text};

/// A parsed JSON file beside its text.
pub(crate) struct JsonDocument<'t> {
    source: &'t Text,
    /// The document.
    pub(crate) root: Value,
}

impl<'t> JsonDocument<'t> {
    /// Parses it.
    pub(crate) fn parse(source: &'t Text) -> Result<JsonDocument<'t>, InputError> {
        match serde_json::from_str(&source.text) {
            Ok(root) => Ok(JsonDocument { source, root }),
            Err(error) => Err(InputError::one(
                &source.file,
                Problem {
                    at: Some(Position { line: error.line().max(1), column: error.column().max(1) }),
                    key: String::new(),
                    message: without_place(&error.to_string()).to_string(),
                },
            )),
        }
    }

    /// Follows a path as far as it exists: the offset reached, and whether the whole path does.
    fn walk(&self, key: &str) -> (usize, bool) {
        let mut scanner = Scanner { bytes: self.source.text.as_bytes(), at: 0 };
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
}

impl Located for JsonDocument<'_> {
    fn file(&self) -> &str {
        &self.source.file
    }

    fn position(&self, key: &str) -> Option<Position> {
        Some(Position::of(&self.source.text, self.walk(key).0))
    }

    fn found(&self, key: &str) -> String {
        let (start, true) = self.walk(key) else {
            return "nothing".to_string();
        };
        let mut scanner = Scanner { bytes: self.source.text.as_bytes(), at: start };
        scanner.skip();
        excerpt(self.source.text.get(start..scanner.at).unwrap_or_default())
    }
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
    use super::*;

    const SAMPLE: &str = r#"{
    "time": 60,
    "tasks": [
        { "id": "a]\"", "load": { "type": "periodic", "frequency": 1e3 } },
        { "load": { "trace": [1, [2], 3] } }
    ]
}"#;

    fn text(text: &str) -> Text {
        Text { file: "sample.json".to_string(), text: text.to_string() }
    }

    #[test]
    fn values_are_found_by_path_with_their_text_and_place() {
        let source = text(SAMPLE);
        let document = JsonDocument::parse(&source).expect("the sample is valid");
        assert_eq!(document.found("time"), "60");
        assert_eq!(document.found("tasks[0].id"), r#""a]\"""#);
        assert_eq!(document.found("tasks[0].load.frequency"), "1e3");
        assert_eq!(document.found("tasks[1].load.trace[1]"), "[2]");
        assert_eq!(document.found("tasks[1].load.trace[2]"), "3");
        let at = document.position("tasks[1].load.trace[2]");
        assert_eq!(at, Some(Position { line: 5, column: 39 }));
    }

    #[test]
    fn what_is_absent_is_placed_at_its_nearest_ancestor() {
        let source = text(SAMPLE);
        let document = JsonDocument::parse(&source).expect("the sample is valid");
        assert_eq!(document.found("tasks[1].id"), "nothing");
        assert_eq!(document.found("tasks[2]"), "nothing");
        let at = document.position("tasks[1].id");
        assert_eq!(at, Some(Position { line: 5, column: 9 }));
    }

    #[test]
    fn broken_syntax_is_reported_with_line_and_column() {
        let source = text("{\n  \"time\": ,\n}");
        let Err(error) = JsonDocument::parse(&source) else {
            panic!("a missing value was accepted");
        };
        assert_eq!(error.to_string(), "sample.json:2:11: expected value");
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
        let source = text(&"[".repeat(100_000));
        assert!(JsonDocument::parse(&source).is_err());
    }
}
