//! Workers: they execute workgroups, each in a thread or process of its own.

use std::sync::{Mutex, PoisonError};

use vgpu_isa::code::Code;

use super::DeviceConfig;
use super::process_device::{DeviceActivity, ProcessDevice};
use super::workgroup::{Quantum, WorkgroupOutcome, WorkgroupRun};

/// Workgroups that end within their quantum and are run before packets are looked at again.
const IN_A_ROW: u32 = 8;

/// Executes workgroups, with its own decoded code.
pub struct Worker {
    config: DeviceConfig,
    code: Code,
    generation: u64,
    quantum: u64,
    interrupted: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Worker {
    /// Makes a worker that runs each wave of a workgroup for `quantum` instructions at a time.
    pub fn new(config: DeviceConfig, quantum: u64) -> Self {
        Self {
            config,
            code: Code::new(config.target),
            generation: 0,
            quantum: quantum.max(1),
            interrupted: Box::new(|| false),
        }
    }

    /// Ends quanta early once `interrupted` returns true: an order requires waves to stop.
    #[must_use]
    pub fn interrupted_by(mut self, interrupted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.interrupted = Box::new(interrupted);
        self
    }

    /// Changes the quantum.
    pub fn set_quantum(&mut self, quantum: u64) {
        self.quantum = quantum.max(1);
    }

    /// Runs a workgroup for a quantum. Needs no lock.
    pub fn run(&mut self, work: &mut WorkgroupRun) {
        if self.generation != work.generation {
            self.generation = work.generation;
            self.code.invalidate();
        }
        let WorkgroupRun { group, space, traps, report, outcome, .. } = work;
        let quantum = Quantum {
            space,
            traps: *traps,
            clock: self.config.clock,
            instructions: self.quantum,
            interrupted: &self.interrupted,
        };
        *outcome = group.run(&quantum, &mut self.code, report);
    }

    /// Processes packets, then runs a workgroup if there is one; more if they are short.
    pub fn turn(&mut self, device: &Mutex<ProcessDevice>) -> DeviceActivity {
        let lock = || device.lock().unwrap_or_else(PoisonError::into_inner);
        let (pulse, work) = {
            let mut device = lock();
            // The executor has advanced the device before it acquired a token. Since then it may have waited for the
            // token, and turns before this one may have completed the packet that others wait for.
            (device.advance(), device.take())
        };
        let Some(mut work) = work else { return pulse };
        for left in (0..IN_A_ROW).rev() {
            self.run(&mut work);
            let finished = work.outcome == WorkgroupOutcome::Finished;
            let mut device = lock();
            device.put_back(work);
            let next = if finished && left > 0 { device.take() } else { None };
            let Some(next) = next else { break };
            work = next;
        }
        DeviceActivity::Busy
    }
}
