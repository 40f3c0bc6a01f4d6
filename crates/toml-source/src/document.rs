//! Documents and their tables.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeTable;

use crate::{Diagnostics, Field, InvalidDocument, Source, nearest};

/// A parsed document, and what is wrong with it so far.
#[derive(Debug)]
pub struct Document<'s> {
    root: DeTable<'s>,
    /// Takes the place of required tables that are absent.
    empty: DeTable<'s>,
    pub(crate) diagnostics: Diagnostics<'s>,
}

impl<'s> Document<'s> {
    /// Parses a text.
    ///
    /// # Errors
    /// If the syntax is broken: every place where it is. The values of such a text are not looked at, because what was
    /// understood of them would only add false complaints.
    pub fn parse(source: &'s Source) -> Result<Document<'s>, InvalidDocument> {
        let diagnostics = Diagnostics::new(source);
        let (root, errors) = DeTable::parse_recoverable(source.text());
        for error in &errors {
            let message = format!("this is not TOML: {}", error.message().trim().replace('\n', ", "));
            diagnostics.add(error.span().unwrap_or(0..0), message);
        }
        let root = diagnostics.finish(root.into_inner())?;
        Ok(Document { root, empty: DeTable::new(), diagnostics: Diagnostics::new(source) })
    }

    /// Returns the table at the top. Every key other than `keys` is reported.
    #[must_use]
    pub fn root(&self, keys: &'static [&'static str]) -> Table<'_> {
        Table::new(self, String::new(), &self.root, 0..0, Some(keys))
    }

    /// Returns `value` if nothing was wrong.
    ///
    /// # Errors
    /// Everything that was wrong.
    pub fn finish<T>(self, value: T) -> Result<T, InvalidDocument> {
        self.diagnostics.finish(value)
    }
}

/// A table of a document.
#[derive(Clone, Debug)]
pub struct Table<'d> {
    pub(crate) document: &'d Document<'d>,
    /// Path from the top: `task[2].load`; empty for the top itself.
    path: String,
    table: &'d DeTable<'d>,
    /// The header, or the whole of an inline table.
    span: Range<usize>,
    /// Keys that may occur; `None` for tables with keys of the user's choice.
    keys: Option<&'static [&'static str]>,
    /// Known keys that unknown ones were probably meant to be.
    misspelt: Vec<&'static str>,
    /// Whether the table itself is absent, which was reported.
    absent: bool,
}

impl<'d> Table<'d> {
    pub(crate) fn new(
        document: &'d Document<'d>,
        path: String,
        table: &'d DeTable<'d>,
        span: Range<usize>,
        keys: Option<&'static [&'static str]>,
    ) -> Table<'d> {
        let mut table = Table { document, path, table, span, keys, misspelt: Vec::new(), absent: false };
        table.report_unknown_keys();
        table
    }

    fn report_unknown_keys(&mut self) {
        let Some(known) = self.keys else { return };
        for key in self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let meant = nearest(key.get_ref(), known);
            let remedy = match meant {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("known are {}", known.join(", ")),
            };
            self.misspelt.extend(meant);
            let diagnostics = &self.document.diagnostics;
            let quoted = diagnostics.quote(key.span());
            diagnostics.add(key.span(), format!("unknown key `{quoted}` in {}; {remedy}", self.title()));
        }
    }

    /// Returns how messages call the table.
    fn title(&self) -> String {
        let path = &self.path;
        match path.split_once('[') {
            _ if path.is_empty() => "the top of the file".to_owned(),
            Some((name, index)) if index.find(']') == Some(index.len() - 1) && !name.contains('.') => {
                format!("[[{name}]]")
            }
            None => format!("[{path}]"),
            Some(_) => path.clone(),
        }
    }

    /// Returns the path of a key: `task[2].load.rate`.
    pub(crate) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Returns an optional key: its readers return `None` if it is absent.
    #[must_use]
    pub fn field<'a>(&'a self, key: &'a str) -> Field<'a, 'd> {
        debug_assert!(
            self.keys.is_none_or(|keys| keys.contains(&key)),
            "{key} is missing in the keys of {}",
            self.title()
        );
        Field::new(self, key, self.table.get(key), false)
    }

    /// Returns a required key: its readers report its absence.
    #[must_use]
    pub fn required<'a>(&'a self, key: &'a str) -> Field<'a, 'd> {
        self.field(key).required()
    }

    /// Returns a required table with these keys. If it is absent or no table, that is reported and an empty one
    /// returned whose keys are not reported as well.
    #[must_use]
    pub fn section(&self, key: &str, keys: &'static [&'static str]) -> Table<'d> {
        let absent = || Table {
            path: self.path_of(key),
            table: &self.document.empty,
            keys: Some(keys),
            misspelt: Vec::new(),
            absent: true,
            ..self.clone()
        };
        self.required(key).table(keys).unwrap_or_else(absent)
    }

    /// Returns whether the absence of a key was reported already: with its table, or as a misspelling in its place.
    pub(crate) fn is_reported(&self, key: &str) -> bool {
        self.absent || self.misspelt.contains(&key)
    }

    /// Returns whether a key is given.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Returns all keys with their values, in alphabetical order.
    pub fn entries<'a>(&'a self) -> impl Iterator<Item = (Key<'d>, Field<'a, 'd>)> {
        self.table.iter().map(|(name, value)| {
            let key = Key { name: name.get_ref(), span: name.span() };
            (key, Field::new(self, name.get_ref(), Some(value), false))
        })
    }

    /// Returns where the table stands: its header, or the whole of an inline table.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Reports a mistake of the table as a whole, with its path.
    pub fn report(&self, message: &str) {
        let message = if self.path.is_empty() { message.to_owned() } else { format!("{}: {message}", self.path) };
        self.document.diagnostics.add(self.span(), message);
    }
}

/// A key of the user's choice.
#[derive(Clone, Debug)]
pub struct Key<'d> {
    /// The key without quotes.
    pub name: &'d str,
    span: Range<usize>,
}

impl Key<'_> {
    /// Reports a mistake of the key itself.
    pub fn report(&self, table: &Table<'_>, message: &str) {
        table.document.diagnostics.add(self.span.clone(), message);
    }
}

/// A value with its place, as the parser has it.
pub(crate) type Value<'d> = Spanned<toml::de::DeValue<'d>>;
