//! The virtual MI300: device, driver, supervisor, launcher. Exports no C symbol.

pub mod client;
mod control;
pub mod device;
pub mod driver;
mod executor;
pub mod kill_points;
pub mod launch;
pub mod options;
pub mod profile;
pub mod protocol;
pub mod supervisor;
pub mod sys;
pub mod sysfs;
