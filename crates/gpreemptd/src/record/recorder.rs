//! Counters and distributions of the daemon and of each gpu.

use std::collections::BTreeMap;

use gpreempt_core::Nanos;
use gpreempt_proto::{Actuation, ActuatorKind, DaemonStats, Distribution, GpuStats, KernelStats, Stats};
use kfd::GpuId;

use super::{CpuTimes, Times};

/// Version of the document that `stats` prints.
const SCHEMA: u32 = 1;

/// Counters of one gpu; the fields are those of [`GpuStats`].
#[derive(Clone, Debug, Default)]
pub struct GpuRecord {
    /// PCI address.
    pub address: String,
    /// Inversions seen.
    pub inversions: u64,
    /// Inversions that were control bursts: not protected, to see what protection is worth.
    pub control_bursts: u64,
    /// Tenants stopped.
    pub preempts: u64,
    /// Tenants resumed.
    pub resumes: u64,
    /// Stops and resumes that failed.
    pub failures: u64,
    /// Runlist cycles that calls of ours cost.
    pub cycles: u64,
    /// From the first sign of work to the poll that saw it.
    pub detection: Times,
    /// From that poll to the command that left the daemon.
    pub plan: Times,
    /// From an order to stop to the driver's answer.
    pub preempt: Times,
    /// From an order to resume to the driver's answer.
    pub resume: Times,
    /// How long tenants were stopped.
    pub stopped: Times,
    /// How long inversions lasted: until they were acted upon or, where nothing is stopped, until they ended.
    pub inversion: Times,
    /// Where nothing is stopped: how much shorter stopping would have made them, an estimate.
    pub winnable: Times,
    /// How long bursts of protected work took that were acted upon.
    pub burst_protected: Times,
    /// How long control bursts took.
    pub burst_control: Times,
    /// What the scheduler in the kernel counted, if it decides.
    pub kernel: Option<KernelRecord>,
}

/// What the scheduler in the kernel counted on a gpu since this daemon is its policy host.
#[derive(Clone, Debug, Default)]
pub struct KernelRecord {
    /// Bursts that met work which they could displace.
    pub inversions: u64,
    /// From the first sign of work to the look that saw it.
    pub detection: Distribution,
    /// Its other counters.
    pub stats: KernelStats,
}

impl GpuRecord {
    fn stats(&self) -> GpuStats {
        GpuStats {
            gpu: self.address.clone(),
            inversions: self.inversions + self.kernel.as_ref().map_or(0, |kernel| kernel.inversions),
            control_bursts: self.control_bursts,
            preempts: self.preempts,
            resumes: self.resumes,
            failures: self.failures,
            cycles: self.cycles,
            detection: match &self.kernel {
                Some(kernel) => kernel.detection.clone(),
                None => self.detection.distribution(),
            },
            plan: self.plan.distribution(),
            actuation: Actuation { preempt: self.preempt.distribution(), resume: self.resume.distribution() },
            stopped: self.stopped.distribution(),
            inversion: self.inversion.distribution(),
            winnable: self.winnable.distribution(),
            burst_protected: self.burst_protected.distribution(),
            burst_control: self.burst_control.distribution(),
            kernel: self.kernel.as_ref().map(|kernel| kernel.stats.clone()),
        }
    }
}

/// Counters of the daemon itself; the fields are those of [`DaemonStats`].
#[derive(Clone, Debug, Default)]
pub struct DaemonRecord {
    /// Polls of the rings.
    pub polls: u64,
    /// Scans of all processes and queues.
    pub scans: u64,
    /// Decisions of the core.
    pub decisions: u64,
    /// Urgent notifications.
    pub notifications: u64,
    /// Present time between two polls; absent while no ring is polled.
    pub watch_period: Option<Nanos>,
    /// How much later than asked the deciding thread woke up.
    pub wakeup: Times,
    /// Duration of a poll.
    pub poll: Times,
    /// How long the core took to decide.
    pub decision: Times,
    /// Which actuator served last.
    pub actuator: Option<ActuatorKind>,
    /// Starts of the actuator.
    pub actuator_starts: u64,
    /// How often the guardian had to end it.
    pub actuator_kills: u64,
}

/// Everything that is counted.
#[derive(Clone, Debug)]
pub struct Recorder {
    started: Nanos,
    /// The daemon itself.
    pub daemon: DaemonRecord,
    gpus: BTreeMap<GpuId, GpuRecord>,
}

impl Recorder {
    /// Nothing was counted yet.
    #[must_use]
    pub fn new(started: Nanos) -> Recorder {
        Recorder { started, daemon: DaemonRecord::default(), gpus: BTreeMap::new() }
    }

    /// The record of a gpu. The address may change when gpus are partitioned anew.
    pub fn gpu(&mut self, gpu: GpuId, address: &str) -> &mut GpuRecord {
        let record = self.gpus.entry(gpu).or_default();
        if record.address != address {
            address.clone_into(&mut record.address);
        }
        record
    }

    /// Everything, for the users; processor times are the caller's to read.
    #[must_use]
    pub fn stats(&self, now: Nanos, cpu: CpuTimes) -> Stats {
        let mut gpus: Vec<GpuStats> = self.gpus.values().map(GpuRecord::stats).collect();
        gpus.sort_by(|a, b| a.gpu.cmp(&b.gpu));
        let daemon = &self.daemon;
        Stats {
            schema: SCHEMA,
            daemon: DaemonStats {
                uptime_s: now.since(self.started).0 as f64 / 1e9,
                cpu_s: cpu.daemon.as_secs_f64(),
                watch_cpu_s: cpu.watch.as_secs_f64(),
                actuator_cpu_s: cpu.actuator.as_secs_f64(),
                polls: daemon.polls,
                scans: daemon.scans,
                decisions: daemon.decisions,
                notifications: daemon.notifications,
                watch_period_us: daemon.watch_period.map(|period| period.0 as f64 / 1_000.0),
                wakeup: daemon.wakeup.distribution(),
                poll: daemon.poll.distribution(),
                decision: daemon.decision.distribution(),
                actuator: daemon.actuator,
                actuator_starts: daemon.actuator_starts,
                actuator_kills: daemon.actuator_kills,
            },
            gpus,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn stats_tell_each_gpu_what_was_counted_for_it() {
        let mut recorder = Recorder::new(Nanos::from_secs(10));
        recorder.gpu(GpuId(7), "0000:c1:00.0").preempts += 2;
        recorder.gpu(GpuId(3), "0000:d1:00.0").resume.note(Nanos::from_micros(250));
        recorder.gpu(GpuId(7), "0000:c1:00.0").preempt.note(Nanos::from_micros(400));
        recorder.daemon.watch_period = Some(Nanos::from_micros(200));
        let cpu =
            CpuTimes { daemon: Duration::from_millis(1500), watch: Duration::from_secs(1), ..CpuTimes::default() };

        let stats = recorder.stats(Nanos::from_secs(12), cpu);

        assert_eq!(stats.daemon.uptime_s, 2.0);
        assert_eq!((stats.daemon.cpu_s, stats.daemon.watch_cpu_s, stats.daemon.actuator_cpu_s), (1.5, 1.0, 0.0));
        assert_eq!(stats.daemon.watch_period_us, Some(200.0));
        let [first, second] = &stats.gpus[..] else { panic!("{stats:?}") };
        assert_eq!((first.gpu.as_str(), first.preempts, first.actuation.resume.count), ("0000:c1:00.0", 2, 0));
        assert_eq!(first.actuation.preempt.max_us, 400.0);
        assert_eq!((second.gpu.as_str(), second.preempts, second.actuation.resume.count), ("0000:d1:00.0", 0, 1));
    }

    #[test]
    fn a_gpu_with_a_new_address_keeps_its_counts() {
        let mut recorder = Recorder::new(Nanos::ZERO);
        recorder.gpu(GpuId(7), "0000:c1:00.0").cycles = 5;
        recorder.gpu(GpuId(7), "0000:c1:00.0/1").cycles += 1;
        let stats = recorder.stats(Nanos::ZERO, CpuTimes::default());
        let [gpu] = &stats.gpus[..] else { panic!("{stats:?}") };
        assert_eq!((gpu.gpu.as_str(), gpu.cycles), ("0000:c1:00.0/1", 6));
    }
}
