//! TOML documents that remember where each value stands.

use std::cell::OnceCell;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::check::{Located, Step, excerpt, steps};
use super::{InputError, Position, Problem, Text};

/// A TOML file that can say where its values stand. The text is parsed for that only when there is a fault to report.
pub(crate) struct TomlDocument<'t> {
    source: &'t Text,
    root: OnceCell<Option<Spanned<DeTable<'t>>>>,
}

impl<'t> TomlDocument<'t> {
    /// The document of a text.
    pub(crate) fn new(source: &'t Text) -> TomlDocument<'t> {
        TomlDocument { source, root: OnceCell::new() }
    }

    /// Fills a type from it; the error names the key that does not fit.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, InputError> {
        toml::from_str(&self.source.text).map_err(|error| {
            let start = error.span().map(|span| span.start);
            InputError::one(
                &self.source.file,
                Problem {
                    at: start.map(|start| Position::of(&self.source.text, start)),
                    key: start.map(|start| self.key_at(start)).unwrap_or_default(),
                    message: error.message().replace('\n', ", "),
                },
            )
        })
    }

    /// The document with the place of every value, unless its syntax is broken.
    fn root(&self) -> Option<&DeTable<'t>> {
        self.root.get_or_init(|| DeTable::parse(&self.source.text).ok()).as_ref().map(Spanned::get_ref)
    }

    /// The path of the innermost value, or of the key, that covers a byte.
    fn key_at(&self, offset: usize) -> String {
        let mut path = String::new();
        if let Some(root) = self.root() {
            descend_table(root, offset, &mut path);
        }
        path
    }

    /// Follows a path as far as it exists: the last span on the way, and whether the whole path does.
    fn walk(&self, key: &str) -> (Option<std::ops::Range<usize>>, bool) {
        let mut span = None;
        let mut table = self.root();
        let mut array = None;
        for step in steps(key) {
            let next = match step {
                Step::Name(name) => table.and_then(|table| table.get(name)),
                Step::Index(index) => array.and_then(|array: &toml::de::DeArray<'t>| array.get(index)),
            };
            let Some(next) = next else {
                return (span, false);
            };
            span = Some(next.span());
            table = next.get_ref().as_table();
            array = next.get_ref().as_array();
        }
        (span, true)
    }
}

impl Located for TomlDocument<'_> {
    fn file(&self) -> &str {
        &self.source.file
    }

    fn position(&self, key: &str) -> Option<Position> {
        let (span, _) = self.walk(key);
        span.map(|span| Position::of(&self.source.text, span.start))
    }

    fn found(&self, key: &str) -> String {
        match self.walk(key) {
            (Some(span), true) => excerpt(self.source.text.get(span).unwrap_or_default()),
            _ => "nothing".to_string(),
        }
    }
}

/// Appends the path of the entry of `table` that covers `offset`. True when there is one.
fn descend_table(table: &DeTable<'_>, offset: usize, path: &mut String) -> bool {
    for (name, value) in table {
        let before = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name.get_ref());
        if name.span().contains(&offset) || descend(value, offset, path) {
            return true;
        }
        path.truncate(before);
    }
    false
}

/// The same for any value. Tables written as `[header]` span only the header, so their entries are searched regardless.
fn descend(value: &Spanned<DeValue<'_>>, offset: usize, path: &mut String) -> bool {
    match value.get_ref() {
        DeValue::Table(table) if descend_table(table, offset, path) => return true,
        DeValue::Array(array) => {
            for (index, element) in array.iter().enumerate() {
                let before = path.len();
                path.push_str(&format!("[{index}]"));
                if descend(element, offset, path) {
                    return true;
                }
                path.truncate(before);
            }
        }
        _ => {}
    }
    value.span().contains(&offset)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    const SAMPLE: &str = "name = \"x\"\n\n[[task]]\nload = { rate = 5 }\n\n[[task]]\nload = { rate = -1 }\n";

    fn text(text: &str) -> Text {
        Text { file: "sample.toml".to_string(), text: text.to_string() }
    }

    #[test]
    fn values_are_found_by_path_with_their_text_and_place() {
        let source = text(SAMPLE);
        let document = TomlDocument::new(&source);
        assert_eq!(document.found("task[1].load.rate"), "-1");
        assert_eq!(document.position("task[1].load.rate"), Some(Position { line: 7, column: 17 }));
    }

    #[test]
    fn an_absent_key_is_placed_at_its_nearest_ancestor() {
        let source = text(SAMPLE);
        let document = TomlDocument::new(&source);
        assert_eq!(document.found("task[0].load.type"), "nothing");
        assert_eq!(document.position("task[0].load.type").map(|at| at.line), Some(4));
        assert_eq!(document.position("absent"), None);
    }

    #[test]
    fn a_value_of_the_wrong_type_is_reported_with_its_key() {
        #[derive(Debug, Deserialize)]
        struct Sample {
            #[allow(dead_code)]
            task: Vec<Task>,
        }
        #[derive(Debug, Deserialize)]
        struct Task {
            #[allow(dead_code)]
            load: Load,
        }
        #[derive(Debug, Deserialize)]
        struct Load {
            #[allow(dead_code)]
            rate: String,
        }
        let source = text(SAMPLE);
        let document = TomlDocument::new(&source);
        let error = document.read::<Sample>().expect_err("a number is no string");
        assert_eq!(
            error.to_string(),
            "sample.toml:4:17: task[0].load.rate: invalid type: integer `5`, expected a string"
        );
    }

    #[test]
    fn broken_syntax_is_reported_with_line_and_column() {
        let source = text("a = 1\nb = = 2\n");
        let error = TomlDocument::new(&source).read::<toml::Table>().expect_err("two equal signs");
        assert!(error.to_string().starts_with("sample.toml:2:5: "), "{error}");
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
        let source = text(&format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000)));
        assert!(TomlDocument::new(&source).read::<toml::Table>().is_err());
    }
}
