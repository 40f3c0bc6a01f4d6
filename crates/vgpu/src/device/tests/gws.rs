//! Global wave sync of waves in different workgroups.

use kfd_abi::exception::ExceptionCode;

use super::super::{PacketFormat, SaveArea, WaveProgress};
use super::kernels::{MEET, PREPARE};
use super::machine::{Machine, Ring, dispatch, halves};

const GROUPS: u32 = 6;

/// A machine on which a grid of [`GROUPS`] workgroups is to meet four times.
struct Meeting {
    machine: Machine,
    queue: Ring,
    signal: u64,
    out: u64,
}

impl Meeting {
    fn new() -> Self {
        let mut machine = Machine::with_quantum(1);
        let (control_stack, size) = (4096, 128 << 10);
        let address = machine.alloc(size.into());
        machine.save_area = Some(SaveArea { address, size, control_stack, xccs: 1 });
        let words = machine.alloc(16);
        let out = machine.alloc(u64::from(GROUPS) * 32);
        let arguments = machine.buffer(&[&halves(words)[..], &halves(out), &[GROUPS - 1]].concat());
        let (prepare, meet) = (machine.plain_kernel(PREPARE), machine.plain_kernel(MEET));
        let queue = machine.queue(PacketFormat::Aql);
        let signal = machine.signal(1, None);
        machine.submit(&queue, &dispatch(prepare, arguments, 64, 64, 0));
        machine.submit(&queue, &dispatch(meet, arguments, 128 * GROUPS, 128, signal));
        Self { machine, queue, signal, out }
    }

    fn allocate(&self) {
        self.machine.device.lock().unwrap().allocate_gws(64);
    }

    fn done(&self) -> bool {
        self.machine.value(self.signal) == 0
    }

    /// Each wave has seen all workgroups in each round.
    fn check(&self) {
        let seen = self.machine.words(self.out, u64::from(GROUPS) * 8);
        assert_eq!(seen, vec![GROUPS; seen.len()]);
    }
}

#[test]
fn workgroups_wait_for_each_other() {
    let mut meeting = Meeting::new();
    meeting.allocate();
    meeting.machine.run();
    assert!(meeting.done());
    meeting.check();
}

#[test]
fn waves_that_wait_are_saved_and_wait_again() {
    let mut meeting = Meeting::new();
    meeting.allocate();
    let mut waited = 0;
    // A turn is an instruction of each wave of one workgroup: between two saves all of them arrive again.
    for turn in 0..10_000 {
        if meeting.done() {
            break;
        }
        meeting.machine.worker.turn(&meeting.machine.device);
        if turn % 17 != 0 {
            continue;
        }
        let mut device = meeting.machine.device.lock().unwrap();
        device.suspend(meeting.queue.id);
        let groups = device.off_device(meeting.queue.id).unwrap();
        let waves = groups.iter().flat_map(|group| &group.waves);
        waited += waves.filter(|member| matches!(member.state, WaveProgress::AtGws(_))).count();
        device.save(meeting.queue.id).unwrap();
        device.restore(meeting.queue.id).unwrap();
    }
    assert!(meeting.done() && waited > 0, "{waited} waited");
    meeting.check();
}

#[test]
fn a_process_without_global_wave_sync_is_told_so() {
    let mut meeting = Meeting::new();
    meeting.machine.run();
    assert!(meeting.machine.stopped(&meeting.queue) && !meeting.done());
    let errors = meeting.machine.log.errors.lock().unwrap();
    assert_eq!(errors[0].1, ExceptionCode::QUEUE_WAVE_MEMORY_VIOLATION);
}
