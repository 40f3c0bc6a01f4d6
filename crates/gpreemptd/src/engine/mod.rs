//! The deciding thread: a host of `gpreempt-core`.
