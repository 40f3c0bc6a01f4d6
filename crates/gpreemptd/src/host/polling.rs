//! Polls rings: the activity of each tenant, and when bursts begin and end.

use gpreempt_core::{Activity, GpuIndex, JobId, Nanos, Observation, Permille, Reason};
use gpreempt_observe::{PollError, TenantActivity};
use gpreempt_proto::{EventKind, Mode};
use kfd::Pid;

use crate::clock;
use crate::control::wire::ToWire as _;
use crate::discovery::{DiscoveryRequest, OccupancySample};
use crate::observe::TenantProbe;

use super::Host;
use super::burst_log::Edges;
use super::must_succeed;
use super::world::{Session, Tenant, TenantKey};

/// The driver's occupancy is dear (it stops the gpu's registers for a moment): not more often than this for one tenant.
const SAMPLE_EVERY: Nanos = Nanos::from_millis(1);

/// Rings that cannot be read are looked for again so often.
const SEEK_EVERY: Nanos = Nanos::from_millis(200);

/// A resumed queue has its waves back after this long: the driver answers before.
const RESTORED: Nanos = Nanos::from_millis(10);

/// A session begins with a cycle, not later than this after it was asked for unless something is in the way.
const BEGINNING: Nanos = Nanos::from_secs(1);

/// Occupancy that is older says nothing.
const SAMPLE_VALID: Nanos = Nanos::from_millis(20);

impl Host {
    /// Polls between scans: the tenants on whose work a decision depends, and the others while these work.
    pub(super) fn poll_watched(&mut self, now: Nanos) {
        self.publisher.daemon().polls += 1;
        for index in self.world.gpus.indices() {
            let Some(gpu) = self.world.gpus.get_mut(index).filter(|gpu| gpu.contested) else { continue };
            let (upper, lower) = (std::mem::take(&mut gpu.upper), std::mem::take(&mut gpu.lower));
            let works = upper.iter().fold(false, |works, &key| self.poll_unless_stopped(key, now) | works);
            if works {
                for &key in &lower {
                    self.poll_unless_stopped(key, now);
                }
            }
            if let Some(gpu) = self.world.gpus.get_mut(index) {
                (gpu.upper, gpu.lower) = (upper, lower);
            }
        }
        self.record_bursts(now);
    }

    /// Polls a tenant and returns whether it has work. A stopped one changes nothing by itself: scans are often enough
    /// for it.
    fn poll_unless_stopped(&mut self, key: TenantKey, now: Nanos) -> bool {
        if self.world.tenants.get(&key).is_none_or(Tenant::is_stopped) {
            return false;
        }
        self.poll(key, now);
        self.world.tenants.get(&key).is_some_and(|tenant| tenant.last.activity.has_work())
    }

    /// Polls after a scan: all tenants where jobs compete.
    pub(super) fn poll_all(&mut self, now: Nanos) {
        let keys: Vec<TenantKey> = self
            .world
            .tenants
            .values()
            .filter(|tenant| self.world.gpus.get(tenant.gpu).is_some_and(|gpu| gpu.contested))
            .map(|tenant| tenant.key)
            .collect();
        for key in keys {
            self.poll(key, now);
        }
        self.record_bursts(now);
    }

    /// Polls a tenant and tells the core.
    fn poll(&mut self, key: TenantKey, now: Nanos) {
        let Some(tenant) = self.world.tenants.get_mut(&key) else { return };
        let stopped = tenant.is_stopped();
        let before = tenant.last;
        let look = match tenant.probe.as_mut().map(|probe| probe.poll(now, stopped)) {
            Some(Ok(look)) => look,
            // Memory that cannot be read any more belongs to a process that ends, which the discovery thread tells, or
            // to one that hides it: no tenant is kept stopped for either.
            Some(Err(PollError::Gone { .. })) => {
                let since = if before.activity.has_work() { now } else { before.since };
                TenantActivity { activity: Activity::Idle, since, pending: 0, unsure: false }
            }
            Some(Err(PollError::Away)) | None => return,
        };
        if tenant.probe.as_ref().is_some_and(TenantProbe::failed) && now.since(tenant.sought_at) >= SEEK_EVERY {
            tenant.sought_at = now;
            self.discovery.tell(DiscoveryRequest::RingsLost(key.pid));
        }
        let risen = look.activity.has_work() && !before.activity.has_work();
        let fallen = before.activity.has_work() && !look.activity.has_work();
        if before.activity == Activity::Wants {
            tenant.last.waited = before.waited.plus(now.since(before.at));
        }
        tenant.last.at = now;
        tenant.last.activity = look.activity;
        tenant.last.since = look.since;
        tenant.last.pending = look.pending;
        if before.activity != look.activity {
            tenant.last.changed_at = now;
            self.pending.core_informed();
        }
        if risen {
            tenant.last.contested = false;
            tenant.last.control = false;
            tenant.last.waited = Nanos::ZERO;
            self.bursts.note_begin(key, before.at);
        }
        if fallen {
            self.bursts.note_end(key);
        }
        self.tell_core(key);
        self.note_index(key);
        if look.unsure || self.decision_hangs_on(key) {
            self.sample(key, now);
        }
    }

    /// Notes which kind of read index a gpu has. One that has passed unfinished work of one tenant is believed of no
    /// tenant there any more.
    fn note_index(&mut self, key: TenantKey) {
        let Some(tenant) = self.world.tenants.get(&key) else { return };
        let (Some(probe), index) = (&tenant.probe, tenant.gpu) else { return };
        let Some(gpu) = self.world.gpus.get_mut(index) else { return };
        if probe.trusts_index() && !gpu.index_retires {
            gpu.index_retires = true;
            let address = &gpu.about.address;
            tracing::info!("gpu {address}: the read index passes packets when they retire, by process {}", key.pid);
        }
        if !probe.refutes_retirement() || gpu.index_passes_unfinished {
            return;
        }
        gpu.index_passes_unfinished = true;
        let address = &gpu.about.address;
        tracing::info!("gpu {address}: the read index passes packets before they retire, by process {}", key.pid);
        let there = self.world.tenants.values_mut().filter(|tenant| tenant.gpu == index);
        there.filter_map(|tenant| tenant.probe.as_mut()).for_each(TenantProbe::refute_retirement);
    }

    /// Tells the core what was last seen of a tenant.
    pub(super) fn observe_again(&mut self, key: TenantKey, now: Nanos) {
        if let Some(tenant) = self.world.tenants.get_mut(&key) {
            tenant.last.at = now;
        }
        self.tell_core(key);
    }

    fn tell_core(&mut self, key: TenantKey) {
        let Some(tenant) = self.world.tenants.get(&key) else { return };
        let Some(id) = tenant.core else { return };
        let look = Observation {
            at: tenant.last.at,
            activity: tenant.last.activity,
            since: tenant.last.since,
            occupancy: self.occupancy(tenant),
            queues: tenant.queues(),
            stopped_queues: tenant.stopped_queues(),
        };
        must_succeed(self.core.observe(id, look));
    }

    fn occupancy(&self, tenant: &Tenant) -> Option<Permille> {
        let (share, at) = tenant.occupancy?;
        (tenant.last.at.since(at) <= SAMPLE_VALID).then_some(share)
    }

    /// Returns whether the core's next decision depends on how much of the gpu a tenant holds.
    fn decision_hangs_on(&self, key: TenantKey) -> bool {
        let id = self.world.tenants.get(&key).and_then(|tenant| tenant.core);
        id.is_some_and(|id| self.core.wants_occupancy(id))
    }

    /// Asks the driver how much of the gpu a tenant holds, where jobs compete.
    fn sample(&mut self, key: TenantKey, now: Nanos) {
        let Some(tenant) = self.world.tenants.get_mut(&key) else { return };
        let contested = self.world.gpus.get(tenant.gpu).is_some_and(|gpu| gpu.contested);
        if !contested || tenant.sampling || now.since(tenant.sampled_at) < SAMPLE_EVERY {
            return;
        }
        tenant.sampling = true;
        self.discovery.tell(DiscoveryRequest::SampleOccupancy(vec![(key.pid, key.gpu)]));
    }

    /// Takes the driver's answer. It may come after jobs ceased to compete, and then no memory of the tenant is read.
    pub(super) fn sampled(&mut self, sample: OccupancySample, now: Nanos) {
        let key = TenantKey { pid: sample.pid, gpu: sample.gpu };
        let Some(tenant) = self.world.tenants.get_mut(&key) else { return };
        tenant.sampling = false;
        tenant.sampled_at = now;
        if !self.world.gpus.get(tenant.gpu).is_some_and(|gpu| gpu.contested) {
            return;
        }
        // Waves that are saved, or on their way back, tell nothing by being away.
        let (gpu, away) = (tenant.gpu, tenant.is_stopped() || tenant.ordered.is_some());
        if away || sample.occupied_cus == Some(0) && self.may_be_in_cycle(gpu, sample.at) {
            return;
        }
        let Some(tenant) = self.world.tenants.get_mut(&key) else { return };
        let cus = self.world.gpus.get(gpu).map_or(1, |gpu| gpu.about.cus.max(1));
        tenant.occupancy = sample.occupied_cus.map(|held| {
            let share = u64::from(held) * 1000 / u64::from(cus);
            (Permille::new(u16::try_from(share).unwrap_or(u16::MAX)), sample.at)
        });
        let mut others = self.world.tenants.values().filter(|other| other.gpu == gpu && other.key != key);
        let alone = !others.any(|other| other.probe.is_none() || other.runs());
        if let Some(probe) = self.world.tenants.get_mut(&key).and_then(|tenant| tenant.probe.as_mut()) {
            probe.sampled(&sample, alone);
        }
        self.poll(key, now);
        self.record_bursts(now);
    }

    /// Whether waves may have been off a gpu then because of us: a call for one tenant there is a cycle for all.
    fn may_be_in_cycle(&self, gpu: GpuIndex, at: Nanos) -> bool {
        let asked = |tenant: &Tenant| {
            let session = self.world.processes.get(&tenant.key.pid).map(|process| &process.session);
            // One that waits for long waits for its process, and not for a gpu.
            let begins =
                |session: &Session| matches!(session, Session::Asked { at: asked } if at.since(*asked) < BEGINNING);
            tenant.ordered.is_some() || session.is_some_and(begins)
        };
        self.world.gpus.get(gpu).is_some_and(|gpu| at < gpu.cycle_ended_at.plus(RESTORED))
            || self.world.tenants.values().any(|tenant| tenant.gpu == gpu && asked(tenant))
    }

    /// Calls for a process ended just now.
    pub(super) fn note_cycle(&mut self, pid: Pid, at: Nanos) {
        for tenant in self.world.tenants.values().filter(|tenant| tenant.key.pid == pid) {
            if let Some(gpu) = self.world.gpus.get_mut(tenant.gpu) {
                gpu.cycle_ended_at = gpu.cycle_ended_at.max(at);
            }
        }
    }

    /// Bursts that began and ended with the last looks.
    fn record_bursts(&mut self, now: Nanos) {
        let Edges { risen, fallen } = self.bursts.take();
        if !risen.is_empty() {
            let noticed = clock::now();
            for (key, _) in &risen {
                if let Some(tenant) = self.world.tenants.get_mut(key) {
                    tenant.last.noticed_at = noticed;
                }
            }
        }
        for (key, polled_before) in risen {
            self.burst_began(key, polled_before, now);
        }
        for key in fallen {
            self.burst_ended(key, now);
        }
    }

    /// Returns the tenants that run beside this one and that the policy could stop for it, with their jobs and why.
    pub(super) fn displaceable(&self, key: TenantKey) -> Vec<(TenantKey, JobId, Reason)> {
        let Some(tenant) = self.world.tenants.get(&key) else { return Vec::new() };
        let Some((gpu, job)) = self.world.gpus.get(tenant.gpu).zip(tenant.job_id) else { return Vec::new() };
        let running = self.world.tenants.values().filter(|other| other.gpu == tenant.gpu && other.runs());
        let victim = |other: &Tenant| {
            let lower = other.job_id?;
            Some((other.key, lower, gpu.displacements.reason(job, lower)?))
        };
        running.filter_map(victim).collect()
    }

    /// Returns whether one of the victims could never displace the tenant.
    pub(super) fn displaces_one_way(&self, key: TenantKey, victims: &[(TenantKey, JobId, Reason)]) -> bool {
        let Some(tenant) = self.world.tenants.get(&key) else { return false };
        let Some((gpu, job)) = self.world.gpus.get(tenant.gpu).zip(tenant.job_id) else { return false };
        victims.iter().any(|(_, lower, _)| gpu.displacements.is_one_way(job, *lower))
    }

    /// Records a burst that began while work ran which the policy could stop for it. In observe mode, reports the
    /// stops.
    pub(super) fn burst_began(&mut self, key: TenantKey, polled_before: Nanos, now: Nanos) {
        let Some(tenant) = self.world.tenants.get(&key) else { return };
        let (index, by) = (tenant.gpu, tenant.job.clone());
        let victims = self.displaceable(key);
        if victims.is_empty() {
            return;
        }
        let comparable = self.displaces_one_way(key, &victims);
        let any_stopped = self.world.tenants.values().filter(|other| other.gpu == index).any(Tenant::is_stopped);
        let enforce = self.config.mode == Mode::Enforce;
        let Some(place) = self.world.gpus.get_mut(index) else { return };
        let free = self.bursts.control_on(index).is_none() && !any_stopped && place.breaker.open().is_none();
        let control = enforce && comparable && free && place.breaker.choose_control(&self.config.breaker);
        if control {
            self.timers.wake_at(self.bursts.begin_control(index, key, now));
            self.pending.members_changed();
        }
        let watched_since = place.contested_since;
        let record = self.publisher.gpu(&place.about);
        record.inversions += 1;
        record.control_bursts += u64::from(control);
        // The work came after the last poll that did not show it, and not before it mattered.
        record.detection.note(now.since(polled_before.max(watched_since)));
        if let Some(tenant) = self.world.tenants.get_mut(&key) {
            tenant.last.contested = true;
            tenant.last.comparable = comparable;
            tenant.last.control = control;
            tenant.last.risen_at = now;
        }
        if !enforce {
            for (victim, _, reason) in victims {
                let kind = EventKind::WouldPreempt { reason: reason.to_wire(), by: by.clone() };
                self.note_by(victim, kind, by.as_deref());
            }
        }
    }

    pub(super) fn burst_ended(&mut self, key: TenantKey, now: Nanos) {
        let Some(tenant) = self.world.tenants.get_mut(&key) else { return };
        let last = tenant.last;
        tenant.last.contested = false;
        let gpu = tenant.gpu;
        if !last.contested {
            return;
        }
        let lasted = now.since(last.risen_at);
        if self.bursts.end_control(gpu, key) {
            self.pending.members_changed();
        }
        let Some(place) = self.world.gpus.get_mut(gpu) else { return };
        let record = self.publisher.gpu(&place.about);
        if self.config.mode == Mode::Observe {
            // What stopping costs comes off: a cycle, measured or estimated.
            let cost = self.core.gpu(place.index).map_or(Nanos::ZERO, |gpu| gpu.cycle);
            let winnable = last.waited.since(cost);
            record.inversion.note(lasted);
            record.winnable.note(winnable);
            let [lasted_us, winnable_us] = [lasted, winnable].map(|time| time.0 as f64 / 1e3);
            self.note(key, EventKind::InversionEnded { lasted_us, winnable_us });
            return;
        }
        if !last.comparable {
            // Jobs that take turns delay each other by design, with the daemon and without it.
            return;
        }
        if last.control {
            record.burst_control.note(lasted);
        } else {
            record.burst_protected.note(lasted);
        }
        if let Some(trip) = place.breaker.burst(lasted, last.control, now, &self.config.breaker) {
            self.tripped(gpu, trip);
        }
    }

    /// A gpu is left to the hardware for a while.
    pub(super) fn tripped(&mut self, gpu: GpuIndex, trip: super::breaker::Trip) {
        let address = self.world.gpus.get(gpu).map(|gpu| gpu.about.address.clone()).unwrap_or_default();
        let seconds = trip.pause.0 as f64 / 1e9;
        tracing::warn!("gpu {address} is left to the hardware for {seconds} s: {}", trip.reason);
        self.timers.wake_at(clock::now().plus(trip.pause));
        self.note_gpu(gpu, EventKind::BackedOff { message: trip.reason, seconds });
        self.pending.members_changed();
    }
}
