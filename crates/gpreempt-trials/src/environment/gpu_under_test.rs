//! Where programs run: on a gpu of the machine, or on a virtual one.

use std::ffi::OsStr;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use gpreempt_output::BlameUser as _;
use kfd::KFD;
use vgpu::launch::{self, Running, Setup, Started};
use vgpu::profile::Profile;
use vgpu::protocol::Status;

use super::SUPERVISOR;
use super::workload::VirtualGpu;

/// Where programs find a gpu.
pub(crate) enum GpuUnderTest {
    /// The machine's driver.
    Hardware,
    /// A virtual gpu that this command already runs on.
    Inside(Running),
    /// A virtual gpu that was started for them.
    Started(Started),
}

/// What only the device knows. Counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Unmap-and-map cycles, whatever caused them.
    pub(crate) cycles: u64,
    /// Those in which queues were stopped on request, and of these the ones that took a wave off the device.
    pub(crate) suspends: u64,
    pub(crate) suspends_with_waves: u64,
    /// Waves written to save areas.
    pub(crate) waves: u64,
}

impl Counters {
    /// What happened since `earlier`.
    pub(crate) fn since(self, earlier: Counters) -> Counters {
        Counters {
            cycles: self.cycles.saturating_sub(earlier.cycles),
            suspends: self.suspends.saturating_sub(earlier.suspends),
            suspends_with_waves: self.suspends_with_waves.saturating_sub(earlier.suspends_with_waves),
            waves: self.waves.saturating_sub(earlier.waves),
        }
    }

    /// Both together.
    pub(crate) fn plus(self, other: Counters) -> Counters {
        Counters {
            cycles: self.cycles + other.cycles,
            suspends: self.suspends + other.suspends,
            suspends_with_waves: self.suspends_with_waves + other.suspends_with_waves,
            waves: self.waves + other.waves,
        }
    }

    fn of(status: &Status) -> Counters {
        status.gpus.iter().fold(Counters::default(), |sum, gpu| {
            let suspend = gpu.cycles.get("suspend").copied().unwrap_or_default();
            sum.plus(Counters {
                cycles: gpu.cycles.values().map(|cycles| cycles.count).sum(),
                suspends: suspend.count,
                suspends_with_waves: suspend.with_waves,
                waves: gpu.preemption.waves_saved,
            })
        })
    }
}

impl GpuUnderTest {
    /// The machine's gpu if there is one, else a virtual one. Asks before it disturbs others, unless `yes`.
    pub(crate) fn find(gpu: &VirtualGpu, yes: bool) -> Result<GpuUnderTest> {
        if let Ok(running) = Running::own() {
            return Ok(GpuUnderTest::Inside(running));
        }
        if Path::new(KFD).exists() {
            ask(yes)?;
            return Ok(GpuUnderTest::Hardware);
        }
        let mut profile = Profile::load(&gpu.profile).blame_user()?;
        if let Some(cus) = gpu.cus {
            profile = profile.with_cus(cus).blame_user()?;
        }
        Ok(GpuUnderTest::Started(launch::start(&Setup::new(profile), None, SUPERVISOR)?))
    }

    /// Whether times are those of a gpu.
    pub(crate) fn is_hardware(&self) -> bool {
        matches!(self, GpuUnderTest::Hardware)
    }

    /// The first line that the user reads.
    pub(crate) fn describe(&self) -> Result<String> {
        Ok(match (self, self.status()?) {
            (GpuUnderTest::Hardware, _) => "On this machine's gpu.".to_owned(),
            (_, Some(Status { profile, cus, .. })) => {
                format!("On a virtual {profile} with {cus} compute units: results are real, all times are emulated.")
            }
            (_, None) => "On a virtual gpu: results are real, all times are emulated.".to_owned(),
        })
    }

    /// A command that finds the gpu.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        match self {
            GpuUnderTest::Hardware | GpuUnderTest::Inside(_) => Command::new(program),
            GpuUnderTest::Started(started) => started.command(program),
        }
    }

    /// What a virtual gpu says of itself.
    pub(crate) fn status(&self) -> Result<Option<Status>> {
        match self {
            GpuUnderTest::Hardware => Ok(None),
            GpuUnderTest::Inside(running) => Ok(Some(running.status()?)),
            GpuUnderTest::Started(started) => Ok(Some(started.status()?)),
        }
    }

    /// The device's counters; hardware has none that can be read.
    pub(crate) fn counters(&self) -> Result<Option<Counters>> {
        Ok(self.status()?.as_ref().map(Counters::of))
    }
}

/// Asks the user, if others have queues on the machine's gpus.
fn ask(yes: bool) -> Result<()> {
    let processes = kfd::process::list().context("cannot see who uses the gpu")?;
    let others: Vec<String> =
        processes.iter().filter(|process| !process.queues.is_empty()).map(|process| process.pid.to_string()).collect();
    if others.is_empty() || yes {
        return Ok(());
    }
    let who = format!("processes with queues on a gpu: {}", others.join(", "));
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        bail!("{who}; they would be disturbed and so would the measurement: wait until they are gone, or use --yes");
    }
    eprint!("There are {who}. They are disturbed, and so is what is measured. Go on? [y/N] ");
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    if matches!(line.trim(), "y" | "Y" | "yes") { Ok(()) } else { bail!("nothing was done") }
}
