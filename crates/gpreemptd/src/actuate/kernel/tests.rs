//! The actuator of the scheduler in the kernel over a device that remembers its calls.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Duration;

use gpreempt_kernel_abi::{JobArgs, ModuleEventKind, ModuleSettings, ProcessFlags};

use super::super::policy::CgroupJob;
use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// What a kernel remembers of its policy host, and of the one before.
#[derive(Default)]
struct Kernel {
    /// All calls, in words.
    calls: Vec<String>,
    jobs: Vec<u64>,
    processes: BTreeMap<i32, u64>,
    events: Vec<ModuleEvent>,
    /// Calls that fail, with the number.
    failing: BTreeMap<String, i32>,
}

/// A device whose processes start at their pid plus 1000.
struct FakeDevice {
    kernel: Arc<Mutex<Kernel>>,
    /// Readable while there are events.
    readable: PipeReader,
}

fn words(change: &PolicyChange) -> String {
    match change {
        PolicyChange::Settings(_) => "settings".into(),
        PolicyChange::Gpu(AbiText(gpu)) => format!("gpu {}", gpu.gpu_id),
        PolicyChange::Job(AbiText(job)) => format!("job {}", job.job),
        PolicyChange::Process(AbiText(process)) => format!("process {} in {}", process.pid, process.job),
        PolicyChange::Cgroup { path, job } => format!("{path} in {}", job.job),
        PolicyChange::RemoveJob { job } => format!("no job {job}"),
    }
}

fn refused(operation: &'static str, errno: i32) -> Error {
    Error::KernelScheduler { operation, about: "a test".into(), error: io::Error::from_raw_os_error(errno) }
}

impl KernelCalls for FakeDevice {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }

    fn events(&self) -> kfd::Result<Vec<ModuleEvent>> {
        let _ = (&self.readable).read(&mut [0; 64]);
        Ok(std::mem::take(&mut self.kernel.lock().unwrap().events))
    }

    fn apply(&self, change: &PolicyChange) -> kfd::Result<()> {
        let mut kernel = self.kernel.lock().unwrap();
        let said = words(change);
        kernel.calls.push(said.clone());
        if let Some(errno) = kernel.failing.get(&said) {
            return Err(refused("SET_JOB", *errno));
        }
        match change {
            PolicyChange::Job(AbiText(job)) if !kernel.jobs.contains(&job.job) => kernel.jobs.push(job.job),
            PolicyChange::Process(AbiText(process)) => {
                if process.start_time != u64::try_from(process.pid).unwrap() + 1000 {
                    return Err(refused("SET_PROCESS", libc::ESRCH));
                }
                assert!(process.job == 0 || kernel.jobs.contains(&process.job), "its job is not there");
                kernel.processes.insert(process.pid, process.job);
            }
            PolicyChange::RemoveJob { job } => {
                assert!(kernel.processes.values().all(|of| of != job), "a process of it is left");
                kernel.jobs.retain(|other| other != job);
            }
            _ => {}
        }
        Ok(())
    }

    fn clear(&self) -> kfd::Result<()> {
        self.kernel.lock().unwrap().calls.push("clear".into());
        Ok(())
    }

    fn gpus(&self) -> kfd::Result<Vec<GpuRecord>> {
        Ok(vec![GpuRecord { gpu_id: 7, preempts: 3, ..GpuRecord::default() }])
    }

    fn jobs(&self) -> kfd::Result<Vec<JobRecord>> {
        let jobs = self.kernel.lock().unwrap().jobs.clone();
        Ok(jobs.into_iter().map(|job| JobRecord { job, ..JobRecord::default() }).collect())
    }

    fn tenants(&self) -> kfd::Result<Vec<TenantRecord>> {
        let kernel = self.kernel.lock().unwrap();
        let tenant =
            |(&pid, &job): (&i32, &u64)| TenantRecord { pid, job, start_time: start(pid), ..Default::default() };
        Ok(kernel.processes.iter().map(tenant).collect())
    }
}

fn start(pid: i32) -> u64 {
    u64::try_from(pid).unwrap() + 1000
}

/// The daemon's end.
struct Hand {
    kernel: Arc<Mutex<Kernel>>,
    ring: PipeWriter,
    actuator: PolicyHost,
    reports: BufReader<UnixStream>,
}

impl Hand {
    fn new(kernel: Kernel) -> Hand {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let (readable, ring) = io::pipe().unwrap();
        fcntl(&readable, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let kernel = Arc::new(Mutex::new(kernel));
        let device = FakeDevice { kernel: Arc::clone(&kernel), readable };
        let actuator = PolicyHost::start(device, Arc::new(Reports::new(theirs))).unwrap();
        Hand { kernel, ring, actuator, reports: BufReader::new(ours) }
    }

    fn hear(&mut self) -> ActuatorEvent {
        let mut line = String::new();
        self.reports.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Sends changes; returns the calls that the device saw, and what was refused.
    fn policy(&mut self, changes: Vec<PolicyChange>, complete: bool) -> (Vec<String>, Vec<PolicyFailure>) {
        self.kernel.lock().unwrap().calls.clear();
        self.actuator.obey(ActuatorCommand::Policy { batch: 5, changes, complete });
        match self.hear() {
            ActuatorEvent::PolicyApplied { batch: 5, failed } => (self.kernel.lock().unwrap().calls.clone(), failed),
            other => panic!("{other:?}"),
        }
    }
}

fn job(job: u64) -> PolicyChange {
    PolicyChange::Job(AbiText(JobArgs { job, ..JobArgs::SIZED }))
}

fn process(pid: i32, job: u64) -> PolicyChange {
    let flags = ProcessFlags::STOPPABLE;
    PolicyChange::Process(AbiText(ProcessArgs { pid, start_time: start(pid), job, flags, ..ProcessArgs::SIZED }))
}

#[test]
fn only_what_differs_is_called_and_in_the_order_of_the_changes() {
    let mut hand = Hand::new(Kernel::default());
    let settings = PolicyChange::Settings(AbiText(ModuleSettings::SIZED));
    let cgroup = PolicyChange::Cgroup { path: "/a".into(), job: CgroupJob { job: 1, stoppable: true } };
    let first = vec![settings, job(1), process(10, 1), cgroup];
    let (calls, failed) = hand.policy(first.clone(), false);
    assert_eq!((calls.join(", ").as_str(), failed.len()), ("settings, job 1, process 10 in 1, /a in 1", 0));
    assert_eq!(hand.policy(first, false).0, Vec::<String>::new());
    let (calls, _) = hand.policy(vec![job(2), process(10, 2), PolicyChange::RemoveJob { job: 1 }], false);
    assert_eq!(calls, ["job 2", "process 10 in 2", "no job 1"]);
}

#[test]
fn a_daemon_that_comes_again_clears_nothing_and_removes_only_what_it_does_not_know() {
    let before = Kernel {
        jobs: vec![1, 2, 3],
        processes: BTreeMap::from([(10, 1), (20, 2), (30, 3), (40, 0)]),
        ..Kernel::default()
    };
    let mut hand = Hand::new(before);
    assert_eq!(hand.policy(vec![job(1), process(10, 1)], false).0, ["job 1", "process 10 in 1"]);
    let (calls, failed) = hand.policy(vec![job(3)], true);
    assert_eq!(calls, ["job 3", "process 20 in 0", "process 30 in 0", "no job 2"]);
    assert!(failed.is_empty());
    assert_eq!(hand.kernel.lock().unwrap().processes[&10], 1, "it is as it was");
}

#[test]
fn each_refused_change_is_answered_and_tried_again_when_it_is_sent_again() {
    let mut hand = Hand::new(Kernel::default());
    hand.kernel.lock().unwrap().failing.insert("job 2".into(), libc::ENOSPC);
    let ended = PolicyChange::Process(AbiText(ProcessArgs { pid: 9, start_time: 1, job: 1, ..ProcessArgs::SIZED }));
    let (_, failed) = hand.policy(vec![job(1), job(2), ended.clone(), process(10, 1)], false);
    let said: Vec<(String, bool)> = failed.iter().map(|failed| (words(&failed.change), failed.gone)).collect();
    assert_eq!(said, [("job 2".to_owned(), false), ("process 9 in 1".to_owned(), true)]);
    assert!(failed[0].message.contains("no room"), "{}", failed[0].message);
    hand.kernel.lock().unwrap().failing.clear();
    assert_eq!(hand.policy(vec![job(2)], false), (vec!["job 2".to_owned()], Vec::new()));
    let PolicyChange::Process(AbiText(process)) = ended else { panic!() };
    let without = PolicyChange::Process(AbiText(ProcessArgs { job: 0, ..process }));
    assert_eq!(hand.policy(vec![without], false).1, Vec::new(), "what is gone needs no removal");
}

#[test]
fn events_come_by_themselves_and_before_the_answer_to_a_question() {
    let mut hand = Hand::new(Kernel::default());
    let event = |at_ns| ModuleEvent { at_ns, kind: ModuleEventKind::PREEMPTED, pid: 10, ..ModuleEvent::default() };
    hand.kernel.lock().unwrap().events.push(event(1));
    hand.ring.write_all(&[0]).unwrap();
    assert_eq!(hand.hear(), ActuatorEvent::Kernel { events: vec![AbiText(event(1))] });
    hand.kernel.lock().unwrap().events.push(event(2));
    hand.actuator.obey(ActuatorCommand::Query);
    assert_eq!(hand.hear(), ActuatorEvent::Kernel { events: vec![AbiText(event(2))] });
    let ActuatorEvent::KernelStatus(status) = hand.hear() else { panic!("the status") };
    assert_eq!((status.gpus[0].0.gpu_id, status.gpus[0].0.preempts), (7, 3));
}

#[test]
fn only_a_daemon_that_asks_for_it_has_everything_resumed() {
    for asks in [false, true] {
        let mut hand = Hand::new(Kernel::default());
        hand.policy(vec![job(1), process(10, 1)], true);
        if asks {
            hand.actuator.obey(ActuatorCommand::Clear);
        }
        let Hand { kernel, actuator, .. } = hand;
        actuator.close().join().unwrap();
        assert_eq!(kernel.lock().unwrap().calls.contains(&"clear".to_owned()), asks);
        assert_eq!(Arc::strong_count(&kernel), 1, "the descriptor is closed with the thread");
    }
}

#[test]
fn orders_for_another_actuator_change_nothing() {
    let mut hand = Hand::new(Kernel::default());
    hand.actuator.obey(ActuatorCommand::Attach { pid: 10, started: 1010 });
    hand.actuator.obey(ActuatorCommand::Switch { changes: Vec::new(), grace: None });
    hand.actuator.obey(ActuatorCommand::Detach { pid: 10 });
    assert_eq!(hand.policy(Vec::new(), false).0, Vec::<String>::new());
}
