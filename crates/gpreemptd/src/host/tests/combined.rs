//! Plans as the actuator hears them.

use std::path::PathBuf;
use std::time::Instant;

use gpreempt_core::{Action, Activity, ActuatorKind, Entry, EntryNumber, Observation};
use gpreempt_proto as proto;

use super::*;
use crate::actuate::{ActuatorChoice, ActuatorCommand, ActuatorEvent, Link};

/// Gives the host an actuator that writes down what it is told, and says which one it is. Returns where it writes.
pub(super) fn with_scribe(world: &mut Fixture, kind: proto::ActuatorKind) -> PathBuf {
    let program = world.directory.path().join("scribe");
    let written = world.directory.path().join("written");
    let text = format!("#!/bin/sh\nexec cat <&1 >{}\n", written.display());
    // Written by another process: children that other tests start at this moment would inherit the descriptor, and a
    // file that is open for writing cannot be executed.
    let script = "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let mut writer = std::process::Command::new("sh");
    assert!(writer.args(["-c", script]).arg(&program).arg(text).status().unwrap().success());
    // That of an earlier one must not be taken for its own.
    let _ = std::fs::remove_file(&written);
    let (to, _inputs) = crate::os::channel::channel().unwrap();
    let link = Link::start(&program, ActuatorChoice::Auto, to).unwrap();
    world.host.take(Input::Discovery(DiscoveryEvent::ActuatorStart(ActuatorStart::Started(link))), world.now);
    world.host.take(Input::Actuator(ActuatorEvent::Started { actuator: 1, kind }), world.now);
    written
}

/// Waits until a switch was written down.
fn switch(written: &PathBuf) -> Vec<crate::actuate::QueueChange> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let text = std::fs::read_to_string(written).unwrap_or_default();
        let commands = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        for command in commands {
            if let ActuatorCommand::Switch { changes, .. } = command {
                return changes;
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("nothing was switched")
}

#[test]
fn the_changes_of_a_plan_are_one_command() {
    for kind in [proto::ActuatorKind::Combined, proto::ActuatorKind::DebugTrap] {
        let mut world = world();
        for pid in [10, 11] {
            world.process(pid, 1001, &[]);
        }
        let written = with_scribe(&mut world, kind);
        for pid in [10, 11] {
            world.host.world.processes.get_mut(&Pid(pid)).unwrap().session = Session::Open { runtime: true };
        }
        let entry = |pid: u32, action| {
            let tenant = world.host.world.tenants[&tenant(pid)].core.unwrap();
            let mut entry = Entry::EMPTY;
            (entry.number, entry.tenant, entry.action) = (EntryNumber(u64::from(pid)), tenant, action);
            entry
        };
        let plan = [entry(10, Action::Preempt), entry(11, Action::Resume)];
        world.host.world.tenants.get_mut(&tenant(11)).unwrap().stopped.insert(1);
        world.host.carry_out(&plan, world.now);
        let changes = switch(&written);
        let stops: Vec<(u32, bool)> = changes.iter().map(|change| (change.pid, change.preempt)).collect();
        assert_eq!(stops, [(10, true), (11, false)]);
        assert_eq!(world.host.status(world.now).actuator, Some(kind));
    }
}

#[test]
fn the_core_counts_with_the_costs_of_the_actuator_that_serves() {
    let mut world = world();
    assert_eq!(world.host.actuator_kind(), ActuatorKind::DebugTrap, "the more expensive one, until it is known");
    let started = ActuatorEvent::Started { actuator: 1, kind: proto::ActuatorKind::Combined };
    world.host.take(Input::Actuator(started), world.now);
    assert_eq!(world.host.actuator_kind(), ActuatorKind::Combined);
    assert_eq!(world.host.debugger(Some(Pid(99))), None, "nothing is traced, so that no debugger is in the way");
    let mut config = world.host.config.clone();
    config.actuator = ActuatorChoice::DebugTrap;
    world.host.take(Input::Configured(Box::new(config)), world.now);
    assert_eq!(world.host.actuator_kind(), ActuatorKind::DebugTrap);
    assert_eq!(world.host.debugger(Some(Pid(99))), Some(Pid(99)));
}

#[test]
fn queues_of_a_target_without_session_are_asked_for_when_they_change() {
    let mut world = world();
    world.process(10, OWNER, &[]);
    let written = with_scribe(&mut world, proto::ActuatorKind::Combined);
    world.host.world.processes.get_mut(&Pid(10)).unwrap().session = Session::Open { runtime: true };
    let identity = world.host.world.processes[&Pid(10)].identity.clone();
    let compute = vec![kfd::QueueId(1), kfd::QueueId(2)];
    let tenants = vec![discovery::Tenant { compute, ..discovery::Tenant::on(GPU) }];
    let process = discovery::Process { identity, memory: Err("a test".into()), tenants, traced_by: None, contexts: 0 };
    world.host.take(Input::Discovery(DiscoveryEvent::Process(Box::new(process))), world.now);
    let deadline = Instant::now() + Duration::from_secs(60);
    let asked = || std::fs::read_to_string(&written).is_ok_and(|text| text.contains("\"attach\":{\"pid\":10"));
    while !asked() {
        assert!(Instant::now() < deadline, "nothing was asked");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_late_answer_to_an_entry_that_was_planned_again_does_not_pass_for_that_of_the_new_one() {
    let mut world = world();
    world.process(10, 1001, &[]);
    let _written = with_scribe(&mut world, proto::ActuatorKind::Combined);
    world.host.world.processes.get_mut(&Pid(10)).unwrap().session = Session::Open { runtime: true };
    let id = world.host.world.tenants[&tenant(10)].core.unwrap();
    let job = world.host.world.tenants[&tenant(10)].job_id.unwrap();
    world.host.core.set_stoppable(id, true).unwrap();
    world.host.core.hold(job, Nanos::NEVER).unwrap();
    let busy = Observation { at: world.now, since: world.now, activity: Activity::Running, ..Observation::default() };
    world.host.core.observe(id, Observation { queues: 1, ..busy }).unwrap();
    let ordered = |world: &Fixture| world.host.world.tenants[&tenant(10)].ordered.unwrap();
    world.host.decide(world.now, world.now);
    let first = ordered(&world);
    // The core waits ten seconds for an answer.
    let later = world.now.plus(Nanos::from_secs(11));
    world.host.decide(later, later);
    let again = ordered(&world);
    assert!(again > first);
    let answer = |entry: EntryNumber, queues| ActuatorEvent::Done {
        ticket: entry.0,
        pid: 10,
        queues,
        failed: Vec::new(),
        cycles: 1,
        called_ns: later.0,
        answered_ns: later.0,
    };
    world.host.take(Input::Actuator(answer(first, vec![1])), later);
    assert_eq!(ordered(&world), again, "the second is still under way");
    assert_eq!(world.host.core.tenant(id).unwrap().open, Some(again), "and its answer is still to come");
    world.host.take(Input::Actuator(answer(again, vec![1])), later);
    assert_eq!(world.host.world.tenants[&tenant(10)].ordered, None);
    assert_eq!(world.host.core.tenant(id).unwrap().open, None);
    assert!(world.host.world.tenants[&tenant(10)].is_stopped());
}
