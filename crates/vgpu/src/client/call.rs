//! An ioctl on its way to the supervisor and back.

use std::os::fd::RawFd;

use kfd_abi::Abi;
use kfd_abi::event::{EventData, WaitEventsArgs, WaitResult};
use kfd_abi::ioctl as numbers;
use kfd_abi::memory::{AllocFlags, AllocMemoryArgs};
use kfd_abi::svm::SvmArgs;

use super::session::{self, Session};
use super::{files, user};
use crate::driver::{self, BufferDirection, BufferSpec, Call, Effect, FdKind};
use crate::protocol::{Device, Reply, Request};

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
    let number = (request & 0xFF) as u32;
    let size = (request >> 16 & 0x3FFF) as usize;
    let args = user::read(argument, size)?;
    if device == Device::Kfd {
        check_user_memory(number, &args)?;
    }
    let specs = match device {
        Device::Kfd => driver::buffers(number, &args),
        Device::Render => driver::drm_buffers(number, &args),
    };
    let specs = specs.map_err(|errno| errno.0)?;
    let buffers = copy_in(&specs)?;
    let named = match device {
        Device::Kfd => named_descriptor(number, &args).and_then(kind_of),
        Device::Render => kind_of(fd),
    };
    let call = Call { args, buffers, fd: named, ..Call::default() };
    let (mut result, mut call) = ask(session, device, number, call)?;
    for effect in std::mem::take(&mut call.effects) {
        if let Effect::WaitEvents { all, .. } = effect {
            result = wait(attached, &mut call, all);
        } else if let Err(errno) = attached.apply(effect, &mut call.args) {
            result = -i64::from(errno);
        }
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

fn ask(session: &'static Session, device: Device, number: u32, call: Call) -> Result<(i64, Call), i32> {
    match session.ask(&Request::Call { device, number, call }, &[]) {
        Some(Reply::Returned(result, call)) => Ok((result, call)),
        _ => Err(libc::ENODEV),
    }
}

fn copy_in(specs: &[BufferSpec]) -> Result<Vec<Vec<u8>>, i32> {
    specs
        .iter()
        .map(|spec| match spec.direction {
            BufferDirection::Out => Ok(vec![0; spec.len]),
            BufferDirection::In | BufferDirection::InOut => user::read(spec.address, spec.len),
        })
        .collect()
}

fn copy_out(specs: &[BufferSpec], buffers: &[Vec<u8>]) -> Result<(), i32> {
    for (spec, buffer) in specs.iter().zip(buffers) {
        if spec.direction != BufferDirection::In {
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
        () => None,
    }
}

fn kind_of(fd: RawFd) -> Option<FdKind> {
    if let Some(path) = files::path_of(fd) {
        if path.starts_with(files::RENDER) {
            return files::opening_of(fd).map(|(minor, file)| FdKind::Render { minor, file });
        }
        if let Some(token) = path.strip_prefix(super::attached::DMABUF).and_then(|token| token.parse().ok()) {
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
    let mut bytes = vec![0; WaitEventsArgs::SIZE];
    let _ = args.encode(&mut bytes);
    let length = call.args.len().min(bytes.len());
    call.args[..length].copy_from_slice(&bytes[..length]);
    match outcome {
        // An event was destroyed while somebody waited for it.
        Ok(WaitResult::FAIL) => -i64::from(libc::EIO),
        Ok(_) => 0,
        Err(errno) => -i64::from(errno),
    }
}
