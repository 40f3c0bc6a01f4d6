//! Reading profiles and workloads: what is wrong with a file, where, and what belongs there instead.
//!
//! Every fault names the file, line and column, the key, what was found and what is expected. Nothing in a file can make
//! the laboratory panic; a file is read whole, so its size is limited.

mod check;
mod json;
mod toml;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub(crate) use self::check::Checker;
pub(crate) use self::json::JsonDocument;
pub(crate) use self::toml::TomlDocument;

/// The largest file that is read.
pub const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Why a profile or a workload could not be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Neither a built-in name nor a file.
    #[error("no {kind} `{name}`: {reason}; the built-in ones are {}", known.join(", "))]
    NotFound {
        /// "workload", "profile", ...
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// What the search said.
        reason: String,
        /// Names that would have worked.
        known: Vec<&'static str>,
    },
    /// It exists and is of no use.
    #[error("cannot read {kind} `{file}`: {reason}")]
    Unreadable {
        /// "workload", "profile", ...
        kind: &'static str,
        /// The path as given.
        file: String,
        /// What is in the way.
        reason: String,
    },
    /// It was read and what it says makes no sense.
    #[error("{}", Listing(file, problems))]
    Invalid {
        /// The path as given, or the built-in name.
        file: String,
        /// At least one, in the order of checking.
        problems: Vec<Problem>,
    },
}

impl InputError {
    pub(crate) fn one(file: &str, problem: Problem) -> InputError {
        InputError::Invalid { file: file.to_string(), problems: vec![problem] }
    }
}

/// One fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, when that is known.
    pub at: Option<Position>,
    /// The key, with its path: `task[2].load.rate`. Empty for the file as a whole.
    pub key: String,
    /// What was found and what is expected.
    pub message: String,
}

/// A place in a text file, both counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Character of the line.
    pub column: usize,
}

impl Position {
    /// The place of a byte offset. Offsets outside the text are its end.
    #[must_use]
    pub fn of(text: &str, offset: usize) -> Position {
        let before = text.char_indices().take_while(|(index, _)| *index < offset).map(|(_, character)| character);
        let mut position = Position { line: 1, column: 1 };
        for character in before {
            if character == '\n' {
                position.line += 1;
                position.column = 1;
            } else {
                position.column += 1;
            }
        }
        position
    }
}

/// The faults of one file, one per line, in the form editors jump to.
struct Listing<'a>(&'a str, &'a [Problem]);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Listing(file, problems) = self;
        for (index, problem) in problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{file}:")?;
            if let Some(at) = problem.at {
                write!(f, "{}:{}:", at.line, at.column)?;
            }
            if !problem.key.is_empty() {
                write!(f, " {}:", problem.key)?;
            }
            write!(f, " {}", problem.message)?;
        }
        Ok(())
    }
}

/// A text and the name to use for it in messages.
pub(crate) struct Text {
    /// The path as given, or `NAME (built-in)`.
    pub(crate) file: String,
    /// The contents, without a byte order mark.
    pub(crate) text: String,
}

/// What ships with the laboratory under a name.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// The name options take.
    pub name: &'static str,
    /// The file, to copy and edit.
    pub text: &'static str,
}

impl Builtin {
    /// Its contents under the name messages use.
    pub(crate) fn text(&self) -> Text {
        Text { file: format!("{} (built-in)", self.name), text: self.text.to_string() }
    }
}

/// Finds what an option named: a built-in name first, else a file. `./NAME` is the file when both exist.
pub(crate) fn open(kind: &'static str, name: &str, builtins: &[Builtin]) -> Result<Text, InputError> {
    if let Some(builtin) = builtins.iter().find(|builtin| builtin.name == name) {
        return Ok(builtin.text());
    }
    if !Path::new(name).exists() {
        return Err(InputError::NotFound {
            kind,
            name: name.to_string(),
            reason: "there is no such file and no built-in of that name".to_string(),
            known: builtins.iter().map(|builtin| builtin.name).collect(),
        });
    }
    read(kind, name)
}

/// Reads a file of bounded size as text.
fn read(kind: &'static str, file: &str) -> Result<Text, InputError> {
    let unreadable = |reason: String| InputError::Unreadable { kind, file: file.to_string(), reason };
    if Path::new(file).is_dir() {
        return Err(unreadable("it is a directory, expected a file".to_string()));
    }
    let opened = File::open(file).map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    // Read through a limit and not by the size the file claims: pipes and devices claim none.
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(format!("it is larger than {} MiB, the most that is read", MAX_FILE_BYTES >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let prefix = String::from_utf8_lossy(&error.as_bytes()[..good]).into_owned();
        let at = Position::of(&prefix, good);
        unreadable(format!("it is not UTF-8 text (line {}, column {})", at.line, at.column))
    })?;
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_string(),
        None => text,
    };
    Ok(Text { file: file.to_string(), text })
}

#[cfg(test)]
mod tests {
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
    fn each_problem_of_a_file_is_one_line_an_editor_can_jump_to() {
        let error = InputError::Invalid {
            file: "x.toml".to_string(),
            problems: vec![
                Problem {
                    at: Some(Position { line: 3, column: 7 }),
                    key: "task[0].level".to_string(),
                    message: "found 16, expected a whole number from 0 to 15".to_string(),
                },
                Problem { at: None, key: String::new(), message: "no task".to_string() },
            ],
        };
        assert_eq!(
            error.to_string(),
            "x.toml:3:7: task[0].level: found 16, expected a whole number from 0 to 15\nx.toml: no task"
        );
    }
}
