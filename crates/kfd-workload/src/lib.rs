//! A small KFD runtime.
