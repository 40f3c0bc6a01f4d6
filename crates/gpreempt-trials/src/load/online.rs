//! The online program: requests of a few short kernels that arrive at random.

use std::io::Write;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gpreempt_proto::{Client, Request};
use kfd_runtime::{Runtime, Signal};
use kfd_suite::chain::{Chain, Work};
use linux_host::clock::monotonic_ns;

use super::LoadOnline;
use super::{End, LOST, Line, arrivals, say};

pub(super) fn run(options: &LoadOnline, out: &mut impl Write) -> Result<()> {
    let LoadOnline { requests, kernels, groups, steps, rate, seed, patience_ms, wait, ref notify } = *options;
    ensure!(rate.is_finite() && rate > 0.0, "--rate has to be a positive number, not {rate}");
    ensure!(kernels > 0 && groups > 0, "--kernels and --groups have to be at least 1");
    let runtime = Runtime::open()?;
    let device = runtime.device(0)?;
    let work = Work { groups, steps };
    let notify = notify.as_deref().map(|socket| Client::connect_to(socket, LOST)).transpose()?;
    let (chain, done) = (Chain::new(device, work, kernels)?, Signal::new(device, 0)?);
    let mut server = Server { chain, done, kernels, notify };
    // The first request of a process pays for pages and caches that no later one does.
    server.answer()?;
    say(&Line::Ready { groups }, out)?;
    if wait {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).context("cannot read the line to begin with")?;
    }
    let begin = monotonic_ns();
    say(&Line::Begin { at_ns: begin }, out)?;
    let instant = |arrival: Duration| begin.saturating_add(u64::try_from(arrival.as_nanos()).unwrap_or(u64::MAX));
    let arrivals = arrivals(requests, rate, seed);
    let last = arrivals.last().copied().unwrap_or_default();
    let limit = patience_ms.map(|patience| instant(last.saturating_add(Duration::from_millis(patience))));
    for (request, arrival) in (0..).zip(arrivals) {
        let line = serve(&mut server, request, instant(arrival), limit)?;
        say(&line, out)?;
    }
    say(&Line::End(End::of(&server.chain, work)?), out)
}

/// Waits for a request and answers it. What is not answered at the limit is given up: it would have taken longer than
/// that.
fn serve(server: &mut Server, request: u32, arrived_ns: u64, limit: Option<u64>) -> Result<Line> {
    let mut submitted_ns = None;
    let mut answered_ns = None;
    if limit.is_none_or(|limit| monotonic_ns().max(arrived_ns) < limit) {
        thread::sleep(Duration::from_nanos(arrived_ns.saturating_sub(monotonic_ns())));
        submitted_ns = Some(monotonic_ns());
        server.answer()?;
        answered_ns = Some(monotonic_ns()).filter(|&at| limit.is_none_or(|limit| at <= limit));
    }
    let until = answered_ns.or(limit).unwrap_or(arrived_ns);
    let latency_us = until.saturating_sub(arrived_ns) as f64 / 1e3;
    Ok(Line::Request { request, arrived_ns, submitted_ns, answered_ns, latency_us })
}

/// What answers requests.
struct Server {
    chain: Chain,
    done: Signal,
    kernels: u32,
    /// The daemon, if it is told of requests.
    notify: Option<Client>,
}

impl Server {
    /// Submits the kernels of a request at once and sleeps until the last has ended.
    fn answer(&mut self) -> Result<()> {
        self.done.set(1)?;
        for left in (0..self.kernels).rev() {
            self.chain.submit((left == 0).then_some(&self.done))?;
        }
        if let Some(daemon) = &mut self.notify {
            daemon.call(Request::Notify { pid: None })?;
        }
        self.chain.wait(&self.done, LOST)?;
        Ok(())
    }
}
