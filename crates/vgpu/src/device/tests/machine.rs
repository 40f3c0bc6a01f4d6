//! A device with a megabyte of memory, a worker and a log of the interrupts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kfd_abi::Abi;
use kfd_abi::aql::{FenceScope, Header, KernelDispatch, PacketType};
use kfd_abi::exception::ExceptionCode;
use kfd_abi::hsa::{AmdQueue, AmdSignal};
use vgpu_isa::inst::Target;
use vgpu_isa::memory::{Fault, Mapping, Port, Space};

use super::super::queue::HardwareQueue;
use super::super::{
    DeviceActivity, DeviceConfig, Doorbell, Geometry, HardwareQueueSpec, Interrupts, LocalSlots, PacketFormat,
    ProcessDevice, QueueId, SaveArea, Worker, Workgroup,
};
use crate::driver::profile::ReadIndexKind;

/// Where memory starts.
pub(super) const BASE: u64 = 0x1000_0000;
const BYTES: u64 = 1 << 20;
/// Bytes of a ring.
pub(super) const RING: u64 = 4096;

/// Number of the doorbell before that of the first queue.
pub(super) const DOORBELL: u32 = 0x100;

/// What the driver would hear.
#[derive(Default)]
pub(super) struct Log {
    pub(super) events: Mutex<Vec<u32>>,
    pub(super) mailboxes: Mutex<Vec<(u64, u64)>>,
    pub(super) messages: Mutex<Vec<u32>>,
    pub(super) trap_messages: Mutex<Vec<u32>>,
    pub(super) stopped_waves: Mutex<Vec<String>>,
    pub(super) faults: Mutex<Vec<(QueueId, Fault)>>,
    pub(super) errors: Mutex<Vec<(QueueId, ExceptionCode, String)>>,
}

impl Interrupts for Log {
    fn event(&self, event: u32) {
        self.events.lock().unwrap().push(event);
    }

    fn mailbox(&self, address: u64, value: u64) {
        self.mailboxes.lock().unwrap().push((address, value));
    }

    fn message(&self, payload: u32) {
        self.messages.lock().unwrap().push(payload);
    }

    fn trap_message(&self, payload: u32) {
        self.trap_messages.lock().unwrap().push(payload);
    }

    fn wave_stopped(&self, _queue: QueueId, text: &str) {
        self.stopped_waves.lock().unwrap().push(text.to_owned());
    }

    fn fault(&self, queue: QueueId, fault: Fault) {
        self.faults.lock().unwrap().push((queue, fault));
    }

    fn queue_error(&self, queue: QueueId, code: ExceptionCode, text: &str) {
        self.errors.lock().unwrap().push((queue, code, text.to_owned()));
    }
}

fn clock() -> u64 {
    static TICKS: AtomicU64 = AtomicU64::new(1000);
    TICKS.fetch_add(1, Ordering::Relaxed)
}

pub(super) const CONFIG: DeviceConfig =
    DeviceConfig { target: Target::Gfx942, clock, read_index: ReadIndexKind::Retire };

pub(super) struct Machine {
    pub(super) device: Mutex<ProcessDevice>,
    pub(super) worker: Worker,
    pub(super) slots: Arc<LocalSlots>,
    pub(super) log: Arc<Log>,
    pub(super) space: Arc<Space>,
    /// Declared after what uses it.
    memory: Box<[AtomicU64]>,
    used: u64,
    queues: u32,
    /// Given to queues created from now on.
    pub(super) save_area: Option<SaveArea>,
}

/// A queue from the outside.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    pub(super) id: QueueId,
    pub(super) kind: PacketFormat,
    pub(super) ring: u64,
    pub(super) read: u64,
    pub(super) write: u64,
    pub(super) doorbell: u64,
    /// The runtime's queue object (AQL).
    pub(super) object: u64,
}

impl Machine {
    /// Two compute units, large quanta.
    pub(super) fn new() -> Self {
        Self::with_quantum(100_000)
    }

    pub(super) fn with_quantum(quantum: u64) -> Self {
        Self::with(CONFIG, quantum)
    }

    pub(super) fn with(config: DeviceConfig, quantum: u64) -> Self {
        Self::of_size(config, quantum, Geometry::cdna(2, 1))
    }

    pub(super) fn of_size(config: DeviceConfig, quantum: u64, size: Geometry) -> Self {
        let memory: Box<[AtomicU64]> = (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect();
        let mut space = Space::new();
        let host = memory.as_ptr().cast_mut().cast();
        let mapping =
            Mapping { start: BASE, end: BASE + BYTES, host, writable: true, executable: true, guarded: false };
        // SAFETY: the memory lives as long as the machine, and is made of atomics.
        unsafe { space.insert(mapping) };
        let space = Arc::new(space);
        let log = Arc::new(Log::default());
        let slots = Arc::new(LocalSlots::new(size));
        let mut device = ProcessDevice::new(config, log.clone(), slots.clone());
        device.set_space(space.clone());
        let worker = Worker::new(config, quantum);
        Self { device: Mutex::new(device), worker, slots, log, space, memory, used: 0, queues: 0, save_area: None }
    }

    /// Memory of its own, zero, aligned to 256 bytes.
    pub(super) fn alloc(&mut self, bytes: u64) -> u64 {
        let at = BASE + self.used;
        self.used += bytes.next_multiple_of(256);
        assert!(self.used <= BYTES, "the machine's memory is used up");
        at
    }

    pub(super) fn port(&self) -> Port<'_> {
        Port::new(&self.space)
    }

    pub(super) fn u32(&self, at: u64) -> u32 {
        self.port().read_u32(at).unwrap()
    }

    pub(super) fn u64(&self, at: u64) -> u64 {
        self.port().read_u64(at).unwrap()
    }

    pub(super) fn set_u32(&self, at: u64, value: u32) {
        self.port().write_u32(at, value).unwrap();
    }

    pub(super) fn set_u64(&self, at: u64, value: u64) {
        self.port().write_u64(at, value).unwrap();
    }

    pub(super) fn words(&self, at: u64, count: u64) -> Vec<u32> {
        (0..count).map(|n| self.u32(at + 4 * n)).collect()
    }

    /// All of memory, to compare.
    pub(super) fn contents(&self) -> Vec<u64> {
        self.memory.iter().map(|word| word.load(Ordering::SeqCst)).collect()
    }

    /// Memory with these words.
    pub(super) fn buffer(&mut self, words: &[u32]) -> u64 {
        let at = self.alloc(4 * words.len() as u64);
        for (n, word) in (0..).zip(words) {
            self.set_u32(at + 4 * n, *word);
        }
        at
    }

    /// A signal with a value and the event it raises.
    pub(super) fn signal(&mut self, value: i64, event: Option<u32>) -> u64 {
        let mailbox = if event.is_some() { self.alloc(8) } else { 0 };
        let at = self.alloc(64);
        let signal = AmdSignal { value, event_mailbox_ptr: mailbox, event_id: event.unwrap_or(0), ..AmdSignal::ZERO };
        let mut bytes = [0; 64];
        signal.encode(&mut bytes).unwrap();
        self.port().write(at, &bytes).unwrap();
        at
    }

    pub(super) fn value(&self, signal: u64) -> i64 {
        self.u64(signal + AmdSignal::VALUE) as i64
    }

    /// A kernel with its descriptor; rsrc2 and the properties decide about registers.
    pub(super) fn kernel(&mut self, code: &[u32], rsrc2: u32, properties: u32) -> u64 {
        let entry = self.buffer(code);
        let object = self.alloc(64);
        self.set_u64(object + 16, entry.wrapping_sub(object));
        // 8 vector registers, none of them for accumulation, 48 scalar ones, usual float mode.
        self.set_u32(object + 44, 1);
        self.set_u32(object + 48, 4 << 6 | 0xF0 << 12 | 1 << 21 | 1 << 23);
        self.set_u32(object + 52, rsrc2);
        self.set_u32(object + 56, properties);
        object
    }

    /// A kernel that finds its arguments in s[0:1] and workgroup numbers x, y behind.
    pub(super) fn plain_kernel(&mut self, code: &[u32]) -> u64 {
        self.kernel(code, 2 << 1 | 1 << 7 | 1 << 8 | 2 << 11, 1 << 3)
    }

    pub(super) fn queue(&mut self, kind: PacketFormat) -> Ring {
        self.queues += 1;
        let object = self.alloc(256);
        let (read, write) = (object + AmdQueue::READ_INDEX, object + AmdQueue::WRITE_INDEX);
        let ring = self.alloc(RING);
        let doorbell = self.alloc(8);
        self.set_u64(doorbell, Doorbell::SILENT);
        let id = QueueId(self.queues);
        let word = self.memory[(doorbell - BASE) as usize / 8].as_ptr().cast_const().cast();
        self.device.lock().unwrap().create_queue(HardwareQueueSpec {
            id,
            kind,
            ring,
            ring_bytes: RING,
            read_pointer: read,
            write_pointer: write,
            // SAFETY: part of the machine's memory.
            doorbell: Some(unsafe { Doorbell::new(word) }.numbered(DOORBELL + self.queues)),
            priority: 7,
            percent: 100,
            save_area: self.save_area,
        });
        Ring { id, kind, ring, read, write, doorbell, object }
    }

    /// Writes an AQL packet and rings.
    pub(super) fn submit(&self, queue: &Ring, packet: &impl Abi) {
        let mut bytes = [0; 64];
        packet.encode(&mut bytes).unwrap();
        self.submit_bytes(queue, &bytes);
    }

    pub(super) fn submit_bytes(&self, queue: &Ring, bytes: &[u8; 64]) {
        let index = self.u64(queue.write);
        self.port().write(queue.ring + index * 64 % RING, bytes).unwrap();
        self.set_u64(queue.write, index + 1);
        self.set_u64(queue.doorbell, index);
    }

    /// Writes dwords to a PM4 or SDMA ring and rings.
    pub(super) fn submit_words(&self, queue: &Ring, words: &[u32]) {
        let unit = if queue.kind == PacketFormat::Sdma { 4 } else { 1 };
        let at = self.u64(queue.write) / unit;
        for (n, word) in (at..).zip(words) {
            self.set_u32(queue.ring + n * 4 % RING, *word);
        }
        let end = (at + words.len() as u64) * unit;
        self.set_u64(queue.write, end);
        self.set_u64(queue.doorbell, end);
    }

    /// Works until there is nothing to do but wait, or for many turns.
    pub(super) fn run(&mut self) -> DeviceActivity {
        let mut pulse = DeviceActivity::Busy;
        for _ in 0..20_000 {
            pulse = self.worker.turn(&self.device);
            if pulse != DeviceActivity::Busy {
                break;
            }
        }
        pulse
    }

    pub(super) fn stopped(&self, queue: &Ring) -> bool {
        self.device.lock().unwrap().stopped(queue.id)
    }
}

/// A dispatch in one dimension, with barrier bit and fences.
pub(super) fn dispatch(kernel: u64, arguments: u64, items: u32, group: u16, signal: u64) -> KernelDispatch {
    KernelDispatch {
        header: Header::new(PacketType::KERNEL_DISPATCH, true, FenceScope::SYSTEM, FenceScope::SYSTEM),
        setup: 1,
        workgroup_size_x: group,
        workgroup_size_y: 1,
        workgroup_size_z: 1,
        grid_size_x: items,
        grid_size_y: 1,
        grid_size_z: 1,
        kernel_object: kernel,
        kernarg_address: arguments,
        completion_signal: signal,
        ..KernelDispatch::ZERO
    }
}

/// The two words of an address.
pub(super) fn halves(address: u64) -> [u32; 2] {
    [address as u32, (address >> 32) as u32]
}

impl ProcessDevice {
    /// Returns the workgroups of a queue that is off the device and not saved, or `None` while workers still hold some.
    pub(super) fn off_device(&mut self, id: QueueId) -> Option<&mut Vec<Workgroup>> {
        let queue = self.queues.get_mut(&id)?;
        queue.is_off_device().then_some(&mut queue.parked)
    }

    /// Returns whether a queue has nothing under way. It may still have packets to fetch.
    pub(super) fn idle(&self, id: QueueId) -> bool {
        self.queues.get(&id).is_none_or(HardwareQueue::idle)
    }
}
