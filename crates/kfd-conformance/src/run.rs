//! Runs the tests of rules, one after the other, and takes measurements.

use std::time::Instant;

use serde::Serialize;

use crate::bench::{Bench, Subject};
use crate::cycles::CycleCounter;
use crate::driver_kind::DriverKind;
use crate::interrupt;
use crate::measure::{self, Measurement};
use crate::rule::{self, DriverRule};
use crate::transcript::Recorder;
use crate::verdict::{Trouble, unchecked};

/// How a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The test showed it.
    Kept,
    /// The driver does something else.
    Broken,
    /// It cannot be seen here.
    Unchecked,
}

/// The result of one rule's test.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The rule.
    pub rule: &'static DriverRule,
    /// How it stands.
    pub standing: Standing,
    /// What the driver does instead, or why it cannot be seen.
    pub reason: Option<String>,
    /// How long the test took.
    pub seconds: f64,
}

/// What to test, and how.
#[derive(Clone, Debug)]
pub struct ConformanceOptions<'a> {
    /// Rules to test; all if empty.
    pub rules: Vec<&'static DriverRule>,
    /// Arguments that make this executable an actor.
    pub actor: &'a [&'a str],
    /// Whether to test although others use the gpu.
    pub beside_others: bool,
    /// Whether to take measurements.
    pub measure: bool,
    /// The driver under test.
    pub driver: DriverKind,
}

/// The gpu that was tested.
#[derive(Clone, Debug, Serialize)]
pub struct TestedGpu {
    /// The driver's id.
    pub gpu_id: u32,
    /// Product, or instruction set.
    pub name: String,
    /// Instruction set.
    pub gfx: String,
    /// Compute units of all XCCs.
    pub compute_units: u32,
    /// XCCs.
    pub xccs: u32,
    /// Waves that a compute unit holds.
    pub waves_per_cu: u32,
    /// Compute queues that the hardware holds at once.
    pub hardware_queues: u32,
    /// Version of the compute firmware.
    pub firmware: u32,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Conformance {
    /// The gpu.
    pub gpu: TestedGpu,
    /// Version of the driver's interface.
    pub driver: String,
    /// How cycles were counted.
    pub cycles_counted_by: String,
    /// Rules, in the order of their tests.
    pub checked: Vec<Checked>,
    /// Measurements, if they were asked for.
    pub measurements: Vec<Measurement>,
    /// What the driver answered, call by call, without addresses, pids and times.
    pub transcript: Vec<String>,
}

/// Why no rule could be tested.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// There is no driver, no gpu, or it cannot be read.
    #[error(transparent)]
    Driver(#[from] kfd::Error),
    /// The gpu is used.
    #[error(
        "other processes have queues on the gpu: {}. Each test takes their work off it for moments; wait until they \
         have ended, or say --beside-others",
        pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    )]
    InUse {
        /// The processes.
        pids: Vec<u32>,
    },
    /// Ctrl-C or SIGTERM.
    #[error("interrupted after {tested} rules; everything that was started has ended")]
    Interrupted {
        /// Rules tested before.
        tested: usize,
    },
}

/// Tests rules on the first gpu of the machine and reports each as it is tested.
///
/// # Errors
///
/// If there is no driver or no gpu, others use it, or the run is interrupted.
pub fn run(options: &ConformanceOptions<'_>, mut hear: impl FnMut(&Checked)) -> Result<Conformance, ConformanceError> {
    let driver = kfd::KfdDevice::open()?.version();
    let subject = Subject::first()?;
    let others = others()?;
    if !others.is_empty() && !options.beside_others {
        return Err(ConformanceError::InUse { pids: others });
    }
    interrupt::watch();
    let chosen = if options.rules.is_empty() { rule::all().collect() } else { options.rules.clone() };
    let counter = if chosen.iter().any(|rule| rule.id.starts_with("cycles-")) {
        CycleCounter::find(&subject, options.actor, others.is_empty())
    } else {
        CycleCounter::None("no rule asks for it".to_owned())
    };
    let recorder = Recorder::default();
    let bench = Bench { subject: &subject, actor: options.actor, counter: &counter, recorder: &recorder };
    let mut checked = Vec::new();
    for rule in chosen {
        let one = check(rule, options.driver, &bench);
        if interrupt::came() {
            return Err(ConformanceError::Interrupted { tested: checked.len() });
        }
        hear(&one);
        checked.push(one);
    }
    let transcript = recorder.finish();
    let measurements = if options.measure { measure::all(&bench) } else { Vec::new() };
    Ok(Conformance {
        gpu: tested(&subject),
        driver: format!("{}.{}", driver.major, driver.minor),
        cycles_counted_by: counter.name(),
        checked,
        measurements,
        transcript,
    })
}

fn check(rule: &'static DriverRule, driver: DriverKind, bench: &Bench<'_>) -> Checked {
    let begun = Instant::now();
    bench.recorder.begin(rule);
    let verdict = if rule.except.contains(&driver) {
        unchecked(format_args!("{} keeps another rule", driver.name()))
    } else {
        (rule.test)(bench)
    };
    let (standing, reason) = match verdict {
        Ok(()) => (Standing::Kept, None),
        Err(Trouble::Broken(what)) => (Standing::Broken, Some(what)),
        Err(Trouble::Unchecked(why)) => (Standing::Unchecked, Some(why)),
    };
    Checked { rule, standing, reason, seconds: begun.elapsed().as_secs_f64() }
}

/// Returns the processes that have queues.
fn others() -> Result<Vec<u32>, kfd::Error> {
    let with_queues = kfd::process::list()?.into_iter().filter(|process| !process.queues.is_empty());
    Ok(with_queues.map(|process| process.pid.0).collect())
}

fn tested(subject: &Subject) -> TestedGpu {
    let gpu = &subject.gpu;
    TestedGpu {
        gpu_id: gpu.id.0,
        name: gpu.name.clone(),
        gfx: gpu.gfx.to_string(),
        compute_units: gpu.cus,
        xccs: gpu.xccs,
        waves_per_cu: gpu.waves_per_cu,
        hardware_queues: gpu.hardware_queues,
        firmware: gpu.firmware,
    }
}
