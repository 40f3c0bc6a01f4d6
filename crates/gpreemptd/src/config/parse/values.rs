//! Readers of the values that only configurations have.

use std::ops::RangeInclusive;

use gpreempt_core::{Nanos, Permille};
use toml_source::{Field, Table};

use crate::config::Glob;

/// Reads a time in the unit that the key ends with.
pub(super) fn time(field: Field<'_, '_>, range: RangeInclusive<f64>) -> Option<Nanos> {
    field.duration(range).map(Nanos::from)
}

/// Reads a share from `low` to 1, in thousandths.
pub(super) fn share(field: Field<'_, '_>, low: f64) -> Option<Permille> {
    let thousandths = field.number(low..=1.0, "")? * 1000.0;
    if (thousandths - thousandths.round()).abs() > 1e-6 {
        field.reject(format_args!("a number from {low} to 1 in steps of 0.001"));
        return None;
    }
    Some(Permille::new(thousandths.round() as u16))
}

/// Reads a pattern.
pub(super) fn glob(field: Field<'_, '_>) -> Option<Glob> {
    let text = field.text("a pattern in quotes, like \"*\"")?;
    Glob::new(text).map_err(|message| field.complain(message)).ok()
}

/// Reports that these keys have no effect in a table that says `manage = false`.
pub(super) fn refuse_unmanaged(table: &Table<'_>, keys: &[&str]) {
    for key in keys.iter().filter(|key| table.has(key)) {
        table.field(key).complain(format!("`{key}` has no effect beside manage = false; remove one"));
    }
}
