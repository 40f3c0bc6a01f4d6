//! A machine with round numbers, short ways to say a workload, and a mechanism that follows a script.

use std::collections::VecDeque;

use gpreempt_core::Nanos;
use gpreempt_lab::experiment::run;
use gpreempt_lab::machine::{CycleDone, Dispatch, Machine, QueueView};
use gpreempt_lab::mechanism::{Mechanism, find};
use gpreempt_lab::outcome::{RunOutcome, TraceEvent, TraceKind};
use gpreempt_lab::profile::{Compute, Cycle, HostCosts, Profile, Queues, Sourced};
use gpreempt_lab::workload::{Kernel, Load, Role, Task, Workload};

/// Workgroups of [`kernel`] that fill the gpu.
pub(crate) const FULL: u32 = 80;

pub(crate) fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

/// Ten CUs with eight slots each.
pub(crate) fn profile() -> Profile {
    let number = |value: f64| Sourced { value, source: "estimate: a round number".to_owned() };
    Profile {
        name: "round".to_owned(),
        about: "round numbers".to_owned(),
        compute: Compute {
            cus: number(10.0),
            waves_per_cu: number(8.0),
            vgpr_kib_per_cu: number(64.0),
            lds_kib_per_cu: number(64.0),
            workgroups_per_cu: number(8.0),
        },
        queues: Queues { hqds: number(8.0), vmids: number(8.0), quantum_us: number(1_000.0), fetch_us: number(1.0) },
        cycle: Cycle {
            firmware_us: number(10.0),
            grace_us: number(5.0),
            vram_gb_s: number(4.096),
            host_gb_s: number(0.512),
            wave_overhead_bytes: number(0.0),
            reset_us: number(20.0),
        },
        host: HostCosts {
            submit_us: number(1.0),
            ioctl_us: number(2.0),
            wakeup_us: number(3.0),
            switch_us: number(2.0),
            kernel_us: number(3.0),
        },
    }
}

/// One wave of 16 registers per workgroup: 4 KiB, which is a microsecond's save to VRAM and eight to host memory.
pub(crate) fn kernel(workgroups: u32, duration: Nanos) -> Kernel {
    Kernel { workgroups, duration, waves: 1, vgprs: 16, lds: 0, collective: false }
}

pub(crate) fn kernels(count: usize, workgroups: u32, duration: Nanos) -> Vec<Kernel> {
    vec![kernel(workgroups, duration); count]
}

pub(crate) fn at(instants: &[Nanos]) -> Load {
    Load::Trace { at: instants.into() }
}

pub(crate) const CLOSED: Load = Load::Closed { think: Nanos::ZERO };

pub(crate) fn online(load: Load, kernels: Vec<Kernel>) -> Task {
    task(Role::Online, 12, load, kernels)
}

pub(crate) fn offline(load: Load, kernels: Vec<Kernel>) -> Task {
    task(Role::Offline, 4, load, kernels)
}

fn task(role: Role, level: u8, load: Load, kernels: Vec<Kernel>) -> Task {
    Task { name: format!("{role:?}"), role, level, load, kernels: kernels.into(), gpus: vec![0] }
}

pub(crate) fn workload(duration: Nanos, tasks: Vec<Task>) -> Workload {
    let gpus = tasks.iter().flat_map(|task| &task.gpus).max().map_or(1, |gpu| gpu + 1);
    Workload { name: "test".to_owned(), about: "a test".to_owned(), duration, gpus, tasks }
}

/// A recorded run under a registered mechanism.
pub(crate) fn record(profile: &Profile, workload: &Workload, mechanism: &str) -> RunOutcome {
    run(profile, workload, find(mechanism).expect("registered"), 1, true)
}

/// Arrival to completion of a task's requests.
pub(crate) fn latencies(outcome: &RunOutcome, task: usize) -> Vec<Nanos> {
    let requests = outcome
        .trace
        .iter()
        .filter(|event| event.task == Some(task) && matches!(event.what, TraceKind::Request { .. }));
    requests.map(|event| event.length).collect()
}

/// Spans in which a task's kernels were on the gpu.
pub(crate) fn spans(outcome: &RunOutcome, task: usize) -> Vec<&TraceEvent> {
    let is_kernel = |event: &&TraceEvent| event.task == Some(task) && matches!(event.what, TraceKind::Kernel { .. });
    outcome.trace.iter().filter(is_kernel).collect()
}

type Action = Box<dyn Fn(&mut Machine)>;

/// Does what it was told when it was told, and remembers what it saw.
#[derive(Default)]
pub(crate) struct Script {
    actions: Vec<(Nanos, Action)>,
    dispatch: Dispatch,
    pub(crate) cycles: Vec<(Nanos, CycleDone)>,
    pub(crate) drained: VecDeque<(Nanos, usize)>,
    pub(crate) submitted: VecDeque<(Nanos, usize)>,
    /// What task 0 looked like on gpu 0 at every event.
    pub(crate) seen: Vec<QueueView>,
}

impl Script {
    pub(crate) fn with(dispatch: Dispatch) -> Script {
        Script { dispatch, ..Script::default() }
    }

    pub(crate) fn at(mut self, at: Nanos, action: impl Fn(&mut Machine) + 'static) -> Script {
        self.actions.push((at, Box::new(action)));
        self
    }

    /// Runs the workload on [`profile`] and returns the outcome with the script's memory.
    pub(crate) fn run(self, workload: &Workload) -> (RunOutcome, Script) {
        self.run_on(&profile(), workload)
    }

    pub(crate) fn run_on(mut self, profile: &Profile, workload: &Workload) -> (RunOutcome, Script) {
        let outcome = Machine::new(profile, workload, 1, true).run(&mut self, "script");
        (outcome, self)
    }

    fn look(&mut self, machine: &Machine) {
        self.seen.extend(machine.view(0, 0));
    }
}

impl Mechanism for Script {
    fn dispatch(&self) -> Dispatch {
        self.dispatch
    }

    fn wants_kernels(&self) -> bool {
        true
    }

    fn start(&mut self, machine: &mut Machine) {
        for (token, (at, _)) in self.actions.iter().enumerate() {
            machine.set_timer(*at, token as u64);
        }
    }

    fn submitted(&mut self, machine: &mut Machine, task: usize) {
        self.submitted.push_back((machine.now(), task));
        self.look(machine);
    }

    fn drained(&mut self, machine: &mut Machine, task: usize) {
        self.drained.push_back((machine.now(), task));
        self.look(machine);
    }

    fn kernel_done(&mut self, machine: &mut Machine, _task: usize, _gpu: usize) {
        self.look(machine);
    }

    fn timer(&mut self, machine: &mut Machine, token: u64) {
        (self.actions[token as usize].1)(machine);
        self.look(machine);
    }

    fn cycle_done(&mut self, machine: &mut Machine, done: CycleDone) {
        self.cycles.push((machine.now(), done));
        self.look(machine);
    }
}
