//! Ctrl-C and SIGTERM: the test that runs ends as a failure, so that processes and probes of the suite go with it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Notes the signals from now on instead of ending at once.
pub(crate) fn watch() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        sys::handle(signal, note);
    }
}

/// Returns whether one of the signals came.
pub(crate) fn came() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
