//! The daemon's parts with real processes on the virtual gpu.

mod observe;
