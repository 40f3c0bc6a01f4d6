//! The host without a driver: membership, timers, requests.

use std::sync::mpsc::Receiver;

use gpreempt_core::GpuIndex;
use gpreempt_proto::{Answer, EventKind, RefusalKind, Request, Target};
use kfd::GpuId;

use super::world::{Gpu, Session, TenantKey};
use super::*;
use crate::discovery::{self, ActuatorStart};
use crate::identity::Identity;
use crate::inbox::{ClientRequest, Responder};

mod combined;
mod kernel;
mod policies;
mod status;

const GPU: GpuId = GpuId(7);
const OWNER: u32 = 1000;

const RULES: &str = r#"
    mode = "enforce"
    [[rule]]
    name = "serve"
    uid = 1000
    environment = { ROLE = "serve" }
    level = 8
    max_level = 8
    [[rule]]
    name = "shared"
    gid = 50
    job = "shared"
    level = 3
    [[rule]]
    name = "own"
    uid = 1000
    level = 3
    max_level = 5
"#;

struct Fixture {
    host: Host,
    now: Nanos,
    requests: Receiver<DiscoveryRequest>,
    directory: tempfile::TempDir,
}

fn gpu(id: GpuId) -> discovery::DiscoveredGpu {
    let (address, name) = (format!("0000:{:02x}:00.0", id.0), "MI300X".to_owned());
    discovery::DiscoveredGpu { id, address, name, unique_id: 0, cus: 304, waves_per_cu: 32 }
}

fn world() -> Fixture {
    world_with(RULES)
}

fn world_with(rules: &str) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let (discovery, requests) = Discovery::detached();
    let setup = Setup {
        config: Config::parse("test", rules).unwrap(),
        program: "/nonexistent/gpreempt".into(),
        directory: directory.path().to_owned(),
        publisher: Publisher::new(100).unwrap(),
        discovery,
        reaper: LinkReaper::start().unwrap(),
        alive: Arc::default(),
    };
    let mut host = Host::new(setup).unwrap();
    host.own_uid = 0;
    host.set_gpus(vec![gpu(GPU)]);
    Fixture { host, now: clock::now(), requests, directory }
}

impl Fixture {
    fn process(&mut self, pid: u32, uid: u32, environment: &[(&str, &str)]) {
        self.process_on(pid, uid, environment, GPU);
    }

    fn process_on(&mut self, pid: u32, uid: u32, environment: &[(&str, &str)], gpu: GpuId) {
        let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let gid = if uid == OWNER { OWNER } else { 50 };
        let identity = Identity { pid, started: 1, uid, gid, environment, ..Identity::default() };
        let compute = vec![kfd::QueueId(1)];
        let tenants = vec![discovery::Tenant { compute, ..discovery::Tenant::on(gpu) }];
        let process =
            discovery::Process { identity, memory: Err("a test".into()), tenants, traced_by: None, contexts: 0 };
        self.host.take(Input::Discovery(DiscoveryEvent::Process(Box::new(process))), self.now);
    }

    fn ask(&mut self, uid: u32, request: Request) -> Answer {
        let (answer, answers) = Responder::channel();
        self.host.take(Input::Request(ClientRequest { uid, request, answer }), self.now);
        answers.recv().unwrap()
    }

    /// Acts at every instant the host asks for, for so long.
    fn pass(&mut self, time: Nanos) {
        let end = self.now.plus(time);
        while self.host.timers.due() <= end {
            self.now = self.now.max(self.host.timers.due());
            self.host.act(self.now);
        }
        self.now = end;
    }

    fn gpu(&self) -> &Gpu {
        self.host.world.gpus.get(first()).unwrap()
    }

    /// Answers every request to start the actuator, and says how many there were.
    fn refuse_starts(&mut self) -> usize {
        let is_start = |request: &DiscoveryRequest| matches!(request, DiscoveryRequest::StartActuator { .. });
        let starts = self.requests.try_iter().filter(is_start).count();
        for _ in 0..starts {
            let failed = ActuatorStart::Failed(std::io::ErrorKind::NotFound.into());
            self.host.take(Input::Discovery(DiscoveryEvent::ActuatorStart(failed)), self.now);
        }
        starts
    }

    fn level(&self, job: &str) -> u8 {
        self.host.world.jobs[job].level().get()
    }
}

/// The first gpu's place.
fn first() -> GpuIndex {
    GpuIndex::new(0).unwrap()
}

fn tenant(pid: u32) -> TenantKey {
    TenantKey { pid: Pid(pid), gpu: GPU }
}

fn job(name: &str) -> Target {
    Target::Job(name.to_owned())
}

#[test]
fn an_earlier_instant_does_not_make_a_later_one_forgotten() {
    let mut world = world();
    world.process(10, OWNER, &[]);
    world.host.reset(first(), world.now);
    world.host.must_resume(Pid(10), ResumeCause::Destroying, world.now);
    assert!(matches!(world.ask(0, Request::Hold { target: job("pid-10"), seconds: 2 }), Answer::Done { .. }));
    world.pass(Nanos::from_millis(900));
    let tenant = &world.host.world.tenants[&tenant(10)];
    let why = world.host.unstoppable(tenant, world.now);
    assert!(why.is_none_or(|why| !why.contains("wants to end")));
    assert!(world.gpu().resetting_until.is_some() && world.host.timers.due() < Nanos::NEVER);
    world.pass(Nanos::from_millis(200));
    assert!(world.gpu().resetting_until.is_none(), "the gpu is managed again");
    assert!(world.host.world.jobs["pid-10"].held_until.is_some());
    world.pass(Nanos::from_secs(1));
    assert!(world.host.world.jobs["pid-10"].held_until.is_none(), "the hold is over");
}

#[test]
fn a_burst_without_end_is_not_left_alone_for_ever() {
    let mut world = world();
    world.process(10, OWNER, &[]);
    let key = tenant(10);
    let until = world.host.bursts.begin_control(first(), key, world.now);
    assert_eq!(until, world.now.plus(Nanos::from_millis(250)));
    world.host.timers.wake_at(world.now.plus(Nanos::from_millis(1)));
    world.pass(Nanos::from_millis(240));
    assert_eq!(world.host.bursts.control_on(first()), Some(key));
    world.pass(Nanos::from_millis(20));
    assert_eq!(world.host.bursts.control_on(first()), None);
}

#[test]
fn a_session_that_was_ended_is_not_taken_for_open_by_a_late_report() {
    let mut world = world();
    world.process(10, OWNER, &[]);
    let attached = || crate::actuate::ActuatorEvent::Attached { pid: 10, runtime: true, queues: Vec::new() };
    let session =
        |world: &mut Fixture, session| world.host.world.processes.get_mut(&Pid(10)).unwrap().session = session;
    session(&mut world, Session::Asked { at: Nanos::ZERO });
    world.host.close_session(Pid(10));
    world.host.take(Input::Actuator(attached()), world.now);
    assert_eq!(world.host.world.processes[&Pid(10)].session, Session::None);
    session(&mut world, Session::Asked { at: Nanos::ZERO });
    world.host.take(Input::Actuator(attached()), world.now);
    assert_eq!(world.host.world.processes[&Pid(10)].session, Session::Open { runtime: true });
}

#[test]
fn an_actuator_that_cannot_be_started_is_tried_ever_less_often() {
    let mut world = world();
    world.process(10, OWNER, &[]);
    world.process(11, OWNER, &[("ROLE", "serve")]);
    world.host.act(world.now);
    let mut attempts = world.refuse_starts();
    assert_eq!(attempts, 1);
    let end = world.now.plus(Nanos::from_secs(60));
    while world.host.timers.due().max(world.now) < end {
        world.now = world.host.timers.due().max(world.now).plus(Nanos(1));
        world.host.act(world.now);
        attempts += world.refuse_starts();
    }
    assert!((5..40).contains(&attempts), "{attempts}");
}

#[test]
fn users_change_only_jobs_that_are_wholly_theirs() {
    let mut world = world();
    world.process(10, 1001, &[]);
    let set = |level| Request::Set { target: job("shared"), level };
    assert!(matches!(world.ask(1001, set(1)), Answer::Done { .. }));
    world.process(11, 1002, &[]);
    for uid in [1001, 1002] {
        assert!(matches!(world.ask(uid, set(2)), Answer::Refused(_)), "{uid}");
        assert!(matches!(world.ask(uid, Request::Hold { target: job("shared"), seconds: 1 }), Answer::Refused(_)));
    }
    assert!(matches!(world.ask(0, set(2)), Answer::Done { .. }));
}

#[test]
fn a_level_set_by_hand_does_not_lift_those_who_join_later() {
    let mut world = world();
    world.process(10, OWNER, &[("ROLE", "serve"), ("GPREEMPT_JOB", "j")]);
    let name = world.host.world.jobs.keys().next().unwrap().clone();
    assert!(matches!(world.ask(OWNER, Request::Set { target: job(&name), level: 8 }), Answer::Done { .. }));
    assert_eq!(world.level(&name), 8);
    world.process(11, OWNER, &[("GPREEMPT_JOB", "j")]);
    assert_eq!(world.level(&name), 5, "the rule of the second allows no more");
    assert!(matches!(world.ask(0, Request::Set { target: job(&name), level: 12 }), Answer::Done { .. }));
    assert_eq!(world.level(&name), 12, "the operator is not bound by it");
}

#[test]
fn rules_see_what_they_newly_ask_for() {
    let mut world = world();
    world.process(10, OWNER, &[]);
    assert_eq!(world.level("pid-10"), 3);
    world.process(10, OWNER, &[("ROLE", "serve")]);
    assert_eq!(world.level("pid-10"), 8);
}

#[test]
fn a_tenant_that_found_no_room_is_managed_when_there_is_some() {
    let mut world = world();
    world.host.set_gpus(vec![gpu(GPU), gpu(GpuId(8))]);
    // Two tenants to a job, so that tenants run out and jobs do not.
    for pid in 0..600 {
        let job = format!("j{}", pid / 2);
        world.process(pid + 10, OWNER, &[("GPREEMPT_JOB", &job)]);
    }
    let managed = |world: &Fixture| world.host.world.tenants.values().filter(|tenant| tenant.core.is_some()).count();
    assert_eq!((managed(&world), world.host.world.jobs.len()), (512, 256));
    for pid in 0..100 {
        world.host.take(Input::Discovery(DiscoveryEvent::Gone { pid: Pid(pid + 10) }), world.now);
    }
    assert_eq!((managed(&world), world.host.world.jobs.len()), (500, 250));
}

#[test]
fn places_of_gpus_that_are_gone_are_used_again() {
    let mut world = world();
    world.process(10, OWNER, &[]);
    for round in 0..5 {
        let ids = (0..32).map(|partition| GpuId(100 + round * 32 + partition));
        world.host.set_gpus(ids.map(gpu).collect());
        let occupied = GpuId(100 + round * 32);
        world.process_on(20 + round, OWNER, &[], occupied);
        assert!(world.host.world.tenants[&TenantKey { pid: Pid(20 + round), gpu: occupied }].core.is_some(), "{round}");
        assert_eq!(world.host.status(world.now).gpus.len(), 32);
        world.host.take(Input::Discovery(DiscoveryEvent::Gone { pid: Pid(20 + round) }), world.now);
    }
    // The first is gone, but has a tenant.
    assert_eq!(world.host.world.tenants[&tenant(10)].gpu, first());
    assert_eq!(world.gpu().about.id, GPU);
}

#[test]
fn an_answer_that_does_not_come_any_more_keeps_no_tenant_waiting() {
    let mut world = world();
    world.process(10, OWNER, &[]);
    let key = tenant(10);
    let tenant = world.host.world.tenants.get_mut(&key).unwrap();
    tenant.ordered = Some(gpreempt_core::EntryNumber(1));
    tenant.stopped.insert(1);
    world.host.world.processes.get_mut(&Pid(10)).unwrap().session = Session::Open { runtime: true };
    world.host.close_session(Pid(10));
    let tenant = &world.host.world.tenants[&key];
    assert!(tenant.ordered.is_none() && !tenant.is_stopped());
}

#[test]
fn who_only_observes_starts_no_actuator() {
    let mut world = world();
    world.host.config.mode = Mode::Observe;
    world.process(10, OWNER, &[]);
    world.process(11, OWNER, &[("ROLE", "serve")]);
    world.pass(Nanos::from_secs(20));
    assert_eq!(world.host.publisher.daemon().actuator_starts, 0);
    assert!(world.host.world.processes.values().all(|process| process.session == Session::None));
    assert!(matches!(world.ask(0, Request::Hold { target: job("pid-10"), seconds: 1 }), Answer::Refused(_)));
}

#[test]
fn an_operator_unmanages_a_process_and_manages_it_again() {
    let mut world = world();
    world.process(10, OWNER, &[]);
    let managed = |world: &Fixture| world.host.world.tenants.values().all(|tenant| tenant.core.is_some());
    let kept = |world: &Fixture| world.host.overrides.current().unmanaged.contains_key(&10);
    assert!(managed(&world));
    for request in [Request::Unmanage { pid: 10 }, Request::Manage { pid: 10 }] {
        match world.ask(OWNER, request) {
            Answer::Refused(refusal) => assert_eq!(refusal.kind, RefusalKind::Forbidden, "{refusal}"),
            other => panic!("the owner of a process is no operator: {other:?}"),
        }
    }
    for repeated in [false, true] {
        let Answer::Done { note: Some(note) } = world.ask(0, Request::Unmanage { pid: 10 }) else { panic!() };
        assert_eq!(note.contains("already"), repeated, "{note}");
        assert!(!managed(&world));
        assert!(world.host.status(world.now).jobs.is_empty());
    }
    for repeated in [false, true] {
        let Answer::Done { note: Some(note) } = world.ask(0, Request::Manage { pid: 10 }) else { panic!() };
        assert_eq!(note.contains("was not"), repeated, "{note}");
        assert!(managed(&world) && !kept(&world));
    }
    let logged = world.host.publisher.events();
    let by_root: Vec<_> = logged
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Unmanaged { by_uid: 0 } | EventKind::Managed { by_uid: 0 }))
        .map(|event| (event.pid, event.uid))
        .collect();
    assert_eq!(by_root, [(Some(10), Some(OWNER)); 2], "once each: {logged:?}");
    for request in [Request::Unmanage { pid: 11 }, Request::Manage { pid: 11 }] {
        assert!(matches!(world.ask(0, request), Answer::Refused(_)), "there is no such process");
    }
}

#[test]
fn a_gpu_whose_deadline_jobs_ask_for_too_much_is_shown_as_overcommitted() {
    let rules = "mode = \"enforce\"\n[[rule]]\nname = \"own\"\nuid = 1000\nlevel = 3\nperiod_ms = 10\nruntime_ms = 8\n\
                 [[gpu]]\ngpu = \"*\"\npolicy = \"deadline\"\n";
    let mut world = world_with(rules);
    let overcommitted = |world: &mut Fixture| {
        world.host.act(world.now);
        world.host.status(world.now).gpus[0].overcommitted
    };
    world.process(10, OWNER, &[]);
    assert!(!overcommitted(&mut world), "8 ms of every 10 ms");
    world.process(11, OWNER, &[]);
    assert!(overcommitted(&mut world), "16 ms of every 10 ms");
}

#[test]
fn a_job_that_meets_another_on_one_gpu_is_watched_on_all_its_gpus() {
    let mut world = world();
    world.host.set_gpus(vec![gpu(GPU), gpu(GpuId(8)), gpu(GpuId(9))]);
    let train = [("GPREEMPT_JOB", "train")];
    world.process_on(10, OWNER, &train, GPU);
    world.process_on(11, OWNER, &train, GpuId(8));
    world.process_on(12, OWNER, &[], GpuId(9));
    let contested = |world: &Fixture| -> Vec<bool> { world.host.world.gpus.iter().map(|gpu| gpu.contested).collect() };
    world.host.apply_changes(world.now);
    assert_eq!(contested(&world), [false, false, false]);
    world.process_on(13, OWNER, &[("ROLE", "serve")], GPU);
    world.host.apply_changes(world.now);
    assert_eq!(contested(&world), [true, true, false], "the job stops as a whole, so its other gpu matters");
}

#[test]
fn the_log_says_why_an_actuator_was_dismissed() {
    let dismissed = |end: fn(&mut Fixture)| {
        let mut world = world();
        let (to, _inputs) = crate::os::channel::channel().unwrap();
        let link = crate::actuate::Link::start(std::path::Path::new("/bin/false"), ActuatorChoice::Auto, to).unwrap();
        world.host.take(Input::Discovery(DiscoveryEvent::ActuatorStart(ActuatorStart::Started(link))), world.now);
        world.host.act(world.now);
        end(&mut world);
        assert!(!world.host.sessions.is_up());
        let message = |event: gpreempt_proto::Event| match event.kind {
            EventKind::Actuator { message } => Some(message),
            _ => None,
        };
        world.host.publisher.events().into_iter().filter_map(message).collect::<Vec<String>>()
    };
    assert_eq!(dismissed(|world| world.pass(Nanos::from_secs(6))), ["ended: no process to manage"]);
    let observe = |world: &mut Fixture| {
        let mut config = world.host.config.clone();
        config.mode = Mode::Observe;
        world.host.take(Input::Configured(Box::new(config)), world.now);
    };
    assert_eq!(dismissed(observe), ["ended: the daemon only observes now"]);
}
