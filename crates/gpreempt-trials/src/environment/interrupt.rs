//! Ctrl-C and its like: a trial ends its programs before itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};

/// Whether a signal has asked the trial to end.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes SIGINT, SIGTERM and SIGHUP from now on. Programs started by this thread inherit the blocked signals, as
    /// services often do.
    ///
    /// # Errors
    /// If the signals cannot be blocked.
    pub fn watch() -> Result<Interrupt> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        signals.thread_block().context("cannot block signals")?;
        let flag = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&flag);
        thread::spawn(move || {
            // An error would mean that no signal can ever come.
            if signals.wait().is_ok() {
                told.store(true, Ordering::Relaxed);
            }
        });
        Ok(Interrupt(flag))
    }

    /// One that no signal reaches: for tests, which are interrupted as a whole.
    #[must_use]
    pub fn never() -> Interrupt {
        Interrupt(Arc::default())
    }

    /// Fails once such a signal has come.
    ///
    /// # Errors
    /// "interrupted".
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { bail!("interrupted") } else { Ok(()) }
    }
}
