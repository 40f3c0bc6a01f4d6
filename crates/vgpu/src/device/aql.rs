//! AQL: the packets of the HSA runtime.

use kfd_abi::aql::{
    FenceScope, Header, KernelDispatch, PACKET_SIZE, Packet, PacketKind, PacketType, Pm4Ib, SignalHandle,
};
use kfd_abi::exception::ExceptionCode;

use super::context::{Context, Step};
use super::dispatch::Dispatches;
use super::errors::Halt;
use super::kernel::{Kernel, LDS_GRANULE, properties};
use super::kernel_launch::KernelLaunch;
use super::pm4::Pm4;
use super::queue::HardwareQueueSpec;
use super::read_index::{self, ReadIndex};
use super::signal;
use super::stream::Stream;
use crate::driver::profile::ReadIndexKind;

/// Largest workgroup.
pub(crate) const MAX_ITEMS: u32 = 1024;
/// Most LDS of a workgroup.
pub(crate) const MAX_LDS: u32 = 64 << 10;
/// Most private memory of a work item: the hardware counts a wave's share in kilobytes with 13 bits.
pub(crate) const MAX_SCRATCH: u32 = 0x1FFF * 1024 / 64;
/// Private memory of a work item whose kernel calls what its compiler could not see.
const DYNAMIC_STACK: u32 = 16 << 10;

/// A packet that was taken from the ring and has not completed.
#[derive(Clone, Debug)]
struct Fetched {
    packet: Packet,
    /// Number in the queue.
    index: u64,
    /// Address in the ring.
    address: u64,
    /// Position in the ring.
    slot: u64,
    /// When its waits were over, in ticks of the device's clock.
    started: Option<u64>,
}

/// How far an AQL queue is.
#[derive(Clone, Debug)]
pub(crate) struct Aql {
    pub(crate) index: ReadIndex,
    current: Option<Fetched>,
}

/// Progress of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// It has completed.
    Completed,
    /// Its workgroups are on their way; it completes with the last of them.
    Launched,
    /// It goes on with the next step.
    UnderWay(Step),
}

impl Aql {
    pub(crate) fn new(kind: ReadIndexKind) -> Self {
        Self { index: ReadIndex::new(kind), current: None }
    }

    /// Whether a packet was fetched and is not through.
    pub(crate) fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Fetches a packet or goes on with the one that waits.
    pub(crate) fn step(
        &mut self,
        cx: &mut Context<'_>,
        spec: &HardwareQueueSpec,
        object: Option<u64>,
        pm4: &mut Pm4,
        dispatches: &mut Dispatches,
    ) -> Result<Step, Halt> {
        let mut fetched = match self.current.take() {
            Some(fetched) => fetched,
            None => match self.fetch(cx, spec)? {
                Some(fetched) => fetched,
                None => return Ok(Step::Empty),
            },
        };
        match process(&mut fetched, cx, object, pm4, dispatches)? {
            Progress::Completed => self.index.completed(cx, spec, fetched.index)?,
            Progress::Launched => {}
            Progress::UnderWay(step) => {
                self.current = Some(fetched);
                return Ok(step);
            }
        }
        Ok(Step::Done)
    }

    /// Takes the next packet out of the ring, if its producer has written it.
    fn fetch(&mut self, cx: &mut Context<'_>, spec: &HardwareQueueSpec) -> Result<Option<Fetched>, Halt> {
        let written = cx.memory.read_u64(spec.write_pointer)?;
        let index = self.index.next();
        if written.wrapping_sub(index).cast_signed() <= 0 || !self.index.may_fetch(spec) {
            return Ok(None);
        }
        let address = read_index::slot(spec, index);
        let header = Header(cx.memory.read_u32(address)? as u16);
        if header.kind() == PacketType::INVALID {
            return Ok(None);
        }
        let mut bytes = [0; PACKET_SIZE];
        cx.memory.read(address, &mut bytes)?;
        self.index.fetched(cx, spec)?;
        let slot = address.wrapping_sub(spec.ring) / PACKET_SIZE as u64;
        Ok(Some(Fetched { packet: Packet::decode(&bytes), index, address, slot, started: None }))
    }
}

/// Continues a packet.
fn process(
    fetched: &mut Fetched,
    cx: &mut Context<'_>,
    object: Option<u64>,
    pm4: &mut Pm4,
    dispatches: &mut Dispatches,
) -> Result<Progress, Halt> {
    let Packet { header, kind, completion } = fetched.packet;
    if fetched.started.is_none() {
        if header.barrier() && !dispatches.idle() {
            return Ok(Progress::UnderWay(Step::Wait));
        }
        if !is_ready(&kind, fetched.index, cx, pm4, dispatches)? {
            return Ok(Progress::UnderWay(Step::Wait));
        }
        if header.acquire() == FenceScope::SYSTEM {
            cx.invalidate_code();
        }
    }
    let started = *fetched.started.get_or_insert_with(cx.clock);
    match kind {
        PacketKind::KernelDispatch(dispatch) => {
            let launch = launch(&dispatch, fetched, cx, object)?;
            let workgroups = launch.workgroups().ok_or_else(|| dimensions("the grid has too many workgroups"))?;
            dispatches.push(launch, workgroups, Some(fetched.index), dispatch.completion_signal);
            return Ok(Progress::Launched);
        }
        PacketKind::Pm4Ib(_) => match pm4.step(None, cx, dispatches)? {
            Step::Empty if pm4.launched && !dispatches.idle() => return Ok(Progress::UnderWay(Step::Wait)),
            Step::Empty => pm4.launched = false,
            step => return Ok(Progress::UnderWay(step)),
        },
        _ => {}
    }
    signal::complete(cx, completion.map_or(0, SignalHandle::get), started)?;
    Ok(Progress::Completed)
}

/// Returns whether a packet need not wait, and starts the PM4 commands of one that jumps to them.
fn is_ready(
    kind: &PacketKind,
    index: u64,
    cx: &mut Context<'_>,
    pm4: &mut Pm4,
    dispatches: &Dispatches,
) -> Result<bool, Halt> {
    match kind {
        PacketKind::KernelDispatch(_) => Ok(!dispatches.full()),
        PacketKind::Pm4Ib(jump) => begin_commands(jump, index, pm4).map(|()| true),
        PacketKind::UnknownVendor(format) => {
            Err(vendor_unsupported(format!("packet {index} has the vendor format {format:?}")))
        }
        PacketKind::Invalid => Err(unknown(PacketType::INVALID, index)),
        PacketKind::Unknown(kind) => Err(unknown(*kind, index)),
        PacketKind::BarrierAnd(_) | PacketKind::BarrierOr(_) | PacketKind::BarrierValue(_) => {
            Ok(kind.passes(|dependency| signal::value(cx, dependency))?)
        }
    }
}

fn begin_commands(jump: &Pm4Ib, index: u64, pm4: &mut Pm4) -> Result<(), Halt> {
    let (address, words) = jump.target().ok_or_else(|| vendor_unsupported(format!("packet {index} jumps nowhere")))?;
    pm4.call(Stream::buffer(address, u64::from(words)))
}

fn unknown(kind: PacketType, index: u64) -> Halt {
    Halt::unsupported(format!("packet {index} is of kind {kind:?}"))
}

fn vendor_unsupported(text: String) -> Halt {
    Halt::error(ExceptionCode::QUEUE_PACKET_VENDOR_UNSUPPORTED, text)
}

fn dimensions(text: impl Into<String>) -> Halt {
    Halt::error(ExceptionCode::QUEUE_PACKET_DISPATCH_DIM_INVALID, text)
}

/// Checks a dispatch and makes of it what its waves start from.
fn launch(
    dispatch: &KernelDispatch,
    packet: &Fetched,
    cx: &mut Context<'_>,
    object: Option<u64>,
) -> Result<KernelLaunch, Halt> {
    let count = usize::from(dispatch.setup & 3);
    let size = [dispatch.workgroup_size_x, dispatch.workgroup_size_y, dispatch.workgroup_size_z];
    let grid = [dispatch.grid_size_x, dispatch.grid_size_y, dispatch.grid_size_z];
    // Dimensions that a packet does not have count as one.
    let size: [u32; 3] = std::array::from_fn(|d| if d < count { u32::from(size[d]) } else { 1 });
    let grid: [u32; 3] = std::array::from_fn(|d| if d < count { grid[d] } else { 1 });
    if count == 0 || grid.contains(&0) {
        return Err(dimensions(format!("packet {}: a grid of {grid:?} in {count} dimensions", packet.index)));
    }
    let items = size.iter().try_fold(1_u32, |items, &d| items.checked_mul(d)).unwrap_or(u32::MAX);
    if items == 0 || items > MAX_ITEMS {
        let text = format!("packet {}: a workgroup of {size:?} work items", packet.index);
        return Err(Halt::error(ExceptionCode::QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID, text));
    }
    if dispatch.group_segment_size > MAX_LDS {
        let text = format!("packet {}: {} bytes of LDS", packet.index, dispatch.group_segment_size);
        return Err(Halt::error(ExceptionCode::QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID, text));
    }
    let kernel = kernel(dispatch, packet, cx)?;
    let stack = if kernel.has(properties::DYNAMIC_STACK) { DYNAMIC_STACK } else { 0 };
    let scratch = dispatch.private_segment_size.max(stack);
    if scratch > MAX_SCRATCH {
        return Err(Halt::unsupported(format!("packet {}: {scratch} bytes of private memory", packet.index)));
    }
    let launch = KernelLaunch {
        target: cx.target,
        kernel,
        size,
        last: std::array::from_fn(|d| (grid[d] - 1) % size[d] + 1),
        start: [0; 3],
        end: std::array::from_fn(|d| grid[d].div_ceil(size[d])),
        user: user_registers(&kernel, dispatch, packet, cx, object)?,
        lds: dispatch.group_segment_size.next_multiple_of(LDS_GRANULE),
        scratch: scratch.next_multiple_of(4),
        slot: packet.slot,
    };
    if !cx.slots.possible(&launch.largest()) {
        let text = format!("packet {}: no compute unit has room for a workgroup of {items}", packet.index);
        return Err(Halt::error(ExceptionCode::QUEUE_PACKET_DISPATCH_REGISTER_INVALID, text));
    }
    Ok(launch)
}

/// Reads the kernel's descriptor.
fn kernel(dispatch: &KernelDispatch, packet: &Fetched, cx: &mut Context<'_>) -> Result<Kernel, Halt> {
    let object = dispatch.kernel_object;
    let aligned = object != 0 && object.is_multiple_of(64);
    let kernel = if aligned { Kernel::read(&mut cx.memory, object).ok() } else { None };
    kernel.ok_or_else(|| {
        let text = format!("packet {}: no kernel at {object:#x}", packet.index);
        Halt::error(ExceptionCode::QUEUE_PACKET_DISPATCH_CODE_INVALID, text)
    })
}

/// What the packet puts into scalar registers, in the order of the ABI.
fn user_registers(
    kernel: &Kernel,
    dispatch: &KernelDispatch,
    packet: &Fetched,
    cx: &mut Context<'_>,
    object: Option<u64>,
) -> Result<Vec<u32>, Halt> {
    let mut user = Vec::with_capacity(32);
    let pair = |user: &mut Vec<u32>, value: u64| user.extend([value as u32, (value >> 32) as u32]);
    if kernel.has(properties::PRIVATE_SEGMENT_BUFFER) {
        user.extend(PRIVATE_BUFFER);
    }
    if kernel.has(properties::DISPATCH_PTR) {
        pair(&mut user, packet.address);
    }
    if kernel.has(properties::QUEUE_PTR) {
        pair(&mut user, object.unwrap_or(0));
    }
    if kernel.has(properties::KERNARG_PTR) {
        pair(&mut user, dispatch.kernarg_address);
    }
    if kernel.has(properties::DISPATCH_ID) {
        pair(&mut user, packet.index);
    }
    if kernel.has(properties::FLAT_SCRATCH_INIT) {
        user.extend([0, dispatch.private_segment_size]);
    }
    if kernel.has(properties::PRIVATE_SEGMENT_SIZE) {
        user.push(dispatch.private_segment_size);
    }
    let (length, first) = kernel.preloaded(cx.target);
    for n in first..first + length {
        user.push(cx.memory.read_u32(dispatch.kernarg_address.wrapping_add(4 * n))?);
    }
    Ok(user)
}

/// Buffer descriptor of private memory: base 0 with swizzling, as large as can be. The wave's record holds the memory.
pub(crate) const PRIVATE_BUFFER: [u32; 4] = [0, 1 << 31, u32::MAX, 0x00EA_4FAC];
