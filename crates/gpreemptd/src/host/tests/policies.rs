//! Sessions, watch sets and observe mode follow the policy of the core, whichever it is.

use std::fs;
use std::path::{Path, PathBuf};

use gpreempt_core::{Activity, Reason};
use gpreempt_proto::EventKind;

use super::*;
use crate::control::wire::ToWire as _;
use crate::discovery::OccupancySample;
use crate::observe::TenantProbe;

type Role = &'static [(&'static str, &'static str)];

const NONE: [u32; 0] = [];
const PLAIN: Role = &[];
const URGENT: Role = &[("ROLE", "urgent")];
const HIGH: Role = &[("ROLE", "high")];

/// A fixture with this mode and this policy, and rules for the three roles above.
fn fixture(mode: &str, policy: &str) -> Fixture {
    world_with(&format!(
        "mode = \"{mode}\"\n[[gpu]]\ngpu = \"*\"\n{policy}\n\
         [breaker]\ncontrol_one_in = 1\n\
         [[rule]]\nname = \"urgent\"\nuid = 1000\nenvironment = {{ ROLE = \"urgent\" }}\nlevel = 3\nperiod_ms = 10\nruntime_ms = 2\n\
         [[rule]]\nname = \"high\"\nuid = 1000\nenvironment = {{ ROLE = \"high\" }}\nlevel = 8\n\
         [[rule]]\nname = \"plain\"\nuid = 1000\nlevel = 3\n"
    ))
}

impl Fixture {
    /// Tenants that are polled between scans, and those polled only while one of these works.
    fn watch_sets(&self) -> (Vec<u32>, Vec<u32>) {
        let pids = |keys: &[TenantKey]| keys.iter().map(|key| key.pid.0).collect();
        (pids(&self.gpu().upper), pids(&self.gpu().lower))
    }

    /// Processes with which sessions are opened.
    fn victims(&self) -> Vec<u32> {
        self.host.needing_sessions().into_iter().map(|pid| pid.0).collect()
    }

    fn runs(&mut self, pid: u32) {
        self.host.world.tenants.get_mut(&tenant(pid)).unwrap().last.activity = Activity::Running;
    }

    /// Reasons of would-be stops so far, each with its victim.
    fn reported(&self) -> Vec<(u32, String)> {
        let would = |event: gpreempt_proto::Event| match event.kind {
            EventKind::WouldPreempt { reason, .. } => Some((event.pid?, reason.to_string())),
            _ => None,
        };
        self.host.publisher.events().into_iter().filter_map(would).collect()
    }
}

/// Returns the watch sets and the victims among processes 10, 11, ... with these roles.
fn sets(policy: &str, roles: &[Role]) -> ((Vec<u32>, Vec<u32>), Vec<u32>) {
    let mut world = fixture("enforce", policy);
    for (pid, role) in (10..).zip(roles) {
        world.process(pid, OWNER, role);
    }
    world.host.act(world.now);
    let contested = world.gpu().contested;
    assert_eq!(contested, !world.victims().is_empty());
    let asked = world.requests.try_iter().any(|request| matches!(request, DiscoveryRequest::StartActuator { .. }));
    assert_eq!(asked, contested, "sessions are wanted where jobs compete");
    (world.watch_sets(), world.victims())
}

#[test]
fn levels_decide_who_is_watched_and_attached_under_the_priority_policy() {
    assert_eq!(sets("", &[PLAIN, PLAIN, HIGH]), ((vec![12], vec![10, 11]), vec![10, 11]));
    assert_eq!(sets("", &[PLAIN, PLAIN]).1, NONE);
    let slices = "slice_ms = 5";
    assert_eq!(sets(slices, &[PLAIN, PLAIN, HIGH]), ((vec![10, 11, 12], vec![]), vec![10, 11]));
}

#[test]
fn jobs_that_share_fairly_are_all_watched_and_attached_also_those_of_the_lowest_level() {
    let fair = "policy = \"fair\"";
    assert_eq!(sets(fair, &[PLAIN, PLAIN, HIGH]), ((vec![10, 11, 12], vec![]), vec![10, 11, 12]));
    assert_eq!(sets(fair, &[PLAIN, PLAIN]), ((vec![10, 11], vec![]), vec![10, 11]));
    assert_eq!(sets(fair, &[PLAIN]).1, NONE);
}

#[test]
fn jobs_with_deadlines_are_watched_and_all_that_they_displace_are_attached() {
    let deadline = "policy = \"deadline\"";
    assert_eq!(sets(deadline, &[PLAIN, URGENT, PLAIN]), ((vec![11], vec![10, 12]), vec![10, 12]));
    assert_eq!(sets(deadline, &[URGENT, URGENT]), ((vec![10, 11], vec![]), vec![10, 11]));
    assert_eq!(sets(deadline, &[PLAIN, PLAIN]).1, NONE);
    assert_eq!(sets(deadline, &[PLAIN, HIGH]), ((vec![11], vec![10]), vec![10]));
}

#[test]
fn observe_mode_reports_the_stops_of_every_policy_with_the_reason_of_the_core() {
    let cases: [(&str, Role, Option<Reason>); 6] = [
        ("", HIGH, Some(Reason::HigherWants)),
        ("", PLAIN, None),
        ("slice_ms = 5", PLAIN, Some(Reason::SliceOver)),
        ("policy = \"fair\"", PLAIN, Some(Reason::ShareDue)),
        ("policy = \"deadline\"", URGENT, Some(Reason::EarlierDeadline)),
        ("policy = \"deadline\"", PLAIN, None),
    ];
    for (policy, role, reason) in cases {
        let mut world = fixture("observe", policy);
        world.process(10, OWNER, PLAIN);
        world.process(11, OWNER, role);
        world.host.act(world.now);
        world.runs(10);
        world.host.burst_began(tenant(11), Nanos::ZERO, world.now);
        let expected: Vec<_> = reason.map(|reason| (10, reason.to_wire().to_string())).into_iter().collect();
        assert_eq!(world.reported(), expected, "{policy}");
        assert_eq!(world.host.publisher.gpu(&gpu(GPU)).inversions, expected.len() as u64, "{policy}");
        assert!(world.requests.try_iter().next().is_none(), "{policy}: nothing is started");
    }
}

#[test]
fn observe_mode_reports_a_stop_for_each_time_that_a_job_uses_its_limit_up() {
    let mut world = world_with(
        "mode = \"observe\"\n[[gpu]]\ngpu = \"*\"\npolicy = \"fair\"\n\
         [[rule]]\nname = \"plain\"\nuid = 1000\nlevel = 3\nlimit = 0.5\n",
    );
    world.process(10, OWNER, PLAIN);
    world.host.act(world.now);
    assert!(world.gpu().contested, "it is polled although it is alone");
    let spend = |world: &mut Fixture, activity: Activity| {
        world.host.world.tenants.get_mut(&tenant(10)).unwrap().last.activity = activity;
        for _ in 0..20 {
            world.host.observe_again(tenant(10), world.now);
            world.host.pending.core_informed();
            world.host.decide(world.now, world.now);
            world.now = world.now.plus(Nanos::from_millis(10));
        }
    };
    for times in 1..3 {
        spend(&mut world, Activity::Running);
        assert_eq!(world.reported(), vec![(10, Reason::LimitReached.to_wire().to_string()); times]);
        spend(&mut world, Activity::Idle);
    }
}

/// `config print` shows the same bounds.
#[test]
fn the_status_has_a_bound_on_inversions_only_where_levels_decide() {
    for (policy, bounded) in [("", true), ("policy = \"fair\"", false), ("policy = \"deadline\"", false)] {
        let mut world = fixture("enforce", policy);
        world.process(10, OWNER, PLAIN);
        world.process(11, OWNER, HIGH);
        world.host.act(world.now);
        for job in world.host.status(world.now).jobs {
            assert_eq!(job.bounds.unwrap().inversion_ms.is_some(), bounded, "{policy}: {}", job.job);
        }
        let printed = world.host.config.print();
        assert_eq!(printed.contains("waits for lower levels"), bounded, "{printed}");
    }
}

/// A sample is asked for where jobs compete, and answered by another thread.
#[test]
fn a_sample_that_comes_after_the_competition_reads_no_memory() {
    let mut world = fixture("observe", "");
    world.process(10, OWNER, PLAIN);
    world.process(11, OWNER, HIGH);
    let memory = Arc::new(kfd::ProcessMemory::open(Pid(std::process::id())).unwrap());
    world.host.world.tenants.get_mut(&tenant(10)).unwrap().probe = Some(TenantProbe::new(memory, &[]));
    let polled_by_sample = |world: &mut Fixture| {
        world.host.act(world.now);
        world.now = world.now.plus(Nanos::from_millis(5));
        world.host.world.tenants.get_mut(&tenant(10)).unwrap().sampling = true;
        let sample =
            OccupancySample { pid: Pid(10), gpu: GPU, at: world.now, occupied_cus: Some(1), evicted_ms: Some(0) };
        world.host.take(Input::Discovery(DiscoveryEvent::Occupancy(sample)), world.now);
        let tenant = &world.host.world.tenants[&tenant(10)];
        assert!(!tenant.sampling, "the next one can be asked for");
        tenant.last.at == world.now
    };
    assert!(polled_by_sample(&mut world));
    world.host.take(Input::Discovery(DiscoveryEvent::Gone { pid: Pid(11) }), world.now);
    assert!(!polled_by_sample(&mut world));
}

/// Jobs that take turns delay each other with the daemon and without it, so a comparison would only disturb them.
#[test]
fn control_bursts_are_chosen_only_where_one_job_stands_above_the_other() {
    let cases = [("", HIGH, true), ("slice_ms = 5", PLAIN, false), ("policy = \"fair\"", HIGH, false)];
    for (policy, role, control) in cases {
        let mut world = fixture("enforce", policy);
        world.process(10, OWNER, PLAIN);
        world.process(11, OWNER, role);
        world.host.act(world.now);
        world.runs(10);
        world.host.burst_began(tenant(11), Nanos::ZERO, world.now);
        assert_eq!(world.host.bursts.control_on(first()), control.then_some(tenant(11)), "{policy}");
    }
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// A new policy is a file of the core and a word of the configuration and of the wire.
#[test]
fn only_configuration_and_wire_know_the_names_of_policies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    sources(&root, &mut found);
    assert!(found.len() > 50, "{found:?}");
    let name = ["Policy", "Kind"].concat();
    let allowed = |path: &Path| path.starts_with(root.join("config")) || path == root.join("control/wire.rs");
    let knowing: Vec<_> =
        found.into_iter().filter(|path| !allowed(path) && fs::read_to_string(path).unwrap().contains(&name)).collect();
    assert!(knowing.is_empty(), "{knowing:?}");
}
