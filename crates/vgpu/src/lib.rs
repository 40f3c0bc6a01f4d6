//! The virtual MI300.

pub mod device;
pub mod driver;
pub mod profile;
pub mod sysfs;
