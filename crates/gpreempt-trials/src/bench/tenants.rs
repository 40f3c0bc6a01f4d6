//! What a poll and a decision cost when many have queues.

use anyhow::Result;
use serde::Serialize;

use super::Bed;
use super::goal::Goal;
use crate::environment::block::Outcome;
use crate::environment::managed::{self, DaemonActivity, ROLE};
use crate::environment::program::Program;
use crate::load::Line;

/// Tenants, half of them online.
const TENANTS: [usize; 4] = [8, 16, 32, 64];
pub(super) const MEASUREMENTS: u64 = TENANTS.len() as u64;
const QUEUES: u32 = 4;
/// Of the one program that has work, so that there is something to decide.
const REQUESTS: u32 = 100;
const REQUEST_US: f64 = 500.0;
const DUTY: f64 = 0.02;
const SETTINGS: &str = "[watch]\nfixed = true\nperiod_us = 1000\n";
/// Twice as many may cost twice as much and a little: caches end somewhere.
const TIMES: f64 = 2.2;

/// So many tenants.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Case {
    pub(super) tenants: usize,
    pub(super) queues: usize,
    /// Medians.
    pub(super) poll_us: f64,
    pub(super) decision_us: f64,
    /// Of one processor.
    pub(super) daemon_cpu_share: f64,
}

pub(super) fn measure(bed: &Bed<'_>) -> Result<Vec<Case>> {
    let mut workload = bed.workload.clone();
    workload.online.kernels = 1;
    workload.online.kernel_us = REQUEST_US;
    workload.online.duty = DUTY;
    workload.blocks.rounds = 1;
    workload.blocks.requests = REQUESTS;
    let setting = bed.setting(&workload, SETTINGS.to_owned());
    bed.bar.set_message("(many tenants)");
    let calibration = setting.calibrate()?;
    let mut programs: Vec<Program> = Vec::new();
    let mut cases = Vec::new();
    for tenants in TENANTS {
        bed.bar.set_message(format!("({tenants} tenants)"));
        while programs.len() < tenants {
            let role = if programs.len().is_multiple_of(2) { "online" } else { "offline" };
            let mut command = setting.own(&["idle", "--queues", &QUEUES.to_string()])?;
            let mut program = Program::start("idle", command.env(ROLE, role), bed.interrupt)?;
            program.until(|line| matches!(line, Line::Ready { .. }))?;
            programs.push(program);
        }
        let mut daemon = managed::start(bed.place, bed.workload, &setting.settings, bed.interrupt)?;
        let mut online = setting.start_online(&calibration, 0)?;
        daemon.wait_until_known(&[online.pid()], bed.interrupt)?;
        daemon.wait_until_known(&programs.iter().map(Program::pid).collect::<Vec<_>>(), bed.interrupt)?;
        let before = daemon.stats()?;
        Outcome::default().serve(&mut online, REQUESTS, bed.other_work, &mut || {})?;
        let activity = DaemonActivity::since(&before, &daemon)?;
        online.wait()?;
        daemon.stop()?;
        cases.push(Case {
            tenants,
            queues: tenants * QUEUES as usize,
            poll_us: activity.stats.daemon.poll.p50_us,
            decision_us: activity.stats.daemon.decision.p50_us,
            daemon_cpu_share: activity.cpu_share,
        });
        bed.bar.inc(1);
    }
    for program in programs {
        program.wait()?;
    }
    Ok(cases)
}

pub(super) fn goals(cases: &[Case]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for pair in cases.windows(2) {
        let [less, more] = pair else { continue };
        let name = format!("{} to {} tenants", less.tenants, more.tenants);
        type Cost = fn(&Case) -> f64;
        let costs: [(&'static str, Cost); 2] =
            [("poll_times_half", |case| case.poll_us), ("decision_times_half", |case| case.decision_us)];
        for (what, of) in costs {
            let times = (of(less) > 0.0).then(|| of(more) / of(less));
            goals.push(Goal::at_most(what, &name, TIMES, times, || {
                format!("{:.2} us became {:.2} us", of(less), of(more))
            }));
        }
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_that_grows_with_the_square_is_missed() {
        let case = |tenants: usize, power| {
            let poll_us = (tenants as f64).powi(power);
            Case { tenants, queues: 4 * tenants, poll_us, decision_us: tenants as f64, daemon_cpu_share: 0.0 }
        };
        let met = |power| {
            goals(&TENANTS.map(|tenants| case(tenants, power))).iter().filter(|goal| goal.met == Some(true)).count()
        };
        assert_eq!((met(1), met(2)), (6, 3));
    }
}
