//! Words that leave open which actor is meant, and documentation that says nothing.
//!
//! Comments of Rust files and the prose of Markdown count. Strings, code blocks and code between backticks do not.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{LineColumn, TokenStream, TokenTree};

use super::Finding;
use super::source::TextFile;

const RULE: &str = "words";
const VAGUE: &[&[&str]] = &[&["somebody"], &["whoever"], &["what", "becomes", "of"]];
const EMPTY: &[&str] = &["Which.", "Why.", "What.", "How.", "Where.", "See above."];
/// Files that quote the words.
const EXEMPT: &[&str] = &["CONTRIBUTING.md", "docs/renames.md"];

pub(super) fn check(file: &TextFile, findings: &mut Vec<Finding>) -> Result<()> {
    if EXEMPT.iter().any(|exempt| file.path == Path::new(exempt)) {
        return Ok(());
    }
    // Text of each line that is prose, without the marks of a comment; empty where there is none.
    let lines = match file.ending() {
        "md" => markdown(&file.text),
        "rs" => {
            let comments = comments(file)?;
            empty_documentation(file, &comments, findings);
            comments.iter().map(|comment| comment.trim_start_matches(['/', '!', '*', ' ']).to_owned()).collect()
        }
        _ => return Ok(()),
    };
    let words = words(&lines);
    for (index, (line, _)) in words.iter().enumerate() {
        let begins = |vague: &&&[&str]| {
            let mut following = words[index..].iter().map(|(_, word)| word.as_str());
            vague.iter().all(|word| following.next() == Some(word))
        };
        if let Some(vague) = VAGUE.iter().find(begins) {
            let message = format!("\"{}\"; name the daemon, the tenant, the operator", vague.join(" "));
            findings.push(Finding { file: file.path.clone(), line: *line, rule: RULE, message });
        }
    }
    Ok(())
}

/// Reports documentation that consists of one question word.
fn empty_documentation(file: &TextFile, comments: &[String], findings: &mut Vec<Finding>) {
    let is_documentation = |line: Option<&String>| line.is_some_and(|line| line.starts_with("///"));
    for (index, comment) in comments.iter().enumerate() {
        let Some(text) = comment.strip_prefix("///").map(str::trim).filter(|text| EMPTY.contains(text)) else {
            continue;
        };
        let before = index.checked_sub(1).and_then(|before| comments.get(before));
        if !is_documentation(before) && !is_documentation(comments.get(index + 1)) {
            let message = format!("\"{text}\" documents nothing; say what the name does not, or leave it out");
            findings.push(Finding { file: file.path.clone(), line: index + 1, rule: RULE, message });
        }
    }
}

/// Words in lower case with their line numbers. Code between backticks has none.
fn words(lines: &[String]) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (number, line) in (1..).zip(lines) {
        let prose = line.split('`').step_by(2);
        let found = prose.flat_map(|text| text.split(|letter: char| !letter.is_alphanumeric()));
        words.extend(found.filter(|word| !word.is_empty()).map(|word| (number, word.to_lowercase())));
    }
    words
}

/// Lines of Markdown; those of code blocks are empty.
fn markdown(text: &str) -> Vec<String> {
    let mut in_code = false;
    let line = |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if in_code || is_fence || line.starts_with("    ") { String::new() } else { line.to_owned() }
    };
    text.lines().map(line).collect()
}

/// The comment of each line of a Rust file, with its marks; empty where there is none.
///
/// A comment is what follows the last token of a line. Documentation is a token, too, and begins like a comment.
fn comments(file: &TextFile) -> Result<Vec<String>> {
    let tokens: TokenStream = file
        .text
        .parse()
        .map_err(|error| anyhow!("{error}"))
        .with_context(|| format!("cannot parse {}", file.path.display()))?;
    let lines: Vec<Vec<char>> = file.text.lines().map(|line| line.chars().collect()).collect();
    let mut ends = vec![0; lines.len()];
    cover(tokens, &lines, &mut ends);
    let comment = |(line, end): (&Vec<char>, usize)| {
        let rest: String = line.iter().skip(end).collect();
        rest.trim().to_owned()
    };
    Ok(lines.iter().zip(ends).map(comment).collect())
}

/// Sets for each line the column behind its last token. Documentation does not count.
fn cover(tokens: TokenStream, lines: &[Vec<char>], ends: &mut [usize]) {
    let is_comment = |at: LineColumn| {
        let text = lines.get(at.line - 1).and_then(|line| line.get(at.column..));
        text.is_some_and(|text| text.starts_with(&['/', '/']) || text.starts_with(&['/', '*']))
    };
    let mut mark = |from: LineColumn, to: LineColumn| {
        for line in from.line..=to.line {
            let end = if line == to.line { to.column } else { usize::MAX };
            ends[line - 1] = end.max(ends[line - 1]);
        }
    };
    let mut inner = Vec::new();
    for token in tokens {
        let (start, end) = (token.span().start(), token.span().end());
        if is_comment(start) {
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                for bracket in [group.span_open(), group.span_close()] {
                    mark(bracket.start(), bracket.end());
                }
                inner.push(group.stream());
            }
            _ => mark(start, end),
        }
    }
    for stream in inner {
        cover(stream, lines, ends);
    }
}
