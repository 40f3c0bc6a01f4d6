//! Waves in the save area.

mod damage;
mod every_instruction;
mod registers;

use super::super::{PacketFormat, SaveArea};
use super::machine::{Machine, Ring, dispatch, halves};
use kfd_abi::aql::KernelDispatch;

const CONTROL_STACK: u32 = 4096;

/// A machine whose queues have a save area with so many bytes for waves.
fn machine(quantum: u64, bytes: u32) -> (Machine, SaveArea) {
    let mut machine = Machine::with_quantum(quantum);
    let size = CONTROL_STACK + bytes;
    let address = machine.alloc(size.into());
    let area = SaveArea { address, size, control_stack: CONTROL_STACK, xccs: 1 };
    machine.save_area = Some(area);
    (machine, area)
}

/// A kernel under way, one instruction at a time.
struct Run {
    machine: Machine,
    area: SaveArea,
    queue: Ring,
    kernel: u64,
    signal: u64,
    /// Where the code is.
    code: std::ops::Range<u64>,
    out: u64,
}

/// A kernel to run: code, LDS, private memory, work items, those of a group, and what comes before its output among
/// the arguments.
#[derive(Clone, Copy)]
struct Case {
    code: &'static [u32],
    lds: u32,
    scratch: u32,
    items: u32,
    group: u16,
    input: bool,
}

impl Run {
    fn new(case: &Case, bytes: u32) -> Self {
        let (mut machine, area) = machine(1, bytes);
        let out = machine.alloc(4 * u64::from(case.items.max(64)));
        let input: Vec<u32> = (0..case.items).map(|n| n * 3).collect();
        let input = machine.buffer(&input);
        let mut arguments = if case.input { halves(input).to_vec() } else { Vec::new() };
        arguments.extend(halves(out));
        arguments.push(case.group.into());
        let arguments = machine.buffer(&arguments);
        let rsrc2 = 2 << 1 | 1 << 7 | 1 << 8 | 2 << 11 | u32::from(case.scratch > 0);
        let kernel = machine.kernel(case.code, rsrc2, 1 << 3);
        let entry = kernel.wrapping_add(machine.u64(kernel + 16));
        let queue = machine.queue(PacketFormat::Aql);
        let signal = machine.signal(1, None);
        let packet = dispatch(kernel, arguments, case.items, case.group, signal);
        let (group_segment_size, private_segment_size) = (case.lds, case.scratch);
        machine.submit(&queue, &KernelDispatch { group_segment_size, private_segment_size, ..packet });
        let code = entry..entry + 4 * case.code.len() as u64;
        Self { machine, area, queue, kernel, signal, code, out }
    }

    /// Runs so many turns.
    fn turns(&mut self, turns: usize) {
        for _ in 0..turns {
            self.machine.worker.turn(&self.machine.device);
        }
    }

    /// Takes the queue off the device and saves it; how many waves there were.
    fn save(&self) -> u32 {
        let mut device = self.machine.device.lock().unwrap();
        assert!(device.suspend(self.queue.id) && device.is_off_device(self.queue.id));
        let extent = device.save(self.queue.id).unwrap();
        assert!(device.is_saved(self.queue.id));
        assert_eq!(device.save(self.queue.id), Ok(extent), "saving twice changes nothing");
        assert_eq!((self.machine.slots.waves(), self.machine.slots.lds()), (0, 0));
        extent.waves
    }

    fn restore(&self) {
        self.machine.device.lock().unwrap().restore(self.queue.id).unwrap();
    }

    fn done(&self) -> bool {
        self.machine.value(self.signal) == 0
    }

    /// Runs to the end; the output.
    fn finish(&mut self, items: u32) -> Vec<u32> {
        self.machine.worker.set_quantum(1000);
        self.machine.run();
        assert!(self.done(), "{:?}", self.machine.log.errors.lock().unwrap());
        self.machine.words(self.out, items.into())
    }
}
