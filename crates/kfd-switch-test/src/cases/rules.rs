//! What the driver refuses.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, ensure};

use kfd_abi::queue::QueueType;
use kfd_abi::sched::Action;

use crate::interface::{
    ACTIVE, Entry, GRACE_DEFAULT, MAGIC, MAX_ENTRIES, OpenArgs, PREEMPT, QUERY, QueryArgs, RESUME, SWITCH, SwitchArgs,
    VERSION,
};
use crate::sched::{Sched, all, call, device, one, open};
use crate::tenant::Tenant;
use crate::{Options, start_time};

/// Numbers of AMD's own commands in 6.12.
const LAST_OF_AMD: u8 = 0x26;

pub(super) fn unused_numbers_are_refused(_: &Options) -> Result<()> {
    let device = device()?;
    for nr in (LAST_OF_AMD + 1..=u8::MAX).filter(|nr| *nr != 0xc0) {
        // SAFETY: the argument is all zero.
        let answer = unsafe { call(device.as_fd(), nr, &mut [0_u64; 8]) };
        ensure!(answer == Err(libc::ENOTTY), "{nr:#x} on /dev/kfd: {answer:?}");
    }
    let sched = Sched::of(&device)?;
    for nr in (0..=u8::MAX).filter(|nr| ![SWITCH, QUERY].contains(nr)) {
        // SAFETY: the argument is all zero.
        let answer = unsafe { call(sched.0.as_fd(), nr, &mut [0_u64; 8]) };
        ensure!(answer == Err(libc::ENOTTY), "{nr:#x} on a descriptor: {answer:?}");
    }
    Ok(())
}

pub(super) fn opening_is_checked(_: &Options) -> Result<()> {
    let device = device()?;
    let good = OpenArgs { magic: MAGIC, version: VERSION, ..OpenArgs::default() };
    let error = |args: OpenArgs| open(&device, args).0.err();
    ensure!(error(OpenArgs { magic: 1, ..good }) == Some(libc::EINVAL), "another magic");
    ensure!(error(OpenArgs { flags: 1, ..good }) == Some(libc::EINVAL), "flags");
    for version in [0, 2] {
        let (answer, args) = open(&device, OpenArgs { version, ..good });
        ensure!(answer.err() == Some(libc::EPROTONOSUPPORT) && args.version == VERSION, "version {version}: {args:?}");
    }
    let (answer, args) = open(&device, good);
    let fd = answer.ok().context("it does not open")?;
    ensure!(args.version == VERSION && args.capabilities == 0, "{args:?}");
    // SAFETY: reads flags of a descriptor.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) };
    ensure!(flags & libc::FD_CLOEXEC != 0, "it outlives exec");
    let link = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    ensure!(link.to_string_lossy().contains("kfd_sched"), "it is named {}", link.display());
    Ok(())
}

pub(super) fn arguments_are_checked(_: &Options) -> Result<()> {
    let sched = Sched::new()?;
    let good = SwitchArgs { grace_period: GRACE_DEFAULT, ..SwitchArgs::default() };
    let entry = all(1, RESUME);
    let most = MAX_ENTRIES;
    ensure!(sched.switch(&vec![entry; most]).is_ok(), "{most} entries");
    ensure!(sched.switch(&vec![entry; most + 1]).err() == Some(libc::E2BIG), "{} entries", most + 1);
    ensure!(sched.switch(&[]).is_ok_and(|done| done.cycles == 0 && done.changed == 0), "no entry");
    let flags = sched.switch_with(&[entry], SwitchArgs { flags: 1, ..good });
    ensure!(flags.err() == Some(libc::EINVAL), "flags");
    for (entry_size, error) in [(32, libc::EINVAL), (44, libc::EINVAL), (4104, libc::EINVAL), (40, libc::EFAULT)] {
        let mut args = SwitchArgs { entries_ptr: 8, num_entries: 1, entry_size, ..good };
        // SAFETY: nothing is mapped at the address.
        let answer = unsafe { call(sched.0.as_fd(), SWITCH, &mut args) };
        ensure!(answer == Err(error), "entries of {entry_size} bytes at 8: {answer:?}");
    }
    for args in [
        QueryArgs { queue_size: 96, ..QueryArgs::default() },
        QueryArgs { queue_size: 104, flags: 1, ..QueryArgs::default() },
        QueryArgs { queue_size: 104, pid: -1, ..QueryArgs::default() },
    ] {
        // SAFETY: there is room for no element.
        let answer = unsafe { call(sched.0.as_fd(), QUERY, &mut { args }) };
        ensure!(answer == Err(libc::EINVAL), "{args:?}: {answer:?}");
    }
    Ok(())
}

pub(super) fn entries_are_checked(_: &Options) -> Result<()> {
    let sched = Sched::new()?;
    let tenant = Tenant::start(1)?;
    let good = all(tenant.pid(), PREEMPT);
    let copies = kfd_runtime::Runtime::open()?;
    let copy = kfd_runtime::CopyQueue::new(copies.device(0)?)?;
    let own = sched.queues(std::process::id())?;
    let sdma =
        own.iter().find(|queue| queue.queue_type == QueueType::SDMA).context("the copy queue is not listed")?.queue_id;
    for (entry, error) in [
        (Entry { action: Action(0), ..good }, libc::EINVAL),
        (Entry { action: Action(3), ..good }, libc::EINVAL),
        (Entry { flags: 1, ..good }, libc::EINVAL),
        (Entry { context_id: 0, ..good }, libc::EOPNOTSUPP),
        (Entry { gpu_id: 1, ..good }, libc::ENODEV),
        (Entry { queue_id: 77, ..good }, libc::ENOENT),
        (all(0, PREEMPT), libc::ESRCH),
        (all(1, PREEMPT), libc::ESRCH),
        (all(u32::MAX, PREEMPT), libc::ESRCH),
        (all(thread_id()?, PREEMPT), libc::ESRCH),
        (one(std::process::id(), sdma, PREEMPT), libc::EINVAL),
    ] {
        let status = sched.status(entry)?;
        ensure!(status == -error, "{entry:?}: status {status}, not {}", -error);
    }
    drop(copy);
    ensure!(sched.queues(tenant.pid())?.iter().all(|queue| queue.flags.has(ACTIVE)), "something was stopped");
    Ok(())
}

/// Returns the id of a thread that is not the leader of its group and lives on for the test's sake.
fn thread_id() -> Result<u32> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // SAFETY: takes no argument.
        let _ = sender.send(unsafe { libc::gettid() });
        thread::park();
    });
    Ok(receiver.recv()?.cast_unsigned())
}

pub(super) fn start_times_are_compared(_: &Options) -> Result<()> {
    let sched = Sched::new()?;
    let tenant = Tenant::start(1)?;
    let time = start_time(tenant.pid())?;
    let entry = all(tenant.pid(), PREEMPT);
    for (start_time, expected) in [(time, 0), (0, 0), (time + 1, -libc::ESRCH), (time - 1, -libc::ESRCH)] {
        let status = sched.status(Entry { start_time, ..entry })?;
        ensure!(status == expected, "started at {time}, entry says {start_time}: {status}");
    }
    ensure!(sched.queues(tenant.pid())?.iter().all(|queue| queue.start_time == time), "QUERY says another time");
    Ok(())
}

pub(super) fn sizes_are_versions(_: &Options) -> Result<()> {
    #[repr(C)]
    #[derive(Default)]
    struct Longer<T> {
        known: T,
        unknown: u64,
    }

    let sched = Sched::new()?;
    let tenant = Tenant::start(1)?;
    for (unknown, expected) in [(0, Ok(())), (1, Err(libc::E2BIG))] {
        let mut entry = Longer { known: all(tenant.pid(), PREEMPT), unknown };
        let args = SwitchArgs {
            entries_ptr: std::ptr::from_mut(&mut entry).expose_provenance() as u64,
            num_entries: 1,
            entry_size: size_of_val(&entry) as u32,
            grace_period: GRACE_DEFAULT,
            ..SwitchArgs::default()
        };
        // SAFETY: the entry lives until the call returns.
        let answer = unsafe { call(sched.0.as_fd(), SWITCH, &mut { args }) };
        ensure!(answer == expected, "a longer entry: {answer:?}");
        // SAFETY: as above.
        let answer = unsafe { call(sched.0.as_fd(), SWITCH, &mut Longer { known: args, unknown }) };
        ensure!(answer == Err(libc::E2BIG) || expected.is_ok(), "longer arguments: {answer:?}");
    }
    let mut queue = Longer { known: crate::interface::Queue::default(), unknown: 7 };
    let mut args = QueryArgs {
        queues_ptr: std::ptr::from_mut(&mut queue).expose_provenance() as u64,
        num_queues: 1,
        queue_size: size_of_val(&queue) as u32,
        pid: tenant.pid().cast_signed(),
        ..QueryArgs::default()
    };
    // SAFETY: there is room for one element.
    unsafe { call(sched.0.as_fd(), QUERY, &mut args) }.map_err(std::io::Error::from_raw_os_error)?;
    ensure!(args.num_found == 1 && args.num_queues == 1 && queue.known.pid == args.pid, "{args:?}, {:?}", queue.known);
    ensure!(queue.unknown == 0, "what the driver does not know is {}", queue.unknown);
    Ok(())
}
