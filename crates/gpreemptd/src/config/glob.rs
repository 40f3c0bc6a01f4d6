//! Patterns over names and paths: `*` is anything, `?` one character, `[a-f]` and `[!a-f]` one of a set.
//!
//! `*` matches `/` too, because `/system.slice/*` usually means "anything below". There is no escape character, because
//! the names of control groups contain backslashes (`system-a\x2db.slice`); a literal star is `[*]`.

use std::fmt;

/// A pattern. It matches a whole text, in time proportional to the length of the text times that of the pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    source: String,
    parts: Vec<Part>,
}

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// `*`
    Any,
    /// `?`
    One,
    /// This character.
    Exactly(char),
    /// One character of, or outside of, these ranges.
    Set { negated: bool, ranges: Vec<(char, char)> },
}

impl Part {
    fn accepts(&self, character: char) -> bool {
        match self {
            Part::Any | Part::One => true,
            Part::Exactly(expected) => *expected == character,
            Part::Set { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *negated
            }
        }
    }
}

impl Glob {
    /// Longest pattern, in bytes.
    pub const LONGEST: usize = 256;
    /// Characters of a text that are compared. A process may have a command line of megabytes, and matching it must not
    /// take longer than matching others.
    pub const LONGEST_TEXT: usize = 4096;

    /// Parses a pattern. The error says what is wrong with it.
    ///
    /// # Errors
    /// If a set is not closed or empty, a range runs backwards, or the pattern is empty or too long.
    pub fn new(source: &str) -> Result<Glob, String> {
        if source.is_empty() {
            return Err("an empty pattern matches nothing; use \"*\" for anything".to_string());
        }
        if source.len() > Glob::LONGEST {
            return Err(format!("a pattern of {} bytes; at most {} are allowed", source.len(), Glob::LONGEST));
        }
        let mut parts = Vec::new();
        let mut rest = source.chars().peekable();
        while let Some(character) = rest.next() {
            parts.push(match character {
                // Two stars in a row mean what one does.
                '*' if parts.last() == Some(&Part::Any) => continue,
                '*' => Part::Any,
                '?' => Part::One,
                '[' => set(&mut rest)?,
                other => Part::Exactly(other),
            });
        }
        Ok(Glob { source: source.to_string(), parts })
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether the whole text fits, up to [`Glob::LONGEST_TEXT`].
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().take(Glob::LONGEST_TEXT).collect();
        let (mut part, mut at) = (0, 0);
        // The last star, and where the text continues if that star takes one character more. Earlier stars need not be
        // tried again: whatever they could take, the last one can take as well.
        let mut retry = None;
        while at < text.len() {
            match self.parts.get(part) {
                Some(Part::Any) => {
                    retry = Some((part + 1, at + 1));
                    part += 1;
                }
                Some(piece) if piece.accepts(text[at]) => {
                    part += 1;
                    at += 1;
                }
                _ => {
                    let Some((after, next)) = retry else {
                        return false;
                    };
                    retry = Some((after, next + 1));
                    (part, at) = (after, next);
                }
            }
        }
        self.parts[part..].iter().all(|piece| *piece == Part::Any)
    }

    /// Whether it matches every text.
    #[must_use]
    pub fn is_anything(&self) -> bool {
        self.parts == [Part::Any]
    }

    /// What every matching text begins with.
    #[must_use]
    pub fn prefix(&self) -> String {
        self.parts
            .iter()
            .map_while(|part| match part {
                Part::Exactly(character) => Some(*character),
                _ => None,
            })
            .collect()
    }

    /// Whether it surely matches all that `other` matches. False where that is not plain to see.
    #[must_use]
    pub fn covers(&self, other: &Glob) -> bool {
        let literal = other.prefix();
        if self.parts == other.parts || self.is_anything() {
            return true;
        }
        if literal.chars().count() == other.parts.len() {
            return self.matches(&literal);
        }
        let prefix = self.prefix();
        let is_prefix_and_star =
            self.parts.len() == prefix.chars().count() + 1 && self.parts.last() == Some(&Part::Any);
        is_prefix_and_star && literal.starts_with(&prefix)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

/// The rest of a set whose bracket is open.
fn set(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Part, String> {
    let negated = rest.next_if_eq(&'!').is_some();
    let mut ranges = Vec::new();
    loop {
        let low = rest.next().ok_or("the pattern has a `[` without `]`; a literal bracket is `[[]`")?;
        if low == ']' {
            break;
        }
        let high = match rest.next_if_eq(&'-') {
            // A dash before the bracket is a dash.
            Some(_) if rest.peek() == Some(&']') => {
                ranges.push(('-', '-'));
                low
            }
            Some(_) => rest.next().ok_or("the pattern has a `[` without `]`; a literal bracket is `[[]`")?,
            None => low,
        };
        if high < low {
            return Err(format!("the range {low}-{high} of the pattern runs backwards; write {high}-{low}"));
        }
        ranges.push((low, high));
    }
    if ranges.is_empty() {
        return Err("the pattern has an empty set `[]`; name the characters that may stand there".to_string());
    }
    Ok(Part::Set { negated, ranges })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn glob(source: &str) -> Glob {
        Glob::new(source).expect("a good pattern")
    }

    #[test]
    fn stars_cross_slashes_and_whole_texts_must_fit() {
        assert!(glob("/system.slice/*").matches("/system.slice/a/b.service"));
        assert!(!glob("/system.slice").matches("/system.slice/a"));
        assert!(glob("*train*").matches("python3 train.py"));
        assert!(!glob("train").matches("train.py"));
        assert!(glob("gpu?").matches("gpuä") && !glob("gpu?").matches("gpu"));
        assert!(glob("a[0-9x-]c").matches("a-c"));
        assert!(glob("a[!0-9]c").matches("abc") && !glob("a[!0-9]c").matches("a5c"));
        assert!(glob("a[*]").matches("a*") && !glob("a[*]").matches("ab"));
        assert!(glob(r"a\x2db").matches(r"a\x2db"));
    }

    #[test]
    fn broken_patterns_say_what_to_write() {
        for (pattern, said) in [("", "empty pattern"), ("a[b", "without `]`"), ("[]", "empty set"), ("[z-a]", "a-z")] {
            let message = Glob::new(pattern).expect_err(pattern);
            assert!(message.contains(said), "{pattern}: {message}");
        }
    }

    #[test]
    fn many_stars_do_not_take_exponential_time() {
        let pattern = glob(&"*a".repeat(128));
        assert!(!pattern.matches(&format!("{}b", "a".repeat(Glob::LONGEST_TEXT - 1))));
    }

    /// The definition, as short as it can be said.
    fn slowly(parts: &[Part], text: &[char]) -> bool {
        match (parts.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((Part::Any, rest)), _) => {
                slowly(rest, text) || text.split_first().is_some_and(|(_, tail)| slowly(parts, tail))
            }
            (Some((part, rest)), Some((first, tail))) => part.accepts(*first) && slowly(rest, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_definition(pattern in "[ab*?]{1,8}", text in "[ab]{0,10}") {
            let pattern = glob(&pattern);
            let characters: Vec<char> = text.chars().collect();
            prop_assert_eq!(pattern.matches(&text), slowly(&pattern.parts, &characters));
        }

        #[test]
        fn what_covers_matches_all_that_the_other_matches(
            wide in "[ab*?]{1,4}", narrow in "[ab*?]{1,4}", text in "[ab]{0,6}",
        ) {
            let (wide, narrow) = (glob(&wide), glob(&narrow));
            if wide.covers(&narrow) && narrow.matches(&text) {
                prop_assert!(wide.matches(&text));
            }
        }

        #[test]
        fn any_pattern_and_any_text_are_harmless(pattern in ".{0,40}", text in ".{0,80}") {
            if let Ok(pattern) = Glob::new(&pattern) {
                let _ = pattern.matches(&text);
            }
        }
    }
}
