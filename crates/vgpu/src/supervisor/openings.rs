//! Openings of `/dev/kfd` that belong to contexts of their own: the end of a context comes with the last copy of its
//! descriptor. The process holds a lock of that opening, which the kernel takes back then.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::Supervisor;
use super::execute::execute;
use crate::driver::{Effects, ProcessKey};
use crate::sys;

impl Supervisor {
    /// Ends the context of an opening when all copies of its descriptor are closed. `kfd` is another opening of the
    /// process's kfd file. Without a thread for it, the context ends with its process.
    pub(super) fn watch_opening(self: &Arc<Self>, process: ProcessKey, kfd: OwnedFd, opening: u64) {
        let supervisor = Arc::clone(self);
        let watch = move || {
            sys::wait_until_unlocked(&kfd, opening);
            supervisor.close_opening(process, opening);
        };
        // It is told in the documentation of this function what happens without it.
        let _ = std::thread::Builder::new().name("context".into()).spawn(watch);
    }

    fn close_opening(self: &Arc<Self>, process: ProcessKey, opening: u64) {
        let Some(device) = self.device() else { return };
        let mut driver = device.driver();
        let Effects { device: effects, share, .. } = driver.close_opening(process, opening);
        self.sharing.discard_all(share);
        drop(driver);
        execute(self, process, effects, None);
    }
}
