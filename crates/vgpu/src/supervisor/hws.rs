//! The hardware scheduler of a gpu: one runlist at a time, and every change of it takes all queues off the gpu first.

mod fault;
mod ledger;
mod model;
mod tally;

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Supervisor;
use super::process_channel::{NoAnswer, ProcessChannel};
use crate::control::{Answer, Departure, Order};
use crate::driver::{Cause, Connected, Errno, ProcessKey, Span};
use crate::options::Options;
use crate::profile::Profile;
use crate::sys;
pub(super) use fault::Fault;
use ledger::Ledger;
use model::{Bytes, Model};
pub(super) use tally::Tallies;

/// State of one gpu's scheduler.
#[derive(Default)]
struct State {
    /// Processes whose queues are on the gpu.
    mapped: Vec<Arc<ProcessChannel>>,
    /// Processes whose queues wait for their turn.
    waiting: Vec<Arc<ProcessChannel>>,
    /// Processes that left with nothing to do, and how often their doorbells had been rung before.
    calm: HashMap<ProcessKey, u64>,
    /// Which group of an over-subscribed runlist is on the gpu, and how many there are.
    group: usize,
    groups: usize,
    resetting: bool,
    resets: u64,
    /// Bytes in save areas, by queue.
    ledger: Ledger,
    tallies: Tallies,
}

impl State {
    /// Whether a process that waits for its turn may have something to do.
    fn is_any_eager(&self) -> bool {
        self.waiting.iter().any(|channel| self.calm.get(&channel.process) != Some(&channel.rings()))
    }
}

/// What the scheduler of a gpu counts, at one moment.
pub(super) struct SchedulerCounts {
    /// Whether more queues want to be on the gpu than fit.
    pub(super) over_subscribed: bool,
    /// How often the gpu was reset.
    pub(super) resets: u64,
    /// Cycles by cause.
    pub(super) tallies: Tallies,
}

/// Parameters of one cycle.
struct Turn {
    cause: Cause,
    grace: Option<u32>,
    /// Which group of the runlist is on the gpu afterwards.
    group: usize,
}

/// The hardware scheduler of one gpu.
pub(super) struct Hws {
    gpu: u32,
    model: Model,
    timeout: Duration,
    fault: Arc<Fault>,
    state: Mutex<State>,
    /// Told when the runlist has become too long for the hardware, or short enough.
    oversubscribed: Condvar,
}

impl Hws {
    pub(super) fn new(gpu: u32, profile: &Profile, options: &Options, fault: &Arc<Fault>) -> Self {
        Self {
            gpu,
            model: Model::new(profile),
            timeout: Duration::from_millis(options.preemption_timeout_ms.into()),
            fault: Arc::clone(fault),
            state: Mutex::default(),
            oversubscribed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what the scheduler counts. Waits for a cycle that is under way.
    pub(super) fn counts(&self) -> SchedulerCounts {
        let state = self.state();
        SchedulerCounts { over_subscribed: state.groups > 1, resets: state.resets, tallies: state.tallies.clone() }
    }

    /// Lists a process among those that are on the gpu, without its executors' knowledge.
    #[cfg(test)]
    pub(super) fn put_on_gpu(&self, channel: Arc<ProcessChannel>) {
        self.state().mapped.push(channel);
    }

    /// Unmaps all queues, runs `meanwhile`, and maps what the driver lists in the runlist.
    ///
    /// # Errors
    /// EIO during a reset, ETIME if waves did not stop in time, which begins one. Then `meanwhile` is done, too.
    pub(super) fn cycle(
        &self,
        supervisor: &Arc<Supervisor>,
        cause: Cause,
        grace: Option<u32>,
        meanwhile: impl FnOnce(),
    ) -> Result<(), Errno> {
        let mut state = self.state();
        if state.resetting {
            drop(state);
            meanwhile();
            return Err(Errno::EIO);
        }
        // The turns of an over-subscribed runlist go on: a process that changes it often must not keep others from
        // theirs.
        let group = state.group;
        self.turn(&mut state, supervisor, &Turn { cause, grace, group }, meanwhile)
    }

    /// Runs a cycle that ends with the given group of the runlist on the gpu.
    fn turn(
        &self,
        state: &mut State,
        supervisor: &Arc<Supervisor>,
        turn: &Turn,
        meanwhile: impl FnOnce(),
    ) -> Result<(), Errno> {
        let Turn { cause, grace, group } = *turn;
        let begun = Instant::now();
        let leaving = std::mem::take(&mut state.mapped);
        // What is rung after this may come too late for the executors to see.
        let rings: HashMap<_, _> = leaving.iter().map(|channel| (channel.process, channel.rings())).collect();
        let Some(departures) = self.unmap(&leaving, grace) else {
            self.hang(state, supervisor);
            meanwhile();
            return Err(Errno::ETIME);
        };
        let saved = supervisor.with_driver(|driver| {
            let mut saved = Bytes::default();
            let profile = driver.profile().clone();
            for (process, departure) in &departures {
                let save =
                    Span { start: profile.gpu_clock(departure.stopped_at), end: profile.gpu_clock(departure.saved_at) };
                for queue in &departure.queues {
                    driver.unmapped(*process, queue, save);
                }
                let to_host = |queue| driver.saves_to_host(*process, queue).unwrap_or(false);
                saved = saved.plus(state.ledger.left(*process, &departure.queues, to_host));
            }
            saved
        });
        if cause != Cause::Quantum {
            // It may be about queues that are not on the gpu.
            state.calm.clear();
        }
        for (process, departure) in &departures {
            match rings.get(process) {
                Some(rings) if departure.queues.iter().all(|queue| queue.idle) => state.calm.insert(*process, *rings),
                _ => state.calm.remove(process),
            };
        }
        let saving = self.model.save(grace, &saved);
        pause(saving);
        meanwhile();
        let queues = departures.iter().flat_map(|(_, departure)| &departure.queues);
        let waves = queues.filter(|queue| queue.written).map(|queue| u64::from(queue.saved.waves)).sum();
        let stopped = stopping_time(&departures, begun);
        if cause != Cause::Quantum {
            // The firmware takes turns by itself; the driver sends nothing for them.
            supervisor.with_driver(|driver| driver.cycled(self.gpu, grace.is_some()));
        }
        let restored = self.map(state, supervisor, group);
        let restoring = self.model.restore(&restored);
        let cycle = tally::Cycle {
            took: begun.elapsed() + restoring,
            stopped,
            modelled: saving + restoring,
            waves,
            bytes: saved.total(),
            restored: restored.total(),
        };
        state.tallies.add(cause, cycle);
        Ok(())
    }

    /// Takes all queues off the gpu; `None` if waves do not stop. A process that dies meanwhile has left.
    fn unmap(&self, leaving: &[Arc<ProcessChannel>], grace: Option<u32>) -> Option<Vec<(ProcessKey, Departure)>> {
        let deadline = Instant::now() + self.timeout;
        if self.fault.fails(!leaving.is_empty()) {
            std::thread::sleep(self.timeout);
            return None;
        }
        let grace = self.model.grace(grace);
        let order = || Order::Unmap { gpu: self.gpu, grace };
        let posted: Vec<_> = leaving.iter().map(|channel| (channel, channel.order(order(), deadline))).collect();
        let mut departures = Vec::new();
        let mut late = false;
        for (channel, number) in posted {
            match number.and_then(|number| channel.wait(number, deadline)) {
                Ok(Answer::Unmapped(departure)) => departures.push((channel.process, departure)),
                Ok(_) | Err(NoAnswer::Gone) => {}
                Err(NoAnswer::Late) => {
                    channel.blame();
                    late = true;
                }
            }
        }
        (!late).then_some(departures)
    }

    /// Puts a group of the runlist on the gpu; what has to be restored for that. Does not wait until it is there, as
    /// the driver does not.
    fn map(&self, state: &mut State, supervisor: &Arc<Supervisor>, group: usize) -> Bytes {
        let runlist = supervisor.with_driver(|driver| driver.runlist(self.gpu));
        state.groups = runlist.groups.len();
        state.group = if state.groups == 0 { 0 } else { group % state.groups };
        let mut groups = runlist.groups;
        let now = if state.group < groups.len() { groups.remove(state.group) } else { Vec::new() };
        let waiting = groups.iter().flatten().filter_map(|mapped| supervisor.member(mapped.process));
        state.waiting = waiting.map(|member| Arc::clone(&member.channel)).collect();
        let ledger = &mut state.ledger;
        let restored = supervisor.with_driver(|driver| {
            ledger.keep(|process, queue| driver.saves_to_host(process, queue).is_some());
            let mut restored = Bytes::default();
            let at = driver.profile().gpu_clock(sys::monotonic_raw_ns());
            for (mapped, queue) in now.iter().flat_map(|mapped| mapped.queues.iter().map(move |queue| (mapped, queue)))
            {
                let connect = Span { start: at, end: at };
                driver.mapped(mapped.process, queue.id, queue.place, Connected { connect, ..Connected::default() });
                let to_host = driver.saves_to_host(mapped.process, queue.id).unwrap_or(false);
                restored = restored.plus(ledger.comes_back(mapped.process, queue.id, to_host));
            }
            restored
        });
        let not_before = sys::monotonic_raw_ns() + self.model.restore(&restored).as_nanos() as u64;
        for mapped in now {
            let Some(member) = supervisor.member(mapped.process) else { continue };
            let channel = Arc::clone(&member.channel);
            let queues = mapped.queues.iter().map(|queue| queue.id).collect();
            if channel.tell(Order::Map { gpu: self.gpu, queues, waves: mapped.waves, not_before }).is_ok() {
                state.mapped.push(channel);
            }
        }
        if state.groups > 1 {
            self.oversubscribed.notify_all();
        }
        restored
    }

    /// Resets a gpu that does not answer: what was on it is lost, and its processes stay off it until they end.
    fn hang(&self, state: &mut State, supervisor: &Arc<Supervisor>) {
        super::say(&format!("gpu {} did not stop its waves within {:?} and is reset", self.gpu, self.timeout));
        state.resetting = true;
        state.resets += 1;
        state.ledger.clear();
        supervisor.with_driver(|driver| driver.reset(self.gpu, sys::monotonic_raw_ns()));
        for member in supervisor.members() {
            // Processes that are gone need no word.
            let _ = member.channel.tell(Order::Reset { gpu: self.gpu });
        }
        let supervisor = Arc::clone(supervisor);
        let gpu = self.gpu;
        let reset_time = self.model.reset();
        let finish = move || {
            std::thread::sleep(reset_time);
            if let Some(hws) = supervisor.hws(gpu) {
                hws.state().resetting = false;
            }
        };
        // Without a thread the reset takes no time.
        if std::thread::Builder::new().name("reset".into()).spawn(finish).is_err() {
            state.resetting = false;
        }
    }

    /// Gives the groups of an over-subscribed runlist their turns, for ever.
    pub(super) fn rotate(&self, supervisor: &Arc<Supervisor>) {
        loop {
            let mut state = self.state();
            while state.groups <= 1 || state.resetting {
                state = self.oversubscribed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            std::thread::sleep(self.model.quantum());
            let mut state = self.state();
            if state.groups > 1 && !state.resetting && state.is_any_eager() {
                // A gpu that hangs is being reset; no call waits for the result.
                let turn = Turn { cause: Cause::Quantum, grace: None, group: state.group + 1 };
                let _ = self.turn(&mut state, supervisor, &turn, || {});
            }
        }
    }
}

/// From the request until the last wave had stopped.
fn stopping_time(departures: &[(ProcessKey, Departure)], begun: Instant) -> Duration {
    let now = sys::monotonic_raw_ns();
    let last = departures.iter().map(|(_, departure)| departure.stopped_at).max();
    last.map_or(Duration::ZERO, |last| begun.elapsed().saturating_sub(Duration::from_nanos(now.saturating_sub(last))))
}

/// Waits for a short time as exactly as it can be had.
fn pause(time: Duration) {
    const SPIN: Duration = Duration::from_micros(60);
    let until = Instant::now() + time;
    if time > SPIN {
        std::thread::sleep(time - SPIN);
    }
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}
