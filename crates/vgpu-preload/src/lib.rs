//! The libc hooks.
