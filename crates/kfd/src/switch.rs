//! Switching sets of queues in one cycle, where the driver has the patch of `kernel/patch`.
//!
//! Nothing is traced and no session is needed, so programs can be stopped whose runtime never offered itself to
//! debuggers. What a [`Switcher`] has stopped runs again when it is dropped, or when its process ends.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use kfd_abi::sched::{
    ALL_GPUS, ALL_QUEUES, Action, CONTEXT_PRIMARY, Entry, MAGIC, MAX_ENTRIES, OpenArgs, QueryArgs, Queue, SwitchArgs,
    VERSION,
};

use crate::device::{KfdDevice, ioctl};
use crate::error::{Error, Result};
use crate::id::{Pid, QueueId};
use crate::queues::Grace;

/// Queues that most processes do not exceed.
const FEW_QUEUES: usize = 32;

/// What to do with queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchAction {
    /// Take them off the gpu and save their waves.
    Preempt,
    /// Put them back.
    Resume,
}

/// One line of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchEntry {
    /// The process.
    pub pid: Pid,
    /// When it started, in clock ticks since boot: a later process of the same number is not touched.
    pub started: u64,
    /// One of its compute queues; `None`: all of them, on all gpus.
    pub queue: Option<QueueId>,
    /// What to do.
    pub action: SwitchAction,
}

/// What a switch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switched {
    /// For each entry the queues that changed, or the driver's error number.
    pub results: Vec<std::result::Result<u32, i32>>,
    /// Cycles made: at most one for each gpu.
    pub cycles: u32,
    /// Time that the driver took.
    pub took: Duration,
}

/// A scheduling descriptor of the driver.
#[derive(Debug)]
pub struct Switcher {
    descriptor: File,
    /// The driver lists the process as its user while this is open.
    _device: KfdDevice,
}

impl Switcher {
    /// Opens the driver and asks it for a scheduling descriptor.
    ///
    /// # Errors
    ///
    /// As [`KfdDevice::open`]; [`Error::Unswitchable`] if the driver lacks the interface or has another version of it.
    pub fn open() -> Result<Switcher> {
        let device = KfdDevice::open()?;
        let mut args = OpenArgs { magic: MAGIC, version: VERSION, ..OpenArgs::default() };
        // SAFETY: the argument holds no address.
        unsafe { device.call(&mut args) }.map_err(|error| Error::Unswitchable { error })?;
        // SAFETY: the driver has just made the descriptor for this process, and nothing else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(args.fd) };
        Ok(Switcher { descriptor: descriptor.into(), _device: device })
    }

    /// Applies all entries in their order, with one cycle on each gpu where a queue has to leave or to come back. More
    /// than 1,024 entries take several calls.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the driver refuses a call as a whole. The failure of an entry is its result.
    pub fn switch(&self, entries: &[SwitchEntry], grace: Grace) -> Result<Switched> {
        let mut all = Switched::default();
        for chunk in entries.chunks(MAX_ENTRIES) {
            let mut raw: Vec<Entry> = chunk.iter().map(raw_entry).collect();
            let mut args = SwitchArgs {
                entries_ptr: raw.as_mut_ptr().expose_provenance() as u64,
                num_entries: raw.len() as u32,
                entry_size: size_of::<Entry>() as u32,
                grace_period: grace.raw(),
                ..SwitchArgs::default()
            };
            // SAFETY: the address is that of as many entries as said, of the size said, which live until the call
            // returns and take any bytes.
            unsafe { ioctl(&self.descriptor, &mut args) }
                .map_err(|error| Error::Call { operation: "SCHED_SWITCH", error })?;
            all.results.extend(raw.iter().map(|entry| match entry.status {
                0 => Ok(entry.num_changed),
                status => Err(status.saturating_neg()),
            }));
            all.cycles += args.num_cycles;
            all.took += Duration::from_nanos(args.duration_ns);
        }
        Ok(all)
    }

    /// Returns all queues of a process that this program may switch, and their states.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the driver refuses.
    pub fn queues(&self, pid: Pid) -> Result<Vec<Queue>> {
        let mut queues = vec![Queue::default(); FEW_QUEUES];
        loop {
            let mut args = QueryArgs {
                queues_ptr: queues.as_mut_ptr().expose_provenance() as u64,
                num_queues: queues.len() as u32,
                queue_size: size_of::<Queue>() as u32,
                pid: pid.raw(),
                ..QueryArgs::default()
            };
            // SAFETY: as in `switch`.
            unsafe { ioctl(&self.descriptor, &mut args) }
                .map_err(|error| Error::Call { operation: "SCHED_QUERY", error })?;
            if args.num_found as usize <= queues.len() {
                queues.truncate(args.num_queues as usize);
                return Ok(queues);
            }
            queues.resize(args.num_found as usize, Queue::default());
        }
    }
}

fn raw_entry(entry: &SwitchEntry) -> Entry {
    Entry {
        start_time: entry.started,
        pid: entry.pid.raw(),
        context_id: CONTEXT_PRIMARY,
        gpu_id: ALL_GPUS,
        queue_id: entry.queue.map_or(ALL_QUEUES, |queue| queue.0),
        action: match entry.action {
            SwitchAction::Preempt => Action::PREEMPT,
            SwitchAction::Resume => Action::RESUME,
        },
        ..Entry::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_names_the_process_with_its_start_and_one_queue_or_all() {
        let entry = SwitchEntry { pid: Pid(7), started: 99, queue: Some(QueueId(3)), action: SwitchAction::Preempt };
        let raw = raw_entry(&entry);
        assert_eq!((raw.pid, raw.start_time, raw.queue_id, raw.action), (7, 99, 3, Action::PREEMPT));
        assert_eq!((raw.context_id, raw.gpu_id, raw.flags, raw.status), (CONTEXT_PRIMARY, ALL_GPUS, 0, 0));
        let all = SwitchEntry { queue: None, action: SwitchAction::Resume, ..entry };
        assert_eq!((raw_entry(&all).queue_id, raw_entry(&all).action), (ALL_QUEUES, Action::RESUME));
    }
}
