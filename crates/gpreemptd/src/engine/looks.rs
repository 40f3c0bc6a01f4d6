//! Looks at rings: what each tenant does, when bursts begin and end, and when somebody lower is in the way.

use gpreempt_core::{Activity, Nanos, Observation, Permille, Reason};
use gpreempt_proto::{EventKind, Mode};
use kfd::{GpuId, Pid};

use crate::clock;
use crate::control::wire::ToWire as _;
use crate::observe::{Eye, Look};
use crate::scout::{Errand, Sample};

use super::Engine;
use super::world::{Name, Session, Tenant};

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

/// A burst that was chosen to be left alone is protected after this time. One that takes longer needs no comparison.
const SPARED: Nanos = Nanos::from_millis(250);

impl Engine {
    /// The quick look between scans: at those whose work would displace others, and at all others while it does.
    pub(super) fn watch(&mut self, now: Nanos) {
        self.record.daemon.looks += 1;
        for gpu in 0..self.world.gpus.len() {
            if !self.world.gpus[gpu].contested {
                continue;
            }
            let upper = std::mem::take(&mut self.world.gpus[gpu].upper);
            let works = upper.iter().fold(false, |works, &name| self.look_unless_stopped(name, now) | works);
            self.world.gpus[gpu].upper = upper;
            if works {
                let lower = std::mem::take(&mut self.world.gpus[gpu].lower);
                for &name in &lower {
                    self.look_unless_stopped(name, now);
                }
                self.world.gpus[gpu].lower = lower;
            }
        }
        self.settle_bursts(now);
    }

    /// Looks at a tenant; whether it has work. A stopped one changes nothing by itself: scans are often enough for it.
    fn look_unless_stopped(&mut self, name: Name, now: Nanos) -> bool {
        if self.world.tenants.get(&name).is_none_or(Tenant::is_stopped) {
            return false;
        }
        self.look(name, now);
        self.world.tenants.get(&name).is_some_and(|tenant| tenant.seen.activity.has_work())
    }

    /// The look of a scan: at everybody where levels meet.
    pub(super) fn look_at_all(&mut self, now: Nanos) {
        let names: Vec<Name> = self
            .world
            .tenants
            .values()
            .filter(|tenant| self.world.gpus.get(tenant.gpu).is_some_and(|gpu| gpu.contested))
            .map(|tenant| tenant.name)
            .collect();
        for name in names {
            self.look(name, now);
        }
        self.settle_bursts(now);
    }

    /// One look for `ps`, also at those that nobody meets.
    pub(super) fn look_for_display(&mut self, now: Nanos) {
        let names: Vec<Name> = self.world.tenants.keys().copied().collect();
        for name in names {
            self.look(name, now);
        }
    }

    /// Looks at a tenant and tells the core.
    fn look(&mut self, name: Name, now: Nanos) {
        let Some(tenant) = self.world.tenants.get_mut(&name) else { return };
        let stopped = tenant.is_stopped();
        let before = tenant.seen;
        let look = match tenant.eye.as_mut().map(|eye| eye.look(now, stopped)) {
            Some(Ok(look)) => look,
            // Memory that cannot be read any more belongs to a process that ends, which the scout tells, or to one that
            // hides it: nobody is kept stopped for either.
            Some(Err(_)) => {
                let since = if before.activity.has_work() { now } else { before.since };
                Look { activity: Activity::Idle, since, pending: 0, unsure: false }
            }
            None => return,
        };
        if tenant.eye.as_ref().is_some_and(Eye::failed) && now.since(tenant.sought_at) >= SEEK_EVERY {
            tenant.sought_at = now;
            self.scout.tell(Errand::Lost(name.0));
        }
        let risen = look.activity.has_work() && !before.activity.has_work();
        let fallen = before.activity.has_work() && !look.activity.has_work();
        if before.activity == Activity::Wants {
            tenant.seen.waited = before.waited.plus(now.since(before.at));
        }
        tenant.seen.at = now;
        tenant.seen.activity = look.activity;
        tenant.seen.since = look.since;
        tenant.seen.pending = look.pending;
        if before.activity != look.activity {
            tenant.seen.changed_at = now;
            self.news = true;
        }
        if risen {
            tenant.seen.contested = false;
            tenant.seen.spared = false;
            tenant.seen.waited = Nanos::ZERO;
            self.risen.push((name, before.at));
        }
        if fallen {
            self.fallen.push(name);
        }
        self.tell_core(name);
        if look.unsure {
            self.sample(name, now);
        }
    }

    /// Tells the core what was last seen of a tenant.
    pub(super) fn observe_again(&mut self, name: Name, now: Nanos) {
        if let Some(tenant) = self.world.tenants.get_mut(&name) {
            tenant.seen.at = now;
        }
        self.tell_core(name);
    }

    fn tell_core(&mut self, name: Name) {
        let Some(tenant) = self.world.tenants.get(&name) else { return };
        let Some(id) = tenant.core else { return };
        let look = Observation {
            at: tenant.seen.at,
            activity: tenant.seen.activity,
            since: tenant.seen.since,
            occupancy: self.occupancy(tenant),
            queues: tenant.queues(),
            stopped_queues: tenant.stopped_queues(),
        };
        let _ = self.core.observe(id, look);
    }

    fn occupancy(&self, tenant: &Tenant) -> Option<Permille> {
        let (share, at) = tenant.occupancy?;
        (tenant.seen.at.since(at) <= SAMPLE_VALID).then_some(share)
    }

    /// Asks the driver how much of the gpu a tenant holds, if a decision hangs on it: where levels meet.
    fn sample(&mut self, name: Name, now: Nanos) {
        let Some(tenant) = self.world.tenants.get_mut(&name) else { return };
        let contested = self.world.gpus.get(tenant.gpu).is_some_and(|gpu| gpu.contested);
        if !contested || tenant.sampling || now.since(tenant.sampled_at) < SAMPLE_EVERY {
            return;
        }
        tenant.sampling = true;
        self.scout.tell(Errand::Sample(vec![(name.0, GpuId(name.1))]));
    }

    /// The driver answered.
    pub(super) fn sampled(&mut self, sample: Sample, now: Nanos) {
        let name = (sample.pid, sample.gpu.0);
        let Some(tenant) = self.world.tenants.get_mut(&name) else { return };
        tenant.sampling = false;
        tenant.sampled_at = now;
        // Waves that are saved, or on their way back, tell nothing by being away.
        let (gpu, away) = (tenant.gpu, tenant.is_stopped() || tenant.ordered.is_some());
        if away || sample.occupied_cus == Some(0) && self.is_bounced(gpu, sample.at) {
            return;
        }
        let Some(tenant) = self.world.tenants.get_mut(&name) else { return };
        let cus = self.world.gpus.get(gpu).map_or(1, |gpu| gpu.about.cus.max(1));
        tenant.occupancy = sample.occupied_cus.map(|held| {
            let share = u64::from(held) * 1000 / u64::from(cus);
            (Permille::new(u16::try_from(share).unwrap_or(u16::MAX)), sample.at)
        });
        let mut others = self.world.tenants.values().filter(|other| other.gpu == gpu && other.name != name);
        let alone = !others.any(|other| other.eye.is_none() || other.runs());
        if let Some(eye) = self.world.tenants.get_mut(&name).and_then(|tenant| tenant.eye.as_mut()) {
            eye.sampled(&sample, alone);
        }
        self.look(name, now);
        self.settle_bursts(now);
    }

    /// Whether waves may have been off a gpu then because of us: a call for anybody there is a cycle for all.
    fn is_bounced(&self, gpu: usize, at: Nanos) -> bool {
        let asked = |tenant: &Tenant| {
            let session = self.world.processes.get(&tenant.name.0).map(|process| &process.session);
            // One that waits for long waits for its process, and not for a gpu.
            let begins =
                |session: &Session| matches!(session, Session::Asked { at: asked } if at.since(*asked) < BEGINNING);
            tenant.ordered.is_some() || session.is_some_and(begins)
        };
        self.world.gpus.get(gpu).is_some_and(|gpu| at < gpu.bounced_at.plus(RESTORED))
            || self.world.tenants.values().any(|tenant| tenant.gpu == gpu && asked(tenant))
    }

    /// Calls for a process ended just now.
    pub(super) fn bounced(&mut self, pid: Pid, at: Nanos) {
        for tenant in self.world.tenants.values().filter(|tenant| tenant.name.0 == pid) {
            if let Some(gpu) = self.world.gpus.get_mut(tenant.gpu) {
                gpu.bounced_at = gpu.bounced_at.max(at);
            }
        }
    }

    /// Bursts that began and ended with the last looks.
    fn settle_bursts(&mut self, now: Nanos) {
        if !self.risen.is_empty() {
            let noticed = clock::now();
            for (name, _) in &self.risen {
                if let Some(tenant) = self.world.tenants.get_mut(name) {
                    tenant.seen.noticed_at = noticed;
                }
            }
        }
        for (name, looked_before) in std::mem::take(&mut self.risen) {
            self.burst_began(name, looked_before, now);
        }
        for name in std::mem::take(&mut self.fallen) {
            self.burst_ended(name, now);
        }
    }

    fn burst_began(&mut self, name: Name, looked_before: Nanos, now: Nanos) {
        let Some(tenant) = self.world.tenants.get(&name) else { return };
        let (gpu, level) = (tenant.gpu, tenant.level);
        let below = |other: &&Tenant| other.gpu == gpu && other.level.is_some() && other.level < level;
        let in_the_way: Vec<Name> =
            self.world.tenants.values().filter(below).filter(|other| other.runs()).map(|other| other.name).collect();
        if level.is_none() || in_the_way.is_empty() {
            return;
        }
        let any_stopped = self.world.tenants.values().filter(|other| other.gpu == gpu).any(Tenant::is_stopped);
        let enforce = self.config.mode == Mode::Enforce;
        let place = &mut self.world.gpus[gpu];
        let free = place.spared_for.is_none() && !any_stopped && place.breaker.open().is_none();
        let spared = enforce && free && place.breaker.spare(&self.config.breaker);
        if spared {
            place.spared_for = Some(name);
            place.spared_until = now.plus(SPARED);
            self.due = self.due.min(place.spared_until);
            self.changed = true;
        }
        let watched_since = place.contested_since;
        let record = self.record.gpu(place.about.id.0, &place.about.address);
        record.inversions += 1;
        record.sampled += u64::from(spared);
        // The work came after the last look that did not show it, and not before it mattered.
        record.detection.note(now.since(looked_before.max(watched_since)));
        if let Some(tenant) = self.world.tenants.get_mut(&name) {
            tenant.seen.contested = true;
            tenant.seen.spared = spared;
            tenant.seen.risen_at = now;
        }
        if !enforce {
            let by = self.world.tenants.get(&name).and_then(|tenant| tenant.job.clone());
            for victim in in_the_way {
                let kind = EventKind::WouldPreempt { reason: Reason::HigherWants.to_wire(), by: by.clone() };
                self.note_by(victim, kind, by.as_deref());
            }
        }
    }

    fn burst_ended(&mut self, name: Name, now: Nanos) {
        let Some(tenant) = self.world.tenants.get_mut(&name) else { return };
        let seen = tenant.seen;
        tenant.seen.contested = false;
        let gpu = tenant.gpu;
        if !seen.contested {
            return;
        }
        let lasted = now.since(seen.risen_at);
        let place = &mut self.world.gpus[gpu];
        if place.spared_for == Some(name) {
            place.spared_for = None;
            self.changed = true;
        }
        let record = self.record.gpu(place.about.id.0, &place.about.address);
        if self.config.mode == Mode::Observe {
            // What stopping costs comes off: a cycle, measured or estimated.
            let cost = self.core.gpu(place.slot).map_or(Nanos::ZERO, |gpu| gpu.cycle);
            let winnable = seen.waited.since(cost);
            record.inversion.note(lasted);
            record.winnable.note(winnable);
            let [lasted_us, winnable_us] = [lasted, winnable].map(|time| time.0 as f64 / 1e3);
            self.note(name, EventKind::InversionEnded { lasted_us, winnable_us });
            return;
        }
        if seen.spared {
            record.burst_sampled.note(lasted);
        } else {
            record.burst_protected.note(lasted);
        }
        if let Some(trip) = place.breaker.burst(lasted, seen.spared, now, &self.config.breaker) {
            self.tripped(gpu, trip);
        }
    }

    /// A gpu is left to the hardware for a while.
    pub(super) fn tripped(&mut self, gpu: usize, trip: super::breaker::Trip) {
        let address = self.world.gpus[gpu].about.address.clone();
        let seconds = trip.pause.0 as f64 / 1e9;
        tracing::warn!("gpu {address} is left to the hardware for {seconds} s: {}", trip.reason);
        self.ask_at(clock::now().plus(trip.pause));
        self.note_gpu(gpu, EventKind::BackedOff { message: trip.reason, seconds });
        self.changed = true;
    }

    /// What a tenant does, for display.
    pub(super) fn activity(tenant: &Tenant) -> Option<Activity> {
        tenant.eye.as_ref().map(|_| tenant.seen.activity)
    }
}
