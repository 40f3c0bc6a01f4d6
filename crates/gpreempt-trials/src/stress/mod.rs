//! `gpreempt vgpu stress`: many processes on one virtual gpu, stopped, killed and replaced; nothing may be left behind.

mod args;
mod client;
mod crowd;
mod deaths;
mod left;
mod report;
mod tracer;
mod words;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand_pcg::Pcg64;
use vgpu::kill_points::Page;
use vgpu::launch::{self, Options, Setup};
use vgpu::profile::Profile;

use crate::environment::SUPERVISOR;
use crate::output;
pub use args::{StressArgs, StressClientArgs, StressTracerArgs};
use crowd::{Crowd, Kind};
use deaths::Deaths;
use report::{End, StressReport};

use crate::random::below;
pub use client::run as run_client;
pub use tracer::run as run_tracer;

/// The gpu that all processes share.
const PROFILE: &str = "mi300x";
/// Pause between two looks at the crowd.
const TICK: Duration = Duration::from_millis(5);
/// One of so many ticks kills a process that is at no kill point.
const AT_RANDOM: u64 = 200;
/// How long the survivors may take to end what they have begun.
const PATIENCE: Duration = Duration::from_secs(180);
/// How many times longer than asked for it may take until enough have died everywhere.
const EXTENSION: u32 = 3;

/// Runs the stress and prints its report.
///
/// # Errors
/// If a result is wrong, a process cannot end its work, a gpu was reset, or anything is left over.
pub fn run(options: &StressArgs, out: &mut impl Write) -> Result<()> {
    let page = Page::new().context("cannot make a page of points")?;
    let mut setup = Setup::new(Profile { read_index: options.read_index, ..Profile::load(PROFILE)? });
    setup.kernel = options.kernel;
    setup.options = Options { points: Some(page.path()), ..Options::default() };
    let gpu = launch::start(&setup, None, SUPERVISOR)?;
    let begun = Instant::now();
    let mut deaths = Deaths::new(page, options.hits);
    let mut crowd = Crowd::new(&gpu, deaths.page().path(), options.queues, options.seed)?;
    disturb(options, &mut crowd, &mut deaths)?;
    deaths.end();
    // Debuggers first: what they hold stopped must go on before its owner can end.
    let stuck = crowd.finish(Kind::Tracer, PATIENCE)? + crowd.finish(Kind::Client, PATIENCE)?;
    let tally = crowd.tally.clone();
    drop(crowd);
    let left = left::find(gpu)?;
    let end = End { elapsed_s: begun.elapsed().as_secs_f64(), stuck, left, short: deaths.short() };
    StressReport::new(options, tally, deaths.page(), end).print(options.json, out)
}

/// Keeps the crowd complete while its members die.
fn disturb(options: &StressArgs, crowd: &mut Crowd<'_>, deaths: &mut Deaths) -> Result<()> {
    let mut random = Pcg64::new(options.seed.into(), 0);
    let wanted = Duration::from_secs(options.seconds);
    let (begun, bar) = (Instant::now(), output::progress(options.json, "seconds"));
    bar.set_length(options.seconds);
    loop {
        crowd.attend()?;
        let elapsed = begun.elapsed();
        bar.set_position(elapsed.as_secs());
        let enough = deaths.short().is_empty();
        if elapsed >= wanted * EXTENSION || (elapsed >= wanted && enough) {
            bar.finish_and_clear();
            return Ok(());
        }
        // One at a time, so that the crowd grows while it works.
        for (kind, size) in [(Kind::Client, options.processes), (Kind::Tracer, options.tracers)] {
            if crowd.count(kind) < size as usize {
                crowd.add(kind)?;
            }
        }
        deaths.go_on(&mut random);
        if below(&mut random, AT_RANDOM) == 0 {
            let kind = if below(&mut random, 8) == 0 { Kind::Tracer } else { Kind::Client };
            let number = below(&mut random, crowd.count(kind) as u64);
            crowd.kill(kind, number as usize)?;
        }
        thread::sleep(TICK);
    }
}
