//! A device in this process: memory, one queue, one worker.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use kfd_abi::Abi;
use kfd_abi::aql::{FenceScope, Header, KernelDispatch, PacketType};
use kfd_abi::exception::ExceptionCode;
use kfd_abi::hsa::AmdQueue;
use kfd_runtime::{Arguments, CodeObject, GpuAddr, Launch};
use kfd_suite::suite::{self, Argument, Job};
use vgpu::device::{
    DeviceActivity, DeviceConfig, Doorbell, Geometry, HardwareQueueSpec, Interrupts, LocalSlots, PacketFormat,
    ProcessDevice, QueueId, SaveArea, Worker,
};
use vgpu::profile::ReadIndexKind;
use vgpu_isa::inst::Target;
use vgpu_isa::memory::{Fault, Mapping, Port, Space};

const BASE: u64 = 0x1000_0000;
const BYTES: u64 = 32 << 20;
const PACKET: u64 = 64;
const RING: u64 = 64 * PACKET;
/// Bytes of the queue's save area: header and control stack, and waves.
const CONTROL_STACK: u32 = 4096;
const WAVES: u32 = 12 << 20;
/// The queue.
pub(crate) const QUEUE: QueueId = QueueId(1);
/// What executors of clients use.
const QUANTUM: u64 = 4096;

struct Complain;

impl Interrupts for Complain {
    fn event(&self, _event: u32) {}

    fn mailbox(&self, _address: u64, _value: u64) {}

    fn message(&self, _payload: u32) {}

    fn trap_message(&self, _payload: u32) {}

    fn wave_stopped(&self, _queue: QueueId, _text: &str) {}

    fn fault(&self, _queue: QueueId, fault: Fault) {
        panic!("a kernel of the bench faulted: {fault:?}");
    }

    fn queue_error(&self, _queue: QueueId, code: ExceptionCode, text: &str) {
        panic!("a kernel of the bench stopped: {text} ({code:?})");
    }
}

/// A device with 32 megabytes.
pub(crate) struct Machine {
    pub(crate) device: Mutex<ProcessDevice>,
    pub(crate) worker: Worker,
    pub(crate) space: Arc<Space>,
    pub(crate) config: DeviceConfig,
    ring: u64,
    write: u64,
    doorbell: u64,
    used: u64,
    /// Behind `space`; not moved or dropped before the rest.
    _memory: Box<[AtomicU64]>,
}

/// What a kernel is said to need, beyond what it does.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needs {
    /// Vector registers: architectural ones, and accumulation registers. As compiled, if none.
    pub(crate) registers: Option<(u32, u32)>,
    /// More bytes of LDS.
    pub(crate) lds: u32,
}

/// A kernel with its arguments, ready to be dispatched as often as one likes.
pub(crate) struct Loaded {
    packet: [u8; PACKET as usize],
}

impl Machine {
    pub(crate) fn new() -> Self {
        let memory: Box<[AtomicU64]> = (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect();
        let host: *mut u8 = memory.as_ptr().cast_mut().cast();
        let mut space = Space::new();
        let all = Mapping { start: BASE, end: BASE + BYTES, host, writable: true, executable: true, guarded: false };
        // SAFETY: the memory lives as long as the machine, and is made of atomics.
        unsafe { space.insert(all) };
        let space = Arc::new(space);
        let config = DeviceConfig {
            target: Target::Gfx942,
            clock: vgpu::sys::realtime_100mhz,
            read_index: ReadIndexKind::Retire,
        };
        let slots = Arc::new(LocalSlots::new(Geometry::cdna(4, 1)));
        let mut device = ProcessDevice::new(config, Arc::new(Complain), slots);
        device.set_space(Arc::clone(&space));
        let mut machine = Self {
            device: Mutex::new(device),
            worker: Worker::new(config, QUANTUM),
            space,
            config,
            ring: 0,
            write: 0,
            doorbell: 0,
            used: 0,
            _memory: memory,
        };
        machine.create_queue(host);
        machine
    }

    fn create_queue(&mut self, host: *mut u8) {
        let object = self.alloc(AmdQueue::SIZE as u64);
        self.ring = self.alloc(RING);
        self.doorbell = self.alloc(8);
        let size = CONTROL_STACK + WAVES;
        let area = SaveArea { address: self.alloc(size.into()), size, control_stack: CONTROL_STACK, xccs: 1 };
        self.write = object + AmdQueue::WRITE_INDEX;
        self.set_u64(self.doorbell, Doorbell::SILENT);
        let word = host.wrapping_add((self.doorbell - BASE) as usize).cast_const().cast();
        let spec = HardwareQueueSpec {
            id: QUEUE,
            kind: PacketFormat::Aql,
            ring: self.ring,
            ring_bytes: RING,
            read_pointer: object + AmdQueue::READ_INDEX,
            write_pointer: self.write,
            // SAFETY: an aligned word of the machine's memory.
            doorbell: Some(unsafe { Doorbell::new(word) }),
            priority: 7,
            percent: 100,
            save_area: Some(area),
        };
        self.device.lock().unwrap_or_else(PoisonError::into_inner).create_queue(spec);
    }

    fn port(&self) -> Port<'_> {
        Port::new(&self.space)
    }

    fn set_u64(&self, at: u64, value: u64) {
        self.port().write_u64(at, value).expect("the machine's own memory");
    }

    /// Memory of its own, in whole pages.
    pub(crate) fn alloc(&mut self, bytes: u64) -> u64 {
        let at = BASE + self.used;
        self.used += bytes.next_multiple_of(4096);
        assert!(self.used <= BYTES, "the machine's memory is used up");
        at
    }

    /// Memory with these numbers.
    pub(crate) fn floats(&mut self, values: &[f32]) -> u64 {
        let at = self.alloc(4 * values.len() as u64);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.port().write(at, &bytes).expect("the machine's own memory");
        at
    }

    /// Numbers in memory.
    pub(crate) fn read_floats(&self, at: u64, count: usize) -> Vec<f32> {
        let mut bytes = vec![0; 4 * count];
        self.port().read(at, &mut bytes).expect("the machine's own memory");
        bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
    }

    /// Loads a kernel of the suite: addresses first among its arguments, then a number.
    pub(crate) fn load(&mut self, name: &str, addresses: &[u64], number: u32, launch: Launch) -> Loaded {
        self.load_with(name, addresses, number, launch, Needs::default())
    }

    /// Loads a kernel that is said to need more than it does.
    pub(crate) fn load_with(
        &mut self,
        name: &str,
        addresses: &[u64],
        number: u32,
        launch: Launch,
        needs: Needs,
    ) -> Loaded {
        let job = suite::find(name).and_then(|test| test.job(1)).expect("a kernel of the suite");
        let arguments = addresses.iter().fold(Arguments::default(), |all, at| all.address(GpuAddr(*at)));
        self.load_object(&job, arguments.u32(number), launch, needs)
    }

    /// Loads a job of the suite with its own inputs.
    pub(crate) fn load_job(&mut self, job: &Job) -> Loaded {
        let arguments = job.arguments.iter().fold(Arguments::default(), |all, argument| match argument {
            Argument::U32(value) => all.u32(*value),
            Argument::F32(value) => all.f32(*value),
            Argument::Buffer(buffer) => {
                let at = self.alloc(buffer.contents.len() as u64);
                self.port().write(at, &buffer.contents).expect("the machine's own memory");
                all.address(GpuAddr(at))
            }
        });
        self.load_object(job, arguments, job.launch, Needs::default())
    }

    fn load_object(&mut self, job: &Job, arguments: Arguments, launch: Launch, needs: Needs) -> Loaded {
        let object = CodeObject::parse(job.object).expect("a committed object");
        let kernel = object.kernels().iter().find(|kernel| kernel.name == job.kernel).expect("the object's kernel");
        let image = self.alloc(object.size() as u64);
        self.port().write(image, &object.image_at(GpuAddr(image))).expect("the machine's own memory");
        if let Some((architectural, accumulation)) = needs.registers {
            self.say_registers(image + kernel.offset, architectural, accumulation);
        }
        let block = arguments.block(kernel.argument_bytes);
        let arguments = self.alloc(block.len() as u64);
        self.port().write(arguments, &block).expect("the machine's own memory");
        let dispatch = KernelDispatch {
            header: Header::new(PacketType::KERNEL_DISPATCH, true, FenceScope::SYSTEM, FenceScope::SYSTEM),
            setup: 3,
            workgroup_size_x: launch.group[0],
            workgroup_size_y: launch.group[1],
            workgroup_size_z: launch.group[2],
            grid_size_x: launch.grid[0],
            grid_size_y: launch.grid[1],
            grid_size_z: launch.grid[2],
            private_segment_size: kernel.scratch_per_item,
            group_segment_size: kernel.local_memory + needs.lds,
            kernel_object: image + kernel.offset,
            kernarg_address: arguments,
            ..KernelDispatch::default()
        };
        let mut packet = [0; PACKET as usize];
        dispatch.encode(&mut packet).expect("a packet fits");
        Loaded { packet }
    }

    /// Changes the numbers of registers in a kernel descriptor.
    fn say_registers(&mut self, descriptor: u64, architectural: u32, accumulation: u32) {
        // COMPUTE_PGM_RSRC3 counts architectural registers by four, COMPUTE_PGM_RSRC1 all of them by eight, both less
        // one.
        let fields = [(44, architectural / 4 - 1), (48, (architectural + accumulation) / 8 - 1)];
        for (offset, value) in fields {
            let mut port = self.port();
            let word = port.read_u32(descriptor + offset).expect("the machine's own memory");
            port.write_u32(descriptor + offset, word & !0x3F | value).expect("the machine's own memory");
        }
    }

    /// Puts a dispatch into the ring.
    pub(crate) fn submit(&mut self, loaded: &Loaded) {
        let index = self.port().read_u64(self.write).expect("the machine's own memory");
        self.port().write(self.ring + index * PACKET % RING, &loaded.packet).expect("the machine's own memory");
        self.set_u64(self.write, index + 1);
        self.set_u64(self.doorbell, index);
    }

    /// Runs a dispatch to its end.
    pub(crate) fn run(&mut self, loaded: &Loaded) {
        self.submit(loaded);
        while self.worker.turn(&self.device) == DeviceActivity::Busy {}
    }
}
