//! A tracer that stops queues of a process at random moments: what a scheduler does, without its reasons.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kfd::process::GpuProcess;
use kfd::{Batch, Event, Grace, Kfd, Pid, ProcessMemory, QueueId, QueueResult, QueueSnapshotEntry, Tracer, process};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

/// How long a process may take until it has a queue.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time that queues stay stopped, and longest time between two stops.
const LONGEST_US: u64 = 1500;
/// Longest time to watch for a packet.
const LONGEST_WATCH: Duration = Duration::from_millis(20);

/// What a tracer did, as it prints it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// Calls that stopped at least one queue.
    pub(crate) suspends: u64,
    /// Calls that put the same queues back.
    pub(crate) resumes: u64,
    /// Stops during which the process, or its runtime, ended: nothing was left to put back.
    pub(crate) outlived: u64,
    /// Queues that were gone before they could be stopped.
    pub(crate) missed: u64,
    /// Queues for which the gpu failed.
    pub(crate) failed: u64,
}

pub(super) fn run(pid: Pid, suspends: u64, seed: u64, out: &mut impl Write) -> Result<()> {
    let summary = trace(pid, suspends, seed)?;
    writeln!(out, "{}", serde_json::to_string(&summary)?)?;
    Ok(())
}

fn trace(pid: Pid, suspends: u64, seed: u64) -> Result<Summary> {
    let mut summary = Summary::default();
    if !await_queue(pid)? {
        return Ok(summary);
    }
    let kfd = Arc::new(Kfd::open()?);
    let (tracer, events) = match Tracer::attach(kfd, pid) {
        Ok(attached) => attached,
        Err(error) if error.is_gone() => return Ok(summary),
        Err(error) => return Err(error.into()),
    };
    let memory = ProcessMemory::open(pid)?;
    let session = Session { tracer, events, memory };
    let mut random = Pcg64::seed_from_u64(seed);
    while summary.suspends < suspends {
        match step(&session, &mut random, &mut summary) {
            Ok(true) => {}
            Ok(false) => return Ok(summary),
            Err(error) if is_gone(&error) => return Ok(summary),
            // Its runtime is not there yet, or any more: the next pause shows whether the process is.
            Err(error) if is_without_runtime(&error) => {}
            Err(error) => return Err(error),
        }
    }
    session.tracer.close()?;
    Ok(summary)
}

fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<kfd::Error>().is_some_and(kfd::Error::is_gone)
}

fn is_without_runtime(error: &anyhow::Error) -> bool {
    error.downcast_ref::<kfd::Error>().is_some_and(kfd::Error::is_without_runtime)
}

/// Waits until the process has a queue. False if it ends before.
fn await_queue(pid: Pid) -> Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    let is_ready = |process: Option<GpuProcess>| process.is_some_and(|process| !process.queues.is_empty());
    while !is_ready(process::find(pid)?) {
        if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            return Ok(false);
        }
        if Instant::now() > deadline {
            bail!("process {pid} created no queue within {} s", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(true)
}

/// What a tracer works with.
struct Session {
    tracer: Tracer,
    events: Receiver<Event>,
    memory: ProcessMemory,
}

/// One pause, one stop, one hold, one continuation. False when the process ended.
fn step(session: &Session, random: &mut Pcg64, summary: &mut Summary) -> Result<bool> {
    let Session { tracer, events, memory } = session;
    if !pause(events, duration(random))? {
        return Ok(false);
    }
    let snapshot = tracer.snapshot()?;
    if random.next_u32() & 1 == 0 {
        await_packet(memory, &snapshot);
    }
    let queues: Vec<QueueId> = snapshot.iter().map(|entry| QueueId(entry.queue_id)).collect();
    let chosen = choose(&queues, random);
    let grace = if random.next_u32() & 1 == 0 { Grace::SHORTEST } else { Grace::HARDWARE };
    let stopped = tracer.suspend(&chosen, grace)?;
    summary.count(&stopped);
    let stopped: Vec<QueueId> = stopped.with(QueueResult::Done).collect();
    if stopped.is_empty() {
        return Ok(true);
    }
    summary.suspends += 1;
    thread::sleep(duration(random));
    let resumed = match tracer.resume(&stopped) {
        Ok(resumed) => resumed,
        Err(error) => {
            summary.outlived += u64::from(error.is_gone() || error.is_without_runtime());
            return Err(error.into());
        }
    };
    // A stopped queue cannot go away: its owner waits until it runs again.
    if !resumed.all_done() {
        bail!("of the stopped queues {stopped:?} not all came back: {:?}", resumed.results());
    }
    summary.resumes += 1;
    Ok(true)
}

/// Waits until one of the queues takes a packet, but not for long. Moments chosen blindly mostly find nothing running.
fn await_packet(memory: &ProcessMemory, queues: &[QueueSnapshotEntry]) {
    // A queue may be destroyed, and its memory unmapped, at any time.
    let taken = || -> Vec<Option<u64>> {
        queues.iter().map(|queue| memory.read_u64(queue.read_pointer_address).ok()).collect()
    };
    let before = taken();
    let deadline = Instant::now() + LONGEST_WATCH;
    while taken() == before && Instant::now() < deadline {
        thread::sleep(Duration::from_micros(20));
    }
}

impl Summary {
    fn count(&mut self, batch: &Batch) {
        self.missed += batch.with(QueueResult::Unknown).count() as u64;
        self.failed += batch.with(QueueResult::Failed).count() as u64;
    }
}

/// Waits, and looks at what happened meanwhile. False when the process ended.
fn pause(events: &Receiver<Event>, duration: Duration) -> Result<bool> {
    let deadline = Instant::now() + duration;
    loop {
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Ended(_)) => return Ok(false),
            Ok(Event::Failed(error)) => return Err(error).context("the session broke"),
            Ok(Event::QueueCreated { .. } | Event::QueueDestroyed { .. } | Event::RuntimeChanged(_)) => {}
            // The end of the process follows.
            Ok(Event::Closed) => {}
            Err(RecvTimeoutError::Timeout) => return Ok(true),
            Err(RecvTimeoutError::Disconnected) => return Ok(false),
        }
    }
}

/// Mostly short, sometimes none at all.
fn duration(random: &mut Pcg64) -> Duration {
    let bits = random.next_u64();
    let longest = LONGEST_US >> (bits & 3);
    if bits & 0x70 == 0 { Duration::ZERO } else { Duration::from_micros((bits >> 8) % longest) }
}

/// Some of the queues, at least one if there is any.
fn choose(queues: &[QueueId], random: &mut Pcg64) -> Vec<QueueId> {
    let mask = random.next_u64();
    let is_chosen = |index: usize| mask >> (index % 64) & 1 == 1;
    let chosen: Vec<QueueId> =
        queues.iter().enumerate().filter(|(index, _)| is_chosen(*index)).map(|(_, queue)| *queue).collect();
    if chosen.is_empty() { queues.iter().take(1).copied().collect() } else { chosen }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_and_every_number_of_queues_is_chosen_sometimes() {
        let mut random = Pcg64::seed_from_u64(3);
        let queues = [1, 2, 3].map(QueueId);
        let chosen: Vec<Vec<QueueId>> = (0..200).map(|_| choose(&queues, &mut random)).collect();
        assert!((1..=3).all(|count| chosen.iter().any(|chosen| chosen.len() == count)));
        assert!(queues.iter().all(|queue| chosen.iter().any(|chosen| chosen.contains(queue))));
        assert!(chosen.iter().all(|chosen| !chosen.is_empty()));
        assert!(choose(&[], &mut random).is_empty());
    }

    #[test]
    fn pauses_are_short_and_differ() {
        let mut random = Pcg64::seed_from_u64(3);
        let pauses: Vec<Duration> = (0..500).map(|_| duration(&mut random)).collect();
        assert!(pauses.iter().all(|pause| *pause < Duration::from_micros(LONGEST_US)));
        assert!(pauses.contains(&Duration::ZERO) && pauses.iter().any(|pause| pause.as_micros() > 1000));
    }
}
