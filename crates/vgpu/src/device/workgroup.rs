//! A workgroup on its compute unit.

use std::sync::Arc;

use vgpu_isa::code::Code;
use vgpu_isa::inst::{Env, GwsRequest, Stop};
use vgpu_isa::memory::{Port, Space};
use vgpu_isa::run::{self, run};
use vgpu_isa::wave::{Wave, mode, status, trapsts};

use super::errors::TRAP_DEBUG;
use super::gws::{Gws, GwsAnswer, GwsWait};
use super::kernel_launch::KernelLaunch;
use super::queue::QueueId;
use super::slots::{CuPlacement, MAX_WAVES};
use super::trap::{self, HandlerFailure, TrapSetup, WaveMessage};

/// Instructions of a wave between two checks whether it is to stop.
const SLICE: u64 = 512;

/// Bytes of a global wave sync instruction.
const GWS_INSTRUCTION: u64 = 8;

/// Progress of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaveProgress {
    /// It executes instructions.
    Running,
    /// It waits for the others at a barrier.
    AtBarrier,
    /// It waits at a global wave sync instruction.
    AtGws(GwsWait),
    /// It has ended.
    Ended,
}

/// A wave of a workgroup.
#[derive(Debug)]
pub struct WorkgroupWave {
    /// Its registers.
    pub wave: Box<Wave>,
    /// Its progress.
    pub state: WaveProgress,
}

/// A workgroup that was started and has not ended.
#[derive(Debug)]
pub struct Workgroup {
    /// Queue it came from.
    pub queue: QueueId,
    /// Serial number of that queue: numbers are used again.
    pub(crate) queue_serial: u64,
    /// Dispatch it belongs to.
    pub(crate) dispatch: u64,
    /// Description of the dispatch, shared by its workgroups.
    pub launch: Arc<KernelLaunch>,
    /// Its position in the grid.
    pub id: [u32; 3],
    /// Its waves.
    pub waves: Vec<WorkgroupWave>,
    /// Its LDS.
    pub lds: Vec<u8>,
    /// Its place; `None` while it is off the device.
    pub place: Option<CuPlacement>,
    /// Its previous place; `None` before it first left the device.
    pub(crate) was: Option<CuPlacement>,
    /// Global wave sync of its process.
    pub(crate) gws: Arc<Gws>,
}

/// Result of a quantum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkgroupOutcome {
    /// Waves have instructions left.
    Unfinished,
    /// All waves ended.
    Finished,
    /// A wave cannot go on.
    Stopped {
        /// Index of the wave.
        wave: usize,
        /// Reason.
        stop: Stop,
    },
    /// A wave has entered its trap handler, which does not return.
    TrapHandlerFailed {
        /// Index of the wave.
        wave: usize,
    },
}

/// What waves did in a quantum that others have to be told.
#[derive(Debug, Default)]
pub(crate) struct QuantumReport {
    /// Interrupts that waves requested.
    pub(crate) messages: Vec<WaveMessage>,
    /// Why and where waves entered their trap handler, unless they have a debugger.
    pub(crate) stops: Vec<(Stop, u64)>,
}

/// Circumstances and length of a quantum.
pub(crate) struct Quantum<'q> {
    pub(crate) space: &'q Space,
    pub(crate) traps: TrapSetup,
    pub(crate) clock: fn() -> u64,
    /// Most instructions of each wave.
    pub(crate) instructions: u64,
    /// Returns whether the waves are to stop soon.
    pub(crate) interrupted: &'q dyn Fn() -> bool,
}

/// A workgroup that a worker holds, with the environment in which it runs.
#[derive(Debug)]
pub struct WorkgroupRun {
    /// The workgroup.
    pub group: Workgroup,
    /// Address space.
    pub(crate) space: Arc<Space>,
    /// Generation of decoded code that is valid for it.
    pub(crate) generation: u64,
    /// What its waves do when they trap.
    pub(crate) traps: TrapSetup,
    /// What others have to be told.
    pub(crate) report: QuantumReport,
    /// Result of its last quantum.
    pub outcome: WorkgroupOutcome,
}

impl WorkgroupWave {
    /// Has a global wave sync instruction answered. Returns false if the process does not have the resource.
    fn ask_gws(&mut self, gws: &Gws, request: &GwsRequest) -> bool {
        match gws.ask(request) {
            GwsAnswer::Done => self.pass_gws(),
            GwsAnswer::Wait(wait) => self.state = WaveProgress::AtGws(wait),
            GwsAnswer::Denied => return false,
        }
        true
    }

    /// Lets the wave go on if what it waits for at a global wave sync instruction has happened.
    fn look_at_gws(&mut self, gws: &Gws) {
        if let WaveProgress::AtGws(wait) = self.state
            && gws.release(wait)
        {
            self.pass_gws();
        }
    }

    /// Withdraws the wave if it waits at a global wave sync instruction: it executes that again.
    fn leave_gws(&mut self, gws: &Gws) {
        let WaveProgress::AtGws(wait) = self.state else { return };
        if gws.withdraw(wait) {
            self.state = WaveProgress::Running;
        } else {
            self.pass_gws();
        }
    }

    fn pass_gws(&mut self) {
        self.state = WaveProgress::Running;
        self.wave.pc = self.wave.pc.wrapping_add(GWS_INSTRUCTION);
        if self.wave.mode() & mode::DEBUG_EN != 0 {
            self.wave.trapsts |= trapsts::TRAP_AFTER_INST;
        }
    }
}

impl Workgroup {
    /// Withdraws waves that wait at a global wave sync instruction; they execute it again.
    pub(crate) fn leave_gws(&mut self) {
        self.waves.iter_mut().for_each(|member| member.leave_gws(&self.gws));
    }

    /// Leaves its place and returns it.
    pub(crate) fn leave(&mut self) -> Option<CuPlacement> {
        let place = self.place.take()?;
        self.was = Some(place);
        Some(place)
    }

    /// Takes a place and updates the waves. Returns whether it differs from the previous one.
    pub(crate) fn land(&mut self, place: CuPlacement) -> bool {
        for (index, member) in (0..).zip(&mut self.waves) {
            self.launch.locate(&mut member.wave, index, &place);
        }
        self.place = Some(place);
        self.was.is_none_or(|was| (was.cu, was.simds) != (place.cu, place.simds))
    }

    /// Returns whether no wave can go on until the save area is changed: those that have not ended or reached a barrier
    /// are halted.
    pub(crate) fn is_halted(&self) -> bool {
        self.waves.iter().all(|member| match member.state {
            WaveProgress::Running => member.wave.is_halted(),
            WaveProgress::AtGws(_) => false,
            WaveProgress::AtBarrier | WaveProgress::Ended => true,
        })
    }

    /// Runs its waves for a quantum, in turns that end at barriers; all stop soon once they are to.
    pub(crate) fn run(
        &mut self,
        quantum: &Quantum<'_>,
        code: &mut Code,
        report: &mut QuantumReport,
    ) -> WorkgroupOutcome {
        let Self { waves, lds, gws, .. } = self;
        let mut env = Env { memory: Port::new(quantum.space), lds, clock: quantum.clock, stop: None };
        let mut budgets = [quantum.instructions; MAX_WAVES];
        loop {
            let mut ran = false;
            waves.iter_mut().for_each(|member| member.look_at_gws(gws));
            for (index, member) in waves.iter_mut().enumerate() {
                let budget = &mut budgets[index % MAX_WAVES];
                if member.state != WaveProgress::Running || *budget == 0 {
                    continue;
                }
                ran = true;
                let outcome = loop {
                    let mut slice = (*budget).min(SLICE);
                    let granted = slice;
                    let outcome = run(&mut member.wave, code, &mut env, &mut slice);
                    *budget -= granted - slice;
                    if outcome != run::RunEnd::Budget || *budget == 0 {
                        break outcome;
                    }
                    if (quantum.interrupted)() {
                        return WorkgroupOutcome::Unfinished;
                    }
                };
                match outcome {
                    run::RunEnd::Budget => {}
                    run::RunEnd::End => member.state = WaveProgress::Ended,
                    run::RunEnd::Barrier => {
                        member.state = WaveProgress::AtBarrier;
                        member.wave.status |= status::IN_BARRIER;
                    }
                    // Whatever it waits for comes from others.
                    run::RunEnd::Sleep => {
                        report.messages.extend(WaveMessage::take(&mut member.wave));
                        *budget = 0;
                    }
                    run::RunEnd::Stopped(Stop::Gws(request)) if member.ask_gws(gws, &request) => {
                        *budget = budget.saturating_sub(1);
                    }
                    run::RunEnd::Exception | run::RunEnd::Stopped(_) => {
                        *budget = budget.saturating_sub(1);
                        let stop = if let run::RunEnd::Stopped(stop) = outcome { Some(stop) } else { None };
                        let outcome = member.trap(index, stop, &quantum.traps, code, &mut env, report);
                        if let Some(outcome) = outcome {
                            return outcome;
                        }
                    }
                }
            }
            let released = release_barrier(waves);
            if waves.iter().all(|member| member.state == WaveProgress::Ended) {
                return WorkgroupOutcome::Finished;
            }
            if !ran && !released {
                return WorkgroupOutcome::Unfinished;
            }
        }
    }
}

impl WorkgroupWave {
    /// Has the wave enter its trap handler, because of an exception or, with `stop`, because it cannot go on. Returns
    /// how the quantum ends, unless the wave continues or is halted.
    fn trap(
        &mut self,
        index: usize,
        stop: Option<Stop>,
        traps: &TrapSetup,
        code: &mut Code,
        env: &mut Env<'_>,
        report: &mut QuantumReport,
    ) -> Option<WorkgroupOutcome> {
        let wave = &mut *self.wave;
        let Some(handler) = traps.handler else {
            match stop {
                // As the first level does without a second.
                None => wave.status |= status::HALT,
                // Without a debugger the runtime's handler ignores it.
                Some(Stop::Trap(TRAP_DEBUG)) => wave.pc = wave.pc.wrapping_add(4),
                Some(stop) => return Some(WorkgroupOutcome::Stopped { wave: index, stop }),
            }
            return None;
        };
        // Whether the access fails depends on mappings, of which the device knows more than this quantum.
        if let Some(stop @ Stop::Memory(_)) = stop {
            return Some(WorkgroupOutcome::Stopped { wave: index, stop });
        }
        let pc = wave.pc;
        let trap_id = stop.as_ref().map_or(0, |stop| trap::record(wave, stop));
        let ended = trap::execute(wave, trap_id, handler, traps, code, env, &mut report.messages);
        if let Some(stop) = stop.filter(|stop| !traps.is_debugged && *stop != Stop::Trap(TRAP_DEBUG)) {
            report.stops.push((stop, pc));
        }
        match ended {
            Ok(()) => None,
            Err(HandlerFailure::Ended) => {
                self.state = WaveProgress::Ended;
                None
            }
            Err(HandlerFailure::Stopped(stop)) => Some(WorkgroupOutcome::Stopped { wave: index, stop }),
            Err(HandlerFailure::Endless) => Some(WorkgroupOutcome::TrapHandlerFailed { wave: index }),
        }
    }
}

/// Releases the barrier if all waves that have not ended have reached it. Returns whether they have.
fn release_barrier(waves: &mut [WorkgroupWave]) -> bool {
    let here = waves.iter().any(|member| member.state == WaveProgress::AtBarrier);
    let arrived = |member: &WorkgroupWave| matches!(member.state, WaveProgress::AtBarrier | WaveProgress::Ended);
    let complete = here && waves.iter().all(arrived);
    if complete {
        for member in waves.iter_mut().filter(|member| member.state == WaveProgress::AtBarrier) {
            member.state = WaveProgress::Running;
            member.wave.status &= !status::IN_BARRIER;
        }
    }
    complete
}
