//! Ctrl-C: the command ends its programs before itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};

/// Whether the user has had enough.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes SIGINT, SIGTERM and SIGHUP from now on. Programs started by this thread inherit that they are blocked, as
    /// services often find them.
    pub(crate) fn watch() -> Result<Interrupt> {
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

    /// Fails if the user has had enough.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { bail!("interrupted") } else { Ok(()) }
    }
}

#[cfg(test)]
impl Interrupt {
    /// Nobody can interrupt.
    pub(crate) fn never() -> Interrupt {
        Interrupt(Arc::default())
    }
}
