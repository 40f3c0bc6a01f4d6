//! What the `gpreempt` command prints: tables, numbers with units, JSON documents, progress; and traces that it writes.
#![forbid(unsafe_code)]

pub mod perfetto;
mod user_error;

use std::io::{IsTerminal, Write};

pub use user_error::{BlameUser, UserError};

use anyhow::Result;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, presets};
use gpreempt_core::Nanos;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// Version of the JSON documents. From the first release on, keys may be added to it, not renamed or removed.
pub const SCHEMA: u32 = 1;

/// A table without vertical lines, with the first column to the left and numbers to the right.
pub fn table(header: &[&str]) -> Table {
    listing(header, &[0])
}

/// A table with these columns to the left and the others, numbers, to the right.
pub fn listing(header: &[&str], texts: &[usize]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
        .set_content_arrangement(ContentArrangement::Disabled);
    if !colours() {
        table.force_no_tty();
    }
    let cells = header
        .iter()
        .enumerate()
        .map(|(index, text)| if texts.contains(&index) { Cell::new(text) } else { number(text) });
    table.set_header(cells);
    table
}

/// Hides columns, in the order given, until the table fits the terminal. Returns a note for the reader if any are
/// hidden.
pub fn fit(table: &mut Table, dispensable: &[usize]) -> Option<String> {
    hide_until(table, dispensable, room()?)
}

/// Breaks long cells, so that the table fits the terminal. For tables of text.
pub fn wrap(table: &mut Table) {
    if let Some(room) = room().and_then(|room| room.try_into().ok()) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(room);
    }
}

/// Columns of the terminal; none if the output does not go to one, or to one of unknown width.
pub fn room() -> Option<usize> {
    // Asked of a fresh table, because one without colours does not look at the terminal.
    known(Table::new().width())
}

/// A serial console says that it has no columns: it does not know how many.
fn known(width: Option<u16>) -> Option<usize> {
    width.filter(|&columns| columns > 0).map(usize::from)
}

/// As [`fit`], for a terminal of so many columns.
pub fn hide_until(table: &mut Table, dispensable: &[usize], room: usize) -> Option<String> {
    let mut hidden = 0;
    for &index in dispensable {
        if natural_width(table) <= room {
            break;
        }
        table.column_mut(index)?.set_constraint(ColumnConstraint::Hidden);
        hidden += 1;
    }
    let columns = if hidden == 1 { "column" } else { "columns" };
    (hidden > 0).then(|| format!("{hidden} {columns} left out to fit the terminal; --json has them all."))
}

/// Width of the table when nothing is wrapped: beside its padding, a column is separated from the next by one
/// character.
fn natural_width(table: &Table) -> usize {
    let widths = table.column_max_content_widths();
    let shown = table.column_iter().zip(widths).filter(|(column, _)| !column.is_hidden());
    shown.map(|(column, content)| usize::from(content) + usize::from(column.padding_width()) + 1).sum()
}

/// A cell that lines up with the digits above and below it.
pub fn number(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Whether to use colours: on a terminal, unless the user does not want them (no-color.org).
pub fn colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !unwanted
}

/// Formats nanoseconds with the unit that suits them and three digits.
pub fn time(nanos: u64) -> String {
    Nanos(nanos).to_string()
}

/// About three digits.
pub fn digits(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// How long something has lasted, for people: from milliseconds to days.
pub fn span(seconds: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(86_400.0, "d"), (3600.0, "h"), (60.0, "min")];
    // Two of a unit before it is used: 90 s says more than 1.50 min.
    let unit = UNITS.iter().find(|(size, _)| seconds >= 2.0 * size);
    unit.map_or_else(|| time((seconds * 1e9) as u64), |(size, unit)| format!("{} {unit}", digits(seconds / size)))
}

/// Microseconds of a document, for people.
pub fn from_micros(micros: f64) -> String {
    time((micros * 1e3) as u64)
}

/// Bytes with the unit that suits them.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(size, _)| bytes >= *size);
    unit.map_or_else(|| bytes.to_string(), |(size, unit)| format!("{} {unit}", digits(bytes as f64 / *size as f64)))
}

/// A count with its noun.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// What a process said of itself, safe for a terminal and not longer than this.
pub fn plain(text: &str, longest: usize) -> String {
    let mut letters = text.chars().map(|letter| if letter.is_control() { '?' } else { letter });
    let mut kept: String = letters.by_ref().take(longest).collect();
    if letters.next().is_some() {
        kept.pop();
        kept.push('…');
    }
    kept
}

/// A factor, "1.08x"; a dash when there is nothing to compare with.
pub fn factor(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_string(), |value| format!("{}x", digits(value)))
}

/// A share in per cent; a dash when there is nothing to compare with.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_string(), |share| format!("{:.1} %", share * 100.0))
}

/// Nanoseconds as the microseconds of JSON keys that end in `_us`.
pub fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// One JSON document on stdout.
pub fn json(value: &impl Serialize, out: &mut impl Write) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

/// A progress bar on stderr that counts `what`, shown only when that is a terminal and stdout is not meant for a
/// program.
pub fn progress(json: bool, what: &str) -> ProgressBar {
    if json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template(&format!("{{bar:30}} {{pos}}/{{len}} {what}")) {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_suits_them() {
        assert_eq!(time(0), "0");
        assert_eq!(time(1_500), "1.50 us");
        assert_eq!(time(34_000), "34.0 us");
        assert_eq!(time(2_345_678), "2.35 ms");
        assert_eq!(time(123_456_789), "123 ms");
        assert_eq!(time(12_000_000_000), "12.0 s");
    }

    #[test]
    fn spans_have_the_unit_that_suits_them() {
        assert_eq!(span(0.0), "0");
        assert_eq!(span(0.25), "250 ms");
        assert_eq!(span(90.0), "90.0 s");
        assert_eq!(span(600.0), "10.0 min");
        assert_eq!(span(11_520.0), "3.20 h");
        assert_eq!(span(300_000.0), "3.47 d");
    }

    #[test]
    fn what_processes_say_cannot_write_on_the_terminal() {
        assert_eq!(plain("\u{1b}[2Jtrain\n", 20), "?[2Jtrain?");
        assert_eq!(plain("a-long-name", 6), "a-lon…");
    }

    #[test]
    fn what_cannot_be_compared_is_a_dash() {
        assert_eq!(factor(None), "-");
        assert_eq!(percent(None), "-");
        assert_eq!(factor(Some(1.084)), "1.08x");
        assert_eq!(percent(Some(0.5)), "50.0 %");
    }

    #[test]
    fn a_narrow_terminal_hides_what_matters_least_and_says_so() {
        let mut table = table(&["mechanism", "p50", "p99", "cycles"]);
        table.add_row(["cwsr-watch", "1.00 ms", "2.00 ms", "1234"]);
        assert_eq!(hide_until(&mut table, &[3, 1], 80), None);
        let note = hide_until(&mut table, &[3, 1], 34).unwrap_or_default();
        assert!(note.starts_with("1 column"), "{note}");
        let text = table.to_string();
        assert!(text.contains("2.00 ms") && !text.contains("1234"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 34), "{text}");
    }

    #[test]
    fn a_console_of_unknown_width_does_not_narrow_tables() {
        assert_eq!(known(Some(0)), None);
        assert_eq!(known(Some(80)), Some(80));
        assert_eq!(known(None), None);
    }

    #[test]
    fn a_table_outside_a_terminal_has_no_escape_codes() {
        let mut table = table(&["mechanism", "p99"]);
        table.add_row([Cell::new("none"), number("1 ms").fg(comfy_table::Color::Red)]);
        let text = table.to_string();
        assert!(text.contains("none"));
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
