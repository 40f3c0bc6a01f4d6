//! The C functions: what they refuse, and two short stories.

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

use gpreempt_core::{GpuParams, JobParams, Level, Nanos, Patience};
use gpreempt_kernel_abi::{RawActivity, RawGpuParams, RawJobParams, RawPolicy, RawReason};
use gpreempt_kernel_core::*;

const ENOENT: c_int = -2;
const EAGAIN: c_int = -11;
const EFAULT: c_int = -14;
const EBUSY: c_int = -16;
const EINVAL: c_int = -22;
const ENOSPC: c_int = -28;
const ESTALE: c_int = -116;

/// Memory aligned as the functions want it.
#[derive(Clone)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; 64],
}

fn lines(bytes: usize) -> Vec<Line> {
    vec![Line { _bytes: [0xA5; 64] }; bytes.div_ceil(64)]
}

/// A scheduler for two gpus, two jobs and three tenants, and the memory it lies in.
struct Scene {
    memory: Vec<Line>,
    entries: [GpcEntry; 3],
    wake: u64,
}

impl Scene {
    fn new() -> Scene {
        let size = gpc_size(2, 2, 3);
        let mut memory = lines(size);
        // SAFETY: there are so many bytes.
        assert_eq!(unsafe { gpc_init(memory.as_mut_ptr().cast(), size, 2, 2, 3) }, 0);
        Scene { memory, entries: [GpcEntry::default(); 3], wake: 0 }
    }

    fn gpc(&mut self) -> *mut Gpc {
        self.memory.as_mut_ptr().cast()
    }

    fn set_gpu(&mut self, gpu: u32) -> c_int {
        let params = RawGpuParams::from(GpuParams::default());
        // SAFETY: both are ours.
        unsafe { gpc_set_gpu(self.gpc(), gpu, &params) }
    }

    fn add_job(&mut self, level: u8) -> Result<u64, c_int> {
        let params = JobParams {
            level: Level::new(level).unwrap(),
            patience: Patience::Fixed(Nanos::ZERO),
            ..JobParams::default()
        };
        let mut job = 0;
        // SAFETY: all of them are ours.
        let answer = unsafe { gpc_add_job(self.gpc(), &RawJobParams::from(params), &mut job) };
        if answer == 0 { Ok(job) } else { Err(answer) }
    }

    fn add_tenant(&mut self, job: u64, gpu: u32) -> Result<u64, c_int> {
        let mut tenant = 0;
        // SAFETY: both are ours.
        let answer = unsafe { gpc_add_tenant(self.gpc(), job, gpu, true, &mut tenant) };
        if answer == 0 { Ok(tenant) } else { Err(answer) }
    }

    fn observe(&mut self, tenant: u64, look: GpcLook) -> c_int {
        // SAFETY: both are ours.
        unsafe { gpc_observe(self.gpc(), tenant, &look) }
    }

    fn report(&mut self, entry: &GpcEntry, stopped: i32) -> c_int {
        let report = GpcReport { at_ns: 6_000_000, took_ns: 200_000, cycles: 1, stopped };
        // SAFETY: both are ours.
        unsafe { gpc_report(self.gpc(), entry.tenant, entry.number, &report) }
    }

    fn decide(&mut self, now_ns: u64) -> c_int {
        let (gpc, entries) = (self.gpc(), self.entries.as_mut_ptr());
        // SAFETY: all of them are ours.
        unsafe { gpc_decide(gpc, now_ns, entries, 3, &mut self.wake) }
    }
}

const RUNNING: GpcLook = GpcLook {
    at_ns: 5_000_000,
    since_ns: 5_000_000,
    activity: RawActivity::RUNNING,
    occupancy: -1,
    queues: 4,
    stopped: 0,
    reserved: 0,
};

#[test]
fn a_lower_tenant_is_stopped_for_a_higher_job_and_resumed() {
    let mut scene = Scene::new();
    assert_eq!(scene.set_gpu(0), 0);
    let (online, offline) = (scene.add_job(12).unwrap(), scene.add_job(3).unwrap());
    let (a, b) = (scene.add_tenant(online, 0).unwrap(), scene.add_tenant(offline, 0).unwrap());
    assert_eq!((scene.observe(a, RUNNING), scene.observe(b, RUNNING)), (0, 0));
    assert_eq!(scene.decide(5_000_000), 1);
    let entry = scene.entries[0];
    assert_eq!((entry.tenant, entry.job, entry.cause, entry.preempt), (b, offline, online, 1));
    assert_eq!((entry.gpu, entry.reason), (0, RawReason::HIGHER_WANTS));
    assert_eq!(scene.report(&entry, 4), 0);
    assert_eq!(scene.report(&entry, 4), ESTALE, "it was reported");

    let (mut job, mut gpu) = (GpcJobState::default(), GpcGpuState::default());
    // SAFETY: all of them are ours.
    unsafe {
        assert_eq!(gpc_job_state(scene.gpc(), offline, &mut job), 0);
        assert_eq!(gpc_gpu_state(scene.gpc(), 0, &mut gpu), 0);
        assert_eq!(gpc_could_displace(scene.gpc(), online, offline, 0), 0);
        assert_eq!(gpc_could_displace(scene.gpc(), offline, online, 0), ENOENT);
        assert!(!gpc_could_throttle(scene.gpc(), offline, 0));
    }
    assert_eq!((job.stopped, job.cause, job.reason), (1, online, RawReason::HIGHER_WANTS));
    assert_eq!((gpu.holder, gpu.measured, gpu.cycles), (online, 1, 1));

    let idle = GpcLook { at_ns: 9_000_000, since_ns: 9_000_000, activity: RawActivity::IDLE, ..RUNNING };
    assert_eq!(scene.observe(a, idle), 0);
    assert_eq!(scene.decide(20_000_000), 1);
    assert_eq!((scene.entries[0].tenant, scene.entries[0].preempt), (b, 0));
}

#[test]
fn sizes_that_cannot_be_are_zero_and_refused() {
    for (gpus, jobs, tenants) in
        [(0, 1, 1), (1, 0, 1), (1, 1, 0), (65, 1, 1), (1, 1025, 1), (1, 1, 4097), (u32::MAX, u32::MAX, u32::MAX)]
    {
        assert_eq!(gpc_size(gpus, jobs, tenants), 0);
        let mut memory = lines(1 << 16);
        // SAFETY: there are so many bytes.
        assert_eq!(unsafe { gpc_init(memory.as_mut_ptr().cast(), 1 << 16, gpus, jobs, tenants) }, EINVAL);
    }
    assert!(gpc_size(64, 1024, 4096) > 0 && gpc_probe_size(1024) > gpc_probe_size(1));
    assert_eq!((gpc_probe_size(0), gpc_probe_size(1025)), (0, 0));
}

#[test]
fn memory_that_is_too_small_or_misaligned_is_refused() {
    let (scheduler, probe) = (gpc_size(1, 1, 1), gpc_probe_size(1));
    let mut memory = lines(scheduler + probe);
    let start: *mut c_void = memory.as_mut_ptr().cast();
    // SAFETY: there are so many bytes, one line more than each needs.
    unsafe {
        let shifted = start.byte_add(32);
        assert_eq!(gpc_init(null_mut(), scheduler, 1, 1, 1), EINVAL);
        assert_eq!(gpc_init(shifted, scheduler, 1, 1, 1), EINVAL);
        assert_eq!(gpc_init(start, scheduler - 1, 1, 1, 1), EINVAL);
        assert_eq!(gpc_init(start, scheduler, 1, 1, 1), 0);
        assert_eq!(gpc_probe_init(null_mut(), probe, 1), EINVAL);
        assert_eq!(gpc_probe_init(shifted, probe, 1), EINVAL);
        assert_eq!(gpc_probe_init(start, probe - 1, 1), EINVAL);
        assert_eq!(gpc_probe_init(start, probe, 1), 0);
    }
}

#[test]
fn only_a_scheduler_where_it_was_made_is_a_scheduler() {
    let mut scene = Scene::new();
    let mut moved = scene.memory.clone();
    let mut nothing = lines(64);
    let misaligned = scene.gpc().wrapping_byte_add(8);
    for wrong in [null_mut(), misaligned, moved.as_mut_ptr().cast(), nothing.as_mut_ptr().cast::<Gpc>()] {
        let (mut job, mut wake, mut entry) = (0, 0, GpcEntry::default());
        let (gpu, params) = (GpuParams::default().into(), JobParams::default().into());
        // SAFETY: what is neither null nor misaligned can be read.
        unsafe {
            assert_eq!(gpc_set_gpu(wrong, 0, &gpu), EINVAL);
            assert_eq!(gpc_remove_gpu(wrong, 0), EINVAL);
            assert_eq!(gpc_set_resetting(wrong, 0, true), EINVAL);
            assert_eq!(gpc_add_job(wrong, &params, &mut job), EINVAL);
            assert_eq!(gpc_set_job(wrong, 1, &params), EINVAL);
            assert_eq!(gpc_hold(wrong, 1, 0), EINVAL);
            assert_eq!(gpc_remove_job(wrong, 1), EINVAL);
            assert_eq!(gpc_add_tenant(wrong, 1, 0, true, &mut job), EINVAL);
            assert_eq!(gpc_set_stoppable(wrong, 1, true), EINVAL);
            assert_eq!(gpc_remove_tenant(wrong, 1), EINVAL);
            assert_eq!(gpc_observe(wrong, 1, &RUNNING), EINVAL);
            assert_eq!(gpc_report(wrong, 1, 1, &GpcReport::default()), EINVAL);
            assert_eq!(gpc_decide(wrong, 0, &mut entry, 3, &mut wake), EINVAL);
            assert_eq!(gpc_job_state(wrong, 1, &mut GpcJobState::default()), EINVAL);
            assert_eq!(gpc_gpu_state(wrong, 0, &mut GpcGpuState::default()), EINVAL);
            assert_eq!(gpc_could_displace(wrong, 1, 2, 0), EINVAL);
            assert!(!gpc_wants_occupancy(wrong, 1) && !gpc_could_throttle(wrong, 1, 0));
            let probe = wrong.cast::<GpcProbe>();
            assert_eq!(gpc_probe_set_rings(probe, null(), 0), EINVAL);
            assert_eq!(gpc_probe_index(probe), EINVAL);
            assert_eq!(gpc_probe_refute(probe), EINVAL);
        }
        assert_eq!((job, wake), (0, 0));
    }
    // SAFETY: it is a scheduler, and no probe.
    assert_eq!(unsafe { gpc_probe_index(scene.gpc().cast()) }, EINVAL);
    assert_eq!(scene.decide(0), 0);
}

#[test]
fn null_and_misaligned_arguments_change_nothing() {
    let mut scene = Scene::new();
    scene.set_gpu(0);
    let job = scene.add_job(1).unwrap();
    let gpc = scene.gpc();
    let params = RawJobParams::from(JobParams::default());
    let mut numbers = [0_u64; 2];
    let odd = numbers.as_mut_ptr().wrapping_byte_add(4);
    // SAFETY: what is neither null nor misaligned is ours.
    unsafe {
        assert_eq!(gpc_set_gpu(gpc, 0, null()), EINVAL);
        assert_eq!(gpc_add_job(gpc, null(), &mut numbers[0]), EINVAL);
        assert_eq!(gpc_add_job(gpc, &params, null_mut()), EINVAL);
        assert_eq!(gpc_add_job(gpc, &params, odd), EINVAL);
        assert_eq!(gpc_set_job(gpc, job, (&raw const params).wrapping_byte_add(1)), EINVAL);
        assert_eq!(gpc_add_tenant(gpc, job, 0, true, null_mut()), EINVAL);
        assert_eq!(gpc_observe(gpc, 1, null()), EINVAL);
        assert_eq!(gpc_report(gpc, 1, 1, null()), EINVAL);
        assert_eq!(gpc_decide(gpc, 0, null_mut(), 3, &mut numbers[0]), EINVAL);
        assert_eq!(gpc_decide(gpc, 0, scene.entries.as_mut_ptr(), 3, null_mut()), EINVAL);
        assert_eq!(gpc_decide(gpc, 0, scene.entries.as_mut_ptr(), 2, &mut numbers[0]), EINVAL, "too little room");
        assert_eq!(gpc_job_state(gpc, job, null_mut()), EINVAL);
        assert_eq!(gpc_gpu_state(gpc, 0, null_mut()), EINVAL);
    }
    assert!(scene.add_job(2).is_ok(), "no slot was taken");
}

#[test]
fn values_out_of_range_are_refused() {
    let mut scene = Scene::new();
    scene.set_gpu(0);
    let job = scene.add_job(1).unwrap();
    let tenant = scene.add_tenant(job, 0).unwrap();
    for wrong in [
        GpcLook { activity: RawActivity::UNKNOWN, ..RUNNING },
        GpcLook { activity: RawActivity(6), ..RUNNING },
        GpcLook { occupancy: 1001, ..RUNNING },
        GpcLook { occupancy: -2, ..RUNNING },
        GpcLook { reserved: 1, ..RUNNING },
    ] {
        assert_eq!(scene.observe(tenant, wrong), EINVAL, "{wrong:?}");
    }
    let gpu = RawGpuParams { policy: RawPolicy(3), ..GpuParams::default().into() };
    let params = RawJobParams { level: 16, ..JobParams::default().into() };
    // SAFETY: all of them are ours.
    unsafe {
        assert_eq!(gpc_set_gpu(scene.gpc(), 0, &gpu), EINVAL);
        assert_eq!(gpc_set_job(scene.gpc(), job, &params), EINVAL);
        assert_eq!(gpc_set_resetting(scene.gpc(), 64, true), EINVAL, "no gpu can have that index");
        let report = GpcReport { stopped: 65_536, ..GpcReport::default() };
        assert_eq!(gpc_report(scene.gpc(), tenant, 1, &report), EINVAL);
    }
}

#[test]
fn what_is_not_there_is_in_use_or_has_no_room_is_told_apart() {
    let mut scene = Scene::new();
    assert_eq!(scene.set_gpu(2), ENOENT, "there are slots for two");
    assert_eq!(scene.set_gpu(0), 0);
    let (one, two) = (scene.add_job(1).unwrap(), scene.add_job(2).unwrap());
    assert_eq!(scene.add_job(3), Err(ENOSPC));
    assert_eq!((scene.add_tenant(0, 0), scene.add_tenant(one, 1)), (Err(ENOENT), Err(ENOENT)));
    let tenants: Vec<u64> = (0..3).map(|_| scene.add_tenant(one, 0).unwrap()).collect();
    assert_eq!(scene.add_tenant(one, 0), Err(ENOSPC));
    let gpc = scene.gpc();
    // SAFETY: the scheduler is ours.
    unsafe {
        assert_eq!((gpc_remove_gpu(gpc, 0), gpc_remove_job(gpc, one)), (EBUSY, EBUSY));
        assert_eq!((gpc_remove_job(gpc, two), gpc_remove_job(gpc, two)), (0, ENOENT));
        assert_eq!((gpc_hold(gpc, one, 9), gpc_hold(gpc, two, 9), gpc_hold(gpc, 0, 9)), (0, ENOENT, ENOENT));
        assert_eq!(gpc_job_state(gpc, two, &mut GpcJobState::default()), ENOENT);
        assert_eq!(gpc_gpu_state(gpc, 1, &mut GpcGpuState::default()), ENOENT);
        assert_eq!(gpc_remove_tenant(gpc, tenants[0]), 0);
        assert_eq!((gpc_remove_tenant(gpc, tenants[0]), gpc_set_stoppable(gpc, tenants[0], true)), (ENOENT, ENOENT));
    }
    assert_eq!(scene.observe(tenants[0], RUNNING), ENOENT);
    let again = scene.add_tenant(one, 0).unwrap();
    assert_ne!(again, tenants[0], "another tenant in the same slot has another number");
}

/// A page of a process from 0x1000 on, and what reads of it return.
struct Page {
    bytes: [u8; 4096],
    answer: c_int,
}

unsafe extern "C" fn read_page(context: *mut c_void, address: u64, to: *mut c_void, size: usize) -> c_int {
    // SAFETY: the context of these tests is a page.
    let page = unsafe { &*context.cast::<Page>() };
    let at = usize::try_from(address.wrapping_sub(0x1000)).unwrap();
    assert!(size <= 4096);
    match page.bytes.get(at..at.saturating_add(size)) {
        Some(bytes) if page.answer == 0 => {
            // SAFETY: there is room for so many.
            unsafe { to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), size) };
            0
        }
        Some(_) => page.answer,
        None => 1,
    }
}

#[test]
fn a_probe_says_what_the_queues_of_a_process_do() {
    let size = gpc_probe_size(1);
    let mut memory = lines(size);
    let probe: *mut GpcProbe = memory.as_mut_ptr().cast();
    let mut page = Page { bytes: [0; 4096], answer: 0 };
    let reader = GpcMemory { read: Some(read_page), context: (&raw mut page).cast() };
    let ring = GpcRing { base: 0x1400, bytes: 1024, read_index: 0x1000, write_index: 0x1080, is_aql: 1, reserved: 0 };
    let mut found = GpcActivity { activity: RawActivity::UNKNOWN, ..GpcActivity::default() };
    // SAFETY: all of them are ours, and used by one call at a time.
    unsafe {
        assert_eq!(gpc_probe_init(probe.cast(), size, 1), 0);
        assert_eq!(gpc_probe_set_rings(probe, &ring, 1), 0);
        assert_eq!(gpc_probe_set_rings(probe, &GpcRing { is_aql: 2, ..ring }, 1), EINVAL);
        assert_eq!(gpc_probe_set_rings(probe, null(), 1), EINVAL);
        assert_eq!(gpc_probe_set_rings(probe, [GpcRing { bytes: 100, ..ring }, ring].as_ptr(), 2), 1, "no such size");
        assert_eq!(gpc_probe_set_rings(probe, &ring, 1), 0);
        assert_eq!(gpc_probe_poll(probe, &reader, 1_000, false, &mut found), 0);
        assert_eq!((found.activity, found.pending), (RawActivity::IDLE, 0));

        // A kernel without a signal is written.
        (*reader.context.cast::<Page>()).bytes[0x400] = 2;
        (*reader.context.cast::<Page>()).bytes[0x80] = 1;
        assert_eq!(gpc_probe_poll(probe, &reader, 2_000, false, &mut found), 0);
        assert_eq!((found.pending, found.since_ns), (1, 2_000));
        assert!([RawActivity::WANTS, RawActivity::RUNNING].contains(&found.activity), "{found:?}");

        for (answer, errno) in [(2, EAGAIN), (1, EFAULT), (-5, EAGAIN)] {
            (*reader.context.cast::<Page>()).answer = answer;
            assert_eq!(gpc_probe_poll(probe, &reader, 3_000, false, &mut found), errno);
        }
        (*reader.context.cast::<Page>()).answer = 0;
        assert_eq!(gpc_probe_sampled(probe, &reader, 4_000, 0, -1, true), 0);
        assert_eq!(gpc_probe_sampled(probe, &reader, 4_000, i64::MAX, -1, true), EINVAL);
        assert_eq!(gpc_probe_sampled(probe, null(), 4_000, 0, -1, true), EINVAL);
        let unset = GpcMemory { read: None, ..reader };
        assert_eq!(gpc_probe_poll(probe, &unset, 5_000, false, &mut found), EINVAL);
        assert_eq!(gpc_probe_poll(probe, &reader, 5_000, false, null_mut()), EINVAL);
        assert_eq!((gpc_probe_index(probe), gpc_probe_refute(probe), gpc_probe_index(probe)), (0, 0, 2));
    }
}
