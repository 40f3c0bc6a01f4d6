//! Kernels that are preempted, saved and restored over and over have the results they always have.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use kfd_suite::suite::{self, Job};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use vgpu::device::{SaveCounters, Worker};

use crate::rig::{CONFIG, PreemptionPattern, QUEUE, Rig};
use crate::suite::wrong;
use crate::walker::walk;

/// The quantum when nothing happens.
pub(crate) const QUIET: u64 = 100_000;
/// Quanta of a storm are at most a power of two below this one.
const LONGEST: u64 = 7;
/// Turns between two preemptions of a storm are fewer.
const MOST_TURNS: u64 = 12;

/// Preemptions of each job; `VGPU_STORM` asks for others.
pub(crate) fn preemptions() -> u64 {
    std::env::var("VGPU_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// Saves the queue, looks at the area as a debugger would, and restores it.
fn preempt(rig: &Rig, code: &Range<u64>) -> Result<(), String> {
    let mut device = rig.device.lock().unwrap();
    if !device.suspend(QUEUE) || !device.is_off_device(QUEUE) {
        return Err("the queue stays on the device".to_owned());
    }
    let extent = device.save(QUEUE).map_err(|error| error.to_string())?;
    let area = rig.save_area.ok_or("the rig has no save area")?;
    let mut memory = rig.port();
    let waves: Vec<_> = (0..area.xccs).flat_map(|xcc| walk(&mut memory, area.part(xcc), area.control_stack)).collect();
    if waves.len() != extent.waves as usize {
        return Err(format!("{} waves were saved and {} are listed", extent.waves, waves.len()));
    }
    for wave in waves {
        let pc = wave.pc(&mut memory);
        if !code.contains(&pc) {
            return Err(format!("a wave is at {pc:#x}, the code at {code:x?}"));
        }
    }
    device.restore(QUEUE).map_err(|error| error.to_string())
}

/// Preemptions after random numbers of instructions.
pub(crate) struct RandomPreemptions {
    random: u64,
    left: u64,
    /// Turns until the next one, in which workgroups join those that were restored.
    turns: u64,
    counters: SaveCounters,
}

impl RandomPreemptions {
    pub(crate) fn new(seed: u64, preemptions: u64) -> RandomPreemptions {
        RandomPreemptions {
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            left: preemptions,
            turns: 0,
            counters: SaveCounters::default(),
        }
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }
}

impl PreemptionPattern for RandomPreemptions {
    fn between_turns(&mut self, rig: &Rig, worker: &mut Worker, code: &Range<u64>) -> Result<(), String> {
        if self.left == 0 {
            return Ok(());
        }
        let most = 1 << (self.random() % LONGEST);
        worker.set_quantum(1 + self.random() % most);
        if self.turns > 0 {
            self.turns -= 1;
            return Ok(());
        }
        self.turns = self.random() % MOST_TURNS;
        self.left -= 1;
        preempt(rig, code)?;
        self.counters = rig.device.lock().unwrap().save_counters();
        if self.left == 0 {
            worker.set_quantum(QUIET);
        }
        Ok(())
    }
}

fn jobs(seed: u64) -> impl Iterator<Item = (&'static str, Job)> {
    suite::ALL.iter().filter_map(move |test| Some((test.name, test.job(seed)?)))
}

#[test]
fn every_job_survives_a_storm() {
    let mut sum = SaveCounters::default();
    let mut failures = Vec::new();
    for (name, job) in jobs(3) {
        let mut storm = RandomPreemptions::new(5, preemptions());
        let said = wrong(&job, |bytes| Rig::saving(bytes, 1), &mut storm);
        failures.extend(said.map(|said| format!("{name}: {said}")));
        let SaveCounters { saves, restores, waves, bytes, landed, moved, .. } = storm.counters;
        assert_eq!(saves, restores, "{name}");
        sum.saves += saves;
        sum.restores += restores;
        sum.waves += waves;
        sum.bytes += bytes;
        sum.landed += landed;
        sum.moved += moved;
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(sum.waves > sum.saves && 2 * sum.moved >= sum.landed, "{sum:?}");
}

/// Preempts after every instruction.
pub(crate) struct EveryInstruction(pub(crate) u64);

impl PreemptionPattern for EveryInstruction {
    fn between_turns(&mut self, rig: &Rig, _: &mut Worker, code: &Range<u64>) -> Result<(), String> {
        self.0 += 1;
        preempt(rig, code)
    }
}

#[test]
fn the_shortest_kernels_are_preempted_after_every_instruction() {
    for name in ["fill", "exactly_once"] {
        let job = suite::find(name).and_then(|test| test.job(1)).unwrap();
        let mut every = EveryInstruction(0);
        assert_eq!(wrong(&job, |bytes| Rig::saving(bytes, 1), &mut every), None, "{name}");
        assert!(every.0 > 100, "{name}: {} preemptions", every.0);
    }
}

/// Preempts once.
struct Once(bool);

impl PreemptionPattern for Once {
    fn between_turns(&mut self, rig: &Rig, worker: &mut Worker, code: &Range<u64>) -> Result<(), String> {
        worker.set_quantum(QUIET);
        if std::mem::replace(&mut self.0, true) { Ok(()) } else { preempt(rig, code) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_job_preempted_once_has_its_results(job in 0..jobs(1).count(), instructions in 1_u64..400) {
        let (name, job) = jobs(1).nth(job).ok_or(TestCaseError::fail("there are fewer jobs"))?;
        let said = wrong(&job, |bytes| Rig::saving(bytes, instructions), &mut Once(false));
        prop_assert_eq!(said, None, "{} after {} instructions", name, instructions);
    }
}

/// Preempts from another thread than the ones that run waves.
struct FromAnotherThread(bool);

impl PreemptionPattern for FromAnotherThread {
    fn between_turns(&mut self, rig: &Rig, _: &mut Worker, code: &Range<u64>) -> Result<(), String> {
        if std::mem::replace(&mut self.0, true) {
            return Ok(());
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for quantum in [7, 23] {
                let over = &over;
                scope.spawn(move || {
                    let mut worker = Worker::new(CONFIG, quantum);
                    while !over.load(Ordering::Relaxed) {
                        worker.turn(&rig.device);
                    }
                });
            }
            let done = (0..preemptions()).try_for_each(|_| {
                rig.device.lock().unwrap().suspend(QUEUE);
                while !rig.device.lock().unwrap().is_off_device(QUEUE) {
                    std::thread::yield_now();
                }
                preempt(rig, code)
            });
            over.store(true, Ordering::Relaxed);
            done
        })
    }
}

#[test]
fn several_workers_give_their_workgroups_back() {
    for name in ["exactly_once", "reduce", "histogram"] {
        let job = suite::find(name).and_then(|test| test.job(2)).unwrap();
        assert_eq!(wrong(&job, |bytes| Rig::saving(bytes, 1), &mut FromAnotherThread(false)), None, "{name}");
    }
}
