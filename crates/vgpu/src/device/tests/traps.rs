//! Waves in the trap handler of their process.

use kfd_abi::debug::{LaunchMode, TrapMask};
use kfd_abi::exception::ExceptionCode;
use vgpu_isa::wave::{TTMP0, Wave, mode, status, trapsts};

use super::super::{DeviceActivity, PacketFormat, TrapHandler};
use super::kernels::{BREAKPOINT, HANDLER};
use super::machine::{DOORBELL, Machine, RING, Ring, dispatch, halves};
use crate::driver::WaveControl;

/// What [`HANDLER`] sends: a trap of the first queue.
const MESSAGE: u32 = 1 << 11 | (DOORBELL + 1);
/// What it sends if it does not run.
const SILENCE: [u32; 0] = [];
const DEBUGGED: WaveControl = WaveControl { is_debugged: true, launch_mode: 0, traps: 0, replaces_traps: false };

/// A machine with a dispatch of one wave that is about to start.
struct Scene {
    machine: Machine,
    queue: Ring,
    entry: u64,
    out: u64,
    signal: u64,
}

impl Scene {
    fn new(code: &[u32], handler: &[u32], control: WaveControl) -> Self {
        let mut machine = Machine::new();
        let out = machine.alloc(8);
        let arguments = machine.buffer(&halves(out));
        let kernel = machine.plain_kernel(code);
        let entry = kernel.wrapping_add(machine.u64(kernel + 16));
        let handler = TrapHandler { code: machine.buffer(handler), memory: 0x1_2345_6789_AB00 };
        let queue = machine.queue(PacketFormat::Aql);
        let signal = machine.signal(1, None);
        machine.device.lock().unwrap().set_trap_handler(Some(handler));
        machine.device.lock().unwrap().set_wave_control(control);
        machine.submit(&queue, &dispatch(kernel, arguments, 64, 64, signal));
        Self { machine, queue, entry, out, signal }
    }

    /// Runs until nothing runs, and returns what the handler has sent since the last time.
    fn run(&mut self) -> Vec<u32> {
        assert_ne!(self.machine.run(), DeviceActivity::Busy, "halted waves take no turns");
        std::mem::take(&mut *self.machine.log.trap_messages.lock().unwrap())
    }

    /// Takes the wave off the device, as for its debugger, and lets it continue after `change`.
    fn stopped(&self, change: impl FnOnce(&mut Wave)) {
        let mut device = self.machine.device.lock().unwrap();
        assert!(device.suspend(self.queue.id));
        let groups = device.off_device(self.queue.id).expect("no worker holds it");
        change(&mut groups[0].waves[0].wave);
        device.resume(self.queue.id);
    }

    fn done(&self) -> bool {
        self.machine.value(self.signal) == 0
    }
}

#[test]
fn a_trap_is_handled_by_the_installed_handler_and_the_wave_stays_where_that_halts_it() {
    let mut scene = Scene::new(BREAKPOINT, HANDLER, WaveControl::default());
    assert_eq!(scene.run(), [MESSAGE]);
    assert!(!scene.done() && !scene.machine.stopped(&scene.queue));
    assert!(scene.machine.log.errors.lock().unwrap().is_empty());
    assert_eq!(scene.machine.slots.waves(), 1, "it keeps its place");
    let (entry, stops) = (scene.entry, scene.machine.log.stopped_waves.lock().unwrap().len());
    assert_eq!(stops, 1);
    scene.stopped(|wave| {
        assert_eq!((wave.pc, wave.s[6]), (entry + 20, 0x11));
        assert_eq!(wave.status & (status::HALT | status::PRIV), status::HALT);
        assert_eq!(wave.exec(), !0, "the handler puts it back");
        assert_eq!(wave.s[TTMP0 + 14..TTMP0 + 16], [0x6789_AB00, 0x1_2345], "the handler's memory");
        assert_eq!(wave.s[TTMP0 + 13] & 1 << 23, 0, "no debugger");
    });
    assert_eq!(scene.run(), SILENCE, "still halted");
    scene.stopped(|wave| wave.status &= !status::HALT);
    assert_eq!(scene.run(), SILENCE);
    assert_eq!((scene.done(), scene.machine.u32(scene.out)), (true, 0x22));
}

#[test]
fn a_handler_hears_of_a_debugger_and_of_nothing_else_that_is_logged() {
    let mut scene = Scene::new(BREAKPOINT, HANDLER, DEBUGGED);
    assert_eq!(scene.run(), [MESSAGE]);
    assert!(scene.machine.log.stopped_waves.lock().unwrap().is_empty());
    scene.stopped(|wave| assert_eq!(wave.s[TTMP0 + 13] & 1 << 23, 1 << 23));
}

#[test]
fn waves_that_start_in_single_steps_trap_after_every_instruction() {
    let mut scene = Scene::new(BREAKPOINT, HANDLER, WaveControl { launch_mode: LaunchMode::DEBUG.0, ..DEBUGGED });
    let entry = scene.entry;
    // s_load, s_waitcnt, s_movk, s_trap, s_movk, two v_mov, the store.
    for (size, at_trap) in [8, 12, 16, 20, 24, 28, 32, 40].into_iter().map(|size| (size, size == 20)) {
        assert_eq!(scene.run(), [MESSAGE], "{size}");
        scene.stopped(|wave| {
            assert_eq!(wave.pc, entry + size);
            let step = if at_trap { 0 } else { trapsts::TRAP_AFTER_INST };
            assert_eq!(wave.trapsts, step, "{size}");
            wave.trapsts = 0;
            wave.status &= !status::HALT;
        });
    }
    assert_eq!(scene.run(), SILENCE);
    assert_eq!((scene.done(), scene.machine.u32(scene.out)), (true, 0x22));
}

#[test]
fn waves_start_and_end_as_their_debugger_wants() {
    let mut scene = Scene::new(&[0xBF81_0000], HANDLER, WaveControl { launch_mode: LaunchMode::HALT.0, ..DEBUGGED });
    assert_eq!(scene.run(), SILENCE);
    let entry = scene.entry;
    scene.stopped(|wave| {
        assert_eq!((wave.pc, wave.is_halted()), (entry, true));
        wave.status &= !status::HALT;
    });
    assert_eq!((scene.run(), scene.done()), (SILENCE.to_vec(), true));

    let traps = TrapMask::TRAP_ON_WAVE_START.0 | TrapMask::TRAP_ON_WAVE_END.0 | TrapMask::FP_INVALID.0;
    let mut scene = Scene::new(&[0xBF81_0000], HANDLER, WaveControl { traps, ..DEBUGGED });
    for expected in [trapsts::WAVE_BEGIN, trapsts::WAVE_END] {
        let entry = scene.entry;
        assert_eq!(scene.run(), [MESSAGE]);
        scene.stopped(|wave| {
            assert_eq!((wave.pc, wave.trapsts), (entry, expected));
            assert_eq!(wave.mode() & mode::EXCP_EN, 1 << 12);
            wave.trapsts = 0;
            wave.status &= !status::HALT;
        });
    }
    assert_eq!((scene.run(), scene.done()), (SILENCE.to_vec(), true));
}

#[test]
fn errors_of_waves_are_the_handlers_and_failed_accesses_the_debuggers() {
    // No instruction.
    let mut scene = Scene::new(&[0xFFFF_FFFF], HANDLER, WaveControl::default());
    assert_eq!(scene.run(), [MESSAGE]);
    scene.stopped(|wave| assert_eq!(wave.trapsts, trapsts::ILLEGAL_INST));
    assert!(!scene.machine.stopped(&scene.queue));

    // s_load_dword s4, s[2:3], 0: nothing is there.
    let load = [0xC002_0101, 0, 0xBF81_0000];
    let mut scene = Scene::new(&load, HANDLER, WaveControl::default());
    assert_eq!(scene.run(), SILENCE, "the process is evicted");
    assert_eq!((scene.machine.stopped(&scene.queue), scene.machine.log.faults.lock().unwrap().len()), (true, 1));
    let mut scene = Scene::new(&load, HANDLER, DEBUGGED);
    assert_eq!(scene.run(), [MESSAGE]);
    assert_eq!((scene.machine.stopped(&scene.queue), scene.machine.log.faults.lock().unwrap().len()), (false, 1));
    scene.stopped(|wave| assert_eq!(wave.trapsts, trapsts::MEM_VIOL | trapsts::XNACK_ERROR));
}

#[test]
fn a_handler_that_does_not_return_stops_its_queue() {
    // s_branch to itself; and a handler that is not there.
    for (handler, code) in [
        (&[0xBF82_FFFF][..], ExceptionCode::QUEUE_PREEMPTION_ERROR),
        (&[0xFFFF_FFFF], ExceptionCode::QUEUE_WAVE_ILLEGAL_INSTRUCTION),
    ] {
        let mut scene = Scene::new(BREAKPOINT, handler, WaveControl::default());
        assert_eq!(scene.run(), SILENCE);
        assert!(scene.machine.stopped(&scene.queue));
        let errors: Vec<_> = scene.machine.log.errors.lock().unwrap().iter().map(|(_, code, _)| *code).collect();
        assert_eq!(errors, [code]);
    }
    // One that ends its wave ends it.
    let mut scene = Scene::new(BREAKPOINT, &[0xBF81_0000], WaveControl::default());
    assert_eq!((scene.run(), scene.done()), (SILENCE.to_vec(), true));
}

#[test]
fn a_trap_temporary_names_the_packet_by_its_place_in_the_ring() {
    let mut scene = Scene::new(&[0xBF81_0000], HANDLER, DEBUGGED);
    let packets = (RING / 64) as u32;
    assert_eq!((scene.run(), scene.done()), (SILENCE.to_vec(), true));
    let kernel = scene.machine.plain_kernel(BREAKPOINT);
    let end = scene.machine.plain_kernel(&[0xBF81_0000]);
    for _ in 1..packets + 2 {
        scene.machine.submit(&scene.queue, &dispatch(end, 0, 64, 64, 0));
        scene.run();
    }
    scene.machine.submit(&scene.queue, &dispatch(kernel, scene.out, 64, 64, 0));
    assert_eq!(scene.run(), [MESSAGE]);
    scene.stopped(|wave| assert_eq!(wave.s[TTMP0 + 11] >> 6 & 0x1FF_FFFF, 2, "the third of the ring"));
}
