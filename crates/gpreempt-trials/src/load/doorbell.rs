//! A program that measures how long it takes to submit a packet.

use std::io::{BufRead, Write};

use anyhow::{Context, Result};
use kfd_runtime::{Order, Queue, Runtime, Signal};
use linux_host::clock::monotonic_ns;

use super::LoadDoorbell;
use super::{LOST, Line, say};

pub(super) fn run(options: &LoadDoorbell, out: &mut impl Write) -> Result<()> {
    let runtime = Runtime::open()?;
    let device = runtime.device(0)?;
    let mut queue = Queue::new(device)?;
    let done = Signal::new(device, 0)?;
    // What only the first packets of a process pay for.
    measure(&mut queue, &done, options)?;
    say(&Line::Ready { groups: 0 }, out)?;
    for line in std::io::stdin().lock().lines() {
        line.context("cannot read the line to begin with")?;
        let each_ns = measure(&mut queue, &done, options)?;
        say(&Line::Doorbells { each_ns }, out)?;
    }
    Ok(())
}

/// The median of batches: packet, write index and doorbell. What the packets do, count a signal down, is not in it.
fn measure(queue: &mut Queue, done: &Signal, options: &LoadDoorbell) -> Result<f64> {
    let mut times = Vec::with_capacity(options.batches as usize);
    for _ in 0..options.batches {
        done.set(options.batch.into())?;
        let begun = monotonic_ns();
        for _ in 0..options.batch {
            queue.barrier_and(&[], Order::AfterPrevious, done)?;
        }
        times.push(monotonic_ns() - begun);
        queue.wait(done, LOST)?;
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).map_or(0.0, |&time| time as f64 / f64::from(options.batch)))
}
