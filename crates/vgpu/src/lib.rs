//! The virtual MI300.
