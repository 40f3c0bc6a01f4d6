//! The virtual MI300.

pub mod driver;
pub mod profile;
pub mod sysfs;
