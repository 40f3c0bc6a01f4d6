//! A daemon that manages the online and the offline program of a trial, and what it did in a stretch of time.

use anyhow::{Context, Result};
use gpreempt_proto::{Answer, Event, GpuStats, Request, Stats};
use linux_host::clock;
use nix::unistd::getuid;

use super::daemon_under_test::DaemonUnderTest;
use super::gpu_under_test::GpuUnderTest;
use super::interrupt::Interrupt;
use super::workload::Workload;

/// Environment variable by which the rules recognize the two programs.
pub(crate) const ROLE: &str = "GPREEMPT_DEMO";

/// What the daemon did in a stretch of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct DaemonActivity {
    /// Everything the daemon counted since it started.
    pub(crate) stats: Stats,
    /// Stops of tenants in the stretch.
    pub(crate) stops: u64,
    /// Unmap-and-map cycles that calls of the daemon cost in the stretch, by its own count.
    pub(crate) cycles: u64,
    /// Processor time of daemon and actuator in the stretch, as a share of one core.
    pub(crate) cpu_share: f64,
    /// The daemon's log since it started.
    pub(crate) events: Vec<Event>,
    /// Wall clock of the log minus monotonic clock, in nanoseconds.
    pub(crate) clock_offset_ns: i128,
}

/// Starts a daemon with rules for the two programs. `settings` are further tables of its configuration.
pub(crate) fn start(
    gpu: &GpuUnderTest,
    workload: &Workload,
    settings: &str,
    interrupt: &Interrupt,
) -> Result<DaemonUnderTest> {
    let mut daemon = DaemonUnderTest::prepare(&rules(workload, settings))?;
    let executable = std::env::current_exe().context("cannot find this executable")?;
    daemon.start(gpu.command(executable), interrupt)?;
    Ok(daemon)
}

/// Rules for the two programs of this user. Other processes match none.
fn rules(workload: &Workload, settings: &str) -> String {
    let uid = getuid();
    let rule = |role: &str, level: u8| {
        format!(
            "\n[[rule]]\nname = \"{role}\"\nuid = {uid}\nenvironment = {{ {ROLE} = \"{role}\" }}\nlevel = {level}\n"
        )
    };
    let (online, offline) = (rule("online", workload.online.level), rule("offline", workload.offline.level));
    format!("mode = \"enforce\"\n{settings}{online}{offline}")
}

impl DaemonActivity {
    /// Asks the daemon what it did since `before`.
    pub(crate) fn since(before: &Stats, daemon: &DaemonUnderTest) -> Result<DaemonActivity> {
        let stats = daemon.stats()?;
        let sum = |stats: &Stats, of: fn(&GpuStats) -> u64| stats.gpus.iter().map(of).sum::<u64>();
        let cpu = |stats: &Stats| stats.daemon.cpu_s + stats.daemon.actuator_cpu_s;
        let elapsed = (stats.daemon.uptime_s - before.daemon.uptime_s).max(1e-9);
        let log = daemon.ask(Request::Log { since_ms: None, target: None, limit: None })?;
        Ok(DaemonActivity {
            stops: sum(&stats, |gpu| gpu.preempts).saturating_sub(sum(before, |gpu| gpu.preempts)),
            cycles: sum(&stats, |gpu| gpu.cycles).saturating_sub(sum(before, |gpu| gpu.cycles)),
            cpu_share: (cpu(&stats) - cpu(before)).max(0.0) / elapsed,
            events: if let Answer::Log { events, .. } = log { events } else { Vec::new() },
            clock_offset_ns: clock::wall_ahead_of_monotonic_ns(),
            stats,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_taken_without_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("demo.toml");
        let settings = "scan_ms = 5\n[watch]\nfixed = true\nperiod_us = 200\n";
        std::fs::write(&path, rules(&Workload::load(None).unwrap(), settings)).unwrap();
        let config = gpreemptd::config::Config::load(&path).unwrap();
        assert_eq!(config.warnings(), Vec::<String>::new());
    }
}
