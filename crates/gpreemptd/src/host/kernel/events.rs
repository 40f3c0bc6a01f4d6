//! What the scheduler in the kernel did, as events, into the state that is shown, logged and counted.

use std::io;

use gpreempt_core::{Action, Activity, Bound, EntryNumber, GpuIndex, Nanos, Reason, Why};
use gpreempt_kernel_abi::{ModuleEvent, ModuleEventKind, TenantFlags};
use gpreempt_proto::EventKind;
use kfd::{GpuId, Pid};
use nix::errno::Errno;

use crate::actuate::AbiText;
use crate::control::wire::ToWire as _;

use super::super::execute::DriverCall;
use super::super::sessions::Ticket;
use super::super::world::TenantKey;
use super::super::{Host, must_succeed};
use super::{KernelPolicy, Stop, TenantView, status};

/// A reset that is over is told; if that was missed, the gpu is managed again after this long.
const LONGEST_RESET: Nanos = Nanos::from_secs(30);

impl Host {
    pub(in super::super) fn kernel_events(&mut self, events: Vec<AbiText<ModuleEvent>>, now: Nanos) {
        if self.decider.kernel().is_none() {
            // Of one that was dismissed.
            return;
        }
        for AbiText(event) in events {
            if event.lost > 0
                && let Some(kernel) = self.decider.kernel_mut()
            {
                kernel.events_lost += u64::from(event.lost);
                kernel.question = status::Question::wanted();
            }
            self.kernel_event(&event, now);
        }
    }

    fn kernel_event(&mut self, event: &ModuleEvent, now: Nanos) {
        let gpu = self.world.gpus.find(GpuId(event.gpu_id));
        match (event.kind, gpu) {
            (ModuleEventKind::RESET, Some(gpu)) => self.reset_for(gpu, LONGEST_RESET, now),
            (ModuleEventKind::RECOVERED, Some(gpu)) => self.kernel_recovered(gpu, now),
            (ModuleEventKind::WATCHDOG, Some(gpu)) => self.kernel_watchdog(gpu, now),
            (ModuleEventKind::EXPIRED, _) => self.kernel_expired(now),
            (_, Some(gpu)) => {
                if let Some(key) = self.known_tenant(event) {
                    self.kernel_tenant_event(key, gpu, event, now);
                }
            }
            // Of a gpu that was not found yet.
            (_, None) => {}
        }
    }

    /// Returns the tenant of an event, and notes that the kernel has it; `None` if it is another's process.
    fn known_tenant(&mut self, event: &ModuleEvent) -> Option<TenantKey> {
        let pid = u32::try_from(event.pid).ok().filter(|pid| *pid > 0)?;
        let key = TenantKey { pid: Pid(pid), gpu: GpuId(event.gpu_id) };
        let known = self.world.processes.get(&key.pid);
        if known.is_some_and(|process| process.identity.started != event.start_time) {
            return None;
        }
        let kernel = self.decider.kernel_mut()?;
        let view = kernel.tenants.entry(key).or_default();
        if view.started != event.start_time {
            *view = TenantView { started: event.start_time, ..TenantView::default() };
        }
        Some(key)
    }

    fn kernel_tenant_event(&mut self, key: TenantKey, gpu: GpuIndex, event: &ModuleEvent, now: Nanos) {
        match event.kind {
            ModuleEventKind::PREEMPTED => self.kernel_preempted(key, gpu, event, now),
            ModuleEventKind::RESUMED => self.kernel_resumed(key, gpu, event, now),
            ModuleEventKind::WOULD_PREEMPT => {
                let (why, by) = self.why(event);
                let kind = EventKind::WouldPreempt { reason: why.reason.to_wire(), by: by.clone() };
                self.note_by(key, kind, by.as_deref());
            }
            ModuleEventKind::FAILED => self.kernel_failed(key, gpu, event, now),
            ModuleEventKind::ACTIVITY => {
                let activity = Activity::try_from(event.activity).ok();
                self.kernel_activity(key, activity, Nanos(event.at_ns));
            }
            ModuleEventKind::TENANT_GONE => {
                if let Some(kernel) = self.decider.kernel_mut() {
                    kernel.tenants.remove(&key);
                }
            }
            // It was noted; the discovery thread tells what it is. Events of newer modules are left alone.
            _ => {}
        }
    }

    /// Returns why, and on account of which job.
    fn why(&self, event: &ModuleEvent) -> (Why, Option<String>) {
        let by = self.decider.kernel().and_then(|kernel| kernel.numbers.name(event.cause)).map(str::to_owned);
        let cause = by.as_ref().and_then(|by| self.world.jobs.get(by)).map(|job| job.core);
        let reason = Reason::try_from(event.reason).unwrap_or(Reason::JobStopped);
        let bound = Bound::try_from(event.bound).unwrap_or(Bound::Detection);
        (Why { cause, reason, bound, after: Nanos(event.after_ns) }, by)
    }

    fn kernel_preempted(&mut self, key: TenantKey, gpu: GpuIndex, event: &ModuleEvent, now: Nanos) {
        let (why, by) = self.why(event);
        let at = Nanos(event.at_ns);
        if let Some(view) = self.decider.kernel_mut().and_then(|kernel| kernel.tenants.get_mut(&key)) {
            view.stop = Some(Stop { at, why, by: by.clone() });
        }
        if let Some(tenant) = self.world.tenants.get_mut(&key) {
            tenant.stopped = tenant.about.compute.iter().map(|queue| queue.0).collect();
            tenant.note_stop(why, by.as_deref(), at);
        }
        self.kernel_switched(key, gpu, event, (Action::Preempt, why, by), now);
    }

    fn kernel_resumed(&mut self, key: TenantKey, gpu: GpuIndex, event: &ModuleEvent, now: Nanos) {
        let (why, by) = self.why(event);
        if let Some(view) = self.decider.kernel_mut().and_then(|kernel| kernel.tenants.get_mut(&key)) {
            view.stop = None;
        }
        self.kernel_switched(key, gpu, event, (Action::Resume, why, by), now);
        if let Some(tenant) = self.world.tenants.get_mut(&key) {
            tenant.stopped.clear();
        }
        self.record_stop_end(key, Nanos(event.at_ns));
    }

    /// Books a switch as the answer to a command would be.
    fn kernel_switched(
        &mut self,
        key: TenantKey,
        gpu: GpuIndex,
        event: &ModuleEvent,
        (action, why, by): (Action, Why, Option<String>),
        now: Nanos,
    ) {
        let (answered, took) = (Nanos(event.at_ns), Nanos(event.took_ns));
        let called = answered.since(took);
        let noticed = (event.seen_ns > 0).then_some(Nanos(event.seen_ns));
        let ticket = Ticket { key, entry: EntryNumber(0), action, why, queues: Vec::new(), sent_at: called, noticed };
        let call = DriverCall { called, answered, cycles: event.cycles };
        self.record_call(&ticket, by, gpu, call, event.queues);
        self.note_cycle(key.pid, answered);
        let Some(place) = self.world.gpus.get_mut(gpu) else { return };
        if let Some(trip) = place.breaker.took(took, now, &self.config.breaker) {
            self.tripped(gpu, trip);
        }
    }

    fn kernel_failed(&mut self, key: TenantKey, gpu: GpuIndex, event: &ModuleEvent, now: Nanos) {
        let errno = event.status.saturating_neg();
        match Errno::from_raw(errno) {
            // It ended, which is told by itself.
            Errno::ESRCH => return,
            Errno::EIO | Errno::ETIME => self.reset(gpu, now),
            _ => {}
        }
        let message = kfd::Error::Switch { pid: key.pid, error: io::Error::from_raw_os_error(errno) }.to_string();
        let (why, _) = self.why(event);
        let action = if is_stop(why.reason) { Action::Preempt } else { Action::Resume };
        let Some(place) = self.world.gpus.get_mut(gpu) else { return };
        self.publisher.gpu(&place.about).failures += 1;
        let trip = place.breaker.failed(now, &self.config.breaker);
        self.note(key, EventKind::Failed { action: action.to_wire(), message });
        trip.into_iter().for_each(|trip| self.tripped(gpu, trip));
    }

    /// What a tenant does has changed, or the kernel looks no more.
    pub(super) fn kernel_activity(&mut self, key: TenantKey, activity: Option<Activity>, at: Nanos) {
        if let Some(view) = self.decider.kernel_mut().and_then(|kernel| kernel.tenants.get_mut(&key)) {
            view.activity = activity;
        }
        let Some(tenant) = self.world.tenants.get_mut(&key) else { return };
        let before = tenant.last;
        let now_has = activity.unwrap_or_default();
        if before.activity == Activity::Wants {
            tenant.last.waited = before.waited.plus(at.since(before.at));
        }
        (tenant.last.at, tenant.last.activity) = (at, now_has);
        if before.activity != now_has || before.at == Nanos::ZERO {
            tenant.last.changed_at = at;
        }
        match (before.activity.has_work(), now_has.has_work()) {
            (false, true) => {
                tenant.last.since = at;
                (tenant.last.noticed_at, tenant.last.waited) = (at, Nanos::ZERO);
                let victims = self.displaceable(key);
                let one_way = self.displaces_one_way(key, &victims);
                if let Some(tenant) = self.world.tenants.get_mut(&key) {
                    tenant.last.contested = !victims.is_empty();
                    (tenant.last.comparable, tenant.last.control, tenant.last.risen_at) = (one_way, false, at);
                }
            }
            (true, false) => {
                tenant.last.since = at;
                self.burst_ended(key, at);
            }
            _ => {}
        }
    }

    fn kernel_recovered(&mut self, gpu: GpuIndex, now: Nanos) {
        if let Some(gpu) = self.world.gpus.get_mut(gpu) {
            gpu.resetting_until = None;
            must_succeed(self.core.set_resetting(gpu.index, false));
        }
        if let Some(kernel) = self.decider.kernel_mut() {
            kernel.question = status::Question::wanted();
        }
        self.timers.wake_at(now);
    }

    /// The worker of a gpu hung, and everything there was resumed.
    fn kernel_watchdog(&mut self, gpu: GpuIndex, now: Nanos) {
        let Some(place) = self.world.gpus.get_mut(gpu) else { return };
        let (address, id) = (place.about.address.clone(), place.about.id);
        let trip = place.breaker.failed(now, &self.config.breaker);
        self.publisher.gpu(&place.about).failures += 1;
        let message = "the scheduler in the kernel did not answer; its watchdog resumed everything on this gpu";
        tracing::warn!("gpu {address}: {message}");
        self.note_gpu(gpu, EventKind::Actuator { message: message.into() });
        if let Some(kernel) = self.decider.kernel_mut() {
            for view in kernel.tenants.iter_mut().filter(|(key, _)| key.gpu == id).map(|(_, view)| view) {
                view.stop = None;
            }
        }
        self.show_stops(now);
        trip.into_iter().for_each(|trip| self.tripped(gpu, trip));
    }

    /// The kernel has forgotten the policy: it is told all of it again.
    fn kernel_expired(&mut self, now: Nanos) {
        if let Some(kernel) = self.decider.kernel_mut() {
            (kernel.sent, kernel.complete) = (KernelPolicy::default(), false);
        }
        self.everything_runs(now);
    }

    /// Shows tenants as stopped whose stop the kernel has told, and no others. They, or their queues, may have been
    /// found after they were stopped.
    pub(super) fn show_stops(&mut self, now: Nanos) {
        let Some(kernel) = self.decider.kernel() else { return };
        let mut ended = Vec::new();
        for tenant in self.world.tenants.values_mut().filter(|tenant| tenant.core.is_some()) {
            let started = self.world.processes.get(&tenant.key.pid).map(|process| process.identity.started);
            let view = kernel.tenants.get(&tenant.key).filter(|view| Some(view.started) == started);
            match view.and_then(|view| view.stop.as_ref()) {
                Some(stop) => {
                    tenant.stopped = tenant.about.compute.iter().map(|queue| queue.0).collect();
                    if tenant.stopped_at.is_none() {
                        // It was counted when it was told, or the kernel tells the count.
                        let preempted = tenant.preempted;
                        tenant.note_stop(stop.why, stop.by.as_deref(), stop.at);
                        tenant.preempted = preempted;
                    }
                }
                None if tenant.is_stopped() => {
                    tenant.stopped.clear();
                    ended.push(tenant.key);
                }
                None => {}
            }
        }
        ended.into_iter().for_each(|key| self.record_stop_end(key, now));
    }

    /// Notes what the kernel says of a tenant besides its activity and its stop.
    pub(super) fn set_flags(&mut self, key: TenantKey, flags: TenantFlags) {
        if let Some(view) = self.decider.kernel_mut().and_then(|kernel| kernel.tenants.get_mut(&key)) {
            view.flags = flags;
        }
    }
}

/// Whether a tenant is stopped for this reason, and not resumed.
fn is_stop(reason: Reason) -> bool {
    match reason {
        Reason::HigherWants
        | Reason::SliceOver
        | Reason::ShareDue
        | Reason::LimitReached
        | Reason::EarlierDeadline
        | Reason::Held
        | Reason::JobStopped => true,
        Reason::NothingAbove
        | Reason::TurnDue
        | Reason::Aged
        | Reason::StopShareSpent
        | Reason::Released
        | Reason::GaveUp => false,
    }
}
