//! A call as it arrives, and which memory of the caller it needs.

use std::mem::offset_of;

use kfd_abi::debug::{self, DbgTrapArgs, DeviceSnapshotEntry, QueueSnapshotEntry, RuntimeInfo, TrapOp};
use kfd_abi::event::{EventData, MemoryException, WaitEventsArgs};
use kfd_abi::ioctl::{self, Lookup};
use kfd_abi::memory::{DeviceApertures, GetDmabufInfoArgs, GetProcessAperturesNewArgs, MapMemoryArgs};
use kfd_abi::process::GetTileConfigArgs;
use kfd_abi::queue::{MAX_CU_MASK_BITS, MAX_QUEUES_PER_PROCESS, SetCuMaskArgs};
use kfd_abi::{Abi, drm};
use serde::{Deserialize, Serialize};

use super::{Effects, Errno, EventWait, ProcessKey};
use crate::profile::MAX_GPUS;

/// Largest argument: a request has 14 bits for its size.
pub const MAX_ARGS: usize = (1 << 14) - 1;
/// Tile modes the driver knows; all are zero from gfx9 on.
pub(super) const TILE_MODES: u32 = 32;
/// Macro tile modes the driver knows.
pub(super) const MACRO_TILE_MODES: u32 = 16;
/// Entries of a list of gpus. A gpu may stand in it more than once, but no program has reason to.
pub(super) const MAX_DEVICE_IDS: u32 = 1024;
/// Events of one wait: more than a process can have of those that can be raised, each twice.
pub(super) const MAX_WAIT_EVENTS: u32 = 8192;
/// Bytes of the answer to a device query; the largest is a tenth of it.
const MAX_INFO_BYTES: u32 = 1 << 14;

/// Bytes of a snapshot whose entries are longer than the driver's; a debugger of a driver that knows twice as much
/// needs an eighth of it.
const MAX_SNAPSHOT_BYTES: usize = 1 << 20;

/// A descriptor that a call names, as the client side found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FdKind {
    /// A render node.
    Render {
        /// Its minor number.
        minor: u32,
        /// Tells one opening of the device from another; copies of a descriptor have the same.
        file: u64,
    },
    /// A DMA buffer made by [`ProcessEffect::ExportDmabuf`](super::ProcessEffect::ExportDmabuf).
    Dmabuf {
        /// The token.
        token: u64,
    },
    /// An open descriptor of something else.
    Other,
}

/// Clocks of the host at the time of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// `CLOCK_MONOTONIC_RAW` in nanoseconds.
    pub monotonic_raw_ns: u64,
    /// `CLOCK_BOOTTIME` in nanoseconds.
    pub boottime_ns: u64,
}

/// What a call waits for. Its caller sleeps and repeats it with [`Driver::retry`](super::Driver::retry).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blocked {
    /// A queue that a debugger stopped is to be destroyed: that waits until it is resumed.
    DestroyQueue {
        /// The queue.
        id: u32,
    },
    /// The runtime offers itself to a debugger, or ceases to, and waits for the debugger's word.
    Runtime,
}

/// A call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The argument structure, as long as the caller's; answered in place. As with the real driver the answer counts
    /// even if the call fails.
    pub args: Vec<u8>,
    /// The memory it points to, in the order of [`buffers`]. What the caller gives is in it; of what the driver fills,
    /// as many bytes as it holds afterwards are copied out.
    pub buffers: Vec<Vec<u8>>,
    /// The descriptor that the arguments name, or on which a render-node call is made. `None` if it is not open.
    pub fd: Option<FdKind>,
    /// The descriptor that the arguments of a render-node call name. `None` if it is not open.
    pub named: Option<FdKind>,
    /// What time it is.
    pub clocks: Clocks,
    /// Whether the caller has `CAP_CHECKPOINT_RESTORE` or `CAP_SYS_ADMIN`.
    pub checkpoint_restore: bool,
    /// The process that a debugger call names, as the owner of the driver found it. Without it the
    /// newest process with that pid is meant, and a process that has not opened the driver cannot be named.
    pub target: Option<ProcessKey>,
    /// The thread that traces the target's first thread is the caller's.
    pub traces_target: bool,
    /// The thread that makes the call.
    pub tid: u32,
    /// Tells one opening of `/dev/kfd` from another; copies of a descriptor have the same.
    pub opening: u64,
    /// What the call waits for, filled; its result counts for nothing then, but its effects do. It stays as it is when
    /// the call is repeated.
    pub blocked: Option<Blocked>,
    /// Events that the caller sleeps for before it returns, filled; it does so after it has applied the effects.
    pub wait: Option<EventWait>,
    /// What the call changes outside of the driver, filled; it counts even if the call fails.
    pub effects: Effects,
}

impl Call {
    /// A call with this argument structure.
    #[must_use]
    pub fn new<T: Abi>(args: &T) -> Call {
        let mut bytes = vec![0; T::SIZE];
        // The room is exactly as large as the value.
        let _ = args.encode(&mut bytes);
        Call { args: bytes, ..Call::default() }
    }

    /// The argument structure, filled up with zeros if the caller's is shorter.
    #[must_use]
    pub fn decode<T: Abi>(&self) -> T {
        decode_padded(&self.args)
    }

    /// Puts the argument structure back, as much of it as the caller has room for.
    pub fn put<T: Abi>(&mut self, args: &T) {
        let bytes = encode(args);
        let length = self.args.len().min(bytes.len());
        self.args[..length].copy_from_slice(&bytes[..length]);
    }

    /// A buffer of the caller as a list of values. `EFAULT` if the client side could not read it.
    pub(super) fn list<T: Abi>(&self, buffer: usize, count: u32) -> Result<Vec<T>, Errno> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let bytes = self.buffers.get(buffer).ok_or(Errno::EFAULT)?;
        let wanted = (count as usize).checked_mul(T::SIZE).ok_or(Errno::EFAULT)?;
        let bytes = bytes.get(..wanted).ok_or(Errno::EFAULT)?;
        Ok(bytes.chunks_exact(T::SIZE).filter_map(T::decode).collect())
    }

    /// Fills a buffer of the caller. Nothing to do if it is empty and the caller gave none.
    pub(super) fn answer(&mut self, buffer: usize, bytes: Vec<u8>) -> Result<(), Errno> {
        match self.buffers.get_mut(buffer) {
            Some(room) => *room = bytes,
            None if bytes.is_empty() => {}
            None => return Err(Errno::EFAULT),
        }
        Ok(())
    }
}

pub(super) fn decode_padded<T: Abi>(bytes: &[u8]) -> T {
    if let Some(value) = T::decode(bytes) {
        return value;
    }
    let mut padded = bytes.to_vec();
    padded.resize(T::SIZE, 0);
    T::decode(&padded).unwrap_or(T::ZERO)
}

pub(super) fn encode<T: Abi>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; T::SIZE];
    let _ = value.encode(&mut bytes);
    bytes
}

/// Direction in which a buffer is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferDirection {
    /// The caller.
    In,
    /// The driver.
    Out,
    /// First the caller, then the driver.
    InOut,
}

/// Memory of the caller that an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// Offset of the pointer in the argument structure.
    pub pointer_offset: usize,
    /// Where the memory is.
    pub address: u64,
    /// Bytes.
    pub len: usize,
    /// Direction in which it is copied.
    pub direction: BufferDirection,
}

fn spec(pointer_offset: usize, address: u64, len: usize, direction: BufferDirection) -> BufferSpec {
    BufferSpec { pointer_offset, address, len, direction }
}

/// The memory that a call on `/dev/kfd` needs. Of what the driver fills, no more than it can fill is asked for.
///
/// # Errors
/// `EINVAL` for lists longer than any program needs; the real driver fails to allocate a copy of such a list.
pub fn buffers(nr: u32, args: &[u8]) -> Result<Vec<BufferSpec>, Errno> {
    use BufferDirection::{In, InOut, Out};
    let Some(Lookup::Known(command)) = u8::try_from(nr).ok().map(ioctl::lookup) else { return Ok(Vec::new()) };
    let specs = match command {
        ioctl::GET_PROCESS_APERTURES_NEW => {
            let args: GetProcessAperturesNewArgs = decode_padded(args);
            let len = args.num_of_nodes.min(MAX_GPUS) as usize * DeviceApertures::SIZE;
            vec![spec(0, args.kfd_process_device_apertures_ptr, len, Out)]
        }
        ioctl::GET_TILE_CONFIG => {
            let args: GetTileConfigArgs = decode_padded(args);
            let len = |count: u32, most: u32| count.min(most) as usize * 4;
            vec![
                spec(0, args.tile_config_ptr, len(args.num_tile_configs, TILE_MODES), Out),
                spec(8, args.macro_tile_config_ptr, len(args.num_macro_tile_configs, MACRO_TILE_MODES), Out),
            ]
        }
        ioctl::MAP_MEMORY_TO_GPU | ioctl::UNMAP_MEMORY_FROM_GPU => {
            // Both have the same layout.
            let args: MapMemoryArgs = decode_padded(args);
            if args.n_devices > MAX_DEVICE_IDS {
                return Err(Errno::EINVAL);
            }
            vec![spec(8, args.device_ids_array_ptr, args.n_devices as usize * 4, In)]
        }
        ioctl::GET_DMABUF_INFO => {
            let args: GetDmabufInfoArgs = decode_padded(args);
            let room = if args.metadata_ptr == 0 { 0 } else { args.metadata_size };
            let offset = offset_of!(GetDmabufInfoArgs, metadata_ptr);
            vec![spec(offset, args.metadata_ptr, room.min(drm::GemMetadataArgs::DATA_BYTES) as usize, Out)]
        }
        ioctl::SET_CU_MASK => {
            let args: SetCuMaskArgs = decode_padded(args);
            vec![spec(8, args.cu_mask_ptr, args.num_cu_mask.min(MAX_CU_MASK_BITS) as usize / 32 * 4, In)]
        }
        ioctl::WAIT_EVENTS => {
            let args: WaitEventsArgs = decode_padded(args);
            if args.num_events > MAX_WAIT_EVENTS {
                return Err(Errno::EINVAL);
            }
            vec![spec(0, args.events_ptr, args.num_events as usize * EventData::SIZE, InOut)]
        }
        ioctl::DBG_TRAP => debug_buffer(&decode_padded(args))?.into_iter().collect(),
        _ => Vec::new(),
    };
    Ok(specs)
}

/// The memory that a debugger call needs. Of a list that the driver refuses unread there is none.
fn debug_buffer(args: &DbgTrapArgs) -> Result<Option<BufferSpec>, Errno> {
    use BufferDirection::{InOut, Out};
    /// Where the operation's own arguments start.
    const UNION: usize = offset_of!(DbgTrapArgs, args);
    let runtime_info = |size: u32| (size as usize).min(RuntimeInfo::SIZE);
    let exception_info = |size: u32| (size as usize).min(RuntimeInfo::SIZE.max(MemoryException::SIZE));
    let queues = |count: u32| if count > MAX_QUEUES_PER_PROCESS { 0 } else { count as usize * 4 };
    // Longer entries than the driver's leave gaps, in which the caller's bytes stay as they are.
    let snapshot = |count: u32, most: u32, stride: u32, entry: usize| {
        let len = count.min(most) as usize * stride as usize;
        let gaps = stride as usize > entry;
        if gaps && len > MAX_SNAPSHOT_BYTES {
            return Err(Errno::EINVAL);
        }
        Ok((len, if gaps { InOut } else { Out }))
    };
    let (offset, address, len, direction) = match args.op {
        TrapOp::ENABLE => {
            let args: debug::Enable = args.args.get();
            (offset_of!(debug::Enable, rinfo_ptr), args.rinfo_ptr, runtime_info(args.rinfo_size), Out)
        }
        TrapOp::SUSPEND_QUEUES => {
            let args: debug::SuspendQueues = args.args.get();
            (offset_of!(debug::SuspendQueues, queue_array_ptr), args.queue_array_ptr, queues(args.num_queues), InOut)
        }
        TrapOp::RESUME_QUEUES => {
            let args: debug::ResumeQueues = args.args.get();
            (offset_of!(debug::ResumeQueues, queue_array_ptr), args.queue_array_ptr, queues(args.num_queues), InOut)
        }
        TrapOp::QUERY_EXCEPTION_INFO => {
            let args: debug::QueryExceptionInfo = args.args.get();
            (offset_of!(debug::QueryExceptionInfo, info_ptr), args.info_ptr, exception_info(args.info_size), Out)
        }
        TrapOp::GET_QUEUE_SNAPSHOT => {
            let args: debug::GetQueueSnapshot = args.args.get();
            let (len, direction) =
                snapshot(args.num_queues, MAX_QUEUES_PER_PROCESS, args.entry_size, QueueSnapshotEntry::SIZE)?;
            (offset_of!(debug::GetQueueSnapshot, snapshot_buf_ptr), args.snapshot_buf_ptr, len, direction)
        }
        TrapOp::GET_DEVICE_SNAPSHOT => {
            let args: debug::GetDeviceSnapshot = args.args.get();
            let (len, direction) = snapshot(args.num_devices, MAX_GPUS, args.entry_size, DeviceSnapshotEntry::SIZE)?;
            (offset_of!(debug::GetDeviceSnapshot, snapshot_buf_ptr), args.snapshot_buf_ptr, len, direction)
        }
        _ => return Ok(None),
    };
    // No memory is there to be read at address 0; the driver knows what to say to that.
    let len = if address == 0 { 0 } else { len };
    Ok(Some(spec(UNION + offset, address, len, direction)))
}

/// The memory that a call on a render node needs.
///
/// # Errors
/// `EINVAL` where the real driver answers so before it looks at the memory.
pub fn drm_buffers(nr: u32, args: &[u8]) -> Result<Vec<BufferSpec>, Errno> {
    use BufferDirection::Out;
    if nr == u32::from(drm::VERSION.nr) {
        let args: drm::VersionArgs = decode_padded(args);
        let len = |room: u64| room.min(super::drm::MAX_VERSION_TEXT) as usize;
        return Ok(vec![
            spec(24, args.name, len(args.name_len), Out),
            spec(40, args.date, len(args.date_len), Out),
            spec(56, args.desc, len(args.desc_len), Out),
        ]);
    }
    if nr == u32::from(drm::AMDGPU_GEM_OP.nr) {
        let args: drm::GemOpArgs = decode_padded(args);
        let len = if args.op == drm::GemOpArgs::GET_CREATE_INFO { drm::GemCreateArgs::SIZE } else { 0 };
        return Ok(vec![spec(offset_of!(drm::GemOpArgs, value), args.value, len, Out)]);
    }
    if nr == u32::from(drm::AMDGPU_INFO.nr) {
        let args: drm::InfoArgs = decode_padded(args);
        return Ok(vec![spec(0, args.return_pointer, args.return_size.min(MAX_INFO_BYTES) as usize, Out)]);
    }
    Ok(Vec::new())
}
