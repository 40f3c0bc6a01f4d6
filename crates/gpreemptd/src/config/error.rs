//! What is wrong with a file, where, and what to write instead.

use std::fmt;
use std::ops::Range;

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{file}: {reason}")]
    Unreadable {
        /// The path as given.
        file: String,
        /// What is in the way, and the remedy.
        reason: String,
    },
    /// It was read and something in it makes no sense.
    #[error("{}", Listing(file, problems, *omitted))]
    Invalid {
        /// The path as given.
        file: String,
        /// At least one, in the order of the file.
        problems: Vec<Problem>,
        /// Further ones that are not listed.
        omitted: usize,
    },
}

/// One fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub at: Position,
    /// The line, for display: control characters replaced, long ones cut.
    pub line: String,
    /// Characters of that line to underline.
    pub mark: Range<usize>,
    /// What is wrong and what to do about it.
    pub message: String,
}

/// A place in a text, both counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Character of the line.
    pub column: usize,
}

/// Characters of a line that are shown.
const SHOWN: usize = 100;

impl Problem {
    /// A problem with the text at these bytes.
    pub(super) fn new(text: &str, span: &Range<usize>, message: String) -> Problem {
        let start = boundary(text, span.start);
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = text[line_start..start].chars().count();
        let line = text[line_start..].lines().next().unwrap_or_default();
        // Only the first line of what spans several is underlined, and an empty span still gets one caret.
        let end = boundary(text, span.end).clamp(start, (line_start + line.len()).max(start));
        let width = text[start..end].chars().count().max(1);
        // A window of the line in which the place is visible.
        let first = column.saturating_sub(SHOWN / 2);
        let printable = |character: char| if character.is_control() { ' ' } else { character };
        let shown: String = line.chars().skip(first).take(SHOWN).map(printable).collect();
        let mark = column - first..(column - first + width).min(SHOWN);
        let at = Position { line: before.matches('\n').count() + 1, column: column + 1 };
        Problem { at, line: shown.trim_end().to_string(), mark, message }
    }
}

/// The nearest place at or before `offset` where a character begins.
fn boundary(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset.min(text.len()))
}

/// The faults of one file, in the form editors jump to.
struct Listing<'a>(&'a str, &'a [Problem], usize);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Listing(file, problems, omitted) = self;
        for (index, problem) in problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let Position { line, column } = problem.at;
            writeln!(f, "{file}:{line}:{column}: {}", problem.message)?;
            let number = line.to_string();
            writeln!(f, "  {number} | {}", problem.line)?;
            let carets = "^".repeat(problem.mark.len().max(1));
            write!(f, "  {} | {}{carets}", " ".repeat(number.len()), " ".repeat(problem.mark.start))?;
        }
        if *omitted > 0 {
            write!(f, "\n{file}: and {omitted} more")?;
        }
        Ok(())
    }
}

/// Collects faults instead of stopping at the first.
pub(super) struct Problems<'t> {
    text: &'t str,
    found: Vec<(Range<usize>, String)>,
}

/// After so many faults the rest of the file is not worth listing.
const MOST: usize = 20;

impl<'t> Problems<'t> {
    pub(super) fn new(text: &'t str) -> Problems<'t> {
        Problems { text, found: Vec::new() }
    }

    /// Notes a fault at these bytes.
    pub(super) fn add(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.found.push((span, message.into()));
    }

    /// What the text says at these bytes, shortened.
    pub(super) fn quote(&self, span: &Range<usize>) -> String {
        const LONGEST: usize = 40;
        let (start, end) = (boundary(self.text, span.start), boundary(self.text, span.end));
        let line = self.text.get(start..end).and_then(|said| said.lines().next()).unwrap_or_default();
        let mut quote: String = line.chars().filter(|character| !character.is_control()).take(LONGEST).collect();
        if quote.len() < end.saturating_sub(start) {
            quote.push_str("...");
        }
        quote
    }

    /// The value if nothing was wrong, else everything that was, in the order of the file.
    pub(super) fn finish<T>(mut self, file: &str, value: T) -> Result<T, ConfigError> {
        if self.found.is_empty() {
            return Ok(value);
        }
        self.found.sort_by_key(|(span, _)| span.start);
        let omitted = self.found.len().saturating_sub(MOST);
        let listed = self.found.into_iter().take(MOST);
        let problems = listed.map(|(span, message)| Problem::new(self.text, &span, message)).collect();
        Err(ConfigError::Invalid { file: file.to_string(), problems, omitted })
    }
}

/// The known word that `word` was probably meant to be.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word: Vec<char> = word.chars().take(64).collect();
    let distance = |candidate: &str| edits(&word, candidate);
    let best = known.iter().copied().min_by_key(|candidate| distance(candidate))?;
    // Two swapped letters are two edits; of a short word that would be most of it.
    let few = if best.len() < 5 { 1 } else { (best.len() / 3).clamp(2, 4) };
    (distance(best) <= few).then_some(best)
}

/// Single characters to insert, remove or replace to get from one word to the other.
fn edits(word: &[char], other: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (index, wanted) in other.chars().enumerate() {
        let mut diagonal = index;
        row[0] = index + 1;
        for (column, character) in word.iter().enumerate() {
            let replaced = diagonal + usize::from(*character != wanted);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[word.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_known_word_nearest_to_a_mistake_is_suggested() {
        let known = ["level", "max_level", "max_stop_ms", "patience_us"];
        assert_eq!(nearest("levl", &known), Some("level"));
        assert_eq!(nearest("levle", &known), Some("level"));
        assert_eq!(nearest("max_stop", &known), Some("max_stop_ms"));
        assert_eq!(nearest("patience_ms", &known), Some("patience_us"));
        assert_eq!(nearest("colour", &known), None);
    }

    #[test]
    fn a_place_far_to_the_right_is_still_shown() {
        let text = format!("{}\n{}\tX{}\n", "a".repeat(7), "b".repeat(300), "c".repeat(300));
        let at = text.find('X').expect("it is there");
        let problem = Problem::new(&text, &(at..at + 1), "wrong".to_string());
        assert_eq!(problem.at, Position { line: 2, column: 302 });
        assert_eq!(problem.line.chars().nth(problem.mark.start), Some('X'));
        assert!(problem.line.chars().count() <= SHOWN && !problem.line.contains('\t'));
    }

    proptest! {
        #[test]
        fn any_span_of_any_text_can_be_shown(text in "[a-zä\n\t]{0,40}", start in 0usize..60, length in 0usize..60) {
            let problem = Problem::new(&text, &(start..start + length), String::new());
            prop_assert!(problem.mark.start <= SHOWN);
            prop_assert!(problem.at.line >= 1 && problem.at.column >= 1);
        }
    }
}
