//! The calls.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use kfd_abi::sched::Action;

use crate::interface::{
    ALL_QUEUES, CONTEXT_PRIMARY, Entry, GRACE_DEFAULT, MAGIC, OPEN, OpenArgs, QUERY, QueryArgs, Queue, SWITCH,
    SwitchArgs, VERSION, request,
};

/// A call's error, as a number.
pub(crate) type Answer<T> = Result<T, i32>;

/// Calls the driver.
///
/// # Safety
/// Addresses in the argument are those of memory that the driver may write to.
pub(crate) unsafe fn call<T>(fd: BorrowedFd<'_>, nr: u8, args: &mut T) -> Answer<()> {
    // SAFETY: the size in the request is that of the argument; the caller vouches for addresses in it.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request::<T>(nr).into(), std::ptr::from_mut(args)) };
    if result < 0 { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { Ok(()) }
}

/// Opens /dev/kfd.
pub(crate) fn device() -> Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/kfd").context("cannot open /dev/kfd")
}

/// Asks an open /dev/kfd for a descriptor; the argument comes back as the driver left it.
pub(crate) fn open(device: &File, args: OpenArgs) -> (Answer<OwnedFd>, OpenArgs) {
    let mut args = args;
    // SAFETY: the argument has no addresses.
    let answer = unsafe { call(device.as_fd(), OPEN, &mut args) };
    // SAFETY: the driver has just given this process the descriptor.
    (answer.map(|()| unsafe { OwnedFd::from_raw_fd(args.fd) }), args)
}

/// A scheduling descriptor.
#[derive(Debug)]
pub(crate) struct Sched(pub(crate) OwnedFd);

/// What a switch did.
#[derive(Clone, Debug)]
pub(crate) struct Switched {
    pub(crate) entries: Vec<Entry>,
    pub(crate) cycles: u32,
    pub(crate) changed: u32,
    pub(crate) duration_ns: u64,
}

impl Sched {
    /// Opens one.
    pub(crate) fn new() -> Result<Sched> {
        Sched::of(&device()?)
    }

    /// Opens one on an open device.
    pub(crate) fn of(device: &File) -> Result<Sched> {
        let (answer, _) = open(device, OpenArgs { magic: MAGIC, version: VERSION, ..OpenArgs::default() });
        Ok(Sched(answer.map_err(io::Error::from_raw_os_error).context("cannot open a scheduling descriptor")?))
    }

    /// Makes a copy of the descriptor.
    pub(crate) fn duplicate(&self) -> Result<Sched> {
        Ok(Sched(self.0.try_clone()?))
    }

    /// Applies entries.
    pub(crate) fn switch(&self, entries: &[Entry]) -> Answer<Switched> {
        self.switch_with(entries, SwitchArgs { grace_period: GRACE_DEFAULT, ..SwitchArgs::default() })
    }

    /// Applies entries with the rest of the arguments as given.
    pub(crate) fn switch_with(&self, entries: &[Entry], args: SwitchArgs) -> Answer<Switched> {
        let mut entries = entries.to_vec();
        let mut args = SwitchArgs {
            entries_ptr: entries.as_mut_ptr().expose_provenance() as u64,
            num_entries: entries.len() as u32,
            entry_size: size_of::<Entry>() as u32,
            ..args
        };
        // SAFETY: the entries live until the call returns and take any bytes.
        unsafe { call(self.0.as_fd(), SWITCH, &mut args) }?;
        Ok(Switched { entries, cycles: args.num_cycles, changed: args.num_changed, duration_ns: args.duration_ns })
    }

    /// Applies entries; all of them have to succeed.
    pub(crate) fn must(&self, entries: &[Entry]) -> Result<Switched> {
        let done = self.switch(entries).map_err(io::Error::from_raw_os_error).context("SWITCH failed")?;
        let failed = done.entries.iter().find(|entry| entry.status != 0);
        ensure!(failed.is_none(), "an entry failed: {failed:?}");
        Ok(done)
    }

    /// Applies one entry and returns its status.
    pub(crate) fn status(&self, entry: Entry) -> Result<i32> {
        let done = self.switch(&[entry]).map_err(io::Error::from_raw_os_error).context("SWITCH failed")?;
        Ok(done.entries.first().context("no entry came back")?.status)
    }

    /// Returns the queues of a process, or of all with 0.
    pub(crate) fn queues(&self, pid: u32) -> Result<Vec<Queue>> {
        let mut queues = Vec::new();
        loop {
            let mut args = QueryArgs {
                queues_ptr: queues.as_mut_ptr() as usize as u64,
                num_queues: queues.len() as u32,
                queue_size: size_of::<Queue>() as u32,
                pid: pid.cast_signed(),
                ..QueryArgs::default()
            };
            // SAFETY: there is room for as many elements as the argument says, and they take any bytes.
            unsafe { call(self.0.as_fd(), QUERY, &mut args) }
                .map_err(io::Error::from_raw_os_error)
                .context("QUERY failed")?;
            if args.num_found as usize <= queues.len() {
                queues.truncate(args.num_queues as usize);
                return Ok(queues);
            }
            queues.resize(args.num_found as usize, Queue::default());
        }
    }
}

/// An entry for all queues of a process.
pub(crate) fn all(pid: u32, action: Action) -> Entry {
    Entry { pid: pid.cast_signed(), context_id: CONTEXT_PRIMARY, queue_id: ALL_QUEUES, action, ..Entry::default() }
}

/// An entry for one queue of a process.
pub(crate) fn one(pid: u32, queue_id: u32, action: Action) -> Entry {
    Entry { queue_id, ..all(pid, action) }
}
