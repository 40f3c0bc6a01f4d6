//! The virtual MI300.

pub mod device;
