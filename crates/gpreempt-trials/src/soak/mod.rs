//! `gpreempt soak`: the daemon with real programs, which are killed and halted at random moments.
//!
//! Offline programs compute without a pause, online programs answer requests, and the daemon comes between them.
//! Daemon, guardian, actuator and programs are killed with SIGKILL or stopped with SIGSTOP, and replaced; levels, holds
//! and rules change. All along: every program moves on, every survivor's result is right to the bit, no process stays
//! stopped or traced without a daemon, nothing is left at the end.

mod args;
mod calls;
mod daemon;
mod disturb;
mod free;
mod loads;
mod report;

mod tally;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::environment::gpu_under_test::GpuUnderTest;
use crate::environment::interrupt::Interrupt;
use crate::environment::workload::VirtualGpu;
use crate::output;
pub use args::SoakArgs;
use daemon::SoakDaemon;
use disturb::Disturber;
use loads::{Loads, Role};
use report::{About, SoakReport};
use tally::SoakTally;

/// The gpu if the machine has none: small, so that a kernel that fills it is over soon.
const PROFILE: &str = "mi300x";
const CUS: u32 = 16;
/// Pause between two looks.
const TICK: Duration = Duration::from_millis(20);
/// How often the daemon is asked for its counts.
const POLL: Duration = Duration::from_millis(250);
/// How long survivors may take to end what they have begun.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many programs of each kind run at a time.
const CAST: [(Role, usize); 2] = [(Role::Online, 2), (Role::Offline, 3)];

/// Runs the soak and prints its report.
///
/// # Errors
/// If anything failed, or too little happened to say that nothing fails.
pub fn run(options: &SoakArgs, out: &mut impl Write) -> Result<()> {
    let place = GpuUnderTest::find(&VirtualGpu { profile: PROFILE.to_owned(), cus: Some(CUS) }, options.yes)?;
    let gpu = place.describe()?;
    if !options.json {
        writeln!(out, "{gpu}")?;
        out.flush()?;
    }
    let interrupt = Interrupt::watch()?;
    let mut soak = Running::start(options, &place, &interrupt)?;
    soak.go_on()?;
    soak.end()?;
    let Running { tally, .. } = soak;
    let about = About { hardware: place.is_hardware(), gpu, seed: options.seed, minutes: options.minutes };
    SoakReport::new(about, tally).print(options.json, out)
}

/// All processes of the soak. They are gone when it is dropped.
struct Running<'a> {
    options: &'a SoakArgs,
    place: &'a GpuUnderTest,
    interrupt: &'a Interrupt,
    tally: SoakTally,
    // Programs are dropped before the daemon, as they would end before it on a machine that goes down.
    loads: Loads<'a>,
    service: SoakDaemon<'a>,
}

impl<'a> Running<'a> {
    fn start(options: &'a SoakArgs, place: &'a GpuUnderTest, interrupt: &'a Interrupt) -> Result<Running<'a>> {
        let token = format!("{}-{}", std::process::id(), options.seed);
        let loads = Loads::new(place, interrupt, &token, options.seed)?;
        let mut service = SoakDaemon::new(place, interrupt, &token)?;
        service.start()?;
        Ok(Running { options, place, interrupt, tally: SoakTally::new(), loads, service })
    }

    /// Keeps the cast complete while it is disturbed.
    fn go_on(&mut self) -> Result<()> {
        let wanted = Duration::from_secs_f64(self.options.minutes * 60.0);
        let mut disturber = Disturber::new(self.options.seed);
        let bar = output::progress(self.options.json, "seconds");
        bar.set_length(wanted.as_secs());
        let (begun, mut polled) = (Instant::now(), Instant::now());
        while begun.elapsed() < wanted {
            self.interrupt.check()?;
            bar.set_position(begun.elapsed().as_secs());
            self.loads.attend(&mut self.tally)?;
            for (role, count) in CAST {
                // One at a time, so that they do not all begin together.
                if self.loads.count(role) < count {
                    self.loads.add(role, &mut self.tally)?;
                }
            }
            if polled.elapsed() >= POLL {
                polled = Instant::now();
                self.service.poll(&mut self.tally)?;
            }
            disturber.go_on(self.place, &mut self.loads, &mut self.service, &mut self.tally)?;
            thread::sleep(TICK);
        }
        bar.finish_and_clear();
        disturber.thaw_all(&mut self.loads, &mut self.service);
        Ok(())
    }

    /// Ends all processes in good order and looks for what is left over.
    fn end(&mut self) -> Result<()> {
        self.service.ensure_running(&mut self.tally)?;
        self.service.poll(&mut self.tally)?;
        self.loads.finish();
        let begun = Instant::now();
        while self.loads.any() && begun.elapsed() < PATIENCE {
            self.interrupt.check()?;
            self.loads.attend(&mut self.tally)?;
            thread::sleep(TICK);
        }
        self.loads.give_up(&mut self.tally)?;
        self.service.poll(&mut self.tally)?;
        self.service.stop(&mut self.tally)?;
        for left in free::left_over(self.place, self.loads.token())? {
            self.tally.left(left);
        }
        self.tally.end();
        Ok(())
    }
}
