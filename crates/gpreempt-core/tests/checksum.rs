//! Plans do not change by accident: random histories give the plans that an earlier version of the core gave.
//!
//! The histories come from a generator of this file and not from a library, so that only a change of the core can
//! change the result. A change of the core that is meant to change plans computes the constant anew and says why.

use gpreempt_core::{
    Action, Activity, ActuatorKind, Bound, Entry, EntryNumber, GpuIndex, GpuParams, GpuSlot, JobId, JobParams, JobSlot,
    Level, Nanos, Observation, Parts, Patience, Permille, PolicyKind, Reason, Report, Scheduler, TenantId, TenantSlot,
};

/// Checksum over [`PLANS`] plans, computed with the sources of commit 3e469db.
const RECORDED: u64 = 0x2875_08F7_C44C_AD80;
/// Plans with at least one entry that are folded into the checksum; those without one are folded, too, but do not
/// count.
const PLANS: u64 = 100_000;
/// Decisions per history.
const STEPS: u64 = 400;

const GPUS: usize = 4;
const JOBS: usize = 12;
const TENANTS: usize = 24;

type Core = Scheduler<Parts<Vec<GpuSlot>, Vec<JobSlot>, Vec<TenantSlot>, Vec<u32>, Vec<Entry>>>;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    /// Returns a number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns an index below `end`.
    fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// Returns true once in `n` calls.
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn micros(&mut self, end: u64) -> Nanos {
        Nanos::from_micros(self.below(end))
    }

    fn permille(&mut self) -> Permille {
        Permille::new(self.below(1001) as u16)
    }
}

/// FNV-1a over 64-bit numbers.
struct Checksum(u64);

impl Checksum {
    fn fold(&mut self, value: u64) {
        for byte in value.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}

fn action_number(action: Action) -> u64 {
    match action {
        Action::Preempt => 0,
        Action::Resume => 1,
    }
}

fn reason_number(reason: Reason) -> u64 {
    match reason {
        Reason::HigherWants => 0,
        Reason::SliceOver => 1,
        Reason::ShareDue => 2,
        Reason::LimitReached => 3,
        Reason::EarlierDeadline => 4,
        Reason::Held => 5,
        Reason::JobStopped => 6,
        Reason::NothingAbove => 7,
        Reason::TurnDue => 8,
        Reason::Aged => 9,
        Reason::StopShareSpent => 10,
        Reason::Released => 11,
        Reason::GaveUp => 12,
    }
}

fn bound_number(bound: Bound) -> u64 {
    match bound {
        Bound::Detection => 0,
        Bound::Patience => 1,
        Bound::Exempt => 2,
        Bound::Budget => 3,
        Bound::Small => 4,
        Bound::Linger => 5,
        Bound::Slice => 6,
        Bound::Age => 7,
        Bound::Retry => 8,
    }
}

struct Tenant {
    id: TenantId,
    alive: bool,
    look: Observation,
}

/// An entry that the driver carries out.
struct Call {
    tenant: usize,
    number: EntryNumber,
    action: Action,
    ends: Nanos,
    took: Nanos,
    refused: bool,
}

/// Counts over all histories, which show that the checksum covers every policy, action, reason and bound.
#[derive(Default)]
struct Seen {
    plans: u64,
    entries: u64,
    reasons: [u64; 13],
    bounds: [u64; 9],
}

struct History {
    random: Random,
    core: Core,
    actuator: ActuatorKind,
    now: Nanos,
    wake: Nanos,
    jobs: Vec<JobId>,
    tenants: Vec<Tenant>,
    calls: Vec<Call>,
}

fn gpu_params(random: &mut Random, policy: PolicyKind) -> GpuParams {
    GpuParams {
        policy,
        slice: if random.one_in(2) { Nanos::ZERO } else { Nanos::from_micros(500).plus(random.micros(5000)) },
        cycles_per_second: [0, 0, 500, 5000][random.index(4)],
        cycle_burst: 1 + random.below(40) as u32,
        linger_max: random.micros(3000),
        small: Permille::new(random.below(200) as u16),
        weigh: random.one_in(2),
        cycle_estimate: Nanos::from_micros(20).plus(random.micros(300)),
        report_timeout: Nanos::from_millis(20 + random.below(50)),
    }
}

fn job_params(random: &mut Random) -> JobParams {
    let time = Nanos::from_micros(random.below(800));
    let period = if random.one_in(2) { Nanos::ZERO } else { Nanos::from_millis(2 + random.below(20)) };
    JobParams {
        level: Level::new(random.below(16) as u8).expect("below 16"),
        patience: if random.one_in(2) { Patience::Fixed(time) } else { Patience::Adaptive { max: time } },
        min_run: random.micros(2000),
        max_stop: Nanos::from_millis(2 + random.below(60)),
        age_step: if random.one_in(2) { Nanos::ZERO } else { random.micros(8000) },
        stop_share: if random.one_in(2) { Permille::ALL } else { random.permille() },
        weight: random.below(300) as u16,
        request: Permille::new(random.below(400) as u16),
        limit: if random.one_in(2) { Permille::ALL } else { random.permille() },
        period,
        deadline: if random.one_in(2) { Nanos::ZERO } else { random.micros(20_000) },
        runtime: random.micros(3000),
    }
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = Random(seed);
        let parts = Parts {
            gpus: vec![GpuSlot::EMPTY; GPUS],
            jobs: vec![JobSlot::EMPTY; JOBS],
            tenants: vec![TenantSlot::EMPTY; TENANTS],
            order: vec![0; JOBS],
            plan: vec![Entry::EMPTY; TENANTS],
        };
        let mut core = Scheduler::new(parts).expect("the parts fit");
        let policies = [PolicyKind::Priority, PolicyKind::Fair, PolicyKind::Deadline];
        for gpu in 0..GPUS {
            // Most machines have one policy, some have a policy for each gpu.
            let policy = if seed % 4 == 3 { policies[random.index(3)] } else { policies[(seed % 4) as usize] };
            core.set_gpu(GpuIndex(gpu as u8), gpu_params(&mut random, policy)).expect("a slot");
        }
        let actuator = [ActuatorKind::DebugTrap, ActuatorKind::Combined, ActuatorKind::PerQueue][random.index(3)];
        let now = Nanos::from_millis(1);
        let (jobs, tenants, calls) = (Vec::new(), Vec::new(), Vec::new());
        let mut history = History { random, core, actuator, now, wake: now, jobs, tenants, calls };
        for _ in 0..2 + history.random.below(6) {
            let params = job_params(&mut history.random);
            history.jobs.push(history.core.add_job(params).expect("a slot"));
            for _ in 0..1 + history.random.below(3) {
                history.add_tenant(history.jobs.len() - 1);
            }
        }
        history
    }

    fn add_tenant(&mut self, job: usize) {
        let gpu = GpuIndex(self.random.index(GPUS) as u8);
        let stoppable = !self.random.one_in(12);
        let queues = 1 + self.random.below(4) as u16;
        // A machine that is full has no room for more.
        let Ok(id) = self.core.add_tenant(self.jobs[job], gpu, stoppable) else { return };
        let look = Observation { at: self.now, since: self.now, queues, ..Observation::default() };
        self.tenants.push(Tenant { id, alive: true, look });
    }

    /// Changes what one tenant does.
    fn turn(&mut self) {
        let at = self.random.index(self.tenants.len());
        let activities = [
            Activity::Idle,
            Activity::Wants,
            Activity::Running,
            Activity::Running,
            Activity::Blocked,
            Activity::Evicted,
        ];
        let activity = activities[self.random.index(6)];
        let occupancy = if self.random.one_in(3) { None } else { Some(self.random.permille()) };
        let look = &mut self.tenants[at].look;
        if look.activity.has_work() != activity.has_work() {
            look.since = self.now;
        }
        (look.activity, look.occupancy) = (activity, occupancy);
    }

    /// Changes settings, members or the machine.
    fn disturb(&mut self) {
        let job = self.random.index(self.jobs.len());
        let at = self.random.index(self.tenants.len());
        match self.random.below(8) {
            0 => {
                let params = job_params(&mut self.random);
                self.core.set_job(self.jobs[job], params).expect("known");
            }
            1 => self.add_tenant(job),
            2 if self.tenants.iter().filter(|tenant| tenant.alive).count() > 4 && self.tenants[at].alive => {
                self.tenants[at].alive = false;
                self.core.remove_tenant(self.tenants[at].id).expect("known");
            }
            3 => {
                let until = self.now.plus(self.random.micros(5000));
                self.core.hold(self.jobs[job], until).expect("known");
            }
            4 => self.core.release(self.jobs[job]).expect("known"),
            5 => {
                let (gpu, resetting) = (GpuIndex(self.random.index(GPUS) as u8), self.random.one_in(3));
                self.core.set_resetting(gpu, resetting).expect("known");
            }
            6 => self.tenants[at].look.queues += 1,
            7 if self.tenants[at].alive => {
                let stoppable = !self.random.one_in(4);
                self.core.set_stoppable(self.tenants[at].id, stoppable).expect("known");
            }
            _ => {}
        }
    }

    /// Reports the calls that have ended; one in forty reports gets lost.
    fn finish_calls(&mut self) {
        for call in std::mem::take(&mut self.calls) {
            if call.ends > self.now {
                self.calls.push(call);
                continue;
            }
            let tenant = &mut self.tenants[call.tenant];
            if !call.refused {
                tenant.look.stopped_queues = if call.action == Action::Preempt { tenant.look.queues } else { 0 };
            }
            let stopped_queues = (!call.refused).then_some(tenant.look.stopped_queues);
            if tenant.alive && !self.random.one_in(40) {
                let report = Report { at: call.ends, took: call.took, cycles: None, stopped_queues };
                self.core.report(tenant.id, call.number, report).expect("known");
            }
        }
    }

    fn observe(&mut self) {
        for tenant in self.tenants.iter_mut().filter(|tenant| tenant.alive) {
            // One look in sixteen is skipped, so that looks are of different age.
            if !self.random.one_in(16) {
                tenant.look.at = self.now;
                self.core.observe(tenant.id, tenant.look).expect("known");
            }
        }
    }

    /// Makes a decision, folds the plan and starts its calls.
    fn decide(&mut self, sum: &mut Checksum, seen: &mut Seen) {
        let plan = self.core.decide(self.now, &self.actuator);
        sum.fold(plan.entries.len() as u64);
        sum.fold(plan.wake.0);
        for gpu in plan.overcommitted {
            sum.fold(u64::from(gpu.0));
        }
        self.wake = plan.wake;
        seen.plans += u64::from(!plan.entries.is_empty());
        seen.entries += plan.entries.len() as u64;
        for entry in plan.entries {
            let tenant = self.tenants.iter().position(|tenant| tenant.id == entry.tenant).expect("known");
            let number = |job: JobId| self.jobs.iter().position(|&id| id == job).expect("known") as u64;
            let (reason, bound) = (reason_number(entry.why.reason), bound_number(entry.why.bound));
            seen.reasons[reason as usize] += 1;
            seen.bounds[bound as usize] += 1;
            sum.fold(tenant as u64);
            sum.fold(number(entry.job));
            sum.fold(u64::from(entry.gpu.0));
            sum.fold(action_number(entry.action));
            sum.fold(reason);
            sum.fold(bound);
            sum.fold(entry.why.after.0);
            sum.fold(entry.why.cause.map_or(u64::MAX, number));
            let took = Nanos::from_micros(20).plus(self.random.micros(400));
            let refused = self.random.one_in(20);
            let (number, action) = (entry.number, entry.action);
            self.calls.push(Call { tenant, number, action, ends: self.now.plus(took), took, refused });
        }
    }

    fn run(&mut self, sum: &mut Checksum, seen: &mut Seen) {
        for _ in 0..STEPS {
            let look = self.now.plus(Nanos::from_micros(50)).plus(self.random.micros(900));
            self.now = look.min(self.wake.max(self.now.plus(Nanos(1))));
            for _ in 0..self.random.below(3) {
                self.turn();
            }
            if self.random.one_in(10) {
                self.disturb();
            }
            self.finish_calls();
            self.observe();
            self.decide(sum, seen);
        }
    }
}

#[test]
fn plans_over_random_histories_have_the_recorded_checksum() {
    let mut sum = Checksum(0xCBF2_9CE4_8422_2325);
    let mut seen = Seen::default();
    let mut seed = 0;
    while seen.plans < PLANS {
        History::new(seed).run(&mut sum, &mut seen);
        seed += 1;
    }
    println!("{} plans, {} entries, {seed} histories", seen.plans, seen.entries);
    println!("reasons {:?}, bounds {:?}", seen.reasons, seen.bounds);
    assert!(seen.reasons.iter().chain(&seen.bounds).all(|&count| count > 20), "some reason or bound hardly occurs");
    assert_eq!(sum.0, RECORDED, "{:#018x}", sum.0);
}
