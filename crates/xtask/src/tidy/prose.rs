//! Prose of at most 120 columns, in comments and in Markdown.
//!
//! Tables, code blocks and lines without a blank (addresses) cannot be wrapped and may be longer.

use super::Finding;
use super::source::TextFile;

const RULE: &str = "prose";
const MOST_COLUMNS: usize = 120;

pub(super) fn check(file: &TextFile, findings: &mut Vec<Finding>) {
    let is_prose: fn(&str) -> bool = match file.ending() {
        "md" => |_| true,
        "rs" | "c" | "h" => |line| line.starts_with("//") || line.starts_with("* ") || line.starts_with("/*"),
        _ => |line| line.starts_with('#'),
    };
    let is_markdown = file.ending() == "md";
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        let trimmed = line.trim();
        if is_markdown && trimmed.starts_with("```") {
            in_code = !in_code;
        }
        let cannot_wrap = is_markdown && (in_code || trimmed.starts_with('|') || line.starts_with("    "));
        let is_table = trimmed.trim_start_matches(['/', '!', '*', ' ']).starts_with('|');
        let columns = line.chars().count();
        if columns > MOST_COLUMNS && is_prose(trimmed) && !cannot_wrap && !is_table && has_blank(trimmed) {
            findings.push(Finding {
                file: file.path.clone(),
                line: index + 1,
                rule: RULE,
                message: format!("the line has {columns} columns, {MOST_COLUMNS} at most"),
            });
        }
    }
}

/// Whether a line can be wrapped: behind the mark of a comment or list there is more than one word.
fn has_blank(line: &str) -> bool {
    line.trim_start_matches(['/', '!', '#', '*', '-', ' ']).contains(' ')
}
