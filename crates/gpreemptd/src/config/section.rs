//! A table of a file, read key by key, with checks that know the place of every value.

use std::ops::{Range, RangeInclusive};

use gpreempt_core::{Nanos, Permille};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Glob;
use super::error::{Problems, nearest};

/// A table. Every check returns `None` both for what is absent and for what is wrong: the default takes its place, and the
/// problem is reported with all others.
pub(super) struct Section<'d, 't, 'p> {
    /// As it is called in messages: `[watch]`.
    title: &'static str,
    /// All keys that may occur.
    keys: &'static [&'static str],
    table: &'d DeTable<'t>,
    /// Where it begins: a table written with a header spans its header.
    pub(super) span: Range<usize>,
    pub(super) problems: &'p mut Problems<'t>,
}

impl<'d, 't, 'p> Section<'d, 't, 'p> {
    /// Begins to read a table. Keys that do not belong there are problems.
    pub(super) fn new(
        title: &'static str,
        keys: &'static [&'static str],
        table: &'d DeTable<'t>,
        span: Range<usize>,
        problems: &'p mut Problems<'t>,
    ) -> Section<'d, 't, 'p> {
        for key in table.keys().filter(|key| !keys.contains(&key.get_ref().as_ref())) {
            let word = key.get_ref().as_ref();
            let remedy = match nearest(word, keys) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("known are {}", keys.join(", ")),
            };
            let quoted = problems.quote(&key.span());
            problems.add(key.span(), format!("unknown key `{quoted}` in {title}; {remedy}"));
        }
        Section { title, keys, table, span, problems }
    }

    /// The value of a key.
    pub(super) fn value(&self, key: &str) -> Option<&'d Spanned<DeValue<'t>>> {
        debug_assert!(self.keys.contains(&key), "{key} is missing in the keys of {}", self.title);
        self.table.get(key)
    }

    /// Where a value stands, or the table if there is none.
    pub(super) fn place(&self, key: &str) -> Range<usize> {
        self.value(key).map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// Notes a fault of a value, or of the table if the key is absent.
    pub(super) fn complain(&mut self, key: &str, message: impl Into<String>) {
        self.problems.add(self.place(key), message);
    }

    /// Notes that these keys have no effect in a table that says `manage = false`.
    pub(super) fn refuse_unmanaged(&mut self, keys: &[&str]) {
        for key in keys {
            if self.value(key).is_some() {
                self.complain(key, format!("`{key}` means nothing beside manage = false; remove one"));
            }
        }
    }

    /// Notes that a value should have been something else.
    fn reject(&mut self, key: &str, span: Range<usize>, expected: &str) {
        let found = self.problems.quote(&span);
        self.problems.add(span, format!("{key} = {found}: expected {expected}"));
    }

    /// A number, whole or not.
    pub(super) fn number(&mut self, key: &str, range: RangeInclusive<f64>, unit: &str) -> Option<f64> {
        let value = self.value(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n as f64),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        if let Some(number) = number.filter(|number| range.contains(number)) {
            return Some(number);
        }
        let (low, high) = (range.start(), range.end());
        self.reject(key, value.span(), &format!("a number from {low} to {high}{unit}"));
        None
    }

    /// A whole number.
    pub(super) fn whole(&mut self, key: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let value = self.value(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        if let Some(number) = number.filter(|number| range.contains(number)) {
            return Some(number);
        }
        let (low, high) = (range.start(), range.end());
        self.reject(key, value.span(), &format!("a whole number from {low} to {high}"));
        None
    }

    /// A whole number that fits a byte.
    pub(super) fn small(&mut self, key: &str, range: RangeInclusive<u8>) -> Option<u8> {
        let wide = u32::from(*range.start())..=u32::from(*range.end());
        self.whole(key, wide).and_then(|number| u8::try_from(number).ok())
    }

    /// A time, written in the unit that the key names.
    pub(super) fn time(&mut self, key: &str, range: RangeInclusive<f64>) -> Option<Nanos> {
        let (unit, nanos) = unit_of(key);
        self.number(key, range, unit).map(|number| Nanos((number * nanos).round() as u64))
    }

    /// The same as the standard library's type.
    pub(super) fn duration(&mut self, key: &str, range: RangeInclusive<f64>) -> Option<std::time::Duration> {
        self.time(key, range).map(|time| std::time::Duration::from_nanos(time.0))
    }

    /// A share in thousandths.
    pub(super) fn share(&mut self, key: &str, low: f64) -> Option<Permille> {
        let thousandths = self.number(key, low..=1.0, "")? * 1000.0;
        if (thousandths - thousandths.round()).abs() > 1e-6 {
            self.reject(key, self.place(key), &format!("a number from {low} to 1 in steps of 0.001"));
            return None;
        }
        Some(Permille::new(thousandths.round() as u16))
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &str) -> Option<bool> {
        let value = self.value(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.reject(key, value.span(), "true or false");
        }
        flag
    }

    /// A text; `expected` completes "expected ...".
    pub(super) fn text(&mut self, key: &str, expected: &str) -> Option<&'d str> {
        let value = self.value(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.reject(key, value.span(), expected);
        }
        text
    }

    /// One of these words.
    pub(super) fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let value = self.value(key)?;
        let chosen = value.get_ref().as_str().and_then(|word| choices.iter().find(|(choice, _)| *choice == word));
        if chosen.is_none() {
            let words: Vec<String> = choices.iter().map(|(choice, _)| format!("{choice:?}")).collect();
            self.reject(key, value.span(), &words.join(" or "));
        }
        chosen.map(|(_, choice)| *choice)
    }

    /// A pattern.
    pub(super) fn glob(&mut self, key: &str) -> Option<Glob> {
        let text = self.text(key, "a pattern in quotes, like \"*\"")?;
        self.pattern(text, self.place(key))
    }

    /// The pattern that a text is.
    pub(super) fn pattern(&mut self, text: &str, span: Range<usize>) -> Option<Glob> {
        Glob::new(text).map_err(|message| self.problems.add(span, message)).ok()
    }

    /// A table within this one.
    pub(super) fn table(&mut self, key: &str) -> Option<(&'d DeTable<'t>, Range<usize>)> {
        let value = self.value(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.reject(key, value.span(), &format!("a table, [{key}]"));
            return None;
        };
        Some((table, value.span()))
    }

    /// The tables of a list of tables, at most `most`.
    pub(super) fn tables(&mut self, key: &str, most: usize) -> Vec<(&'d DeTable<'t>, Range<usize>)> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let Some(array) = value.get_ref().as_array() else {
            self.reject(key, value.span(), &format!("a list of tables, [[{key}]]"));
            return Vec::new();
        };
        if let Some(first) = array.get(most) {
            self.problems.add(first.span(), format!("more than {most} [[{key}]]; patterns can say it with fewer"));
        }
        let mut tables = Vec::new();
        for element in array.iter().take(most) {
            match element.get_ref().as_table() {
                Some(table) => tables.push((table, element.span())),
                None => self.reject(key, element.span(), &format!("a list of tables, [[{key}]]")),
            }
        }
        tables
    }
}

/// The unit that a key names, as messages and as nanoseconds have it.
pub(super) fn unit_of(key: &str) -> (&'static str, f64) {
    match key.rsplit('_').next() {
        Some("us") => (" us", 1e3),
        Some("ms") => (" ms", 1e6),
        _ => (" s", 1e9),
    }
}
