//! TOML documents whose values know file, line and column.
//!
//! ```text
//!   file ── Source::read ──> Source ── Document::parse ──> Document ── root ──> Table ── field ──> Field
//!                                                             │                        (range, type, presence)
//!                                                             └── finish ──> value, or InvalidDocument
//! ```
//!
//! A reader takes values key by key through [`Table`] and [`Field`]. What is wrong is collected with its position, so
//! that one run reports every mistake of a file: at most [`MAX_LISTED`] of them, in file order, each with the line and
//! a caret. [`Diagnostics`] does the same for other text formats.
//!
//! ```
//! use toml_source::{Document, Source};
//!
//! let source = Source::new("mine.toml", "[load]\nrate = -5\n");
//! let document = Document::parse(&source)?;
//! let root = document.root(&["load"]);
//! let load = root.section("load", &["rate"]);
//! let rate = load.required("rate").number(1.0..=100.0, " per second");
//! let error = document.finish(rate).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "mine.toml:2:8: load.rate: found -5, expected a number from 1 to 100 per second\n  \
//!        2 | rate = -5\n    \
//!          |        ^^"
//! );
//! # Ok::<(), toml_source::InvalidDocument>(())
//! ```
#![forbid(unsafe_code)]

mod diagnostic;
mod document;
mod field;
mod nearest;
mod source;

pub use diagnostic::{Diagnostic, Diagnostics, InvalidDocument, MAX_LISTED, Position};
pub use document::{Document, Key, Table};
pub use field::Field;
pub use nearest::nearest;
pub use source::{ReadError, ReadLimits, Source};
