//! A machine with random jobs, and a driver that is slow, refuses and loses.

use core::ffi::c_int;

use gpreempt_kernel_abi::{RawActivity, RawPolicy};
use gpreempt_kernel_core::*;

use crate::interface::GpcxResult;
use crate::numbers::{Checksum, Random};
use crate::process::Process;
use crate::settings;

pub(crate) const GPUS: u32 = 4;
pub(crate) const JOBS: u32 = 12;
pub(crate) const TENANTS: u32 = 24;
const REPORTS: usize = 64;

const POLICIES: [RawPolicy; 3] = [RawPolicy::PRIORITY, RawPolicy::FAIR, RawPolicy::DEADLINE];

/// A tenant as the machine knows it; without a number there is none.
#[derive(Clone, Copy, Debug)]
struct Tenant {
    number: u64,
    job: u32,
    queues: u16,
    stopped: u16,
    activity: RawActivity,
    since: u64,
}

/// The result of an entry, which is told later.
#[derive(Clone, Copy, Debug)]
struct LateReport {
    due: u64,
    tenant: u64,
    number: u64,
    /// The slot of the tenant.
    slot: u32,
    preempt: bool,
    refused: bool,
    cycles: i32,
}

/// The machine. All zero is one without jobs.
#[derive(Debug)]
pub struct Machine {
    random: Random,
    checksum: Checksum,
    now: u64,
    gpc: *mut Gpc,
    jobs: [u64; JOBS as usize],
    tenants: [Tenant; TENANTS as usize],
    reports: [LateReport; REPORTS],
    entries: [GpcEntry; TENANTS as usize],
    process: Process,
    pub(crate) result: GpcxResult,
}

impl Machine {
    /// Sets a machine up whose memory is zero. `gpc` is a scheduler for as many as the constants say, `probe` one of
    /// all rings of a process.
    pub(crate) fn begin(&mut self, gpc: *mut Gpc, probe: *mut GpcProbe, seed: u64) {
        self.random = Random::new(seed);
        self.checksum = Checksum::EMPTY;
        self.now = 1_000_000;
        self.gpc = gpc;
        for gpu in 0..GPUS {
            self.set_gpu(gpu);
        }
        for slot in 0..JOBS {
            self.add_job(slot);
        }
        for slot in 0..TENANTS {
            self.add_tenant(slot);
        }
        self.process.begin(probe, &mut self.random, &mut self.checksum);
    }

    /// Lets time pass and things happen, and has the core decide.
    pub(crate) fn step(&mut self, clock: Option<extern "C" fn() -> u64>) {
        let pause = self.random.one_of(&[0, 20_000, 200_000, 200_000, 2_000_000, 40_000_000], 0);
        self.now += u64::from(self.random.below(pause + 1));
        if self.random.once_in(8) {
            self.change();
        }
        for _ in 0..=self.random.below(4) {
            let slot = self.random.below(TENANTS);
            self.look_at(slot);
        }
        self.tell_reports();
        self.decide(clock);
        if self.random.once_in(8) {
            self.read_state();
        }
        if self.random.once_in(4) {
            self.process.step(self.now, &mut self.random, &mut self.checksum);
            self.result.polls += 1;
        }
        self.result.checksum = self.checksum.0;
    }

    /// Takes the answer of a call in.
    fn note(&mut self, answer: c_int) {
        self.checksum.add(answer as u32 as u64);
    }

    /// Gives a gpu other settings. Each of the first three keeps its policy, the last changes it.
    fn set_gpu(&mut self, gpu: u32) {
        let any = self.random.one_of(&POLICIES, RawPolicy::PRIORITY);
        let policy = POLICIES.get(gpu as usize).copied().unwrap_or(any);
        let params = settings::gpu(&mut self.random, policy);
        // SAFETY: the scheduler lies there, and the settings are ours.
        self.note(unsafe { gpc_set_gpu(self.gpc, gpu, &params) });
    }

    fn job(&self, slot: u32) -> u64 {
        self.jobs.get(slot as usize).copied().unwrap_or(0)
    }

    fn tenant(&self, slot: u32) -> Option<Tenant> {
        self.tenants.get(slot as usize).copied().filter(|tenant| tenant.number != 0)
    }

    fn add_job(&mut self, slot: u32) {
        let params = settings::job(&mut self.random);
        let mut job = 0;
        // SAFETY: the scheduler lies there, and the others are ours.
        self.note(unsafe { gpc_add_job(self.gpc, &params, &mut job) });
        self.checksum.add(job);
        if let Some(place) = self.jobs.get_mut(slot as usize) {
            *place = job;
        }
    }

    fn add_tenant(&mut self, slot: u32) {
        let (job, gpu) = (self.random.below(JOBS), self.random.below(GPUS));
        let stoppable = !self.random.once_in(16);
        let queues = 1 + self.random.below(6) as u16;
        let mut number = 0;
        // SAFETY: the scheduler lies there, and the number is ours.
        self.note(unsafe { gpc_add_tenant(self.gpc, self.job(job), gpu, stoppable, &mut number) });
        self.checksum.add(number);
        if let Some(place) = self.tenants.get_mut(slot as usize) {
            *place = Tenant { number, job, queues, stopped: 0, activity: RawActivity::IDLE, since: self.now };
        }
    }

    /// Changes gpus, jobs or tenants.
    fn change(&mut self) {
        let (gpu, slot, tenant) = (self.random.below(GPUS), self.random.below(JOBS), self.random.below(TENANTS));
        let (job, number) = (self.job(slot), self.tenant(tenant).map_or(0, |tenant| tenant.number));
        let gpc = self.gpc;
        match self.random.below(8) {
            0 => self.set_gpu(gpu),
            1 => {
                let params = settings::job(&mut self.random);
                // SAFETY: the scheduler lies there, and the settings are ours.
                self.note(unsafe { gpc_set_job(gpc, job, &params) });
            }
            2 => {
                let until = self.random.one_of(&[0, 0, self.now + 3_000_000], 0);
                // SAFETY: the scheduler lies there.
                self.note(unsafe { gpc_hold(gpc, job, until) });
            }
            3 | 4 => {
                // SAFETY: the scheduler lies there.
                self.note(unsafe { gpc_remove_tenant(gpc, number) });
                self.add_tenant(tenant);
            }
            5 => {
                // SAFETY: the scheduler lies there.
                let removed = unsafe { gpc_remove_job(gpc, job) };
                self.note(removed);
                let has_tenants = self.tenants.iter().any(|tenant| tenant.number != 0 && tenant.job == slot);
                if removed == 0 || !has_tenants {
                    self.add_job(slot);
                }
            }
            6 => {
                let stoppable = !self.random.once_in(4);
                // SAFETY: the scheduler lies there.
                self.note(unsafe { gpc_set_stoppable(gpc, number, stoppable) });
            }
            _ => {
                let resetting = self.random.once_in(3);
                // SAFETY: the scheduler lies there.
                let (set, removed) = unsafe { (gpc_set_resetting(gpc, gpu, resetting), gpc_remove_gpu(gpc, gpu + 1)) };
                self.note(set);
                self.note(removed);
                if removed == 0 {
                    self.set_gpu(gpu + 1);
                }
            }
        }
    }

    /// Lets a tenant do something else, or not, and tells the core.
    fn look_at(&mut self, slot: u32) {
        let changes = self.random.once_in(2);
        let kinds = [
            RawActivity::IDLE,
            RawActivity::IDLE,
            RawActivity::WANTS,
            RawActivity::RUNNING,
            RawActivity::RUNNING,
            RawActivity::BLOCKED,
            RawActivity::EVICTED,
            RawActivity::UNKNOWN,
        ];
        let activity = self.random.one_of(&kinds, RawActivity::IDLE);
        let occupancy = self.random.one_of(&[-1, -1, 30, 250, 1000, 1001], -1);
        let (now, gpc) = (self.now, self.gpc);
        let Some(tenant) = self.tenants.get_mut(slot as usize).filter(|tenant| tenant.number != 0) else { return };
        if changes {
            (tenant.activity, tenant.since) = (activity, now);
        }
        let look = GpcLook {
            at_ns: now,
            since_ns: tenant.since,
            activity: tenant.activity,
            occupancy,
            queues: tenant.queues,
            stopped: tenant.stopped,
            reserved: 0,
        };
        let number = tenant.number;
        // SAFETY: the scheduler lies there, and the look is ours.
        let (answer, wanted) = unsafe { (gpc_observe(gpc, number, &look), gpc_wants_occupancy(gpc, number)) };
        self.note(answer);
        self.checksum.add(u64::from(wanted));
    }

    /// Tells results that are due. Some are of tenants that went meanwhile.
    fn tell_reports(&mut self) {
        for index in 0..REPORTS {
            let Some(late) = self.reports.get_mut(index).filter(|late| late.number != 0 && late.due <= self.now) else {
                continue;
            };
            let told = *late;
            late.number = 0;
            let tenant = self.tenants.get_mut(told.slot as usize).filter(|tenant| tenant.number == told.tenant);
            let mut stopped = -1;
            if let Some(tenant) = tenant.filter(|_| !told.refused) {
                tenant.stopped = if told.preempt { tenant.queues } else { 0 };
                stopped = i32::from(tenant.stopped);
            }
            let took_ns = 100_000 + u64::from(self.random.below(200_000));
            let report = GpcReport { at_ns: told.due, took_ns, cycles: told.cycles, stopped };
            // SAFETY: the scheduler lies there, and the report is ours.
            self.note(unsafe { gpc_report(self.gpc, told.tenant, told.number, &report) });
        }
    }

    /// Has the core decide, and takes the plan in.
    fn decide(&mut self, clock: Option<extern "C" fn() -> u64>) {
        let mut wake = 0;
        let entries = self.entries.as_mut_ptr();
        let begin = clock.map_or(0, |clock| clock());
        // SAFETY: the scheduler lies there, and there is room for an entry of each tenant.
        let count = unsafe { gpc_decide(self.gpc, self.now, entries, TENANTS, &mut wake) };
        let took = clock.map_or(0, |clock| clock()).wrapping_sub(begin);
        self.result.decide_ns += took;
        self.result.longest_ns = self.result.longest_ns.max(took);
        self.result.decisions += 1;
        self.result.plans += u64::from(count > 0);
        self.note(count);
        self.checksum.add(wake);
        for index in 0..usize::try_from(count).unwrap_or(0) {
            let Some(entry) = self.entries.get(index).copied() else { continue };
            self.result.entries += 1;
            self.result.preempts += u64::from(entry.preempt);
            for word in [entry.number, entry.tenant, entry.job, entry.cause, entry.after_ns] {
                self.checksum.add(word);
            }
            for word in [entry.gpu, entry.preempt, entry.reason.0, entry.bound.0] {
                self.checksum.add(u64::from(word));
            }
            self.carry_out(&entry, index == 0);
        }
    }

    /// Carries an entry out: at once or later, or not at all.
    fn carry_out(&mut self, entry: &GpcEntry, is_first: bool) {
        if self.random.once_in(24) {
            return;
        }
        let pause = self.random.one_of(&[0, 200_000, 300_000, 30_000_000], 0);
        let refused = self.random.once_in(16);
        let cycles = if self.random.once_in(8) { -1 } else { i32::from(is_first) };
        let found = self.tenants.iter().position(|tenant| tenant.number == entry.tenant);
        let Some(slot) = found.and_then(|slot| u32::try_from(slot).ok()) else { return };
        let late = LateReport {
            due: self.now + u64::from(self.random.below(pause + 1)),
            tenant: entry.tenant,
            number: entry.number,
            slot,
            preempt: entry.preempt != 0,
            refused,
            cycles,
        };
        // Without a free place it is lost.
        if let Some(place) = self.reports.iter_mut().find(|place| place.number == 0) {
            *place = late;
        }
    }

    /// Takes in what the core says of a job and a gpu.
    fn read_state(&mut self) {
        let (upper, lower) = (self.random.below(JOBS), self.random.below(JOBS));
        let (upper, lower, gpu) = (self.job(upper), self.job(lower), self.random.below(GPUS + 1));
        let (mut job_state, mut gpu_state) = (GpcJobState::default(), GpcGpuState::default());
        // SAFETY: the scheduler lies there, and the states are ours.
        let (answers, throttles) = unsafe {
            let answers = [
                gpc_job_state(self.gpc, upper, &mut job_state),
                gpc_gpu_state(self.gpc, gpu, &mut gpu_state),
                gpc_could_displace(self.gpc, upper, lower, gpu),
            ];
            (answers, gpc_could_throttle(self.gpc, lower, gpu))
        };
        answers.into_iter().for_each(|answer| self.note(answer));
        let words = [job_state.cause, job_state.stopped_at_ns, gpu_state.holder, gpu_state.cycle_ns, gpu_state.cycles];
        words.into_iter().for_each(|word| self.checksum.add(word));
        let reason = if job_state.stopped != 0 { job_state.reason.0 } else { 0 };
        for word in [job_state.stopped, reason, job_state.works, gpu_state.measured, gpu_state.overcommitted] {
            self.checksum.add(u64::from(word));
        }
        self.checksum.add(u64::from(throttles));
    }
}
