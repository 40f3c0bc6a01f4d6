//! Positions, and the listing of everything that is wrong with a text.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use crate::Source;

/// Most diagnostics that are listed for one text; further ones are counted.
pub const MAX_LISTED: usize = 20;

/// Characters of a line that are shown.
const SHOWN_WIDTH: usize = 100;

/// Characters of the text that a message quotes.
const QUOTED_WIDTH: usize = 48;

/// A place in a text; both numbers count from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Character of the line.
    pub column: usize,
}

impl Position {
    /// Returns the position of a byte. Offsets outside of the text are its end.
    #[must_use]
    pub fn of(text: &str, offset: usize) -> Position {
        let before = &text[..boundary(text, offset)];
        let line_start = line_start(before);
        Position { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }
}

/// One mistake of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where the value or key begins.
    pub position: Position,
    /// The part of the line that contains it, without control characters, at most 100 characters.
    pub line: String,
    /// Characters of `line` to underline.
    pub mark: Range<usize>,
    /// What was found, what is expected, and the remedy.
    pub message: String,
}

impl Diagnostic {
    /// Describes the text at these bytes.
    fn new(text: &str, span: &Range<usize>, message: String) -> Diagnostic {
        let start = boundary(text, span.start);
        let line_start = line_start(&text[..start]);
        let line = text[line_start..].lines().next().unwrap_or_default();
        let position = Position::of(text, start);
        let column = position.column - 1;
        // Of a span over several lines the first is underlined, and an empty span still gets one caret.
        let end = boundary(text, span.end).clamp(start, (line_start + line.len()).max(start));
        let width = text[start..end].chars().count().max(1);
        // A window of the line in which the position is visible.
        let first = column.saturating_sub(SHOWN_WIDTH / 2);
        let printable = |character: char| if character.is_control() { ' ' } else { character };
        let shown: String = line.chars().skip(first).take(SHOWN_WIDTH).map(printable).collect();
        let mark = column - first..(column - first + width).min(SHOWN_WIDTH);
        Diagnostic { position, line: shown.trim_end().to_owned(), mark, message }
    }
}

/// Returns the nearest offset at or before `offset` where a character begins.
fn boundary(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset.min(text.len()))
}

/// Returns where the last line of `before` begins.
fn line_start(before: &str) -> usize {
    before.rfind('\n').map_or(0, |newline| newline + 1)
}

/// Everything that is wrong with one text, in the form editors jump to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDocument {
    /// Name of the source.
    pub file: String,
    /// At least one and at most [`MAX_LISTED`], in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// Further ones that are only counted.
    pub omitted: usize,
}

impl std::error::Error for InvalidDocument {}

impl fmt::Display for InvalidDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.file;
        for (index, diagnostic) in self.diagnostics.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let Position { line, column } = diagnostic.position;
            writeln!(f, "{file}:{line}:{column}: {}", diagnostic.message)?;
            let number = line.to_string();
            writeln!(f, "  {number} | {}", diagnostic.line)?;
            let carets = "^".repeat(diagnostic.mark.len().max(1));
            write!(f, "  {} | {}{carets}", " ".repeat(number.len()), " ".repeat(diagnostic.mark.start))?;
        }
        if self.omitted > 0 {
            write!(f, "\n{file}: and {} more", self.omitted)?;
        }
        Ok(())
    }
}

/// Collects diagnostics of a text instead of stopping at the first. Keeps the [`MAX_LISTED`] that come first in the
/// text.
#[derive(Debug)]
pub struct Diagnostics<'s> {
    source: &'s Source,
    collected: RefCell<Collected>,
}

#[derive(Debug, Default)]
struct Collected {
    /// Sorted by start; those of one start in the order of their discovery.
    first: Vec<(Range<usize>, String)>,
    omitted: usize,
}

impl<'s> Diagnostics<'s> {
    /// Begins the listing of a text.
    #[must_use]
    pub fn new(source: &'s Source) -> Diagnostics<'s> {
        Diagnostics { source, collected: RefCell::default() }
    }

    /// Adds a diagnostic of these bytes.
    pub fn add(&self, span: Range<usize>, message: impl Into<String>) {
        let mut collected = self.collected.borrow_mut();
        let at = collected.first.partition_point(|(other, _)| other.start <= span.start);
        if at < MAX_LISTED {
            collected.first.insert(at, (span, message.into()));
        }
        if at >= MAX_LISTED || collected.first.len() > MAX_LISTED {
            collected.first.truncate(MAX_LISTED);
            collected.omitted += 1;
        }
    }

    /// Counts a diagnostic that is not listed, for callers that would find its span only at great cost.
    pub fn add_omitted(&self) {
        self.collected.borrow_mut().omitted += 1;
    }

    /// Returns whether as many are listed as there can be.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.collected.borrow().first.len() >= MAX_LISTED
    }

    /// Returns the text at these bytes for a message: its first line without control characters, at most 48 of them.
    #[must_use]
    pub fn quote(&self, span: Range<usize>) -> String {
        let text = self.source.text();
        let quoted = text.get(boundary(text, span.start)..boundary(text, span.end)).unwrap_or_default().trim_end();
        let line = quoted.lines().next().unwrap_or_default().trim_end();
        let mut quote: String = line.chars().filter(|character| !character.is_control()).take(QUOTED_WIDTH).collect();
        if line.chars().count() > QUOTED_WIDTH || line.len() < quoted.len() {
            quote.push_str("...");
        }
        quote
    }

    /// Returns `value` if nothing was wrong.
    ///
    /// # Errors
    /// Everything that was wrong.
    pub fn finish<T>(self, value: T) -> Result<T, InvalidDocument> {
        let Collected { first, omitted } = self.collected.into_inner();
        if first.is_empty() && omitted == 0 {
            return Ok(value);
        }
        let text = self.source.text();
        let diagnostics = first.into_iter().map(|(span, message)| Diagnostic::new(text, &span, message)).collect();
        Err(InvalidDocument { file: self.source.name().to_owned(), diagnostics, omitted })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let text = "a\nbä\ncd";
        assert_eq!(Position::of(text, 0), Position { line: 1, column: 1 });
        assert_eq!(Position::of(text, 2), Position { line: 2, column: 1 });
        assert_eq!(Position::of(text, 5), Position { line: 2, column: 3 });
        assert_eq!(Position::of(text, 6), Position { line: 3, column: 1 });
        assert_eq!(Position::of(text, 999), Position { line: 3, column: 3 });
    }

    #[test]
    fn a_position_far_to_the_right_is_still_shown() {
        let text = format!("{}\n{}\tX{}\n", "a".repeat(7), "b".repeat(300), "c".repeat(300));
        let at = text.find('X').expect("is there");
        let diagnostic = Diagnostic::new(&text, &(at..at + 1), "wrong".to_owned());
        assert_eq!(diagnostic.position, Position { line: 2, column: 302 });
        assert_eq!(diagnostic.line.chars().nth(diagnostic.mark.start), Some('X'));
        assert!(diagnostic.line.chars().count() <= SHOWN_WIDTH && !diagnostic.line.contains('\t'));
    }

    #[test]
    fn the_first_diagnostics_of_the_text_are_listed_whatever_the_order_of_discovery() {
        let text = "x".repeat(100);
        let source = Source::new("x.toml", &text);
        let diagnostics = Diagnostics::new(&source);
        for start in (0..100).rev() {
            assert_eq!(diagnostics.is_full(), start < 80);
            diagnostics.add(start..start + 1, format!("at {start}"));
        }
        diagnostics.add_omitted();
        let error = diagnostics.finish(()).expect_err("is full of mistakes");
        assert_eq!((error.diagnostics.len(), error.omitted), (MAX_LISTED, 81));
        assert!(error.diagnostics.iter().enumerate().all(|(at, found)| found.message == format!("at {at}")));
        assert!(error.to_string().ends_with("\nx.toml: and 81 more"), "{error}");
    }

    #[test]
    fn quotes_are_short_and_on_one_line() {
        let long = format!("[1,\n2]304{}", "x".repeat(100));
        let source = Source::new("x", &long);
        let diagnostics = Diagnostics::new(&source);
        assert_eq!(diagnostics.quote(0..6), "[1,...");
        assert_eq!(diagnostics.quote(6..9), "304");
        assert_eq!(diagnostics.quote(9..109).len(), QUOTED_WIDTH + 3);
        assert_eq!(diagnostics.quote(500..600), "");
    }

    proptest! {
        #[test]
        fn any_span_of_any_text_can_be_shown(text in "[a-zä\n\t]{0,40}", start in 0usize..60, length in 0usize..60) {
            let diagnostic = Diagnostic::new(&text, &(start..start + length), String::new());
            prop_assert!(diagnostic.mark.start <= SHOWN_WIDTH);
            prop_assert!(diagnostic.position.line >= 1 && diagnostic.position.column >= 1);
        }
    }
}
