//! What the queues of a process do, by the rules of observation: a probe of one tenant.

use core::alloc::Layout;
use core::ffi::{c_int, c_void};
use core::{ptr, slice};

use gpreempt_core::Nanos;
use gpreempt_kernel_abi::{Invalid, RawActivity};
use gpreempt_observe::{PollError, ReadFailure, RingFormat, RingPlace, RingState, Scratch, TenantMemory, TenantProbe};

use crate::errno::{Errno, code, number};
use crate::memory::{Magic, after, argument, can_store, check_memory, store};

/// "gp-probe".
const MAGIC: u64 = 0x6770_2D70_726F_6265;
/// Most rings of a probe: the driver gives no process more queues.
const MAX_RINGS: usize = 1024;
/// `GPC_READ_GONE`.
const READ_GONE: c_int = 1;
/// `GPC_INDEX_RETIRES` and `GPC_INDEX_REFUTED`.
const INDEX_RETIRES: c_int = 1 << 0;
const INDEX_REFUTED: c_int = 1 << 1;

/// A probe of one tenant (`gpc_probe`). States of rings and working memory lie behind it.
#[repr(C, align(64))]
pub struct GpcProbe {
    magic: Magic,
    probe: TenantProbe<&'static mut [RingState]>,
    scratch: &'static mut Scratch,
}

/// Where the ring of a queue is, in its process (`gpc_ring`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpcRing {
    /// Address of the packets.
    pub base: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Address of the read index.
    pub read_index: u64,
    /// Address of the write index.
    pub write_index: u64,
    /// 1: packets of the architected queuing language; 0: dwords.
    pub is_aql: u32,
    /// Zero.
    pub reserved: u32,
}

impl TryFrom<&GpcRing> for RingPlace {
    type Error = Invalid;

    fn try_from(ring: &GpcRing) -> Result<RingPlace, Invalid> {
        let format = match (ring.is_aql, ring.reserved) {
            (0, 0) => RingFormat::Pm4,
            (1, 0) => RingFormat::Aql,
            _ => return Err(Invalid("is_aql")),
        };
        let GpcRing { base, bytes, read_index, write_index, .. } = *ring;
        Ok(RingPlace { format, base, bytes, read_index, write_index })
    }
}

/// Copies bytes of the process: context, address, where to, and how many.
pub type GpcRead = unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize) -> c_int;

/// Reads memory of a process (`gpc_memory`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GpcMemory {
    /// Returns zero, `GPC_READ_GONE` or `GPC_READ_AWAY`; what it returns beyond that counts as away.
    pub read: Option<GpcRead>,
    /// For `read`.
    pub context: *mut c_void,
}

/// The memory of a process with a function to read it.
struct Reader {
    read: GpcRead,
    context: *mut c_void,
}

impl Reader {
    /// # Safety
    /// A pointer that is neither null nor misaligned points to a structure whose function keeps what the header says.
    unsafe fn new(memory: *const GpcMemory) -> Result<Reader, Errno> {
        // SAFETY: the caller's promise.
        let GpcMemory { read, context } = unsafe { argument(memory)? };
        Ok(Reader { read: read.ok_or(Errno::Invalid)?, context })
    }
}

impl TenantMemory for Reader {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), ReadFailure> {
        // SAFETY: the function writes at most as many bytes as it is told, as was promised when this was made.
        match unsafe { (self.read)(self.context, address, bytes.as_mut_ptr().cast(), bytes.len()) } {
            0 => Ok(()),
            READ_GONE => Err(ReadFailure::Gone),
            _ => Err(ReadFailure::Away),
        }
    }
}

/// What a probe found (`gpc_activity`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpcActivity {
    /// What the tenant does.
    pub activity: RawActivity,
    /// Only a sample of the occupancy can tell.
    pub unsure: u32,
    /// Since when it has, or lacks, work.
    pub since_ns: u64,
    /// Packets that the read index has not passed.
    pub pending: u64,
}

/// Where things lie, in bytes from the start.
struct Plot {
    scratch: usize,
    rings: usize,
    size: usize,
}

impl Plot {
    /// Returns the places for so many rings; `None` if there are none, or too many.
    fn new(rings: usize) -> Option<Plot> {
        if !(1..=MAX_RINGS).contains(&rings) {
            return None;
        }
        let (all, scratch) = after::<Scratch>(Layout::new::<GpcProbe>(), 1)?;
        let (all, rings) = after::<RingState>(all, rings)?;
        Some(Plot { scratch, rings, size: all.pad_to_align().size() })
    }
}

/// Returns the bytes of a probe of so many rings; zero if that cannot be.
#[unsafe(no_mangle)]
pub extern "C" fn gpc_probe_size(rings: u32) -> usize {
    Plot::new(rings as usize).map_or(0, |plot| plot.size)
}

/// Makes a probe in memory of the caller.
///
/// # Safety
/// `memory` points to `size` bytes, which nothing else uses as long as the probe is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_probe_init(memory: *mut c_void, size: usize, rings: u32) -> c_int {
    // SAFETY: the caller's promise is passed on.
    code(unsafe { init(memory.cast(), size, rings as usize) })
}

/// # Safety
/// As [`gpc_probe_init`].
unsafe fn init(memory: *mut u8, size: usize, rings: usize) -> Result<(), Errno> {
    let plot = Plot::new(rings).ok_or(Errno::Invalid)?;
    check_memory(memory, size, plot.size)?;
    let head = memory.cast::<GpcProbe>();
    // SAFETY: the layout puts head, working memory and states into the memory, aligned and apart from each other.
    unsafe {
        let scratch = memory.add(plot.scratch).cast::<Scratch>();
        // A copy of a constant: as a value it would be on the stack first.
        ptr::copy_nonoverlapping(&raw const EMPTY_SCRATCH, scratch, 1);
        let states = fill_states(memory.add(plot.rings).cast(), rings);
        let probe = TenantProbe::new(states);
        head.write(GpcProbe { magic: Magic::at(head, MAGIC), probe, scratch: &mut *scratch });
    }
    Ok(())
}

static EMPTY_SCRATCH: Scratch = Scratch::EMPTY;
static EMPTY_STATE: RingState = RingState::EMPTY;

/// Fills fresh memory with states of no ring.
///
/// # Safety
/// The pointer is aligned and points to memory for `count` states, which nothing else uses for `'a`.
unsafe fn fill_states<'a>(states: *mut RingState, count: usize) -> &'a mut [RingState] {
    for index in 0..count {
        // SAFETY: there is memory for `count` of them. The state of no ring is a constant without pointers.
        unsafe { ptr::copy_nonoverlapping(&raw const EMPTY_STATE, states.add(index), 1) };
    }
    // SAFETY: all of them were written, and nothing else uses them.
    unsafe { slice::from_raw_parts_mut(states, count) }
}

/// Borrows a probe.
///
/// # Safety
/// A pointer that is neither null nor misaligned can be read, and no other call uses the probe.
unsafe fn probe_mut<'a>(probe: *mut GpcProbe) -> Result<&'a mut GpcProbe, Errno> {
    // SAFETY: the magic word comes first; what has it is a probe.
    unsafe {
        Magic::check(probe, MAGIC)?;
        Ok(&mut *probe)
    }
}

/// Says which rings there are now. Returns how many are not watched.
///
/// # Safety
/// Pointers that are neither null nor misaligned point to what the header says, `rings` to `count` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_probe_set_rings(probe: *mut GpcProbe, rings: *const GpcRing, count: u32) -> c_int {
    // SAFETY: the caller's promise is passed on.
    number(unsafe { set_rings(probe, rings, count as usize) })
}

/// # Safety
/// As [`gpc_probe_set_rings`].
unsafe fn set_rings(probe: *mut GpcProbe, rings: *const GpcRing, count: usize) -> Result<c_int, Errno> {
    // SAFETY: the caller's promise.
    let probe = unsafe { probe_mut(probe)? };
    let rings = match count {
        0 => &[],
        _ if rings.is_null() || !rings.is_aligned() || count > MAX_RINGS => return Err(Errno::Invalid),
        // SAFETY: the caller's promise; the pointer was checked.
        _ => unsafe { slice::from_raw_parts(rings, count) },
    };
    for ring in rings {
        RingPlace::try_from(ring)?;
    }
    let unwatched = probe.probe.set_rings(rings.iter().filter_map(|ring| RingPlace::try_from(ring).ok()));
    c_int::try_from(unwatched.invalid.saturating_add(unwatched.no_room)).map_err(|_| Errno::Invalid)
}

/// Looks at the rings and stores what the tenant does.
///
/// # Safety
/// Pointers that are neither null nor misaligned point to what the header says; no other call uses the probe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_probe_poll(
    probe: *mut GpcProbe,
    memory: *const GpcMemory,
    now_ns: u64,
    stopped: bool,
    activity: *mut GpcActivity,
) -> c_int {
    // SAFETY: the caller's promise about pointers is passed on.
    let call = || unsafe {
        let GpcProbe { probe, scratch, .. } = probe_mut(probe)?;
        let memory = Reader::new(memory)?;
        can_store(activity)?;
        let found = probe.poll(&memory, scratch, Nanos(now_ns), stopped).map_err(|error| match error {
            PollError::Gone { .. } => Errno::Fault,
            PollError::Away => Errno::Again,
        })?;
        let found = GpcActivity {
            activity: found.activity.into(),
            unsure: u32::from(found.unsure),
            since_ns: found.since.0,
            pending: found.pending,
        };
        store(activity, found)
    };
    code(call())
}

/// Takes a sample of the occupancy.
///
/// # Safety
/// Pointers that are neither null nor misaligned point to what the header says; no other call uses the probe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_probe_sampled(
    probe: *mut GpcProbe,
    memory: *const GpcMemory,
    at_ns: u64,
    occupied_cus: i64,
    evicted_ms: i64,
    alone: bool,
) -> c_int {
    // SAFETY: the caller's promise about pointers is passed on.
    let call = || unsafe {
        let probe = probe_mut(probe)?;
        let memory = Reader::new(memory)?;
        let occupied_cus = match occupied_cus {
            i64::MIN..0 => None,
            cus => Some(u32::try_from(cus).map_err(|_| Errno::Invalid)?),
        };
        probe.probe.sampled(&memory, Nanos(at_ns), occupied_cus, u64::try_from(evicted_ms).ok(), alone);
        Ok(())
    };
    code(call())
}

/// Returns what is known of the read index.
///
/// # Safety
/// A pointer that is neither null nor misaligned can be read, and no other call changes the probe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_probe_index(probe: *const GpcProbe) -> c_int {
    // SAFETY: the caller's promise about pointers is passed on.
    let call = || unsafe {
        Magic::check(probe, MAGIC)?;
        let probe = &(*probe).probe;
        let retires = if probe.trusts_index() { INDEX_RETIRES } else { 0 };
        let refuted = if probe.refutes_retirement() { INDEX_REFUTED } else { 0 };
        Ok(retires | refuted)
    };
    number(call())
}

/// Says that the read index passes unfinished work on this gpu.
///
/// # Safety
/// A pointer that is neither null nor misaligned can be read, and no other call uses the probe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_probe_refute(probe: *mut GpcProbe) -> c_int {
    // SAFETY: the caller's promise about pointers is passed on.
    let call = || unsafe {
        probe_mut(probe)?.probe.refute_retirement();
        Ok(())
    };
    code(call())
}
