//! What may be asked of a command's output.

use std::fmt;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

/// One condition. Pointers are JSON pointers (RFC 6901) into what the command printed.
#[derive(Debug, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Check {
    /// A list holds at least so many objects that have a key.
    Count { pointer: String, key: String, at_least: usize },
    /// A number is what it should be: all that is given must hold.
    Number { pointer: String, equals: Option<f64>, above: Option<f64>, below: Option<f64> },
    /// A number divided by another of the same document is what it should be: all that is given must hold.
    Ratio { pointer: String, to: String, above: Option<f64>, below: Option<f64> },
    /// A text is what it should be.
    Text { pointer: String, equals: String },
    /// Something is so, or is not.
    Truth { pointer: String, equals: bool },
    /// Stdout contains a text.
    StdoutContains { text: String },
    /// Stderr contains a text.
    StderrContains { text: String },
    /// Stderr does not contain a text.
    StderrLacks { text: String },
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Count { pointer, key, at_least } => {
                write!(f, "{pointer} has at least {at_least} entries with \"{key}\"")
            }
            Check::Number { pointer, equals, above, below } => {
                write!(f, "{pointer} is")?;
                write_limits(f, &[("", equals), (" above", above), (" below", below)])
            }
            Check::Ratio { pointer, to, above, below } => {
                write!(f, "{pointer} divided by {to} is")?;
                write_limits(f, &[(" above", above), (" below", below)])
            }
            Check::Text { pointer, equals } => write!(f, "{pointer} is \"{equals}\""),
            Check::Truth { pointer, equals } => write!(f, "{pointer} is {equals}"),
            Check::StdoutContains { text } => write!(f, "stdout contains \"{text}\""),
            Check::StderrContains { text } => write!(f, "stderr contains \"{text}\""),
            Check::StderrLacks { text } => write!(f, "stderr does not contain \"{text}\""),
        }
    }
}

impl Check {
    /// Whether it looks at stderr.
    pub(super) fn reads_stderr(&self) -> bool {
        matches!(self, Check::StderrContains { .. } | Check::StderrLacks { .. })
    }

    /// Whether it looks at a JSON document.
    pub(crate) fn reads_json(&self) -> bool {
        !self.reads_stderr() && !matches!(self, Check::StdoutContains { .. })
    }

    /// Whether it judges a duration: names of durations end with their unit.
    pub(crate) fn reads_duration(&self) -> bool {
        let is_duration = |pointer: &str| ["_ns", "_us", "_ms"].iter().any(|unit| pointer.ends_with(unit));
        match self {
            Check::Number { pointer, .. } => is_duration(pointer),
            Check::Ratio { pointer, to, .. } => is_duration(pointer) || is_duration(to),
            _ => false,
        }
    }

    /// Whether several values are right: a lower or an upper limit is all it knows.
    pub(crate) fn is_range(&self) -> bool {
        matches!(self, Check::Number { equals: None, .. } | Check::Ratio { .. } | Check::Count { .. })
    }

    /// Fails with what was found instead.
    pub(crate) fn apply(&self, stdout: &[u8], stderr: &[u8]) -> Result<()> {
        match self {
            Check::Count { pointer, key, at_least } => {
                let value = at(stdout, pointer)?;
                let list = value.as_array().with_context(|| format!("found {value}"))?;
                let count = list.iter().filter(|entry| entry.get(key).is_some()).count();
                if count < *at_least {
                    bail!("found {count}");
                }
            }
            Check::Number { pointer, equals, above, below } => {
                if equals.or(*above).or(*below).is_none() {
                    bail!("the check compares with nothing: give it `equals`, `above` or `below`");
                }
                let value = at(stdout, pointer)?;
                let holds = value.as_f64().is_some_and(|number| {
                    equals.is_none_or(|expected| number == expected)
                        && above.is_none_or(|limit| number > limit)
                        && below.is_none_or(|limit| number < limit)
                });
                if !holds {
                    bail!("found {value}");
                }
            }
            Check::Ratio { pointer, to, above, below } => {
                if above.or(*below).is_none() {
                    bail!("the check compares with nothing: give it `above` or `below`");
                }
                let (value, other) = (at(stdout, pointer)?, at(stdout, to)?);
                let ratio = value.as_f64().zip(other.as_f64()).map(|(value, other)| value / other);
                let holds = ratio.is_some_and(|ratio| {
                    above.is_none_or(|limit| ratio > limit) && below.is_none_or(|limit| ratio < limit)
                });
                if !holds {
                    bail!("found {value} and {other}");
                }
            }
            Check::Text { pointer, equals } => {
                let value = at(stdout, pointer)?;
                if value.as_str() != Some(equals) {
                    bail!("found {value}");
                }
            }
            Check::Truth { pointer, equals } => {
                let value = at(stdout, pointer)?;
                if value.as_bool() != Some(*equals) {
                    bail!("found {value}");
                }
            }
            Check::StdoutContains { text } => contains(stdout, text, true)?,
            Check::StderrContains { text } => contains(stderr, text, true)?,
            Check::StderrLacks { text } => contains(stderr, text, false)?,
        }
        Ok(())
    }
}

/// Writes the limits that are given, each behind its word.
fn write_limits(f: &mut fmt::Formatter<'_>, limits: &[(&str, &Option<f64>)]) -> fmt::Result {
    for (word, limit) in limits {
        if let Some(limit) = limit {
            write!(f, "{word} {limit}")?;
        }
    }
    Ok(())
}

/// The value at a pointer of what was printed.
fn at(stdout: &[u8], pointer: &str) -> Result<Value> {
    let mut document: Value = serde_json::from_slice(stdout).context("stdout is not JSON")?;
    match document.pointer_mut(pointer) {
        Some(value) => Ok(value.take()),
        None => bail!("there is no {pointer}"),
    }
}

fn contains(output: &[u8], text: &str, expected: bool) -> Result<()> {
    let output = String::from_utf8_lossy(output);
    if output.contains(text) != expected {
        bail!("found:\n{output}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Check {
        toml::from_str(text).expect("a valid check")
    }

    fn holds(text: &str, stdout: &str) -> bool {
        check(text).apply(stdout.as_bytes(), b"").is_ok()
    }

    #[test]
    fn counting_needs_enough_entries_that_have_the_key() {
        let text = "what = 'count'\npointer = '/rows'\nkey = 'mechanism'\nat_least = 2\n";
        assert!(holds(text, r#"{ "rows": [{ "mechanism": 1 }, { "mechanism": 2 }] }"#));
        assert!(!holds(text, r#"{ "rows": [{ "mechanism": 1 }, { "other": 2 }] }"#));
        assert!(!holds(text, r#"{ "rows": 7 }"#));
        assert!(!holds(text, r#"{ "lines": [] }"#));
        assert!(!holds(text, "not JSON"));
    }

    #[test]
    fn a_ratio_compares_two_numbers_of_a_document() {
        let text = "what = 'ratio'\npointer = '/a'\nto = '/b'\nabove = 1.5\nbelow = 2.5\n";
        assert!(holds(text, r#"{ "a": 4, "b": 2 }"#));
        for other in [r#"{ "a": 3, "b": 2 }"#, r#"{ "a": 5, "b": 2 }"#, r#"{ "a": 4 }"#, r#"{ "a": 0, "b": 0 }"#] {
            assert!(!holds(text, other), "{other}");
        }
        assert!(!holds("what = 'ratio'\npointer = '/a'\nto = '/b'\n", r#"{ "a": 4, "b": 2 }"#));
        assert_eq!(check(text).to_string(), "/a divided by /b is above 1.5 below 2.5");
    }

    #[test]
    fn truth_is_neither_a_text_nor_a_number() {
        let text = "what = 'truth'\npointer = '/same'\nequals = true\n";
        assert!(holds(text, r#"{ "same": true }"#));
        for other in ["false", "null", "1", "\"true\""] {
            assert!(!holds(text, &format!("{{ \"same\": {other} }}")), "{other}");
        }
        assert!(!holds(text, "{}"));
    }

    #[test]
    fn numbers_are_compared_and_nothing_else_is_a_number() {
        let above = "what = 'number'\npointer = '/n'\nabove = 0\n";
        assert!(holds(above, r#"{ "n": 1 }"#));
        assert!(!holds(above, r#"{ "n": 0 }"#));
        assert!(!holds(above, r#"{ "n": "1" }"#));
        assert!(!holds(above, "{}"));
        let equals = "what = 'number'\npointer = '/n'\nequals = 0\n";
        assert!(holds(equals, r#"{ "n": 0 }"#));
        assert!(!holds(equals, r#"{ "n": 1 }"#));
        let below = "what = 'number'\npointer = '/n'\nbelow = 10\n";
        assert!(holds(below, r#"{ "n": 9.5 }"#));
        assert!(!holds(below, r#"{ "n": 10 }"#));
        let both = "what = 'number'\npointer = '/n'\nabove = 0\nbelow = 10\n";
        assert!(holds(both, r#"{ "n": 5 }"#));
        assert!(!holds(both, r#"{ "n": 0 }"#));
        assert!(!holds(both, r#"{ "n": 10 }"#));
    }

    #[test]
    fn texts_must_be_equal() {
        let text = "what = 'text'\npointer = '/kind'\nequals = 'simulated'\n";
        assert!(holds(text, r#"{ "kind": "simulated" }"#));
        assert!(!holds(text, r#"{ "kind": "measured" }"#));
    }

    #[test]
    fn stderr_is_searched_apart_from_stdout() {
        let contains = check("what = 'stderr-contains'\ntext = 'no workload'\n");
        assert!(contains.apply(b"", b"error: no workload").is_ok());
        assert!(contains.apply(b"no workload", b"").is_err());
        let lacks = check("what = 'stderr-lacks'\ntext = 'panicked'\n");
        assert!(lacks.apply(b"panicked", b"").is_ok());
        assert!(lacks.apply(b"", b"thread 'main' panicked").is_err());
    }

    #[test]
    fn a_check_without_a_comparison_or_of_unknown_kind_is_refused() {
        assert!(!holds("what = 'number'\npointer = '/n'\n", r#"{ "n": 1 }"#));
        assert!(toml::from_str::<Check>("what = 'magic'\n").is_err());
        let misspelt = "what = 'number'\npointer = '/n'\nabove = 0\nbelwo = 1\n";
        assert!(toml::from_str::<Check>(misspelt).is_err());
    }
}
