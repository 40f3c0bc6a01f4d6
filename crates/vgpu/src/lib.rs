//! The virtual MI300: device, driver, supervisor, launcher. Exports no C symbol.

pub mod client;
mod control;
pub mod device;
pub mod driver;
mod engine;
pub mod launch;
pub mod options;
pub mod points;
pub mod profile;
pub mod protocol;
pub mod supervisor;
pub mod sys;
pub mod sysfs;
