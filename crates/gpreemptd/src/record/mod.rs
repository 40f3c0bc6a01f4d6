//! Statistics: distributions, counters, the audit log. Owned by the deciding thread.

mod audit;
mod cpu;
mod recorder;
mod times;

pub use audit::Audit;
pub use cpu::CpuTimes;
pub use recorder::{DaemonRecord, GpuRecord, KernelRecord, Recorder};
pub use times::Times;
