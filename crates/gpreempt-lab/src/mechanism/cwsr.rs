//! Preemption by compute wave save and restore (CWSR), decided by `gpreempt-core` itself.
//!
//! This file is a host of the core, as the daemon is: it observes every task's queues, asks the core for a plan, calls
//! the driver and reports the results. The variants differ only in when they observe and in the cost of a call.
//!
//! A host that polls every 50 us need not be simulated every 50 us: between two events that an observation could show,
//! all observations are equal. An observation is therefore made at the first tick after such an event.

use std::collections::BTreeMap;

use gpreempt_core::{
    Action, Activity, ActuatorKind, Entry, GpuIndex, GpuParams, GpuSlot, JobParams, JobSlot, Level, Nanos, Observation,
    Parts, Permille, Report, Scheduler, TenantId, TenantSlot,
};

use super::{Mechanism, MechanismSpec};
use crate::machine::{CycleDone, Machine, SwitchPath, Ticket, micros};
use crate::profile::Profile;
use crate::workload::Workload;

/// When the host observes.
#[derive(Clone, Copy, Debug)]
enum Watch {
    /// At every tick of this period.
    Every(Nanos),
    /// When a task notifies the host of a submission, and at every tick of this period for everything else.
    Notified(Nanos),
}

/// A variant of the mechanism.
#[derive(Clone, Copy, Debug)]
struct Variant {
    watch: Watch,
    actuator: ActuatorKind,
    in_kernel: bool,
}

const SCAN: Nanos = Nanos::from_millis(5);
const FAST_SCAN: Nanos = Nanos::from_millis(1);
const WATCH: Nanos = Nanos::from_micros(50);

macro_rules! variant {
    ($name:ident, $called:literal, $about:literal, $watch:expr, $actuator:ident, $in_kernel:literal) => {
        pub(super) const $name: MechanismSpec = MechanismSpec {
            name: $called,
            about: $about,
            assumes: super::assumed_of_cwsr(&ActuatorKind::$actuator),
            build: |profile, workload| {
                let variant = Variant { watch: $watch, actuator: ActuatorKind::$actuator, in_kernel: $in_kernel };
                Box::new(Cwsr::new(variant, profile, workload))
            },
        };
    };
}

variant!(
    POLL_5MS,
    "cwsr-poll-5ms",
    "wave save/restore through the stock debug trap; scan every 5 ms",
    Watch::Every(SCAN),
    DebugTrap,
    false
);
variant!(POLL_1MS, "cwsr-poll-1ms", "the same; scan every millisecond", Watch::Every(FAST_SCAN), DebugTrap, false);
variant!(WATCHED, "cwsr-watch", "the same; ring pointers watched every 50 us", Watch::Every(WATCH), DebugTrap, false);
variant!(
    NOTIFY,
    "cwsr-notify",
    "the same; the online task tells when it submits",
    Watch::Notified(FAST_SCAN),
    DebugTrap,
    false
);
variant!(
    IOCTL,
    "cwsr-ioctl",
    "watch, and a patched driver: all stops and resumes in one cycle",
    Watch::Every(WATCH),
    Combined,
    false
);
variant!(
    KERNEL,
    "cwsr-kernel",
    "the same inside the kernel, woken by the first doorbell of a burst",
    Watch::Notified(FAST_SCAN),
    Combined,
    true
);

type Heap = Parts<Vec<GpuSlot>, Vec<JobSlot>, Vec<TenantSlot>, Vec<u32>, Vec<Entry>>;

/// A task's queue on one gpu, as the core knows it.
struct Tenant {
    id: TenantId,
    task: usize,
    gpu: usize,
    had_work: bool,
    since: Nanos,
}

/// The host.
struct Cwsr {
    variant: Variant,
    /// Time to wake the thread that observes, and time before a call reaches the driver.
    wakeup: Nanos,
    call: Nanos,
    core: Scheduler<Heap>,
    tenants: Vec<Tenant>,
    /// The entries of each call in progress.
    calls: BTreeMap<Ticket, Vec<Entry>>,
    /// The next scheduled observation, and the next decision that the core asked for.
    look_at: Nanos,
    wake_at: Nanos,
}

/// Returns the assumed time of a cycle before one was measured: a full gpu, saved to where this actuator saves. Rather
/// too long than too short, so that the first stops are not careless.
fn first_estimate(profile: &Profile, actuator: ActuatorKind) -> Nanos {
    let compute = &profile.compute;
    let kib = compute.cus.value * (compute.vgpr_kib_per_cu.value + compute.lds_kib_per_cu.value);
    let gb_s = match actuator {
        ActuatorKind::DebugTrap => profile.cycle.host_gb_s.value,
        ActuatorKind::Combined | ActuatorKind::PerQueue => profile.cycle.vram_gb_s.value,
    };
    // A gigabyte per second is a byte per nanosecond; a float cast saturates.
    let transfer = Nanos((kib * 1024.0 / gb_s) as u64);
    micros(&profile.cycle.firmware_us).plus(micros(&profile.cycle.grace_us)).plus(transfer)
}

/// Returns the time before a call reaches the driver's cycle. The daemon has its actuator make the call, in another
/// thread; the worker of a kernel makes it itself.
fn call_cost(variant: Variant, profile: &Profile) -> Nanos {
    let host = &profile.host;
    let call = micros(if variant.actuator == ActuatorKind::Combined { &host.switch_us } else { &host.ioctl_us });
    if variant.in_kernel { call } else { micros(&host.wakeup_us).plus(call) }
}

/// Token of all timers: every timer causes an observation.
const LOOK: u64 = 0;

impl Cwsr {
    fn new(variant: Variant, profile: &Profile, workload: &Workload) -> Cwsr {
        let gpus = workload.tasks.iter().flat_map(|task| task.gpus.iter().map(|gpu| gpu + 1));
        let gpus = gpus.max().unwrap_or(0).max(workload.gpus);
        let tenants = workload.tasks.iter().map(|task| task.gpus.len()).sum();
        let jobs = workload.tasks.len();
        let mut core = Scheduler::new(Parts {
            gpus: vec![GpuSlot::EMPTY; gpus],
            jobs: vec![JobSlot::EMPTY; jobs],
            tenants: vec![TenantSlot::EMPTY; tenants],
            order: vec![0; jobs],
            plan: vec![Entry::EMPTY; tenants],
        })
        .expect("the storage is made to measure, for no more gpus than workloads may have");
        let estimate = first_estimate(profile, variant.actuator);
        for gpu in 0..gpus {
            let params = GpuParams { cycle_estimate: estimate, ..GpuParams::default() };
            core.set_gpu(GpuIndex(gpu as u8), params).expect("a slot for every gpu");
        }
        let mut host = Cwsr {
            variant,
            wakeup: micros(if variant.in_kernel { &profile.host.kernel_us } else { &profile.host.wakeup_us }),
            call: call_cost(variant, profile),
            core,
            tenants: Vec::new(),
            calls: BTreeMap::new(),
            look_at: Nanos::NEVER,
            wake_at: Nanos::NEVER,
        };
        for (index, task) in workload.tasks.iter().enumerate() {
            let level = Level::new(task.level).unwrap_or(Level::MAX);
            let job = host.core.add_job(JobParams { level, ..JobParams::default() }).expect("a slot for every task");
            for &gpu in &task.gpus {
                let id = host.core.add_tenant(job, GpuIndex(gpu as u8), true).expect("a slot for every queue");
                host.tenants.push(Tenant { id, task: index, gpu, had_work: false, since: Nanos::ZERO });
            }
        }
        host
    }

    /// Returns the time between two observations: the period and the time to wake up. As it is no round number, ticks
    /// do not stay in phase with arrivals at a fixed rate.
    fn tick(&self) -> Nanos {
        let (Watch::Every(period) | Watch::Notified(period)) = self.variant.watch;
        period.plus(self.wakeup)
    }

    /// Schedules an observation at the next tick, which will show what has just happened.
    fn tick_will_show(&mut self, machine: &mut Machine) {
        let tick = self.tick().0;
        self.schedule(machine, Nanos((machine.now().0 / tick + 1) * tick));
    }

    fn schedule(&mut self, machine: &mut Machine, at: Nanos) {
        if at < self.look_at {
            self.look_at = at;
            machine.set_timer(at, LOOK);
        }
    }

    /// Observes every queue and asks the core for a plan.
    fn look(&mut self, machine: &mut Machine) {
        let now = machine.now();
        for tenant in &mut self.tenants {
            let Some(view) = machine.view(tenant.task, tenant.gpu) else {
                continue;
            };
            if view.unfinished != tenant.had_work {
                tenant.had_work = view.unfinished;
                tenant.since = now;
            }
            let activity = match (view.unfinished, view.resident > 0) {
                (false, _) => Activity::Idle,
                (true, false) => Activity::Wants,
                (true, true) => Activity::Running,
            };
            let look = Observation {
                at: now,
                activity,
                since: tenant.since,
                occupancy: Some(Permille::new(u16::try_from(view.occupancy_permille).unwrap_or(u16::MAX))),
                queues: 1,
                stopped_queues: u16::from(view.stopped),
            };
            self.core.observe(tenant.id, look).expect("tenants live as long as the run");
        }
        self.ask(machine);
    }

    fn ask(&mut self, machine: &mut Machine) {
        let plan = self.core.decide(machine.now(), &self.variant.actuator);
        let (wake, entries) = (plan.wake, plan.entries.to_vec());
        self.carry_out(machine, &entries);
        if wake != self.wake_at {
            self.wake_at = wake;
            if wake < Nanos::NEVER {
                machine.set_timer(wake, LOOK);
            }
        }
    }

    fn carry_out(&mut self, machine: &mut Machine, entries: &[Entry]) {
        let mut together: BTreeMap<usize, Vec<&Entry>> = BTreeMap::new();
        for entry in entries {
            if let Some(cause) = entry.why.cause.filter(|_| entry.action == Action::Preempt) {
                machine.detected(cause.index(), usize::from(entry.gpu.0));
            }
            match self.variant.actuator {
                ActuatorKind::Combined => together.entry(usize::from(entry.gpu.0)).or_default().push(entry),
                ActuatorKind::DebugTrap | ActuatorKind::PerQueue => {
                    self.switch(machine, &[entry], SwitchPath::DebugTrap);
                }
            }
        }
        for entries in together.into_values() {
            self.switch(machine, &entries, SwitchPath::Driver);
        }
    }

    /// Makes one call to the driver, for entries of one gpu. Jobs were added in the order of tasks and are never
    /// removed, so that the index of a job is that of its task.
    fn switch(&mut self, machine: &mut Machine, entries: &[&Entry], route: SwitchPath) {
        let Some(gpu) = entries.first().map(|entry| usize::from(entry.gpu.0)) else {
            return;
        };
        let tasks = |action| -> Vec<usize> {
            entries.iter().filter(|entry| entry.action == action).map(|entry| entry.job.index()).collect()
        };
        let ticket = machine.switch(gpu, &tasks(Action::Preempt), &tasks(Action::Resume), route, self.call);
        self.calls.insert(ticket, entries.iter().map(|&&entry| entry).collect());
    }
}

impl Mechanism for Cwsr {
    fn submitted(&mut self, machine: &mut Machine, _task: usize) {
        if let Watch::Notified(_) = self.variant.watch {
            let at = machine.now().plus(self.wakeup);
            self.schedule(machine, at);
        } else {
            self.tick_will_show(machine);
        }
    }

    fn drained(&mut self, machine: &mut Machine, _task: usize) {
        self.tick_will_show(machine);
    }

    fn timer(&mut self, machine: &mut Machine, _token: u64) {
        let now = machine.now();
        if now >= self.look_at || now >= self.wake_at {
            if now >= self.look_at {
                self.look_at = Nanos::NEVER;
            }
            self.look(machine);
        }
    }

    fn cycle_done(&mut self, machine: &mut Machine, done: CycleDone) {
        let Some(entries) = self.calls.remove(&done.ticket) else {
            return;
        };
        for (at, Entry { tenant, number, action, .. }) in entries.into_iter().enumerate() {
            let stopped_queues = Some(u16::from(action == Action::Preempt));
            // A call is one cycle, which the first of its entries has.
            let cycles = Some(u32::from(at == 0));
            let report = Report { at: machine.now(), took: done.cost, cycles, stopped_queues };
            // A call that took longer than the core waits is seen by the next look.
            let _ = self.core.report(tenant, number, report);
        }
        self.ask(machine);
    }
}
