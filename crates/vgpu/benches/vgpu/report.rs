//! What was measured, as text while it comes and as JSON at the end.

use serde_json::{Value, json};

/// What a row should be.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    AtMost(f64),
    AtLeast(f64),
}

impl Aim {
    fn met(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

pub(crate) struct Report {
    text: bool,
    rows: Vec<Value>,
    skipped: Vec<Value>,
}

impl Report {
    /// An empty report that prints what it gets if `text`.
    pub(crate) fn new(text: bool) -> Self {
        Self { text, rows: Vec::new(), skipped: Vec::new() }
    }

    /// Begins a section.
    pub(crate) fn section(&self, title: &str) {
        if self.text {
            println!("\n{title}");
        }
    }

    /// A number without an aim.
    pub(crate) fn row(&mut self, name: &str, value: f64, unit: &str) {
        self.add(name, value, unit, None);
    }

    /// A number with an aim.
    pub(crate) fn aimed(&mut self, name: &str, value: f64, unit: &str, aim: Aim) {
        self.add(name, value, unit, Some(aim));
    }

    /// A row that could not be measured, and why.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        if self.text {
            println!("  {name:<58} skipped: {why}");
        }
        self.skipped.push(json!({ "name": name, "why": why }));
    }

    fn add(&mut self, name: &str, value: f64, unit: &str, aim: Option<Aim>) {
        let verdict = aim.map(|aim| if aim.met(value) { "met" } else { "missed" });
        let (sign, limit) = match aim {
            Some(Aim::AtMost(limit)) => ("<=", Some(limit)),
            Some(Aim::AtLeast(limit)) => (">=", Some(limit)),
            None => ("", None),
        };
        if self.text {
            let aim = limit.map(|limit| format!("   aim {sign} {limit} {unit}: {}", verdict.unwrap_or_default()));
            println!("  {name:<58} {value:>9.2} {unit}{}", aim.unwrap_or_default());
        }
        let mut row = json!({ "name": name, "value": value, "unit": unit });
        if let (Some(limit), Some(verdict)) = (limit, verdict) {
            row["aim"] = json!(format!("{sign} {limit}"));
            row["verdict"] = json!(verdict);
        }
        self.rows.push(row);
    }

    /// Everything so far.
    pub(crate) fn json(&self) -> Value {
        json!({ "rows": self.rows, "skipped": self.skipped })
    }
}
