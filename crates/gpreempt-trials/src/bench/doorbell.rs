//! What observation costs a program: the time to write a packet and ring its doorbell, with and without the daemon.

use anyhow::Result;
use serde::Serialize;

use super::Bed;
use super::goal::Goal;
use crate::environment::managed::{self, ROLE};
use crate::environment::measure::median;
use crate::environment::program::Program;
use crate::load::Line;

/// Blocks without the daemon, each followed by one with it; and a last one without.
const BLOCKS: usize = 15;
pub(super) const MEASUREMENTS: u64 = BLOCKS as u64;
/// As often as the daemon ever polls unless it is told otherwise.
const SETTINGS: &str = "[watch]\nfixed = true\nperiod_us = 50\n";
const BOUNDS: (f64, f64) = (0.98, 1.02);

/// The result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Doorbell {
    /// Medians of all blocks.
    pub(super) without_ns: f64,
    pub(super) with_ns: f64,
    /// The median over blocks with the daemon, each against those without before and after it.
    pub(super) ratio: f64,
    /// Of the ratios of blocks, a quarter is below the first and a quarter above the second.
    pub(super) ratio_quartiles: [f64; 2],
    pub(super) blocks: usize,
}

pub(super) fn measure(bed: &Bed<'_>) -> Result<Doorbell> {
    bed.bar.set_message("(doorbell)");
    let setting = bed.setting(bed.workload, SETTINGS.to_owned());
    let mut ringing = Program::start("ringing", setting.own(&["doorbell"])?.env(ROLE, "online"), bed.interrupt)?;
    // A tenant of a lower level, so that the ringing program is observed.
    let mut idle = Program::start("idle", setting.own(&["idle"])?.env(ROLE, "offline"), bed.interrupt)?;
    for program in [&mut ringing, &mut idle] {
        program.until(|line| matches!(line, Line::Ready { .. }))?;
    }
    let (mut without, mut with) = (vec![ring(&mut ringing)?], Vec::new());
    for _ in 0..BLOCKS {
        let mut daemon = managed::start(bed.place, bed.workload, &setting.settings, bed.interrupt)?;
        daemon.wait_until_known(&[ringing.pid(), idle.pid()], bed.interrupt)?;
        with.push(bed.other_work.during(|| ring(&mut ringing))?);
        daemon.stop()?;
        without.push(ring(&mut ringing)?);
        bed.bar.inc(1);
    }
    ringing.wait()?;
    idle.wait()?;
    Ok(Doorbell::of(&without, &with))
}

/// Nanoseconds of one doorbell.
fn ring(program: &mut Program) -> Result<f64> {
    program.begin()?;
    loop {
        if let Line::Doorbells { each_ns } = program.line()? {
            return Ok(each_ns);
        }
    }
}

impl Doorbell {
    /// `without` has one more than `with`: before, between and after.
    fn of(without: &[f64], with: &[f64]) -> Doorbell {
        let beside = without.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
        let mut ratios: Vec<f64> = with.iter().zip(beside).map(|(with, without)| with / without).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let quartile = |quarters: usize| ratios.get(ratios.len() * quarters / 4).copied().unwrap_or(f64::NAN);
        Doorbell {
            without_ns: median(without),
            with_ns: median(with),
            ratio: median(&ratios),
            ratio_quartiles: [quartile(1), quartile(3)],
            blocks: with.len(),
        }
    }

    pub(super) fn goal(&self) -> Goal {
        let [low, high] = self.ratio_quartiles;
        Goal::new("doorbell_ratio", "polls every 50 us", (Some(BOUNDS.0), Some(BOUNDS.1)), Some(self.ratio), || {
            format!(
                "half of {} blocks lie between {low:.3} and {high:.3}: whether the gpu reads the ring while it is written \
                 differs more from block to block, on a virtual gpu at least",
                self.blocks
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_gets_slower_does_not_change_the_ratio() {
        let doorbell = Doorbell::of(&[100.0, 120.0, 140.0, 160.0], &[110.0, 130.0, 150.0]);
        assert_eq!((doorbell.ratio, doorbell.ratio_quartiles, doorbell.blocks), (1.0, [1.0, 1.0], 3));
        assert_eq!(doorbell.goal().met, Some(true));
        assert_eq!(Doorbell::of(&[100.0, 100.0], &[103.0]).goal().met, Some(false));
    }
}
