//! The state of one process on one gpu.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use vgpu_isa::memory::{Fault, Space};

use super::context::{Context, Step};
use super::errors::Halt;
use super::gws::Gws;
use super::pool::Pool;
use super::queue::{HardwareQueue, HardwareQueueSpec, HardwareQueueUpdate, PacketFormat, QueueId};
use super::save::{SaveCounters, SaveError};
use super::slots::Slots;
use super::trap::TrapHandler;
use super::workgroup::Workgroup;
use super::{DeviceConfig, Interrupts, errors, signal};
use crate::driver::WaveControl;

/// Packets that a queue processes before others get their turn.
const PACKETS_IN_A_ROW: usize = 64;

/// Activity of a device, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceActivity {
    /// There is nothing to do until a doorbell rings.
    Idle,
    /// A packet waits for memory to change, or workgroups are ready to run.
    Waiting,
    /// Packets were processed, or a workgroup was run.
    Busy,
}

/// All queues of one process on one gpu, with everything they have under way.
///
/// One caller at a time: workers share it behind a lock.
pub struct ProcessDevice {
    pub(super) config: DeviceConfig,
    pub(super) interrupts: Arc<dyn Interrupts>,
    pub(super) slots: Arc<dyn Slots>,
    pub(super) space: Arc<Space>,
    pub(super) generation: u64,
    pub(super) queues: BTreeMap<QueueId, HardwareQueue>,
    /// Workgroups on the device that no worker holds, longest waiting first.
    pub(super) ready: VecDeque<Workgroup>,
    /// Workgroups that come back to the device and need room.
    pub(super) returning: VecDeque<Workgroup>,
    /// Workgroups on the device of which no wave can go on: those that have not ended or reached a barrier are halted.
    pub(super) halted: Vec<Workgroup>,
    pub(super) pool: Pool,
    /// Global wave sync.
    gws: Arc<Gws>,
    pub(super) counters: SaveCounters,
    /// Queues created so far.
    created: u64,
    /// Workgroups that found room so far.
    pub(super) places: u64,
    /// Workgroups handed out since places were looked for.
    pub(super) unfilled: u32,
    /// Workgroups started so far.
    pub(super) starts: u64,
    /// Turns of workgroups since one was started.
    pub(super) turns: u32,
    /// Time that copy queues worked, in ticks of the clock.
    copying: u64,
    /// Whether the runtime handles exceptions that the driver reports to it.
    runtime_enabled: bool,
    /// The process's trap handler.
    pub(super) trap_handler: Option<TrapHandler>,
    /// What its debugger wants of its waves.
    pub(super) wave_control: WaveControl,
    /// Whether no packets are processed and no workgroups started, because all queues are about to leave.
    pub(super) draining: bool,
}

impl ProcessDevice {
    /// Creates a device without queues and with an empty address space.
    pub fn new(config: DeviceConfig, interrupts: Arc<dyn Interrupts>, slots: Arc<dyn Slots>) -> Self {
        Self {
            config,
            interrupts,
            slots,
            space: Arc::new(Space::new()),
            generation: 1,
            queues: BTreeMap::new(),
            ready: VecDeque::new(),
            returning: VecDeque::new(),
            halted: Vec::new(),
            pool: Pool::default(),
            gws: Arc::default(),
            counters: SaveCounters::default(),
            created: 0,
            places: 0,
            unfilled: 0,
            starts: 0,
            turns: 0,
            copying: 0,
            runtime_enabled: false,
            trap_handler: None,
            wave_control: WaveControl::default(),
            draining: false,
        }
    }

    /// Replaces the address space. Workers see it with their next quantum.
    pub fn set_space(&mut self, space: Arc<Space>) {
        self.space = space;
        self.generation += 1;
    }

    /// Sets whether the runtime handles exceptions that the driver reports to it (RUNTIME_ENABLE).
    pub(crate) fn set_runtime_enabled(&mut self, enabled: bool) {
        self.runtime_enabled = enabled;
    }

    /// Sets or removes the process's trap handler.
    pub fn set_trap_handler(&mut self, handler: Option<TrapHandler>) {
        self.trap_handler = handler;
    }

    /// Sets what a debugger wants of the waves. Its calls may follow changes of code, which the hardware notices when
    /// queues are mapped.
    pub(crate) fn set_wave_control(&mut self, control: WaveControl) {
        if control.is_debugged || self.wave_control.is_debugged {
            self.generation += 1;
        }
        self.wave_control = control;
    }

    /// Gives the process so many resources of global wave sync; none takes them away.
    pub(crate) fn allocate_gws(&mut self, count: u32) {
        self.gws.allocate(count);
    }

    /// Adds a queue; one with the same number is destroyed.
    pub fn create_queue(&mut self, spec: HardwareQueueSpec) {
        self.destroy_queue(spec.id);
        self.created += 1;
        let queue = HardwareQueue::new(spec, self.created, self.config.read_index, Arc::clone(&self.gws));
        self.queues.insert(spec.id, queue);
    }

    /// Changes a queue. Returns whether there is one.
    pub(crate) fn update_queue(&mut self, id: QueueId, update: &HardwareQueueUpdate) -> bool {
        let Some(queue) = self.queues.get_mut(&id) else { return false };
        queue.update(update);
        self.settle(id);
        true
    }

    /// Removes a queue and everything it has under way. Returns whether there was one. A workgroup that a worker holds
    /// is dropped when it comes back.
    pub(crate) fn destroy_queue(&mut self, id: QueueId) -> bool {
        self.take_off(id);
        let Some(queue) = self.queues.remove(&id) else { return false };
        for group in queue.parked {
            self.recycle(group);
        }
        true
    }

    /// Takes a queue off the device. Its workgroups keep their state; those that workers hold follow when they are put
    /// back ([`ProcessDevice::is_off_device`]). Then [`ProcessDevice::save`] may follow. Returns whether there is such
    /// a queue.
    pub fn suspend(&mut self, id: QueueId) -> bool {
        let Some(queue) = self.queues.get_mut(&id) else { return false };
        queue.suspended = true;
        self.settle(id);
        true
    }

    /// Brings a queue back, from its save area if it was saved. Returns whether there is one. If it cannot be restored
    /// it has stopped.
    pub(crate) fn resume(&mut self, id: QueueId) -> bool {
        self.restore(id) != Err(SaveError::NoQueue)
    }

    /// Returns whether a queue met an error.
    pub(crate) fn stopped(&self, id: QueueId) -> bool {
        self.queues.get(&id).is_some_and(|queue| queue.stopped)
    }

    /// Returns the time that copy queues worked, in microseconds.
    pub(crate) fn copied_us(&self) -> u64 {
        /// Ticks of the 100 MHz clock in a microsecond.
        const TICKS: u64 = 100;
        self.copying / TICKS
    }

    /// Processes packets of all queues until each is empty, waits, or has had its turn.
    pub fn advance(&mut self) -> DeviceActivity {
        if self.draining {
            return if self.ready.is_empty() { DeviceActivity::Idle } else { DeviceActivity::Waiting };
        }
        let mut pulse = DeviceActivity::Idle;
        let mut halts = Vec::new();
        let space = Arc::clone(&self.space);
        let mut cx = Context::new(&self.config, &*self.interrupts, &*self.slots, &space, &mut self.generation);
        for (id, queue) in self.queues.iter_mut().filter(|(_, queue)| queue.active()) {
            let begun = (queue.spec.kind == PacketFormat::Sdma).then(self.config.clock);
            let mut copied = false;
            for _ in 0..PACKETS_IN_A_ROW {
                match queue.step(&mut cx) {
                    Ok(Step::Done) => {
                        pulse = DeviceActivity::Busy;
                        copied = true;
                    }
                    Ok(Step::Wait) => {
                        pulse = pulse.max(DeviceActivity::Waiting);
                        break;
                    }
                    Ok(Step::Empty) => break,
                    Err(halt) => {
                        halts.push((*id, halt));
                        break;
                    }
                }
            }
            if let Some(begun) = begun.filter(|_| copied) {
                self.copying += (self.config.clock)().saturating_sub(begun);
            }
        }
        for (id, halt) in halts {
            self.halt(id, halt);
        }
        if self.runnable() { pulse.max(DeviceActivity::Waiting) } else { pulse }
    }

    /// Returns how many waves of a queue are on the device, without those that workers hold.
    pub(crate) fn resident_waves(&self, id: QueueId) -> u32 {
        let groups = self.ready.iter().chain(&self.halted).filter(|group| group.queue == id);
        groups.map(|group| group.waves.len() as u32).sum()
    }

    /// Returns whether waves could run now.
    pub(crate) fn runnable(&self) -> bool {
        !self.ready.is_empty()
            || !self.returning.is_empty()
            || self.queues.values().any(|queue| queue.active() && queue.dispatches.startable())
    }

    /// Stops a queue for good and tells the driver and the runtime why. A failed access stops all queues.
    pub(super) fn halt(&mut self, id: QueueId, halt: Halt) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if queue.stopped {
            return;
        }
        queue.stopped = true;
        let object = queue.object();
        match halt {
            Halt::Fault(fault) => {
                let ids: Vec<_> = self.queues.keys().copied().collect();
                for other in ids {
                    if let Some(queue) = self.queues.get_mut(&other) {
                        queue.stopped = true;
                    }
                    self.settle(other);
                }
                self.interrupts.fault(id, fault);
            }
            Halt::Error { code, text } => {
                self.settle(id);
                // The packet processor reports packets in any case, and a runtime that handles exceptions expects it
                // (ROCR-Runtime, AqlQueue::DynamicQueueEventsHandler: cleared so that ExceptionHandler can run). Waves
                // are reported by the trap handler: that of ROCr before exceptions (trap handler 1) by the signal, the
                // later one by an interrupt alone.
                let is_signalled = errors::is_of_packet(code) || !self.runtime_enabled;
                if let Some(object) = object.filter(|_| is_signalled) {
                    // What looks like a queue object need not be one: the driver reports the error anyway.
                    self.with_context(|cx| signal::report(cx, object, code)).ok();
                }
                self.interrupts.queue_error(id, code, &text);
            }
        }
    }

    /// Runs `act` with memory, interrupts and clock.
    pub(super) fn with_context<T>(&mut self, act: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let space = Arc::clone(&self.space);
        act(&mut Context::new(&self.config, &*self.interrupts, &*self.slots, &space, &mut self.generation))
    }

    /// Runs `act` on a queue, with memory, interrupts and clock. A failed access stops the queue.
    pub(super) fn with_queue(
        &mut self,
        id: QueueId,
        act: impl FnOnce(&mut HardwareQueue, &mut Context<'_>) -> Result<(), Fault>,
    ) {
        let space = Arc::clone(&self.space);
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let mut cx = Context::new(&self.config, &*self.interrupts, &*self.slots, &space, &mut self.generation);
        if let Err(fault) = act(queue, &mut cx) {
            self.halt(id, fault.into());
        }
    }
}
