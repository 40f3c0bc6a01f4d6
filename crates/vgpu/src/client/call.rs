//! Sends an ioctl to the supervisor and applies its answer.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use kfd_abi::Abi;
use kfd_abi::debug::{self, DbgTrapArgs, TrapOp};
use kfd_abi::drm::{self, PrimeHandleArgs};
use kfd_abi::event::{EventData, WaitEventsArgs, WaitResult};
use kfd_abi::ioctl as numbers;
use kfd_abi::memory::{AllocFlags, AllocMemoryArgs};
use kfd_abi::svm::{SvmArgs, SvmOp};

use super::session::{self, Session};
use super::shared::Range;
use super::{files, user};
use crate::driver::{self, BufferDirection, BufferSpec, Call, FdKind, ProcessKey};
use crate::kill_points::{self, Point};
use crate::protocol::{DMABUF, Device, Reply, Site, SupervisorRequest};
use crate::sys;

/// Type bytes of the two families of calls.
const KFD_CALLS: u64 = b'K' as u64;
const DRM_CALLS: u64 = b'd' as u64;

/// Carries out an ioctl if the descriptor is one of ours.
pub fn ioctl(fd: RawFd, request: u64, argument: *mut u8) -> Option<Result<i32, i32>> {
    let family = request >> 8 & 0xFF;
    if !(family == KFD_CALLS || family == DRM_CALLS) || !session::is_in_use() {
        return None;
    }
    let path = files::path_of(fd)?;
    let device = match path.as_str() {
        "/dev/kfd" => Device::Kfd,
        path if path.starts_with(files::RENDER) => Device::Render,
        _ => return Some(Err(libc::ENOTTY)),
    };
    let expected = if device == Device::Kfd { KFD_CALLS } else { DRM_CALLS };
    if family != expected {
        return Some(Err(if device == Device::Kfd { libc::ENOTTY } else { libc::EINVAL }));
    }
    Some(call(device, fd, request, argument.expose_provenance() as u64))
}

fn call(device: Device, fd: RawFd, request: u64, argument: u64) -> Result<i32, i32> {
    // A descriptor that another process opened, inherited through a fork or an exec, is not this process's gpu.
    let session = session::get().ok_or(libc::ENODEV)?;
    let attached = match session.attached.get() {
        Some(Ok(attached)) => attached,
        _ => return Err(libc::EBADF),
    };
    // SAFETY: takes no argument and cannot fail.
    if session.pid != unsafe { libc::getpid() } {
        return Err(libc::EBADF);
    }
    // Every process has a file of its own: one that came from another process by any way is that process's gpu. Render
    // nodes may be passed on.
    if device == Device::Kfd && !sys::is_same_file(fd, attached.kfd()?.as_raw_fd()) {
        return Err(libc::EBADF);
    }
    let number = (request & 0xFF) as u32;
    let size = (request >> 16 & 0x3FFF) as usize;
    let args = user::read(argument, size)?;
    let debugs = device == Device::Kfd && number == u32::from(numbers::DBG_TRAP.nr);
    let mut turn = if debugs { None } else { Some(session.take_turn()) };
    if device == Device::Kfd {
        check_user_memory(number, &args)?;
        tell_unmapped(session, attached, number, &args)?;
    }
    let specs = match device {
        Device::Kfd => driver::buffers(number, &args),
        Device::Render => driver::drm_buffers(number, &args),
    };
    let specs = specs.map_err(|errno| errno.0)?;
    let buffers = copy_in(&specs);
    let named = match device {
        Device::Kfd => named_descriptor(number, &args),
        Device::Render => named_dmabuf(number, &args),
    };
    let kind = named.and_then(kind_of);
    let (on, named_kind) = match device {
        Device::Kfd => (kind, None),
        Device::Render => (kind_of(fd), kind),
    };
    // SAFETY: takes no argument and cannot fail.
    let tid = unsafe { libc::gettid() }.cast_unsigned();
    let site = Site { tid, fd, request, argument };
    let opening = if device == Device::Kfd { files::opening_of(fd).map_or(0, |(_, opening)| opening) } else { 0 };
    if device == Device::Kfd && number == u32::from(numbers::CREATE_PROCESS.nr) {
        // The supervisor notices by this when the last copy of the descriptor is closed.
        sys::lock_number(fd, opening).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    }
    let call = Call { args, buffers, fd: on, named: named_kind, tid, opening, ..Call::default() };
    let along = match (exports(device, number), kind) {
        (true, _) => Some(attached.buffers()?),
        // The driver keeps the descriptor after the call: a debugger is told of events there.
        (false, _) if debugs => named.and_then(copy),
        (false, Some(FdKind::Dmabuf { .. })) => named.and_then(copy),
        (false, _) => None,
    };
    let request = SupervisorRequest::Call { device, number, call, site };
    let apart = debugs.then_some(attached.process);
    let (mut result, mut call, mut file) = ask(session, apart, &request, along.as_ref())?;
    if call.blocked.is_some() {
        drop(turn.take());
        (result, call, file) = wait_and_retry(session, attached, Waiting { number, call, site })?;
    }
    kill_points::hit(Point::IoctlReplied);
    let effects = std::mem::take(&mut call.effects.process);
    if let Err(errno) = attached.apply(effects, &mut call.args, file) {
        result = -i64::from(errno);
    }
    if let Some(events) = call.wait.take() {
        drop(turn.take());
        result = wait(attached, &mut call, events.all);
    }
    if device == Device::Kfd && result >= 0 {
        note_shared(session, number, &call.args);
    }
    user::write(argument, &call.args)?;
    copy_out(&specs, &call.buffers)?;
    if result < 0 { Err(-result as i32) } else { Ok(result as i32) }
}

/// Memory of the process that it offers to the gpu must be there: only this side can tell.
fn check_user_memory(number: u32, args: &[u8]) -> Result<(), i32> {
    let range = if number == u32::from(numbers::ALLOC_MEMORY_OF_GPU.nr) {
        let args = AllocMemoryArgs::decode(args);
        args.filter(|args| args.flags.has(AllocFlags::USERPTR)).map(|args| (args.mmap_offset, args.size))
    } else if number == u32::from(numbers::SVM.nr) {
        SvmArgs::decode(args).map(|args| (args.start_addr, args.size))
    } else {
        None
    };
    match range {
        // The driver refuses what is no range of whole pages.
        Some((start, size)) if start % 4096 == 0 && size > 0 && !user::exists(start, size) => Err(libc::EFAULT),
        _ => Ok(()),
    }
}

/// Tells the driver what has been unmapped since the last call. Addresses that this call names are looked at, too: the
/// C library unmaps memory without calling a hook, and a new buffer may be in the place of memory that was shared once.
fn tell_unmapped(
    session: &'static Session,
    attached: &super::attached::Attached,
    number: u32,
    args: &[u8],
) -> Result<(), i32> {
    let changing = session.shared.change();
    let mut ranges = changing.take_unmapped();
    for (start, size) in named_ranges(number, args) {
        let exists = |(start, end): Range| user::exists(start, end - start);
        ranges.extend(changing.take_missing(start, start.saturating_add(size), exists));
    }
    if ranges.is_empty() {
        return Ok(());
    }
    match session.ask(&SupervisorRequest::Unmapped { ranges }, &[]) {
        Some(Reply::Returned(_, call)) => attached.apply(call.effects.process, &mut [], None),
        _ => Err(libc::ENODEV),
    }
}

/// Ranges of addresses that must not be shared, or are going to be: start and size.
fn named_ranges(number: u32, args: &[u8]) -> Vec<(u64, u64)> {
    if number == u32::from(numbers::ALLOC_MEMORY_OF_GPU.nr) {
        let args = AllocMemoryArgs::decode(args);
        args.map_or_else(Vec::new, |args| vec![(args.va_addr, args.size), (args.mmap_offset, args.size)])
    } else {
        Vec::new()
    }
}

/// Remembers what a successful call shares with the gpu.
fn note_shared(session: &'static Session, number: u32, args: &[u8]) {
    if number == u32::from(numbers::SVM.nr)
        && let Some(args) = SvmArgs::decode(args)
        && args.op == SvmOp::SET_ATTR
    {
        session.shared.change().add(args.start_addr, args.start_addr.saturating_add(args.size));
    }
}

/// Result, answers, and the file that came with them.
type Answered = (i64, Call, Option<OwnedFd>);

/// Asks, on a connection of this thread's own if `apart`.
fn ask(
    session: &'static Session,
    apart: Option<ProcessKey>,
    request: &SupervisorRequest,
    along: Option<&OwnedFd>,
) -> Result<Answered, i32> {
    let along: Vec<_> = along.iter().map(|file| file.as_fd()).collect();
    let answer = match apart {
        Some(process) => session.ask_apart(process, request, &along),
        None => session.ask_for_files(request, &along),
    };
    match answer {
        Some((Reply::Returned(result, call), files)) => Ok((result, *call, files.into_iter().next())),
        _ => Err(libc::ENODEV),
    }
}

/// A call that cannot go on yet.
struct Waiting {
    number: u32,
    call: Call,
    site: Site,
}

/// How often a call that waits looks for a signal.
const SIGNALS: Duration = Duration::from_millis(10);
/// How often a call that waits is repeated although nothing has changed: the driver may be gone.
const LOOK: Duration = Duration::from_millis(100);

/// Sleeps until a call that waits may go on, and repeats it until it need not wait any more.
///
/// A signal ends the wait, whenever it comes. In the kernel that is so from the first moment of a call. Here a handler
/// may run during a question to the driver and leave no trace, so signals are held back from before the driver lists
/// the thread among those that wait.
fn wait_and_retry(
    session: &'static Session,
    attached: &super::attached::Attached,
    waiting: Waiting,
) -> Result<Answered, i32> {
    let Waiting { number, mut call, site } = waiting;
    let held = sys::HeldSignals::hold();
    loop {
        let seen = attached.control.changes();
        // Effects of the part that is done.
        attached.apply(std::mem::take(&mut call.effects.process), &mut call.args, None)?;
        // The wait may have ended between the answer and here.
        let request = SupervisorRequest::Retry { number, call, site };
        let answered = ask(session, None, &request, None)?;
        let Some(blocked) = answered.1.blocked else { return Ok(answered) };
        let begun = Instant::now();
        while attached.control.changes() == seen && begun.elapsed() < LOOK {
            if held.deliver() {
                session.ask(&SupervisorRequest::Abandon { blocked, site }, &[]);
                return Err(libc::EINTR);
            }
            attached.control.wait_for_change(seen, SIGNALS);
        }
        call = answered.1;
    }
}

/// Whether a call makes a DMA buffer: the supervisor keeps the file of buffers then.
fn exports(device: Device, number: u32) -> bool {
    let command = match device {
        Device::Kfd => numbers::EXPORT_DMABUF,
        Device::Render => drm::PRIME_HANDLE_TO_FD,
    };
    number == u32::from(command.nr)
}

/// The descriptor that the arguments of a call on a render node name.
fn named_dmabuf(number: u32, args: &[u8]) -> Option<RawFd> {
    let is_import = number == u32::from(drm::PRIME_FD_TO_HANDLE.nr);
    PrimeHandleArgs::decode(args).filter(|_| is_import).map(|args| args.fd)
}

/// A copy of a descriptor of the program.
fn copy(file: RawFd) -> Option<OwnedFd> {
    // SAFETY: a descriptor that is not open gives an error; a copy is ours.
    let copy = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 0) };
    // SAFETY: just made, and owned by nothing else.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Memory of the caller that a call brings along. What cannot be read is left out: the driver says so when it comes to
/// it, after everything that it checks before.
fn copy_in(specs: &[BufferSpec]) -> Vec<Vec<u8>> {
    let read = |spec: &BufferSpec| match spec.direction {
        BufferDirection::Out => vec![0; spec.len],
        BufferDirection::In | BufferDirection::InOut => user::read(spec.address, spec.len).unwrap_or_default(),
    };
    specs.iter().map(read).collect()
}

fn copy_out(specs: &[BufferSpec], buffers: &[Vec<u8>]) -> Result<(), i32> {
    for (spec, buffer) in specs.iter().zip(buffers) {
        if spec.direction != BufferDirection::In && !buffer.is_empty() {
            user::write(spec.address, &buffer[..buffer.len().min(spec.len)])?;
        }
    }
    Ok(())
}

/// The descriptor that the arguments of a call name.
fn named_descriptor(number: u32, args: &[u8]) -> Option<RawFd> {
    let at = |offset: usize| Some(RawFd::from_le_bytes(args.get(offset..offset + 4)?.try_into().ok()?));
    let is = |command: numbers::Command| number == u32::from(command.nr);
    match () {
        () if is(numbers::ACQUIRE_VM) => at(0),
        () if is(numbers::GET_DMABUF_INFO) => at(28),
        () if is(numbers::IMPORT_DMABUF) => at(20),
        () if is(numbers::DBG_TRAP) => {
            let args = DbgTrapArgs::decode(args).filter(|args| args.op == TrapOp::ENABLE)?;
            Some(args.args.get::<debug::Enable>().dbg_fd.cast_signed())
        }
        () => None,
    }
}

fn kind_of(fd: RawFd) -> Option<FdKind> {
    if let Some(path) = files::path_of(fd) {
        if path.starts_with(files::RENDER) {
            return files::opening_of(fd).map(|(minor, file)| FdKind::Render { minor, file });
        }
        if let Some(token) = path.strip_prefix(DMABUF).and_then(|token| token.parse().ok()) {
            return Some(FdKind::Dmabuf { token });
        }
    }
    // SAFETY: asks for the flags of a descriptor.
    (unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0).then_some(FdKind::Other)
}

/// Sleeps for the events of a wait that the driver found in order.
fn wait(attached: &super::attached::Attached, call: &mut Call, all: bool) -> i64 {
    let mut args: WaitEventsArgs = call.decode();
    let Some(buffer) = call.buffers.first_mut() else { return -i64::from(libc::EFAULT) };
    let mut events: Vec<EventData> = buffer.chunks_exact(EventData::SIZE).filter_map(EventData::decode).collect();
    let outcome = attached.events.wait(&mut events, all, &mut args.timeout);
    for (event, bytes) in events.iter().zip(buffer.chunks_exact_mut(EventData::SIZE)) {
        let _ = event.encode(bytes);
    }
    args.wait_result = outcome.unwrap_or(WaitResult::FAIL);
    call.put(&args);
    match outcome {
        // An event was destroyed while the caller waited for it.
        Ok(WaitResult::FAIL) => -i64::from(libc::EIO),
        Ok(_) => 0,
        Err(errno) => -i64::from(errno),
    }
}
