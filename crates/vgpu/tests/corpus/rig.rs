//! A device with some memory and one queue.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kfd_abi::Abi;
use kfd_abi::aql::{FenceScope, Header, KernelDispatch, PacketType};
use kfd_abi::cwsr::{self, SaveAreaSize};
use kfd_abi::exception::ExceptionCode;
use kfd_abi::hsa::{AmdQueue, AmdSignal};
use kfd_abi::topology::GfxVersion;
use kfd_runtime::{Arguments, CodeObject, GpuAddr, Launch};
use vgpu::device::{
    DeviceActivity, DeviceConfig, Doorbell, Geometry, HardwareQueueSpec, Interrupts, LocalSlots, PacketFormat,
    ProcessDevice, QueueId, SaveArea, Worker,
};
use vgpu::profile::ReadIndexKind;
use vgpu_isa::inst::Target;
use vgpu_isa::memory::{Fault, Mapping, Port, Space};

/// Where memory starts.
const BASE: u64 = 0x7000_0000_0000;
const PAGE: u64 = 4096;
const RING: u64 = 4096;
/// What a rig needs beside the buffers of a kernel: ring, queue object, signal, arguments, alignment.
const OVERHEAD: u64 = 64 * PAGE;
/// Turns of workgroups after which a kernel hangs.
const TURNS: u32 = 20_000_000;

/// What the device complained about.
#[derive(Default)]
struct Complaints(Mutex<Vec<String>>);

impl Interrupts for Complaints {
    fn event(&self, _: u32) {}

    fn mailbox(&self, _: u64, _: u64) {}

    fn trap_message(&self, _payload: u32) {}

    fn wave_stopped(&self, _queue: QueueId, _text: &str) {}

    fn fault(&self, _: QueueId, fault: Fault) {
        self.0.lock().unwrap().push(format!("memory fault: {fault:?}"));
    }

    fn queue_error(&self, _: QueueId, code: ExceptionCode, text: &str) {
        self.0.lock().unwrap().push(format!("queue error {}: {text}", code.0));
    }
}

fn clock() -> u64 {
    static TICKS: AtomicU64 = AtomicU64::new(1);
    TICKS.fetch_add(1, Ordering::Relaxed)
}

pub(crate) const CONFIG: DeviceConfig =
    DeviceConfig { target: Target::Gfx942, clock, read_index: ReadIndexKind::Retire };

/// The rig's only queue.
pub(crate) const QUEUE: QueueId = QueueId(1);

/// When a rig's queue is preempted while a kernel runs.
pub(crate) trait PreemptionPattern {
    /// Called between two turns, which `worker` runs; the code is at `code`.
    fn between_turns(&mut self, rig: &Rig, worker: &mut Worker, code: &Range<u64>) -> Result<(), String>;
}

/// Never.
impl PreemptionPattern for () {
    fn between_turns(&mut self, _: &Rig, _: &mut Worker, _: &Range<u64>) -> Result<(), String> {
        Ok(())
    }
}

pub(crate) struct Rig {
    pub(crate) device: Mutex<ProcessDevice>,
    quantum: u64,
    /// Where waves are saved.
    pub(crate) save_area: Option<SaveArea>,
    complaints: Arc<Complaints>,
    space: Arc<Space>,
    used: u64,
    /// Declared after what uses it.
    memory: Box<[AtomicU64]>,
}

impl Rig {
    /// A device of two compute units with room for `bytes` of buffers, whose waves take turns after `quantum`
    /// instructions.
    pub(crate) fn new(bytes: usize, quantum: u64) -> Rig {
        Rig::with(bytes, quantum, Geometry::cdna(2, 1))
    }

    /// A device of four compute units on two XCCs whose queue can be saved.
    pub(crate) fn saving(bytes: usize, quantum: u64) -> Rig {
        let (cus, xccs) = (4, 2);
        let size = SaveAreaSize::of(&cwsr::Geometry {
            gfx: GfxVersion::GFX942,
            simd_count: cus * 4,
            simd_per_cu: 4,
            array_count: xccs,
            simd_arrays_per_engine: 1,
            num_xcc: xccs,
        })
        .unwrap();
        let mut rig = Rig::with(bytes + size.total as usize, quantum, Geometry::cdna(cus, xccs));
        let address = rig.reserve(size.total as usize);
        rig.save_area = Some(SaveArea { address, size: size.cwsr, control_stack: size.ctl_stack, xccs });
        rig
    }

    fn with(bytes: usize, quantum: u64, geometry: Geometry) -> Rig {
        let size = (bytes as u64 + OVERHEAD).next_multiple_of(PAGE);
        let memory: Box<[AtomicU64]> = (0..size / 8).map(|_| AtomicU64::new(0)).collect();
        let mut space = Space::new();
        let host = memory.as_ptr().cast_mut().cast();
        let mapping = Mapping { start: BASE, end: BASE + size, host, writable: true, executable: true, guarded: false };
        // SAFETY: the memory lives as long as the rig, and is made of atomics.
        unsafe { space.insert(mapping) };
        let space = Arc::new(space);
        let complaints = Arc::new(Complaints::default());
        let slots = Arc::new(LocalSlots::new(geometry));
        let mut device = ProcessDevice::new(CONFIG, complaints.clone(), slots);
        device.set_space(space.clone());
        Rig { device: Mutex::new(device), quantum, save_area: None, complaints, space, used: 0, memory }
    }

    fn reserve(&mut self, bytes: usize) -> u64 {
        let at = BASE + self.used;
        self.used += (bytes as u64).next_multiple_of(PAGE);
        assert!(self.used <= 8 * self.memory.len() as u64, "the rig's memory is used up");
        at
    }

    /// Puts bytes somewhere; where.
    pub(crate) fn place(&mut self, bytes: &[u8]) -> u64 {
        let at = self.reserve(bytes.len());
        self.write(at, bytes);
        at
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        Port::new(&self.space).write(at, bytes).unwrap();
    }

    pub(crate) fn read(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Port::new(&self.space).read(at, &mut bytes).unwrap();
        bytes
    }

    pub(crate) fn port(&self) -> Port<'_> {
        Port::new(&self.space)
    }

    /// Loads a program, runs one of its kernels and waits for its end; what the device says if it does not come.
    pub(crate) fn dispatch(
        &mut self,
        preemptions: &mut dyn PreemptionPattern,
        object: &CodeObject,
        name: &str,
        launch: &Launch,
        arguments: Arguments,
        stack: u32,
    ) -> Result<(), String> {
        let code = self.reserve(object.size());
        self.write(code, &object.image_at(GpuAddr(code)));
        let kernel = object.kernels().iter().find(|kernel| kernel.name == name).ok_or("there is no such kernel")?;
        let arguments = self.place(&arguments.block(kernel.argument_bytes));
        let mut signal = [0; 64];
        AmdSignal { value: 1, ..AmdSignal::ZERO }.encode(&mut signal).ok_or("a signal has 64 bytes")?;
        let signal = self.place(&signal);
        let [workgroup_size_x, workgroup_size_y, workgroup_size_z] = launch.group;
        let [grid_size_x, grid_size_y, grid_size_z] = launch.grid;
        self.submit(&KernelDispatch {
            header: Header::new(PacketType::KERNEL_DISPATCH, true, FenceScope::SYSTEM, FenceScope::SYSTEM),
            setup: 3,
            workgroup_size_x,
            workgroup_size_y,
            workgroup_size_z,
            grid_size_x,
            grid_size_y,
            grid_size_z,
            private_segment_size: kernel.scratch_per_item.max(stack),
            group_segment_size: kernel.local_memory,
            kernel_object: code + kernel.offset,
            kernarg_address: arguments,
            completion_signal: signal,
            ..KernelDispatch::ZERO
        });
        let mut worker = Worker::new(CONFIG, self.quantum);
        let code = code..code + object.size() as u64;
        let mut turns = 0;
        while worker.turn(&self.device) == DeviceActivity::Busy && turns < TURNS {
            preemptions.between_turns(self, &mut worker, &code)?;
            turns += 1;
        }
        let busy = turns == TURNS;
        let complaints = std::mem::take(&mut *self.complaints.0.lock().unwrap());
        if !complaints.is_empty() {
            return Err(complaints.join("; "));
        }
        let value = self.read(signal + AmdSignal::VALUE, 8);
        if value != [0; 8] {
            return Err(if busy { "it hangs" } else { "it does not complete and says nothing" }.to_owned());
        }
        Ok(())
    }

    /// Makes the queue and gives it its only packet.
    fn submit(&mut self, packet: &KernelDispatch) {
        let object = self.reserve(256);
        let ring = self.reserve(RING as usize);
        let doorbell = self.reserve(8);
        let mut bytes = [0; 64];
        packet.encode(&mut bytes).unwrap();
        self.write(ring, &bytes);
        let (read_pointer, write_pointer) = (object + AmdQueue::READ_INDEX, object + AmdQueue::WRITE_INDEX);
        self.write(write_pointer, &1u64.to_le_bytes());
        let word: *const AtomicU64 = &raw const self.memory[(doorbell - BASE) as usize / 8];
        self.device.lock().unwrap().create_queue(HardwareQueueSpec {
            id: QUEUE,
            kind: PacketFormat::Aql,
            ring,
            ring_bytes: RING,
            read_pointer,
            write_pointer,
            // SAFETY: part of the rig's memory, which the device does not outlive.
            doorbell: Some(unsafe { Doorbell::new(word) }),
            priority: 7,
            percent: 100,
            save_area: self.save_area,
        });
    }
}
