//! The virtual MI300: device, driver, supervisor, launcher. Exports no C symbol.

pub mod client;
mod control;
pub mod device;
mod executor;
pub mod kill_points;
pub mod launch;
pub mod options;
pub mod protocol;
pub mod supervisor;
pub mod sys;
pub mod vmi300;

pub use vgpu_driver as driver;
pub use vgpu_driver::{profile, sysfs};
