//! Placeholder.
#![no_std]
mod time;
pub use time::Nanos;
