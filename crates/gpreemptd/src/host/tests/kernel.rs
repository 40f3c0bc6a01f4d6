//! The daemon as policy host: what the scheduler in the kernel is told, and what is shown of what it did.

use std::path::PathBuf;
use std::time::Instant;

use gpreempt_core::{JobParams, Level};
use gpreempt_kernel_abi::{
    GpuRecord, JobRecord, ModuleEvent, ModuleEventKind, ModuleMode, ModuleWatch, ProcessFlags, RawActivity, RawBound,
    RawReason, TenantRecord,
};
use gpreempt_proto::{self as proto, State};

use super::combined::with_scribe;
use super::*;
use crate::actuate::{
    AbiText, ActuatorCommand, ActuatorEvent, KernelPolicy, KernelStatus, PolicyChange, PolicyFailure,
};
use crate::host::kernel::KernelDecider;

const KERNEL_RULES: &str = r#"
    mode = "enforce"
    actuator = "kernel"
    keep_s = 5
    [[rule]]
    name = "serve"
    uid = 1000
    environment = { ROLE = "serve" }
    level = 8
    max_level = 8
    [[rule]]
    name = "own"
    uid = 1000
    level = 3
    max_level = 5
"#;

/// A daemon whose actuator is a scribe, and the kernel that it believes to serve.
struct Served {
    world: Fixture,
    written: PathBuf,
    /// Lines of the scribe that were read.
    read: usize,
    /// What the kernel was told.
    policy: KernelPolicy,
    complete: bool,
    cleared: bool,
    status: KernelStatus,
    /// Changes that the kernel refuses.
    refuses: fn(&PolicyChange) -> Option<PolicyFailure>,
}

impl Served {
    fn new() -> Served {
        let mut world = world_with(KERNEL_RULES);
        let written = with_scribe(&mut world, proto::ActuatorKind::Kernel);
        let mut served = Served {
            world,
            written,
            read: 0,
            policy: KernelPolicy::default(),
            complete: false,
            cleared: false,
            status: KernelStatus::default(),
            refuses: |_| None,
        };
        served.settle();
        served
    }

    fn scanned(&mut self) {
        self.world.host.take(Input::Discovery(DiscoveryEvent::Scanned { at: self.world.now }), self.world.now);
        self.settle();
    }

    /// Answers as the kernel would until the daemon has nothing more to say. Returns the changes.
    fn settle(&mut self) -> Vec<PolicyChange> {
        let mut all = Vec::new();
        loop {
            let changes = self.round();
            // A round may end with a question of the one before, which the scribe wrote late.
            let awaits_answer = self.world.host.decider.kernel().is_some_and(KernelDecider::awaits_answer);
            if changes.is_empty() && !awaits_answer {
                return all;
            }
            all.extend(changes);
        }
    }

    /// Has the daemon act, and answers everything up to a question, which a client's own makes it ask.
    fn round(&mut self) -> Vec<PolicyChange> {
        let now = self.world.now;
        self.world.host.act(now);
        self.world.host.take(Input::Publish, now);
        self.world.host.act(now);
        let mut told = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            assert!(Instant::now() < deadline, "the daemon asks nothing");
            let text = std::fs::read_to_string(&self.written).unwrap_or_default();
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            let commands: Vec<ActuatorCommand> =
                whole.lines().skip(self.read).map(|line| serde_json::from_str(line).unwrap()).collect();
            self.read += commands.len();
            let mut asked = false;
            for command in commands {
                match command {
                    ActuatorCommand::Policy { batch, changes, complete } => {
                        self.complete |= complete;
                        let failed: Vec<PolicyFailure> = changes.iter().filter_map(self.refuses).collect();
                        let made =
                            changes.iter().filter(|change| failed.iter().all(|failed| failed.change != **change));
                        made.for_each(|change| self.policy.note(change));
                        self.tell(ActuatorEvent::PolicyApplied { batch, failed });
                        told.extend(changes);
                    }
                    ActuatorCommand::Query => asked = true,
                    ActuatorCommand::Clear => self.cleared = true,
                    other => panic!("{other:?} is for another actuator"),
                }
            }
            if asked {
                let status = self.status.clone();
                self.tell(ActuatorEvent::KernelStatus(Box::new(status)));
                self.world.host.act(now);
                return told;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn tell(&mut self, told: ActuatorEvent) {
        self.world.host.take(Input::Actuator(told), self.world.now);
    }

    fn event(&mut self, event: ModuleEvent) {
        let event = ModuleEvent { at_ns: self.world.now.0, gpu_id: GPU.0, start_time: 1, ..event };
        self.tell(ActuatorEvent::Kernel { events: vec![AbiText(event)] });
    }

    fn stop(&mut self, pid: i32, cause: &str) {
        let cause = self.number(cause);
        self.event(ModuleEvent {
            kind: ModuleEventKind::PREEMPTED,
            pid,
            cause,
            reason: RawReason::HIGHER_WANTS,
            bound: RawBound::PATIENCE,
            after_ns: 20_000,
            took_ns: 300_000,
            seen_ns: 7,
            cycles: 1,
            queues: 1,
            ..ModuleEvent::default()
        });
    }

    fn resume(&mut self, pid: i32) {
        let kind = ModuleEventKind::RESUMED;
        let (reason, after_ns) = (RawReason::NOTHING_ABOVE, 5_000_000);
        self.event(ModuleEvent { kind, pid, reason, after_ns, took_ns: 200_000, cycles: 1, ..ModuleEvent::default() });
    }

    /// The number of a job, as its member has it.
    fn number(&self, job: &str) -> u64 {
        let pid = self.world.host.world.jobs[job].pids.first().unwrap().0;
        self.policy.processes[&pid.cast_signed()].job
    }

    fn job(&self, name: &str) -> JobParams {
        self.policy.jobs[&self.number(name)].params.try_into().unwrap()
    }

    fn state(&self, pid: u32) -> proto::TenantStatus {
        let status = self.world.host.status(self.world.now);
        status.tenants.into_iter().find(|tenant| tenant.pid == pid).unwrap()
    }

    fn messages(&self) -> Vec<String> {
        let message = |event: proto::Event| match event.kind {
            EventKind::Actuator { message } => Some(message),
            _ => None,
        };
        self.world.host.publisher.events().into_iter().filter_map(message).collect()
    }
}

/// An online and an offline process.
fn served() -> Served {
    let mut served = Served::new();
    served.world.process(10, OWNER, &[]);
    served.world.process(11, OWNER, &[("ROLE", "serve")]);
    served.scanned();
    served
}

#[test]
fn the_kernel_is_told_settings_gpus_jobs_and_processes_and_nothing_is_polled() {
    let mut served = served();
    let settings = served.policy.settings.unwrap();
    assert_eq!((settings.mode, settings.watch), (ModuleMode::ENFORCE, ModuleWatch::DOORBELL));
    assert_eq!((settings.period_us, settings.net_ms, settings.grace), (1000, 100, u32::MAX));
    assert_eq!(served.policy.gpus[&GPU.0].managed, 1);
    assert_eq!(
        (served.job("pid-10").level, served.job("pid-11").level),
        (Level::new(3).unwrap(), Level::new(8).unwrap())
    );
    let process = served.policy.processes[&10];
    assert_eq!((process.start_time, process.flags), (1, ProcessFlags::STOPPABLE));
    assert!(served.complete && served.state(10).attached && served.state(10).unstoppable.is_none());
    assert_eq!(served.settle(), [], "nothing is told twice");
    served.world.pass(Nanos::from_secs(1));
    assert!(!served.world.host.timers.is_polling());
    assert_eq!(served.world.host.publisher.daemon().polls, 0);
    assert_eq!(served.world.host.status(served.world.now).actuator, Some(proto::ActuatorKind::Kernel));
}

#[test]
fn the_policy_is_complete_only_after_all_processes_were_found() {
    let mut served = Served::new();
    served.world.process(10, OWNER, &[]);
    served.settle();
    assert!(!served.complete, "what an earlier daemon had told may be what the next process needs");
    served.scanned();
    assert!(served.complete);
}

#[test]
fn levels_holds_and_processes_that_want_to_go_are_told_as_differences() {
    let mut served = served();
    let before = served.number("pid-10");
    assert!(matches!(served.world.ask(0, Request::Set { target: job("pid-10"), level: 5 }), Answer::Done { .. }));
    assert_eq!(served.settle().len(), 1);
    assert_eq!((served.job("pid-10").level, served.number("pid-10")), (Level::new(5).unwrap(), before));
    assert!(matches!(served.world.ask(0, Request::Hold { target: job("pid-10"), seconds: 9 }), Answer::Done { .. }));
    served.settle();
    let until = served.world.now.plus(Nanos::from_secs(9));
    assert_eq!(served.policy.jobs[&before].hold_until_ns, until.0);
    assert!(matches!(served.world.ask(0, Request::Release { target: job("pid-10") }), Answer::Done { .. }));
    assert_eq!(served.settle().len(), 1);
    assert_eq!(served.policy.jobs[&before].hold_until_ns, 0);
    served.world.host.must_resume(Pid(10), ResumeCause::Destroying, served.world.now);
    served.settle();
    assert_eq!(served.policy.processes[&10].flags, ProcessFlags::EMPTY);
    assert!(served.state(10).unstoppable.unwrap().contains("wants to end"));
    served.world.now = served.world.now.plus(Nanos::from_millis(201));
    served.settle();
    assert_eq!(served.policy.processes[&10].flags, ProcessFlags::STOPPABLE);
}

#[test]
fn an_unmanaged_process_leaves_its_job_before_the_job_goes() {
    let mut served = served();
    let number = served.number("pid-10");
    assert!(matches!(served.world.ask(0, Request::Unmanage { pid: 10 }), Answer::Done { .. }));
    let changes = served.settle();
    assert!(matches!(changes[0], PolicyChange::Process(AbiText(process)) if (process.pid, process.job) == (10, 0)));
    assert_eq!(changes[1..], [PolicyChange::RemoveJob { job: number }]);
    assert!(served.state(10).unstoppable.unwrap().contains("unmanaged"));
    assert!(matches!(served.world.ask(0, Request::Manage { pid: 10 }), Answer::Done { .. }));
    served.settle();
    assert_eq!(served.number("pid-10"), number, "a name has one number");
    served.world.host.take(Input::Discovery(DiscoveryEvent::Gone { pid: Pid(10) }), served.world.now);
    served.settle();
    assert!(served.policy.processes[&10].job == 0 && !served.policy.jobs.contains_key(&number));
}

#[test]
fn a_reloaded_configuration_is_told_and_one_without_the_kernel_clears_it() {
    let mut served = served();
    let reload = |served: &mut Served, change: &dyn Fn(&mut Config)| {
        let mut config = served.world.host.config.clone();
        change(&mut config);
        served.world.host.take(Input::Configured(Box::new(config)), served.world.now);
    };
    reload(&mut served, &|config| {
        config.mode = Mode::Observe;
        config.watch.method = crate::config::WatchMethod::Poll;
        config.watch.kernel_period = Duration::from_millis(10);
        config.grace_kiloclocks = Some(3);
        config.gpus = Config::parse("f", "[[gpu]]\ngpu = \"*\"\nmanage = false\n").unwrap().gpus;
    });
    served.settle();
    let settings = served.policy.settings.unwrap();
    assert_eq!((settings.mode, settings.watch), (ModuleMode::OBSERVE, ModuleWatch::POLL));
    assert_eq!((settings.period_us, settings.grace), (10_000, kfd::Grace::kiloclocks(3).raw()));
    assert_eq!(served.policy.gpus[&GPU.0].managed, 0);
    assert!(served.policy.processes.values().all(|process| process.job == 0), "no gpu of theirs is managed");
    assert!(served.policy.jobs.is_empty());
    assert!(served.world.host.sessions.is_up() && !served.cleared, "the kernel observes as well");
    reload(&mut served, &|config| config.actuator = ActuatorChoice::DebugTrap);
    assert!(!served.world.host.sessions.is_up());
    assert!(matches!(served.world.host.decider, Decider::Daemon));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(&served.written).unwrap().ends_with("\"clear\"\n") {
        assert!(Instant::now() < deadline, "the kernel would keep the policy");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_stop_that_the_kernel_reports_is_shown_logged_and_counted_as_any_other() {
    let mut served = served();
    served.stop(10, "pid-11");
    let shown = served.state(10);
    assert_eq!((shown.state, shown.preempted), (State::Stopped, 1));
    let why = shown.why.unwrap();
    assert_eq!((why.reason, why.by.as_deref()), (proto::Reason::HigherWants, Some("pid-11")));
    assert!(shown.queues.iter().all(|queue| queue.stopped));
    served.world.host.inform_discovery();
    let watched = served.world.requests.try_iter().filter(|request| matches!(request, DiscoveryRequest::Stopped(_)));
    assert_eq!(watched.last(), Some(DiscoveryRequest::Stopped(vec![Pid(10)])), "it may want to end");
    served.world.now = served.world.now.plus(Nanos::from_millis(5));
    served.resume(10);
    let shown = served.state(10);
    assert_eq!((shown.state, shown.why, shown.stopped_s), (State::Unknown, None, 0.005));
    let logged: Vec<EventKind> = served.world.host.publisher.events().into_iter().map(|event| event.kind).collect();
    let preempted = EventKind::Preempted {
        reason: proto::Reason::HigherWants,
        by: Some("pid-11".into()),
        bound: proto::Bound::Patience,
        after_us: 20.0,
        took_us: 300.0,
        queues: 1,
        seen_ns: Some(7),
    };
    assert!(logged.contains(&preempted), "{logged:?}");
    let resumed = EventKind::Resumed { reason: proto::Reason::NothingAbove, stopped_us: 5000.0, took_us: 200.0 };
    assert!(logged.contains(&resumed), "{logged:?}");
    let about = gpu(GPU);
    let record = served.world.host.publisher.gpu(&about);
    assert_eq!((record.preempts, record.resumes, record.cycles), (1, 1, 2));
    assert_eq!((record.stopped.count(), record.preempt.total()), (1, Nanos::from_micros(300)));
}

#[test]
fn what_tenants_do_is_shown_as_the_kernel_sees_it() {
    let mut served = served();
    let activity = |served: &mut Served, pid, activity| {
        served.event(ModuleEvent { kind: ModuleEventKind::ACTIVITY, pid, activity, ..ModuleEvent::default() });
    };
    assert_eq!(served.state(11).state, State::Unknown);
    activity(&mut served, 10, RawActivity::RUNNING);
    activity(&mut served, 11, RawActivity::WANTS);
    assert_eq!((served.state(10).state, served.state(11).state), (State::Running, State::Wants));
    served.world.now = served.world.now.plus(Nanos::from_millis(2));
    activity(&mut served, 11, RawActivity::IDLE);
    assert_eq!(served.state(11).state, State::Idle);
    let about = gpu(GPU);
    assert_eq!(served.world.host.publisher.gpu(&about).burst_protected.total(), Nanos::from_millis(2));
    activity(&mut served, 11, RawActivity::UNKNOWN);
    assert_eq!(served.state(11).state, State::Unknown);
    let reused = ModuleEvent { kind: ModuleEventKind::PREEMPTED, pid: 10, ..ModuleEvent::default() };
    let reused = ModuleEvent { start_time: 99, gpu_id: GPU.0, ..reused };
    served.tell(ActuatorEvent::Kernel { events: vec![AbiText(reused)] });
    assert_ne!(served.state(10).state, State::Stopped, "that is another process of this number");
}

#[test]
fn a_restarted_daemon_shows_what_the_kernel_had_stopped_before() {
    let mut served = served();
    let (lower, upper) = (served.number("pid-10"), served.number("pid-11"));
    let at = served.world.now.0 - 3_000_000_000;
    served.status = KernelStatus {
        jobs: vec![AbiText(JobRecord { job: lower, cause: upper, stopped_at_ns: at, ..JobRecord::default() })],
        tenants: vec![AbiText(TenantRecord {
            pid: 10,
            gpu_id: GPU.0,
            start_time: 1,
            job: lower,
            activity: RawActivity::WANTS,
            queues: 1,
            stopped_queues: 1,
            stopped_at_ns: at,
            pending: 6,
            preempted: 812,
            ..TenantRecord::default()
        })],
        gpus: vec![AbiText(GpuRecord { gpu_id: GPU.0, holder: upper, cycle_ns: 410_000, ..GpuRecord::default() })],
    };
    served.settle();
    let shown = served.state(10);
    assert_eq!((shown.state, shown.preempted, shown.pending), (State::Stopped, 812, 6));
    assert!(shown.since_s > 2.9 && shown.why.unwrap().by.as_deref() == Some("pid-11"));
    let gpu = &served.world.host.status(served.world.now).gpus[0];
    assert_eq!((gpu.holder.as_deref(), gpu.cycle_us), (Some("pid-11"), 410.0));
    served.status.tenants[0].0.stopped_queues = 0;
    served.settle();
    assert_eq!(served.state(10).state, State::Wants, "the event of the resume was lost");
}

#[test]
fn without_an_actuator_stops_stay_for_as_long_as_the_kernel_keeps_them() {
    let mut served = served();
    served.stop(10, "pid-11");
    let lost = || ActuatorEvent::Lost { why: "it failed".into(), killed: true };
    served.tell(lost());
    served.world.pass(Nanos::from_millis(4900));
    assert_eq!(served.state(10).state, State::Stopped, "the kernel keeps the policy for 5 s");
    served.world.pass(Nanos::from_millis(200));
    assert_ne!(served.state(10).state, State::Stopped);
    assert!(served.messages().iter().any(|message| message.contains("keeps the policy for 5 s")));
}

#[test]
fn an_actuator_that_comes_again_is_told_everything_and_nothing_is_resumed() {
    let mut served = served();
    served.stop(10, "pid-11");
    served.tell(ActuatorEvent::Lost { why: "it failed".into(), killed: true });
    served.world.pass(Nanos::from_secs(1));
    let before = std::mem::take(&mut served.policy);
    served.status.tenants = vec![AbiText(TenantRecord {
        pid: 10,
        gpu_id: GPU.0,
        start_time: 1,
        stopped_queues: 1,
        stopped_at_ns: served.world.now.0,
        preempted: 1,
        ..TenantRecord::default()
    })];
    served.written = with_scribe(&mut served.world, proto::ActuatorKind::Kernel);
    (served.read, served.complete) = (0, false);
    served.settle();
    assert_eq!(served.policy, before);
    assert!(served.complete && !served.cleared && served.state(10).state == State::Stopped);
    served.world.pass(Nanos::from_secs(6));
    assert_eq!(served.state(10).state, State::Stopped, "it was not alone for long");
}

#[test]
fn a_process_that_the_kernel_refuses_is_shown_and_tried_again() {
    let mut served = served();
    served.refuses = |change| match change {
        PolicyChange::Process(AbiText(process)) if process.pid == 12 => {
            Some(PolicyFailure { change: change.clone(), gone: false, message: "no room".into() })
        }
        _ => None,
    };
    served.world.process(12, OWNER, &[]);
    served.settle();
    let shown = served.state(12);
    assert_eq!((shown.attached, shown.unstoppable.as_deref()), (false, Some("no room")));
    assert!(served.state(10).attached);
    assert_eq!(served.settle(), [], "not at once");
    served.refuses = |_| None;
    served.world.now = served.world.now.plus(Nanos::from_secs(2));
    served.settle();
    assert!(served.state(12).attached && served.state(12).unstoppable.is_none());
}

#[test]
fn a_gpu_whose_driver_fails_is_left_to_the_hardware_by_the_kernel_too() {
    let mut served = served();
    for _ in 0..5 {
        let (kind, status) = (ModuleEventKind::FAILED, -nix::libc::EOPNOTSUPP);
        served.event(ModuleEvent { kind, pid: 10, status, ..ModuleEvent::default() });
    }
    served.settle();
    assert_eq!(served.policy.gpus[&GPU.0].managed, 0);
    assert!(served.world.host.status(served.world.now).gpus[0].breaker.is_some());
    served.world.pass(Nanos::from_secs(11));
    served.settle();
    assert_eq!(served.policy.gpus[&GPU.0].managed, 1);
}

#[test]
fn what_the_kernel_resumed_by_itself_is_not_shown_as_stopped() {
    for kind in [ModuleEventKind::WATCHDOG, ModuleEventKind::EXPIRED] {
        let mut served = served();
        served.stop(10, "pid-11");
        served.event(ModuleEvent { kind, ..ModuleEvent::default() });
        assert_ne!(served.state(10).state, State::Stopped, "{kind:?}");
        let told = served.settle();
        assert_eq!(!told.is_empty(), kind == ModuleEventKind::EXPIRED, "what was forgotten is told again");
    }
}

#[test]
fn a_reset_is_shown_until_its_end() {
    let mut served = served();
    let resetting = |served: &Served| served.world.host.status(served.world.now).gpus[0].resetting;
    served.event(ModuleEvent { kind: ModuleEventKind::RESET, ..ModuleEvent::default() });
    served.world.pass(Nanos::from_secs(3));
    assert!(resetting(&served));
    served.event(ModuleEvent { kind: ModuleEventKind::RECOVERED, ..ModuleEvent::default() });
    assert!(!resetting(&served));
}

#[test]
fn statistics_of_the_kernel_count_from_the_first_answer() {
    let mut served = served();
    let mut gpu_record = GpuRecord { gpu_id: GPU.0, wakeups: 100, inversions: 7, ..GpuRecord::default() };
    served.status.gpus = vec![AbiText(gpu_record)];
    served.settle();
    (gpu_record.wakeups, gpu_record.inversions) = (150, 9);
    gpu_record.detection.count = 2;
    gpu_record.detection.sum_ns = 30_000;
    gpu_record.detection.max_ns = 20_000;
    gpu_record.detection.buckets[4] = 1;
    gpu_record.detection.buckets[5] = 1;
    served.status.gpus = vec![AbiText(gpu_record)];
    served.event(ModuleEvent { lost: 3, kind: ModuleEventKind::TENANT_NEW, pid: 10, ..ModuleEvent::default() });
    served.settle();
    let about = gpu(GPU);
    let record = served.world.host.publisher.gpu(&about).clone();
    let kernel = record.kernel.unwrap();
    assert_eq!((kernel.stats.wakeups, kernel.inversions, kernel.stats.events_lost), (50, 2, 3));
    assert_eq!((kernel.detection.count, kernel.detection.mean_us, kernel.detection.max_us), (2, 15.0, 20.0));
}

#[test]
fn whichever_the_automatic_choice_starts_decides() {
    let mut world = world();
    assert!(matches!(world.host.decider, Decider::Daemon));
    world.process(10, OWNER, &[]);
    world.host.world.processes.get_mut(&Pid(10)).unwrap().session = Session::Asked { at: world.now };
    let started = |kind| Input::Actuator(ActuatorEvent::Started { actuator: 1, kind });
    world.host.take(started(proto::ActuatorKind::Kernel), world.now);
    assert!(world.host.decider.kernel().is_some());
    assert_eq!(world.host.world.processes[&Pid(10)].session, Session::None, "there are none");
    assert_eq!(world.host.actuator_kind(), ActuatorKind::Combined, "the costs are the same");
    world.host.take(started(proto::ActuatorKind::Combined), world.now);
    assert!(matches!(world.host.decider, Decider::Daemon));
}

#[test]
fn new_processes_of_a_control_group_have_its_job_before_they_are_found() {
    let mut served = Served::new();
    let rules = "actuator = \"kernel\"\n[[rule]]\ncgroup = \"/pods/*\"\nlevel = 4\njob = \"cgroup\"\n";
    served.world.host.take(Input::Configured(Box::new(Config::parse("f", rules).unwrap())), served.world.now);
    let process = |served: &mut Served, pid: u32, cgroup: &str| {
        let identity = Identity { pid, started: 1, uid: OWNER, cgroup: cgroup.into(), ..Identity::default() };
        let compute = vec![kfd::QueueId(1)];
        let tenants = vec![discovery::Tenant { compute, ..discovery::Tenant::on(GPU) }];
        let memory = Err("a test".into());
        let process = discovery::Process { identity, memory, tenants, traced_by: None, contexts: 0 };
        served.world.host.take(Input::Discovery(DiscoveryEvent::Process(Box::new(process))), served.world.now);
    };
    process(&mut served, 10, "/pods/a");
    process(&mut served, 11, "/pods/a");
    process(&mut served, 12, "/elsewhere");
    served.scanned();
    let told = served.policy.cgroups.get("/pods/a").copied();
    assert_eq!(told.map(|told| (told.job, told.stoppable)), Some((served.policy.processes[&10].job, true)));
    assert!(!served.policy.processes.contains_key(&12) && served.policy.cgroups.len() == 1);
    assert!(matches!(served.world.ask(0, Request::Unmanage { pid: 11 }), Answer::Done { .. }));
    served.settle();
    assert_eq!(served.policy.processes[&11].job, 0, "it is none of them, also for another daemon");
    let again = std::mem::take(&mut served.policy);
    served.tell(ActuatorEvent::Started { actuator: 1, kind: proto::ActuatorKind::Kernel });
    served.settle();
    assert_eq!(served.policy, again);
    for pid in [10, 11] {
        served.world.host.take(Input::Discovery(DiscoveryEvent::Gone { pid: Pid(pid) }), served.world.now);
    }
    served.settle();
    assert!(served.policy.cgroups.is_empty() && served.policy.jobs.is_empty());
}
