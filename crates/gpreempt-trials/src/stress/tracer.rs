//! A debugger of the stress: suspends and resumes queues of processes on the gpu, as a scheduler does. It prints on
//! stdout how many, and ends when its input does.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use kfd::{Batch, Error, Grace, Kfd, Pid, QueueId, QueueResult, Tracer, process};
use rand_pcg::Pcg64;
use vgpu::kill_points::{self, Point};

use super::StressTracerArgs;
use super::client::watch_input;
use super::words;
use crate::random::below;

/// Most stops of one process before another one gets its turn.
const TURNS: u64 = 12;

/// Suspends and resumes queues of other processes until the standard input is closed.
///
/// # Errors
/// If the driver refuses something that it must not refuse.
pub fn run(options: &StressTracerArgs, out: &mut impl Write) -> Result<()> {
    if let Some(page) = &options.points {
        kill_points::use_page(page);
    }
    let ended = watch_input();
    let kfd = Arc::new(Kfd::open()?);
    let mut random = Pcg64::new(options.seed.into(), 2);
    let mut counts = Counts::default();
    while !ended.load(Ordering::Relaxed) {
        let victims: Vec<Pid> =
            process::list()?.into_iter().filter(|found| !found.queues.is_empty()).map(|found| found.pid).collect();
        if let Some(&victim) = victims.get(below(&mut random, victims.len() as u64) as usize) {
            disturb(&kfd, victim, &mut random, &mut counts).or_else(|error| excuse(victim, error))?;
            counts.tell(out)?;
        }
        thread::sleep(Duration::from_micros(below(&mut random, 3000)));
    }
    Ok(())
}

/// What was done since it was last told.
#[derive(Default)]
struct Counts {
    suspended: usize,
    resumed: usize,
}

impl Counts {
    fn tell(&mut self, out: &mut impl Write) -> Result<()> {
        writeln!(out, "{} {}", words::SUSPENDED, self.suspended)?;
        writeln!(out, "{} {}", words::RESUMED, self.resumed)?;
        out.flush()?;
        *self = Counts::default();
        Ok(())
    }
}

/// Stops and releases random queues of a process a few times.
fn disturb(kfd: &Arc<Kfd>, victim: Pid, random: &mut Pcg64, counts: &mut Counts) -> kfd::Result<()> {
    let (tracer, _events) = Tracer::attach(Arc::clone(kfd), victim)?;
    kill_points::hit(Point::TracerAttach);
    for _ in 0..1 + below(random, TURNS) {
        let snapshot = tracer.snapshot()?;
        let some = |_: &QueueId| below(random, 2) == 0;
        let queues: Vec<QueueId> = snapshot.iter().map(|queue| QueueId(queue.queue_id)).filter(some).collect();
        let grace = Grace::kiloclocks(below(random, 4) as u8);
        counts.suspended += done(&tracer.suspend(&queues, grace)?);
        kill_points::hit(Point::TracerSuspend);
        thread::sleep(Duration::from_micros(below(random, 2000)));
        counts.resumed += done(&tracer.resume(&queues)?);
        kill_points::hit(Point::TracerResume);
        thread::sleep(Duration::from_micros(below(random, 2000)));
    }
    tracer.close()
}

fn done(batch: &Batch) -> usize {
    batch.with(QueueResult::Done).count()
}

/// A victim that ended, or that another debugger has, is no failure of ours.
fn excuse(victim: Pid, error: Error) -> Result<()> {
    // The driver learns of a death before the list of processes does, or the reverse.
    let gone = error.is_gone() || !process::list()?.iter().any(|found| found.pid == victim);
    let contested = match &error {
        // Seizing a process that is traced already.
        Error::Ptrace { .. } => true,
        // Its runtime has not offered itself yet or withdraws; another debugger was faster.
        Error::Trap { error, .. } => {
            error.kind() == std::io::ErrorKind::PermissionDenied || error.raw_os_error() == Some(EALREADY)
        }
        Error::Runtime { .. } => true,
        _ => false,
    };
    if gone || contested { Ok(()) } else { Err(error.into()) }
}

/// "Operation already in progress".
const EALREADY: i32 = 114;
