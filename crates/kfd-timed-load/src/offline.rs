//! The offline load: a queue that is never empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kfd_runtime::{Error, Order, Queue, Runtime, Signal};
use nix::sys::signal::{SigSet, Signal as UnixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use serde::Serialize;

use crate::latency::microseconds;
use crate::{Offline, print};

/// How long the oldest packet is waited for before the wish to end is looked at. A stopped queue may wait for ever.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Serialize)]
struct Report {
    load: &'static str,
    /// Packets that ended.
    packets: u64,
    /// Duration of a packet.
    duration_us: u64,
    /// Waves of a packet.
    waves: u32,
    depth: u32,
    /// From the first packet to the wish to end.
    runtime_us: f64,
}

/// Keeps packets queued until it shall end, and prints how many ended.
pub(super) fn run(options: &Offline) -> Result<()> {
    let lasts = Duration::from_micros(options.duration_us);
    let limit = options.seconds.unwrap_or(Duration::MAX);
    let end = watch_for_end()?;
    let runtime = Runtime::open()?;
    let device = runtime.device(options.common.gpu)?;
    let waves = options.common.waves(device);
    let mut queue = Queue::new(device)?;
    let signals: Vec<Signal> = (0..options.depth).map(|_| Signal::new(device, 0)).collect::<Result<_, _>>()?;
    let begin = Instant::now();
    for signal in &signals {
        signal.set(1)?;
        queue.dispatch_timed(lasts, waves, Order::AfterPrevious, signal)?;
    }
    let mut packets = 0;
    let mut oldest = signals.iter().cycle();
    let mut signal = oldest.next().context("there is no signal")?;
    while !end.load(Ordering::Relaxed) && begin.elapsed() < limit {
        match queue.wait(signal, LOOK) {
            Ok(()) => {
                packets += 1;
                signal.set(1)?;
                queue.dispatch_timed(lasts, waves, Order::AfterPrevious, signal)?;
                signal = oldest.next().context("there is no signal")?;
            }
            Err(Error::Timeout { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let runtime_us = microseconds(begin.elapsed());
    let Offline { duration_us, depth, .. } = *options;
    let report = Report { load: "offline", packets, duration_us, waves, depth, runtime_us };
    // Printed while packets are still queued: they end with the queue, which may be stopped.
    print(&report, &options.common, || format!("{packets} packets of {duration_us} us in {:.3} s", runtime_us / 1e6))
}

/// Becomes true when SIGTERM or SIGINT comes. Called before other threads exist, which inherit the blocked signals.
fn watch_for_end() -> Result<Arc<AtomicBool>> {
    let signals: SigSet = [UnixSignal::SIGTERM, UnixSignal::SIGINT].into_iter().collect();
    signals.thread_block().context("cannot block SIGTERM")?;
    let descriptor = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).context("cannot wait for SIGTERM")?;
    let end = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&end);
    thread::spawn(move || {
        // An error ends the load, too: else nothing would.
        let _ = descriptor.read_signal();
        told.store(true, Ordering::Relaxed);
    });
    Ok(end)
}
