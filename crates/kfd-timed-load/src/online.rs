//! The online load: one packet per request.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gpreempt_proto::{Client, Request};
use kfd_runtime::{Order, Queue, Runtime, Signal};
use linux_host::clock;
use rand_core::Rng;
use rand_pcg::Pcg64;
use serde::Serialize;

use crate::latency::{Latencies, microseconds};
use crate::{LOST, Online, print};

#[derive(Serialize)]
struct Report {
    load: &'static str,
    requests: u32,
    /// Duration of a packet.
    duration_us: u64,
    /// Waves of a packet.
    waves: u32,
    #[serde(flatten)]
    latencies: Latencies,
    /// From the first request to the end of the last.
    runtime_us: f64,
    /// When requests arrived, in nanoseconds of the monotonic clock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    arrivals_ns: Vec<u64>,
}

/// Sends the requests and prints their latencies: from before the packet is written until its signal is seen.
pub(super) fn run(options: &Online) -> Result<()> {
    let lasts = Duration::from_micros(options.duration_us);
    let runtime = Runtime::open()?;
    let device = runtime.device(options.common.gpu)?;
    let waves = options.common.waves(device);
    let mut queue = Queue::new(device)?;
    let signal = Signal::new(device, 0)?;
    let mut random = Pcg64::new(1, 1);
    let mut latencies = Vec::new();
    let mut arrivals_ns = Vec::new();
    let mut daemon = if options.notify { Some(Client::connect()?) } else { None };
    let begin = Instant::now();
    for request in 0..options.requests.saturating_add(options.warm_up) {
        if request > 0 {
            let jitter = random.next_u64().checked_rem(options.jitter_us).unwrap_or(0);
            thread::sleep(Duration::from_micros(options.gap_us.saturating_add(jitter)));
        }
        let (arrival, arrival_ns) = (Instant::now(), clock::monotonic_ns());
        signal.set(1)?;
        queue.dispatch_timed(lasts, waves, Order::AfterPrevious, &signal)?;
        if let Some(daemon) = &mut daemon {
            daemon.call(Request::Notify { pid: None }).context("the daemon takes no notification")?;
        }
        queue.wait(&signal, LOST).with_context(|| format!("request {request} did not end"))?;
        if request >= options.warm_up {
            latencies.push(arrival.elapsed());
            arrivals_ns.extend(options.arrivals.then_some(arrival_ns));
        }
    }
    let runtime_us = microseconds(begin.elapsed());
    let latencies = Latencies::of(latencies).context("--requests is 0; there is nothing to measure")?;
    let Online { requests, duration_us, .. } = *options;
    let report = Report { load: "online", requests, duration_us, waves, latencies, runtime_us, arrivals_ns };
    print(&report, &options.common, || {
        let Latencies { p50_us, p95_us, p99_us, max_us, .. } = &report.latencies;
        format!(
            "{requests} requests of {duration_us} us: p50 {p50_us:.1} us, p95 {p95_us:.1} us, p99 {p99_us:.1} us, \
             max {max_us:.1} us"
        )
    })
}
