//! Typed readers of single values.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::de::DeValue;

use crate::Table;
use crate::document::Value;

/// A key of a table, or an element of its list, given or not.
///
/// Every reader returns `None` for what is absent and for what is wrong. What is wrong, and what is absent although it
/// is required, is reported; the caller goes on with a default and learns of it from
/// [`Document::finish`](crate::Document::finish).
#[derive(Clone, Copy, Debug)]
pub struct Field<'a, 'd> {
    table: &'a Table<'d>,
    key: &'a str,
    /// For elements of a list.
    index: Option<usize>,
    value: Option<&'d Value<'d>>,
    required: bool,
}

impl<'a, 'd> Field<'a, 'd> {
    pub(crate) fn new(table: &'a Table<'d>, key: &'a str, value: Option<&'d Value<'d>>, required: bool) -> Self {
        Field { table, key, index: None, value, required }
    }

    pub(crate) fn required(self) -> Self {
        Field { required: true, ..self }
    }

    /// Returns whether the key is given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.value.is_some()
    }

    /// Returns the path in messages: `task[2].load.at_ms[7]`.
    #[must_use]
    pub fn path(&self) -> String {
        let path = self.table.path_of(self.key);
        match self.index {
            Some(index) => format!("{path}[{index}]"),
            None => path,
        }
    }

    /// Returns where the value stands, or the table if the key is absent.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.value.map_or_else(|| self.table.span(), Value::span)
    }

    /// Reports that another value is expected: "PATH: found X, expected Y".
    pub fn reject(&self, expected: impl Display) {
        let diagnostics = &self.table.document.diagnostics;
        let found = self.value.map_or_else(|| "nothing".to_owned(), |value| diagnostics.quote(value.span()));
        diagnostics.add(self.span(), format!("{}: found {found}, expected {expected}", self.path()));
    }

    /// Reports a mistake in words that follow the path: "PATH: MESSAGE".
    pub fn report(&self, message: impl Display) {
        self.table.document.diagnostics.add(self.span(), format!("{}: {message}", self.path()));
    }

    /// Reports a mistake in words that name the key themselves.
    pub fn complain(&self, message: impl Into<String>) {
        self.table.document.diagnostics.add(self.span(), message);
    }

    /// Returns what `read` makes of the value. If it makes nothing of it, `expected` is reported.
    fn read<T, E: Display>(
        &self,
        read: impl FnOnce(&'d DeValue<'d>) -> Option<T>,
        expected: impl FnOnce() -> E,
    ) -> Option<T> {
        let found = self.value.map(|value| read(value.get_ref()));
        if let Some(None) = found {
            self.reject(expected());
        } else if found.is_none() && self.required && !self.table.is_reported(self.key) {
            self.reject(expected());
        }
        found.flatten()
    }

    /// Reads a number, whole or not. `unit` follows the range in messages and begins with a blank, or is empty.
    #[must_use]
    pub fn number(&self, range: RangeInclusive<f64>, unit: &str) -> Option<f64> {
        let expected = || format!("a number from {} to {}{unit}", range.start(), range.end());
        self.read(|value| as_number(value).filter(|number| range.contains(number)), expected)
    }

    /// Reads a whole number. A number written with a fraction of zero is whole, too.
    #[must_use]
    pub fn whole(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let (low, high) = (*range.start(), *range.end());
        let whole = |number: f64| number.fract() == 0.0 && (f64::from(low)..=f64::from(high)).contains(&number);
        // In range and whole, so the conversion is exact.
        let read = |value| as_number(value).filter(|number| whole(*number)).map(|number| number as u32);
        self.read(read, || format!("a whole number from {low} to {high}"))
    }

    /// Reads a whole number that fits a byte.
    #[must_use]
    pub fn byte(&self, range: RangeInclusive<u8>) -> Option<u8> {
        let wide = u32::from(*range.start())..=u32::from(*range.end());
        self.whole(wide).and_then(|number| u8::try_from(number).ok())
    }

    /// Reads a time in the unit that the key ends with: `_us`, `_ms`, else seconds.
    #[must_use]
    pub fn duration(&self, range: RangeInclusive<f64>) -> Option<Duration> {
        let (unit, nanos) = match self.key.rsplit('_').next() {
            Some("us") => (" us", 1e3),
            Some("ms") => (" ms", 1e6),
            _ => (" s", 1e9),
        };
        // The cast saturates, so no number can wrap.
        self.number(range, unit).map(|number| Duration::from_nanos((number * nanos).round() as u64))
    }

    /// Reads `true` or `false`.
    #[must_use]
    pub fn flag(&self) -> Option<bool> {
        self.read(DeValue::as_bool, || "true or false")
    }

    /// Reads a text; `expected` completes "expected ...".
    #[must_use]
    pub fn text(&self, expected: &str) -> Option<&'d str> {
        self.read(DeValue::as_str, || expected)
    }

    /// Returns the value if it is a text. Reports nothing, so that the caller can read another type.
    #[must_use]
    pub fn as_text(&self) -> Option<&'d str> {
        self.value?.get_ref().as_str()
    }

    /// Reads a text that is not blank.
    #[must_use]
    pub fn words(&self, expected: &str) -> Option<&'d str> {
        self.read(|value| value.as_str().filter(|text| !text.trim().is_empty()), || expected)
    }

    /// Reads one of these words.
    #[must_use]
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let find = |word: &str| choices.iter().find(|(choice, _)| *choice == word).map(|(_, meaning)| *meaning);
        let expected = || {
            let words: Vec<String> = choices.iter().map(|(choice, _)| format!("{choice:?}")).collect();
            match words.split_last() {
                Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
                _ => words.concat(),
            }
        };
        self.read(|value| value.as_str().and_then(find), expected)
    }

    /// Reads a table with these keys.
    #[must_use]
    pub fn table(&self, keys: &'static [&'static str]) -> Option<Table<'d>> {
        self.any_table(Some(keys))
    }

    /// Reads a table that is usually written inline; `expected` completes "expected ..." and shows how.
    #[must_use]
    pub fn inline_table(&self, keys: &'static [&'static str], expected: &str) -> Option<Table<'d>> {
        let table = self.read(DeValue::as_table, || expected)?;
        Some(Table::new(self.table.document, self.path(), table, self.span(), Some(keys)))
    }

    /// Reads a table with keys of the user's choice.
    #[must_use]
    pub fn map(&self) -> Option<Table<'d>> {
        self.any_table(None)
    }

    fn any_table(&self, keys: Option<&'static [&'static str]>) -> Option<Table<'d>> {
        let table = self.read(DeValue::as_table, || self.header("a table", ["[", "]"], "{ ... }"))?;
        Some(Table::new(self.table.document, self.path(), table, self.span(), keys))
    }

    /// Describes a table and how to write it: with a header, or inline where a header would need an index.
    fn header(&self, what: &str, [open, close]: [&str; 2], inline: &str) -> String {
        let path = self.table.path_of(self.key);
        if path.contains('[') { format!("{what}, {inline}") } else { format!("{what}, {open}{path}{close}") }
    }

    /// Reads a list of tables with these keys. Beyond `most` they are reported and left out; so are elements of other
    /// types.
    #[must_use]
    pub fn tables(&self, most: usize, keys: &'static [&'static str]) -> Vec<Table<'d>> {
        let expected = || self.header("a list of tables", ["[[", "]]"], "[{ ... }]");
        let list = self.read(DeValue::as_array, expected).map_or(&[][..], |list| &**list);
        let element = |index| Field { index: Some(index), value: list.get(index), ..*self };
        if list.len() > most {
            element(most).complain(format!("more than {most} [[{}]]; remove the others", self.path()));
        }
        let read = |index| {
            let element: Field<'a, 'd> = element(index);
            let table = element.read(DeValue::as_table, expected)?;
            Some(Table::new(self.table.document, element.path(), table, element.span(), Some(keys)))
        };
        (0..list.len().min(most)).filter_map(read).collect()
    }

    /// Returns whether the value is a list without elements.
    #[must_use]
    pub fn is_empty_list(&self) -> bool {
        self.value.and_then(|value| value.get_ref().as_array()).is_some_and(|list| list.is_empty())
    }

    /// Reads a list; `expected` completes "expected ...". Elements count as given.
    #[must_use]
    pub fn list(&self, expected: &str) -> Option<Vec<Field<'a, 'd>>> {
        let list = self.read(DeValue::as_array, || expected)?;
        let element = |(index, value)| Field { index: Some(index), value: Some(value), ..*self };
        Some(list.iter().enumerate().map(element).collect())
    }
}

/// Returns the number that a value is.
fn as_number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
        }
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Document, InvalidDocument, Source, Table};

    const SAMPLE: &str = "name = \"x\"\nbig = 5_300_000\nhex = 0x74a1\nhuge = 1e300\n\n[[task]]\n\
                          load = { rate = 5 }\n\n[[task]]\nload = { rate = -1, at_ms = [1.5, \"a\"] }\n";
    const KEYS: &[&str] = &["name", "big", "hex", "huge", "absent_ms", "task"];

    /// What is reported when `read` reads the sample.
    fn report(read: impl FnOnce(&Table<'_>)) -> Result<(), InvalidDocument> {
        let source = Source::new("s.toml", SAMPLE);
        let document = Document::parse(&source)?;
        read(&document.root(KEYS));
        document.finish(())
    }

    fn first_line(read: impl FnOnce(&Table<'_>)) -> String {
        report(read).expect_err("is wrong").to_string().lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn good_values_are_read() {
        report(|root| {
            assert_eq!(root.field("name").text("a name"), Some("x"));
            assert_eq!(root.field("name").choice(&[("x", 1), ("y", 2)]), Some(1));
            assert_eq!(root.field("big").whole(0..=u32::MAX), Some(5_300_000));
            assert_eq!(root.field("hex").whole(0..=u32::MAX), Some(0x74a1));
            assert_eq!(root.field("huge").number(0.0..=f64::MAX, ""), Some(1e300));
            assert_eq!(root.field("absent_ms").duration(0.0..=1.0), None);
            let tasks = root.field("task").tables(2, &["load"]);
            let loads: Vec<Table<'_>> =
                tasks.iter().filter_map(|task| task.field("load").table(&["rate", "at_ms"])).collect();
            let rates: Vec<f64> = loads.iter().filter_map(|load| load.field("rate").number(-9.0..=9.0, "")).collect();
            assert_eq!(rates, [5.0, -1.0]);
            let at = loads[1].field("at_ms").list("a list").expect("is there");
            assert_eq!(at[0].duration(0.0..=9.0), Some(std::time::Duration::from_micros(1500)));
        })
        .expect("nothing is wrong");
    }

    /// The load of the second task.
    fn load<'d>(root: &Table<'d>) -> Table<'d> {
        let tasks = root.field("task").tables(9, &["load"]);
        tasks[1].required("load").table(&["type", "rate", "at_ms"]).expect("a table")
    }

    #[test]
    fn a_value_of_another_type_or_range_is_reported_with_path_finding_and_expectation() {
        for (said, expected) in [
            (
                first_line(|root| _ = root.field("name").whole(0..=3)),
                "s.toml:1:8: name: found \"x\", expected a whole number from 0 to 3",
            ),
            (
                first_line(|root| _ = root.field("name").choice(&[("a", 1), ("b", 2), ("c", 3)])),
                "s.toml:1:8: name: found \"x\", expected \"a\", \"b\" or \"c\"",
            ),
            (first_line(|root| _ = root.field("name").flag()), "s.toml:1:8: name: found \"x\", expected true or false"),
            (
                first_line(|root| _ = root.field("name").map()),
                "s.toml:1:8: name: found \"x\", expected a table, [name]",
            ),
            (
                first_line(|root| _ = root.field("name").tables(1, &[])),
                "s.toml:1:8: name: found \"x\", expected a list of tables, [[name]]",
            ),
            (
                first_line(|root| _ = root.field("task").tables(1, &["load"])),
                "s.toml:9:1: more than 1 [[task]]; remove the others",
            ),
            (
                first_line(|root| _ = root.field("task").tables(9, &["lod"])),
                "s.toml:7:1: unknown key `load` in [[task]]; did you mean `lod`?",
            ),
            (
                first_line(|root| _ = root.field("huge").whole(0..=9)),
                "s.toml:4:8: huge: found 1e300, expected a whole number from 0 to 9",
            ),
            (
                first_line(|root| _ = root.required("absent_ms").duration(0.0..=9.0)),
                "s.toml:1:1: absent_ms: found nothing, expected a number from 0 to 9 ms",
            ),
            // A key that is absent has no line: that of the nearest ancestor is given.
            (
                first_line(|root| _ = load(root).required("type").text("a type")),
                "s.toml:10:8: task[1].load.type: found nothing, expected a type",
            ),
            (
                first_line(|root| {
                    _ = root.field("task").tables(9, &["load", "type"])[1].required("type").text("a type");
                }),
                "s.toml:9:1: task[1].type: found nothing, expected a type",
            ),
            (
                first_line(|root| _ = load(root).field("rate").number(0.0..=9.0, " per second")),
                "s.toml:10:17: task[1].load.rate: found -1, expected a number from 0 to 9 per second",
            ),
            (
                first_line(|root| _ = load(root).field("at_ms").list("").expect("a list")[1].duration(0.0..=9.0)),
                "s.toml:10:35: task[1].load.at_ms[1]: found \"a\", expected a number from 0 to 9 ms",
            ),
            (first_line(|root| load(root).report("is odd")), "s.toml:10:8: task[1].load: is odd"),
        ] {
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn a_misspelt_key_is_not_missed_as_well() {
        let source = Source::new("n", "hdqs = 3");
        let document = Document::parse(&source).expect("is TOML");
        assert_eq!(document.root(&["hqds"]).required("hqds").whole(1..=9), None);
        let error = document.finish(()).expect_err("is misspelt");
        assert_eq!(error.diagnostics.len(), 1, "{error}");
        assert_eq!(error.diagnostics[0].message, "unknown key `hdqs` in the top of the file; did you mean `hqds`?");
    }

    #[test]
    fn the_keys_of_an_absent_section_are_not_missed_as_well() {
        let source = Source::new("n", "a = 1");
        let document = Document::parse(&source).expect("is TOML");
        let root = document.root(&["a", "b"]);
        for key in ["a", "b"] {
            assert_eq!(root.section(key, &["c"]).required("c").whole(1..=9), None);
        }
        let error = document.finish(()).expect_err("two are wrong");
        let messages: Vec<&str> = error.diagnostics.iter().map(|found| found.message.as_str()).collect();
        assert_eq!(messages, ["b: found nothing, expected a table, [b]", "a: found 1, expected a table, [a]"]);
    }

    #[test]
    fn nan_infinities_fractions_and_huge_numbers_are_never_whole() {
        for value in ["nan", "inf", "-inf", "1.5", "-1", "1e300", "10", "99999999999999999999"] {
            let source = Source::new("n", &format!("n = {value}"));
            let document = Document::parse(&source).expect("is TOML");
            assert_eq!(document.root(&["n"]).field("n").whole(1..=9), None, "{value}");
            assert!(document.finish(()).is_err(), "{value} was accepted");
        }
        let source = Source::new("n", "n = 9.0");
        let document = Document::parse(&source).expect("is TOML");
        assert_eq!(document.root(&["n"]).field("n").whole(1..=9), Some(9));
    }

    #[test]
    fn broken_syntax_is_reported_with_line_and_column() {
        let source = Source::new("s.toml", "a = 1\nb = = 2\n");
        let error = Document::parse(&source).expect_err("two equal signs").to_string();
        assert!(error.starts_with("s.toml:2:5: this is not TOML: "), "{error}");
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
        let source = Source::new("s", &format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000)));
        assert!(Document::parse(&source).is_err());
    }
}
