//! What the scheduler in the kernel has, when it is asked: states of tenants and gpus, and statistics.
//!
//! Events tell every change. The kernel is asked when this daemon becomes its policy host, because it may go on with
//! the policy of an earlier one; when events were lost; and when a client wants the status.

use gpreempt_core::{Activity, Bound, GpuParams, Nanos, Reason, Why};
use gpreempt_kernel_abi::{GpuFlags, GpuRecord, JobRecord, TenantRecord, Times};
use gpreempt_proto::{Distribution, KernelStats};
use kfd::{GpuId, Pid};

use crate::actuate::{AbiText, ActuatorCommand};
use crate::record::KernelRecord;

use super::super::world::TenantKey;
use super::super::{Host, must_succeed};
use super::{KernelStatus, Stop, TenantView};

/// How long a client waits for the kernel's answer. Then it is shown what is known.
const PATIENCE: Nanos = Nanos::from_millis(100);

/// Whether the kernel is asked, and has answered.
#[derive(Debug, Default)]
pub(super) struct Question {
    wanted: bool,
    asked_at: Option<Nanos>,
    answered: bool,
}

impl Question {
    pub(super) fn wanted() -> Question {
        Question { wanted: true, ..Question::default() }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }
}

impl Host {
    /// Asks the kernel what it has, if it can be asked.
    pub(super) fn ask_kernel(&mut self, now: Nanos) {
        let can_be = self.sessions.is_up() && self.sessions.actuator_pid().is_some();
        let Some(kernel) = self.decider.kernel_mut().filter(|_| can_be) else { return };
        kernel.question = Question { wanted: false, asked_at: Some(now), answered: false };
        self.send(&ActuatorCommand::Query, now);
    }

    /// Returns whether the status can be published: the kernel has been asked for it, and has answered or is too slow.
    pub(in super::super) fn is_informed(&mut self, now: Nanos) -> bool {
        let can_be_asked = self.sessions.is_up() && self.sessions.actuator_pid().is_some();
        let Some(kernel) = self.decider.kernel_mut().filter(|_| can_be_asked) else { return true };
        if std::mem::take(&mut kernel.question.answered) {
            return true;
        }
        match kernel.question.asked_at {
            Some(asked) if now.since(asked) >= PATIENCE => {
                kernel.question.asked_at = None;
                true
            }
            Some(asked) => {
                self.timers.wake_at(asked.plus(PATIENCE));
                false
            }
            None => {
                self.ask_kernel(now);
                self.timers.wake_at(now.plus(PATIENCE));
                false
            }
        }
    }

    /// Takes the kernel's answer.
    pub(in super::super) fn kernel_status(&mut self, status: &KernelStatus, now: Nanos) {
        let Some(kernel) = self.decider.kernel_mut() else { return };
        kernel.question = Question { answered: true, ..Question::default() };
        for AbiText(gpu) in &status.gpus {
            self.kernel_gpu_status(gpu, now);
        }
        for AbiText(tenant) in &status.tenants {
            let job = status.jobs.iter().map(|AbiText(job)| job).find(|job| job.job == tenant.job && job.job != 0);
            self.kernel_tenant_status(tenant, job, now);
        }
        let listed = |key: &TenantKey| {
            let is_it =
                |AbiText(tenant): &AbiText<TenantRecord>| tenant.pid == key.pid.raw() && tenant.gpu_id == key.gpu.0;
            status.tenants.iter().any(is_it)
        };
        if let Some(kernel) = self.decider.kernel_mut() {
            kernel.tenants.retain(|key, _| listed(key));
        }
        self.show_stops(now);
    }

    fn kernel_gpu_status(&mut self, record: &GpuRecord, now: Nanos) {
        let id = GpuId(record.gpu_id);
        let Some(index) = self.world.gpus.find(id) else { return };
        let Some(kernel) = self.decider.kernel_mut() else { return };
        let begun = *kernel.begun.entry(id).or_insert(*record);
        // Counters that went back are those of a module that was loaded again.
        let begun = if record.wakeups < begun.wakeups { GpuRecord::default() } else { begun };
        kernel.begun.insert(id, begun);
        kernel.gpus.insert(id, *record);
        let counted = counted(record, &begun, kernel.events_lost);
        let Some(gpu) = self.world.gpus.get(index) else { return };
        self.publisher.gpu(&gpu.about).kernel = Some(counted);
        if record.flags.has(GpuFlags::MEASURED) {
            // Bounds count with it.
            let params = GpuParams { cycle_estimate: Nanos(record.cycle_ns), ..gpu.params };
            must_succeed(self.core.set_gpu(index, params));
        }
        match (record.flags.has(GpuFlags::RESETTING), gpu.resetting_until.is_some()) {
            (true, false) => self.reset(index, now),
            (false, true) => {
                let Some(gpu) = self.world.gpus.get_mut(index) else { return };
                gpu.resetting_until = None;
                must_succeed(self.core.set_resetting(index, false));
            }
            _ => {}
        }
    }

    fn kernel_tenant_status(&mut self, record: &TenantRecord, job: Option<&JobRecord>, now: Nanos) {
        let Some(pid) = u32::try_from(record.pid).ok().filter(|pid| *pid > 0) else { return };
        let key = TenantKey { pid: Pid(pid), gpu: GpuId(record.gpu_id) };
        let (why, by) = self.why_stopped(job, now);
        let Some(kernel) = self.decider.kernel_mut() else { return };
        let view = kernel.tenants.entry(key).or_default();
        if view.started != record.start_time {
            *view = TenantView { started: record.start_time, ..TenantView::default() };
        }
        if record.stopped_queues == 0 {
            view.stop = None;
        } else if view.stop.is_none() {
            view.stop = Some(Stop { at: Nanos(record.stopped_at_ns), why, by });
        }
        let (activity, known) = (Activity::try_from(record.activity).ok(), view.activity);
        if activity != known {
            let since = if record.since_ns > 0 { Nanos(record.since_ns) } else { now };
            self.kernel_activity(key, activity, since);
        }
        self.set_flags(key, record.flags);
        if let Some(tenant) = self.world.tenants.get_mut(&key) {
            tenant.last.pending = record.pending;
            // The kernel also counts what was before this daemon.
            tenant.preempted = record.preempted;
            if record.stopped_queues == 0 {
                tenant.stopped_total = tenant.stopped_total.max(Nanos(record.stopped_ns));
            }
        }
    }

    /// Returns why a job is stopped, of whose stop no event was heard.
    fn why_stopped(&self, job: Option<&JobRecord>, now: Nanos) -> (Why, Option<String>) {
        let by = job.and_then(|job| self.decider.kernel()?.numbers.name(job.cause)).map(str::to_owned);
        let cause = by.as_ref().and_then(|by| self.world.jobs.get(by)).map(|job| job.core);
        let reason = job.and_then(|job| Reason::try_from(job.reason).ok()).unwrap_or(Reason::JobStopped);
        let after = job.map_or(Nanos::ZERO, |job| now.since(Nanos(job.stopped_at_ns)));
        (Why { cause, reason, bound: Bound::Detection, after }, by)
    }

    /// Returns what the kernel last said of a gpu.
    pub(in super::super) fn kernel_gpu(&self, gpu: GpuId) -> Option<&GpuRecord> {
        self.decider.kernel()?.gpus.get(&gpu)
    }

    /// Returns the job that has a number in the kernel.
    pub(in super::super) fn kernel_job(&self, number: u64) -> Option<&str> {
        self.decider.kernel()?.numbers.name(number)
    }
}

/// Returns what was counted since this daemon first asked.
fn counted(now: &GpuRecord, begun: &GpuRecord, events_lost: u64) -> KernelRecord {
    let since = |count: fn(&GpuRecord) -> u64| count(now).saturating_sub(count(begun));
    KernelRecord {
        inversions: since(|gpu| gpu.inversions),
        detection: distribution(&now.detection, &begun.detection),
        stats: KernelStats {
            switches: since(|gpu| gpu.switches),
            wakeups: since(|gpu| gpu.wakeups),
            wakeups_doorbell: since(|gpu| gpu.wakeups_doorbell),
            wakeups_completed: since(|gpu| gpu.wakeups_completed),
            wakeups_queues: since(|gpu| gpu.wakeups_queues),
            wakeups_period: since(|gpu| gpu.wakeups_period),
            wakeups_net: since(|gpu| gpu.wakeups_net),
            wakeups_core: since(|gpu| gpu.wakeups_core),
            missed_by_doorbell: since(|gpu| gpu.missed_by_doorbell),
            looks: since(|gpu| gpu.looks),
            look_queues: since(|gpu| gpu.look_queues),
            away: since(|gpu| gpu.away),
            armed: since(|gpu| gpu.armed),
            arm_failed: since(|gpu| gpu.arm_failed),
            watchdog: since(|gpu| gpu.watchdog),
            events_lost,
            decision: distribution(&now.decision, &begun.decision),
            look: distribution(&now.look, &begun.look),
        },
    }
}

/// Returns the distribution of the times since `begun`. A quantile is the upper end of its bucket.
fn distribution(now: &Times, begun: &Times) -> Distribution {
    let buckets: Vec<u64> =
        now.buckets.iter().zip(&begun.buckets).map(|(now, then)| now.saturating_sub(*then)).collect();
    let count = now.count.saturating_sub(begun.count);
    let Some(last) = buckets.iter().rposition(|bucket| *bucket > 0).filter(|_| count > 0) else {
        return Distribution::default();
    };
    // The last bucket has no upper end of its own.
    let end = |bucket: usize| if bucket + 1 < buckets.len() { (1u64 << bucket) as f64 } else { f64::INFINITY };
    let max_us = (now.max_ns as f64 / 1e3).min(end(last));
    let quantile = |share: f64| {
        let rank = (buckets.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let found = buckets.iter().position(|bucket| {
            seen += bucket;
            seen >= rank
        });
        end(found.unwrap_or(last)).min(max_us)
    };
    Distribution {
        count,
        mean_us: now.sum_ns.saturating_sub(begun.sum_ns) as f64 / 1e3 / count as f64,
        p50_us: quantile(0.50),
        p95_us: quantile(0.95),
        p99_us: quantile(0.99),
        max_us,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(of: &[(usize, u64)], max_ns: u64) -> Times {
        let mut times = Times { max_ns, ..Times::default() };
        for &(bucket, count) in of {
            times.buckets[bucket] += count;
            times.count += count;
            times.sum_ns += count * 1000 * (1 << bucket) / 2;
        }
        times
    }

    #[test]
    fn quantiles_are_ends_of_buckets_and_what_was_before_does_not_count() {
        let begun = times(&[(10, 100)], 900_000);
        let now = times(&[(10, 100), (3, 95), (5, 5)], 900_000);
        let told = distribution(&now, &begun);
        assert_eq!((told.count, told.p50_us, told.p95_us, told.p99_us), (100, 8.0, 8.0, 32.0));
        assert_eq!(told.max_us, 32.0, "the longest of all was before");
        assert!((told.mean_us - (95.0 * 4.0 + 5.0 * 16.0) / 100.0).abs() < 1e-9);
        assert_eq!(distribution(&begun, &begun), Distribution::default());
        let endless = distribution(&times(&[(23, 1)], 20_000_000_000), &Times::default());
        assert_eq!((endless.p50_us, endless.max_us), (2e7, 2e7), "the last bucket ends with the longest");
    }
}
