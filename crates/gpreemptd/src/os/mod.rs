//! Services of the operating system that the daemon's threads ask for.

pub mod channel;
pub mod priority;
