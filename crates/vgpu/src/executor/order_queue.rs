//! Orders of the driver, each carried out by the first executor that finds it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kfd_abi::event::{HwException, ResetCause, ResetType};

use super::ExecutorState;
use super::gpus::{ProcessGpu, ProcessGpus};
use crate::control::{Answer, Control, Departure, Numbered, Order};
use crate::device::{QueueId, SaveError};
use crate::driver::WaveControl;
use crate::kill_points::{self, Point};
use crate::sys;

/// Orders that were begun and cannot be finished yet.
#[derive(Default)]
struct Pending {
    /// Gpus that the queues of this process must leave.
    unmaps: Vec<Leaving>,
    /// Queues that come back later.
    maps: Vec<Arrival>,
}

struct Leaving {
    /// Number of the order.
    number: u64,
    gpu: u32,
    /// Time at which waves that have not ended are stopped, if ever.
    deadline: Option<u64>,
}

struct Arrival {
    gpu: u32,
    queues: Vec<QueueId>,
    waves: WaveControl,
    not_before: u64,
}

/// Orders under way. Executors take turns at it.
pub(crate) struct OrderQueue {
    pending: Mutex<Pending>,
    /// Time at which a pending order is due, on the raw monotonic clock; [`NEVER`] if none is.
    next: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl Default for OrderQueue {
    fn default() -> Self {
        Self { pending: Mutex::default(), next: AtomicU64::new(NEVER) }
    }
}

impl OrderQueue {
    /// Carries out new orders and pending ones that are due. Returns the time until the next pending order is due, if
    /// any.
    pub(super) fn obey(&self, shared: &ExecutorState) -> Option<Duration> {
        // Another executor is at it.
        let mut pending = self.pending.try_lock().ok()?;
        loop {
            match shared.control.take_order() {
                Ok(Some(order)) => pending.begin(shared, order),
                Ok(None) => break,
                Err(_) => {
                    shared.lose();
                    return None;
                }
            }
        }
        pending.finish(shared);
        let next = pending.next();
        self.next.store(next.unwrap_or(NEVER), Ordering::Relaxed);
        next.map(|next| Duration::from_nanos(next.saturating_sub(sys::monotonic_raw_ns())))
    }

    /// Returns whether a pending order is due.
    pub(super) fn is_due(&self) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        next != NEVER && next <= sys::monotonic_raw_ns()
    }
}

impl Pending {
    /// Returns the time at which the next pending order is due.
    fn next(&self) -> Option<u64> {
        let times = self.maps.iter().map(|arrival| arrival.not_before);
        times.chain(self.unmaps.iter().filter_map(|leaving| leaving.deadline)).min()
    }

    fn begin(&mut self, shared: &ExecutorState, order: Numbered<Order>) {
        kill_points::hit(Point::MailboxRead);
        let Numbered { number, what } = order;
        let gpus = &shared.gpus;
        let answer = match what {
            Order::Queue(change) => gpus.change_queue(&change).map_or_else(Answer::Failed, |()| Answer::Done),
            Order::WaveState { id, address } => {
                match gpus.with_queue(id, |device, id| device.wave_state(id, address)) {
                    Ok(Ok(extent)) => Answer::WaveState(extent),
                    Ok(Err(SaveError::Memory(_))) => Answer::Failed(libc::EFAULT),
                    Ok(Err(_)) => Answer::Failed(libc::EINVAL),
                    Err(errno) => Answer::Failed(errno),
                }
            }
            Order::QueueException { id, exceptions } => {
                let event = gpus.with_queue(id, |device, id| device.report_exceptions(id, exceptions));
                if let Ok(Some(event)) = event {
                    shared.events.set(event);
                }
                Answer::Done
            }
            Order::EventInterrupt { event } => {
                shared.events.interrupt(event);
                Answer::Done
            }
            Order::MemoryException { gpu, fault } => {
                let gpu_id = gpus.get(gpu).map_or(0, |gpu| gpu.gpu_id);
                shared.events.memory_exception(&fault.record(gpu_id));
                Answer::Done
            }
            Order::Unmap { gpu, grace } => {
                self.maps.retain(|arrival| arrival.gpu != gpu);
                match gpus.get(gpu).and_then(ProcessGpu::device) {
                    Ok(mut device) => {
                        device.drain();
                        let deadline = grace.map(|grace| sys::monotonic_raw_ns().saturating_add(grace));
                        self.unmaps.push(Leaving { number, gpu, deadline });
                        return;
                    }
                    Err(errno) => Answer::Failed(errno),
                }
            }
            Order::Map { gpu, queues, waves, not_before } => {
                let queues = queues.into_iter().map(QueueId).collect();
                self.maps.push(Arrival { gpu, queues, waves, not_before });
                Answer::Done
            }
            Order::Reset { gpu } => {
                // No queue has to leave any more, and none comes back.
                self.unmaps.retain(|leaving| leaving.gpu != gpu);
                self.maps.retain(|arrival| arrival.gpu != gpu);
                if let Ok(mut device) = gpus.get(gpu).and_then(ProcessGpu::device) {
                    device.reset();
                }
                let gpu_id = gpus.get(gpu).map_or(0, |gpu| gpu.gpu_id);
                shared.events.hardware_exception(&reset(gpu_id), false);
                Answer::Done
            }
        };
        reply(&shared.control, number, answer);
    }

    fn finish(&mut self, shared: &ExecutorState) {
        let gpus = &shared.gpus;
        self.unmaps.retain(|leaving| match departed(gpus, leaving) {
            Some(departure) => {
                shared.show_counters();
                reply(&shared.control, leaving.number, Answer::Unmapped(departure));
                false
            }
            None => true,
        });
        if self.maps.is_empty() {
            return;
        }
        let now = sys::monotonic_raw_ns();
        self.maps.retain(|arrival| {
            if arrival.not_before > now {
                return true;
            }
            if let Ok(mut device) = gpus.get(arrival.gpu).and_then(ProcessGpu::device) {
                device.set_wave_control(arrival.waves);
                device.map(&arrival.queues);
            }
            false
        });
    }
}

/// Returns what left a gpu, once all queues have.
fn departed(gpus: &ProcessGpus, leaving: &Leaving) -> Option<Departure> {
    let mut device = gpus.get(leaving.gpu).and_then(ProcessGpu::device).ok()?;
    let over = leaving.deadline.is_some_and(|deadline| deadline <= sys::monotonic_raw_ns());
    if over || device.is_drained() {
        device.unmap();
    }
    if !device.is_unmapped() {
        return None;
    }
    let stopped_at = sys::monotonic_raw_ns();
    let queues = device.save_all();
    Some(Departure { queues, stopped_at, saved_at: sys::monotonic_raw_ns() })
}

/// Returns the exception that a program receives after a reset of the gpu.
pub(super) fn reset(gpu_id: u32) -> HwException {
    HwException { reset_type: ResetType::WHOLE_GPU, reset_cause: ResetCause::GPU_HANG, memory_lost: 1, gpu_id }
}

fn reply(control: &Control, number: u64, what: Answer) {
    if number == Numbered::<Order>::UNANSWERED {
        return;
    }
    // The driver takes answers as they come. Without room for this one it has given up on this process.
    control.answer(&Numbered { number, what });
}
