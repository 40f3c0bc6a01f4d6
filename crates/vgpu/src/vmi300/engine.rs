//! The engine of one address space: carries out the firmware's orders, processes packets, executes waves.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kfd_abi::exception::ExceptionCode;
use vgpu_isa::inst::Target;
use vgpu_isa::memory::{Fault, Port, Space};

use super::AddressSpace;
use super::abi::{InterruptArgs, OrderArgs, QueueArgs, UnmappedArgs, format, interrupt, order};
use super::link::Attached;
use crate::device::chip::{Chip, ChipSlots, ProcessSlot};
use crate::device::{
    CuMask, CuPlacement, DeviceActivity, DeviceConfig, Doorbell, Geometry, HardwareQueueSpec, HardwareQueueUpdate,
    Interrupts, PacketFormat, ProcessDevice, QueueId, SaveArea, TrapHandler, Worker, is_of_packet,
};
use crate::driver::{UnmappedQueue, WaveControl};
use crate::profile::ReadIndexKind;
use crate::sys;

/// Instructions a wave runs before its workgroup comes back.
const QUANTUM: u64 = 4096;
/// How long waves run before the waves that are on the device are published and other processes are looked at.
const LOOK: Duration = Duration::from_millis(10);
/// Longest wait for an order without work.
const IDLE: Duration = Duration::from_secs(1);
/// Shortest and longest pause while packets wait for a value in memory, whose change wakes nothing.
const WAITING: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));
/// Percentage of every queue: whether a queue runs is decided by whether it is mapped.
const ON: u32 = 100;
/// A doorbell that was rung: how far a ring goes is read from its write index. The kernel tells when to look.
static RUNG: AtomicU64 = AtomicU64::new(0);

/// A queue that the kernel has told of.
struct KnownQueue {
    serial: u64,
    /// Where its waves are published while it is mapped. Another queue may have the place later.
    slot: Option<u32>,
}

/// All queues must leave the device.
struct Leaving {
    /// Number of the order to answer.
    number: u64,
    /// Time at which waves that have not ended are stopped, if ever.
    deadline: Option<Instant>,
}

/// One address space on the device.
pub(super) struct Engine {
    link: Arc<Attached>,
    chip: Arc<Chip>,
    slot: ProcessSlot,
    space: Arc<Space>,
    device: Mutex<ProcessDevice>,
    worker: Worker,
    queues: BTreeMap<QueueId, KnownQueue>,
    leaving: Option<Leaving>,
    /// How many orders had ever been given when none was left.
    seen: Arc<AtomicU32>,
}

impl Engine {
    /// Creates an engine without queues.
    ///
    /// # Errors
    /// If the gpu is not one of the chip's, or its memory cannot be read.
    pub(super) fn new(link: Attached, chip: Arc<Chip>, slot: ProcessSlot, space: &AddressSpace) -> io::Result<Self> {
        let read_index = match space.read_index {
            0 => ReadIndexKind::Retire,
            1 => ReadIndexKind::FetchRewoundAtSave,
            _ => ReadIndexKind::Fetch,
        };
        let config = DeviceConfig { target: Target::Gfx942, clock: sys::realtime_100mhz, read_index };
        let slots = ChipSlots::new(Arc::clone(&chip), slot, space.gpu).ok_or(io::ErrorKind::InvalidInput)?;
        let link = Arc::new(link);
        let mut device = ProcessDevice::new(config, Arc::new(Wires(Arc::clone(&link))), Arc::new(slots));
        let space = Arc::new(link.space()?);
        device.set_space(Arc::clone(&space));
        let seen = Arc::new(AtomicU32::new(0));
        let worker = {
            let (link, seen) = (Arc::clone(&link), Arc::clone(&seen));
            Worker::new(config, QUANTUM).interrupted_by(move || has_orders(&link, &seen))
        };
        let (device, queues) = (Mutex::new(device), BTreeMap::new());
        Ok(Self { link, chip, slot, space, device, worker, queues, leaving: None, seen })
    }

    fn device(&self) -> MutexGuard<'_, ProcessDevice> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_orders(&self) -> bool {
        has_orders(&self.link, &self.seen)
    }

    /// Serves the address space until it is closed.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut pause = WAITING.0;
        let mut wait = Duration::ZERO;
        loop {
            if wait > Duration::ZERO || self.has_orders() {
                while let Some(order) = self.next_order(wait)? {
                    if order.kind == order::END {
                        return Ok(());
                    }
                    self.obey(&order)?;
                    wait = Duration::ZERO;
                }
            }
            self.leave()?;
            let mut activity = self.device().advance();
            if activity > DeviceActivity::Idle && self.device().runnable() {
                activity = activity.max(self.execute());
            }
            self.show_waves();
            wait = match activity {
                DeviceActivity::Busy => Duration::ZERO,
                DeviceActivity::Waiting => pause,
                DeviceActivity::Idle => IDLE,
            };
            pause = if activity == DeviceActivity::Waiting { (pause * 2).min(WAITING.1) } else { WAITING.0 };
            if let Some(deadline) = self.leaving.as_ref().and_then(|leaving| leaving.deadline) {
                wait = wait.min(deadline.saturating_duration_since(Instant::now()));
            }
        }
    }

    /// Takes the next order, if there is one within the time.
    fn next_order(&self, wait: Duration) -> io::Result<Option<OrderArgs>> {
        let given = self.link.orders();
        let order = self.link.order(wait)?;
        if order.kind == order::NONE {
            self.seen.store(given, Ordering::Relaxed);
            return Ok(None);
        }
        Ok(Some(order))
    }

    fn obey(&mut self, order: &OrderArgs) -> io::Result<()> {
        match order.kind {
            order::MAP => self.map(&order.queue),
            order::UNMAP => {
                self.device().drain();
                // An end that no clock reaches is none.
                let deadline = Instant::now().checked_add(Duration::from_nanos(order.grace_ns));
                self.leaving = Some(Leaving { number: order.number, deadline });
            }
            order::DROP => {
                self.device().reset();
                self.free_slots();
                self.link.answer(order.number, &[])?;
            }
            order::RESET => {
                self.leaving = None;
                self.device().reset();
                self.free_slots();
            }
            order::SPACE => {
                self.space = Arc::new(self.link.space()?);
                // No worker is at work: this is the only thread.
                self.device().set_space(Arc::clone(&self.space));
                self.link.answer(order.number, &[])?;
            }
            order::FORGET => {
                let id = queue_id(order.queue.serial);
                self.device().destroy_queue(id);
                self.queues.remove(&id);
            }
            _ => {}
        }
        Ok(())
    }

    /// Brings a queue to the device, with the waves that are in its save area.
    fn map(&mut self, queue: &QueueArgs) {
        let id = queue_id(queue.serial);
        let known = self.queues.insert(id, KnownQueue { serial: queue.serial, slot: Some(queue.slot) });
        let (geometry, mut device) = (*self.chip.geometry(), self.device());
        match known {
            Some(_) => {
                let QueueArgs { ring, ring_bytes, priority, .. } = *queue;
                device.update_queue(id, &HardwareQueueUpdate { ring, ring_bytes, priority, percent: ON });
            }
            None => {
                device.create_queue(specification(queue, id, geometry.xccs));
                device.suspend(id);
            }
        }
        device.set_cu_mask(id, cu_mask(&queue.cu_mask, &geometry));
        let (handler, control) = traps(&self.space, queue.trap_memory);
        device.set_trap_handler(handler);
        device.set_wave_control(control);
        device.map(&[id]);
    }

    /// Answers the order to leave once no wave is on the device and all are saved.
    fn leave(&mut self) -> io::Result<()> {
        let Some(leaving) = &self.leaving else { return Ok(()) };
        let over = leaving.deadline.is_some_and(|deadline| deadline <= Instant::now());
        let number = leaving.number;
        let mut device = self.device();
        if !over && !device.is_drained() {
            return Ok(());
        }
        device.unmap();
        let saved = device.save_all();
        drop(device);
        self.leaving = None;
        let left: Vec<_> = saved.iter().filter_map(|queue| self.unmapped(queue)).collect();
        self.free_slots();
        self.link.answer(number, &left)
    }

    fn unmapped(&self, queue: &UnmappedQueue) -> Option<UnmappedArgs> {
        let known = self.queues.get(&QueueId(queue.id))?;
        Some(UnmappedArgs {
            serial: known.serial,
            read_index: queue.rptr.unwrap_or(0),
            write_index: queue.wptr.unwrap_or(0),
            waves: queue.saved.waves,
            reserved: 0,
        })
    }

    /// Executes waves while this process holds a token and there are any, for [`LOOK`] at most.
    fn execute(&mut self) -> DeviceActivity {
        let until = self.leaving.as_ref().and_then(|leaving| leaving.deadline);
        let is_wanted = || has_orders(&self.link, &self.seen);
        self.chip.execute(self.slot, until, LOOK, is_wanted, || self.worker.turn(&self.device))
    }

    /// Publishes how many waves each queue has on the device.
    fn show_waves(&self) {
        let device = self.device();
        for (id, queue) in &self.queues {
            if let Some(slot) = queue.slot {
                self.link.show_waves(slot, device.resident_waves(*id));
            }
        }
    }

    /// Takes note that no queue is mapped any more.
    fn free_slots(&mut self) {
        self.show_waves();
        self.queues.values_mut().for_each(|queue| queue.slot = None);
    }
}

fn has_orders(link: &Attached, seen: &AtomicU32) -> bool {
    link.orders() != seen.load(Ordering::Relaxed)
}

/// Returns the number of a queue on the device. The kernel counts them for each address space.
fn queue_id(serial: u64) -> QueueId {
    QueueId(serial as u32)
}

/// Returns the compute units that a queue may use; `None` if it may use all. The registers have a bit for each compute
/// unit of a shader engine, as far as the register reaches.
fn cu_mask(registers: &[[u32; 4]; 8], geometry: &Geometry) -> Option<CuMask> {
    let allowed = |place: &CuPlacement| {
        let register = registers.get(place.xcc as usize).and_then(|engines| engines.get(place.engine as usize));
        register.is_some_and(|bits| bits.checked_shr(place.unit).unwrap_or(0) & 1 != 0)
    };
    let mut dwords = vec![0_u32; geometry.cus.div_ceil(32) as usize];
    let mut all = true;
    for cu in 0..geometry.cus {
        let inside = allowed(&geometry.location(cu));
        dwords[cu as usize / 32] |= u32::from(inside) << (cu % 32);
        all &= inside;
    }
    (!all).then(|| CuMask::of_dwords(&dwords))
}

fn specification(queue: &QueueArgs, id: QueueId, xccs: u32) -> HardwareQueueSpec {
    // SAFETY: the word is static.
    let doorbell = unsafe { Doorbell::new(&raw const RUNG) }.numbered(queue.doorbell);
    HardwareQueueSpec {
        id,
        kind: match queue.format {
            format::AQL => PacketFormat::Aql,
            format::PM4 => PacketFormat::Pm4,
            _ => PacketFormat::Sdma,
        },
        ring: queue.ring,
        ring_bytes: queue.ring_bytes,
        read_pointer: queue.read_index,
        write_pointer: queue.write_index,
        doorbell: Some(doorbell),
        priority: queue.priority,
        percent: ON,
        save_area: (queue.save_area != 0).then_some(SaveArea {
            address: queue.save_area,
            size: queue.save_bytes,
            control_stack: queue.control_stack,
            xccs,
        }),
    }
}

/// Reads what the driver keeps in the memory of its first-level trap handler: code and memory of the runtime's handler,
/// and whether a debugger is attached (`kfd_process_set_trap_handler`, `kfd_process_set_trap_debug_flag`).
fn traps(space: &Space, memory: u64) -> (Option<TrapHandler>, WaveControl) {
    let mut port = Port::new(space);
    let mut word = |n: u64| port.read_u64(memory.wrapping_add(8 * n)).unwrap_or(0);
    let (code, memory, debugged) = (word(0), word(1), word(2));
    let handler = (code != 0).then_some(TrapHandler { code, memory });
    (handler, WaveControl { is_debugged: debugged != 0, ..WaveControl::default() })
}

/// Interrupts of the device: they go to the driver as entries of the interrupt ring.
struct Wires(Arc<Attached>);

impl Wires {
    fn raise(&self, queue: Option<QueueId>, kind: u32, value: u32, address: u64) {
        let serial = queue.map_or(0, |queue| queue.0.into());
        self.0.interrupt(InterruptArgs { serial, address, kind, value });
    }
}

impl Interrupts for Wires {
    fn event(&self, event: u32) {
        self.raise(None, interrupt::EVENT, event, 0);
    }

    fn mailbox(&self, _address: u64, _value: u64) {
        self.raise(None, interrupt::EVENT, 0, 0);
    }

    fn message(&self, payload: u32) {
        self.raise(None, interrupt::MESSAGE, payload, 0);
    }

    fn trap_message(&self, payload: u32) {
        self.raise(None, interrupt::TRAP, payload, 0);
    }

    fn wave_stopped(&self, queue: QueueId, text: &str) {
        eprintln!("vmi300-engine: a wave of queue {} has trapped: {text}", queue.0);
    }

    fn fault(&self, queue: QueueId, fault: Fault) {
        eprintln!("vmi300-engine: memory access fault at {:#x}: {fault:?}", fault.address);
        self.raise(Some(queue), interrupt::FAULT, 0, fault.address);
    }

    fn queue_error(&self, queue: QueueId, code: ExceptionCode, text: &str) {
        eprintln!("vmi300-engine: queue {} stopped: {text} ({code:?})", queue.0);
        // What waves do wrong is reported by their trap handler.
        if is_of_packet(code) {
            self.raise(Some(queue), interrupt::BAD_PACKET, code.0, 0);
        }
    }
}
