//! Whoever executes workgroups: a thread or a process of its own.

use std::sync::{Mutex, PoisonError};

use vgpu_isa::code::Code;

use super::Config;
use super::engine::{Engine, Pulse};
use super::workgroup::Work;

/// Executes workgroups, with its own decoded code.
pub struct Worker {
    config: Config,
    code: Code,
    generation: u64,
    quantum: u64,
}

impl Worker {
    /// A worker that runs each wave of a workgroup for `quantum` instructions at a time.
    pub fn new(config: Config, quantum: u64) -> Self {
        Self { config, code: Code::new(config.target), generation: 0, quantum: quantum.max(1) }
    }

    /// Changes the quantum.
    pub fn set_quantum(&mut self, quantum: u64) {
        self.quantum = quantum.max(1);
    }

    /// Runs a workgroup for a quantum. Needs no lock.
    pub fn run(&mut self, work: &mut Work) {
        if self.generation != work.generation {
            self.generation = work.generation;
            self.code.invalidate();
        }
        work.outcome = work.group.run(&work.space, &mut self.code, self.config.clock, self.quantum);
    }

    /// Processes packets, then runs a workgroup if there is one.
    pub fn turn(&mut self, engine: &Mutex<Engine>) -> Pulse {
        let (pulse, work) = {
            let mut engine = engine.lock().unwrap_or_else(PoisonError::into_inner);
            (engine.advance(), engine.take())
        };
        let Some(mut work) = work else { return pulse };
        self.run(&mut work);
        engine.lock().unwrap_or_else(PoisonError::into_inner).put_back(work);
        Pulse::Busy
    }
}
