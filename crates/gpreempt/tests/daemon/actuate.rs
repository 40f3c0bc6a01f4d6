//! The actuator with real processes on the virtual gpu: what it stops, what it tells, and what happens when a process
//! dies.

use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use gpreempt_proto::ActuatorKind;
use gpreempt_testkit::scene::{process, status};
use gpreempt_testkit::{Scene, play, this_test, until};
use gpreemptd::actuate::{
    ActuatorCommand, ActuatorEvent, CommandRefusal, CommandRefusalKind, QueueChange, TracedQueue,
};
use gpreemptd::inbox::{Inbox, Input};
use kfd::{GpuId, Pid};
use linux_host::process::{ProcStat, ProcStatus};
use nix::sys::signal::{Signal, kill};

use super::living_link::LivingLink;

/// A driver that wants its callers to trace.
const ORIGINAL: &[&str] = &["--kernel", "dkms"];
/// The director is ended long before.
const PATIENCE: Duration = Duration::from_secs(100);

/// A daemon's hand: an actuator that is kept alive, and what it tells.
struct Hand {
    link: LivingLink,
    told: Inbox,
    actuator: u32,
    tickets: u64,
}

impl Hand {
    fn start() -> Hand {
        let (link, told) = LivingLink::start();
        let mut hand = Hand { link, told, actuator: 0, tickets: 0 };
        hand.actuator = hand.until(|told| match told {
            ActuatorEvent::Started { actuator, kind: ActuatorKind::DebugTrap } => Some(actuator),
            _ => None,
        });
        assert_eq!(hand.link.pid(), Some(hand.actuator));
        hand
    }

    fn send(&self, order: ActuatorCommand) {
        assert!(self.link.send(order));
    }

    /// Passes over everything before what is waited for.
    fn until<T>(&self, mut wanted: impl FnMut(ActuatorEvent) -> Option<T>) -> T {
        loop {
            let Input::Actuator(told) = self.told.recv_timeout(PATIENCE).expect("it is told") else { continue };
            if let ActuatorEvent::Lost { why, .. } = &told {
                eprintln!("lost: {why}");
            }
            if let Some(found) = wanted(told) {
                return found;
            }
        }
    }

    /// Begins a session; queues and whether the runtime is there.
    fn attach(&self, pid: Pid) -> Result<(Vec<TracedQueue>, bool), CommandRefusal> {
        self.attach_started(pid, start_of(pid))
    }

    fn attach_started(&self, pid: Pid, started: u64) -> Result<(Vec<TracedQueue>, bool), CommandRefusal> {
        self.send(ActuatorCommand::Attach { pid: pid.0, started });
        self.until(|told| match told {
            ActuatorEvent::Attached { pid: found, queues, runtime } if found == pid.0 => Some(Ok((queues, runtime))),
            ActuatorEvent::Refused(refused) if refused.pid == pid.0 && refused.ticket.is_none() => Some(Err(refused)),
            _ => None,
        })
    }

    fn suspend(&mut self, pid: Pid, queues: &[u32]) -> Result<Vec<u32>, CommandRefusal> {
        self.tickets += 1;
        let (ticket, queues) = (self.tickets, queues.to_vec());
        self.order(QueueChange { ticket, pid: pid.0, gpu: GpuId(0), queues, preempt: true })
    }

    fn resume(&mut self, pid: Pid, queues: &[u32]) -> Result<Vec<u32>, CommandRefusal> {
        self.tickets += 1;
        let (ticket, queues) = (self.tickets, queues.to_vec());
        self.order(QueueChange { ticket, pid: pid.0, gpu: GpuId(0), queues, preempt: false })
    }

    fn order(&self, change: QueueChange) -> Result<Vec<u32>, CommandRefusal> {
        self.send(ActuatorCommand::Switch { changes: vec![change], grace: Some(1) });
        self.until(|told| match told {
            ActuatorEvent::Done { ticket, queues, failed, called_ns, answered_ns, .. } if ticket == self.tickets => {
                assert!(failed.is_empty() && called_ns < answered_ns);
                Some(Ok(queues))
            }
            ActuatorEvent::Refused(refused) if refused.ticket == Some(self.tickets) => Some(Err(refused)),
            _ => None,
        })
    }

    fn detach(&self, pid: Pid) {
        self.send(ActuatorCommand::Detach { pid: pid.0 });
    }

    /// Another session in place of one that is open.
    fn attach_again(&self, pid: Pid) {
        self.detach(pid);
        self.attach(pid).unwrap();
    }

    fn must_hear_of_end(&self, pid: Pid) {
        self.until(|told| (told == ActuatorEvent::Ended { pid: pid.0 }).then_some(()));
    }

    /// Queues and runtime after a change that `wanted` recognises.
    fn must_hear_of_change(&self, wanted: impl Fn(&[TracedQueue], bool) -> bool) {
        self.until(|told| match told {
            ActuatorEvent::Changed { queues, runtime, .. } => wanted(&queues, runtime).then_some(()),
            _ => None,
        });
    }

    fn must_hear_of_loss(&self, by_guardian: bool) {
        let killed = self.until(|told| match told {
            ActuatorEvent::Lost { killed, .. } => Some(killed),
            _ => None,
        });
        // A guardian that a busy machine lets leave late is ended, too.
        assert!(killed || !by_guardian);
    }
}

fn start_of(pid: Pid) -> u64 {
    ProcStat::read(pid.0).expect("it runs").start
}

fn is_halted(pid: Pid) -> bool {
    ProcStat::read(pid.0).expect("it runs").is_halted()
}

fn is_traced(pid: Pid) -> bool {
    ProcStatus::read(pid.0).expect("it runs").tracer.is_some()
}

fn send(pid: Pid, signal: Signal) {
    kill(nix::unistd::Pid::from_raw(pid.0 as i32), signal).expect("it lives");
}

fn state_of_queue(pid: Pid, queue: u32) -> String {
    let status = status();
    let queues = process(&status, pid.0).expect("uses the gpu")["queues"].as_array().expect("a list").clone();
    let found = queues.iter().find(|found| found["id"] == queue).expect("it exists");
    found["state"].as_str().expect("a word").to_owned()
}

/// A life with an actuator, under one of the rules of permission.
fn live_through_stops(scene: &Scene, stays_traced: bool) {
    let (mut client, first) = scene.walker(4);
    let pid = client.pid();
    let mut hand = Hand::start();
    let (queues, runtime) = hand.attach(pid).unwrap();
    assert!(
        runtime && queues.len() == 1 && queues[0].queue == first && queues[0].kind == kfd::QueueType::COMPUTE_AQL,
        "{queues:?}"
    );
    assert_eq!(hand.suspend(pid, &[first]).unwrap(), [first]);
    // Where the driver wants its callers to trace, that shows only when it is tried without. That is over when the
    // queue is stopped, and is left out if the program was where it must not be interrupted: then once more.
    until("it is let go, or traced again", || {
        let right = is_traced(pid) == stays_traced;
        if !right {
            hand.attach_again(pid);
            assert_eq!(hand.suspend(pid, &[first]).unwrap(), [first]);
        }
        right
    });
    assert_eq!(state_of_queue(pid, first), "suspended");
    client.enough();
    assert!(!client.is_done(0));
    // Born while the other is stopped, stopped without a request for a snapshot, and one that never was.
    let second = client.queue(7);
    hand.must_hear_of_change(|queues, runtime| runtime && queues.len() == 2);
    let mut stopped = hand.suspend(pid, &[second, 77]).unwrap();
    assert_eq!(stopped, [second]);
    client.ask(&format!("walk {second} 2"));
    client.enough();
    stopped.push(first);
    assert_eq!(hand.resume(pid, &stopped).unwrap(), stopped);
    client.must_end_right(0);
    client.must_end_right(1);

    // A session that ends is no obstacle to the next, which is told what there is.
    hand.suspend(pid, &[first]).unwrap();
    hand.detach(pid);
    assert_eq!(hand.attach(pid).unwrap().0.len(), 2);
    assert_eq!(state_of_queue(pid, first), "mapped");
    assert_eq!(hand.attach(pid).unwrap().0.len(), 2, "asked again");
    client.ask(&format!("destroy {second}"));
    hand.must_hear_of_change(|queues, _| queues.len() == 1);
    client.leave();
    hand.must_hear_of_end(pid);
    assert_eq!(hand.suspend(pid, &[first]).unwrap_err().kind, CommandRefusalKind::Gone);
}

#[test]
fn queues_are_stopped_and_resumed_without_tracing_where_the_driver_allows_it() {
    play(this_test!(), &[], |scene| {
        live_through_stops(scene, false);
    });
}

#[test]
fn queues_are_stopped_and_resumed_where_the_driver_wants_its_callers_to_trace() {
    play(this_test!(), ORIGINAL, |scene| {
        live_through_stops(scene, true);
    });
}

#[test]
fn a_process_killed_while_stopped_is_told_and_forgotten() {
    play(this_test!(), &[], |scene| {
        let mut hand = Hand::start();
        for _ in 0..2 {
            let (client, queue) = scene.walker(2);
            let pid = client.pid();
            hand.attach(pid).unwrap();
            assert_eq!(hand.suspend(pid, &[queue]).unwrap(), [queue]);
            client.kill_traced();
            hand.must_hear_of_end(pid);
            until("it is forgotten", || process(&status(), pid.0).is_none());
        }
    });
}

#[test]
fn everything_runs_again_when_the_actuator_is_killed() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(4);
        let pid = client.pid();
        let mut hand = Hand::start();
        hand.attach(pid).unwrap();
        assert_eq!(hand.suspend(pid, &[queue]).unwrap(), [queue]);
        client.enough();
        assert!(!client.is_done(0));
        send(Pid(hand.actuator), Signal::SIGKILL);
        hand.must_hear_of_loss(false);
        client.must_end_right(0);
        // The next one has it all again.
        let mut hand = Hand::start();
        hand.attach(pid).unwrap();
        assert_eq!(hand.suspend(pid, &[queue]).unwrap(), [queue]);
        // An orderly end: everything runs when it is over.
        let Hand { link, told, .. } = hand;
        drop(link);
        until("the link is gone", || matches!(told.try_recv(), Err(TryRecvError::Disconnected)));
        until("it runs", || state_of_queue(pid, queue) == "mapped");
        until("it has no debugger", || process(&status(), pid.0).unwrap()["debugger"].is_null());
        client.leave();
    });
}

#[test]
fn everything_runs_again_when_the_actuator_is_stopped() {
    play(this_test!(), ORIGINAL, |scene| {
        let (mut client, queue) = scene.walker(4);
        let mut hand = Hand::start();
        hand.attach(client.pid()).unwrap();
        assert_eq!(hand.suspend(client.pid(), &[queue]).unwrap(), [queue]);
        client.enough();
        send(Pid(hand.actuator), Signal::SIGSTOP);
        hand.must_hear_of_loss(true);
        client.must_end_right(0);
        client.leave();
    });
}

#[test]
fn a_runtime_that_did_not_offer_itself_is_told_from_one_that_did_later() {
    play(this_test!(), &[], |scene| {
        let mut client = scene.actor();
        client.ask("open");
        client.ask("runtime off");
        let pid = client.pid();
        let mut hand = Hand::start();
        let (queues, runtime) = hand.attach(pid).unwrap();
        assert!(queues.is_empty() && !runtime);
        let refused = hand.suspend(pid, &[0]).unwrap_err();
        assert_eq!(refused.kind, CommandRefusalKind::Runtime);
        assert!(refused.message.contains("has not offered itself"), "{}", refused.message);
        client.ask("runtime on");
        hand.must_hear_of_change(|_, runtime| runtime);
        let queue = client.queue(7);
        hand.must_hear_of_change(|queues, _| queues.len() == 1);
        assert_eq!(hand.suspend(pid, &[queue]).unwrap(), [queue]);
        assert_eq!(hand.resume(pid, &[queue]).unwrap(), [queue]);
        client.ask(&format!("destroy {queue}"));
        client.ask("runtime off");
        hand.must_hear_of_change(|queues, runtime| queues.is_empty() && !runtime);
        client.leave();
    });
}

#[test]
fn a_process_of_another_debugger_is_refused_as_such() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(1);
        let pid = client.pid();
        let mut hand = Hand::start();
        let mut other = scene.actor();
        other.ask(&format!("trace {pid}"));
        assert_eq!(hand.attach(pid).unwrap_err().kind, CommandRefusalKind::Debugger);
        other.leave();
        // One that comes later takes the session over, which the driver permits once no process traces.
        hand.attach(pid).unwrap();
        until("it is let go", || {
            // As in every session, that has been tried when the first order is answered.
            assert_eq!(hand.resume(pid, &[]).unwrap(), [0; 0]);
            let free = !is_traced(pid);
            if !free {
                hand.attach_again(pid);
            }
            free
        });
        let mut thief = scene.actor();
        thief.ask(&format!("trace {pid}"));
        assert!(thief.try_to("debug").is_err());
        assert_eq!(hand.suspend(pid, &[queue]).unwrap_err().kind, CommandRefusalKind::Debugger);
        // Its session is left to it.
        hand.detach(pid);
        assert_eq!(hand.attach(pid).unwrap_err().kind, CommandRefusalKind::Debugger);
        assert_eq!(thief.ask("snapshot"), "1");
        thief.ask("disable");
        thief.leave();
        client.enough();
        client.must_end_right(0);
        client.leave();
    });
}

#[test]
fn signals_and_job_control_of_a_traced_process_work_as_before() {
    play(this_test!(), ORIGINAL, |scene| {
        let (mut client, queue) = scene.walker(1);
        let pid = client.pid();
        let mut hand = Hand::start();
        hand.attach(pid).unwrap();
        for _ in 0..5 {
            send(pid, Signal::SIGUSR1);
            assert!(!client.is_done(0), "it has a handler and goes on");
        }
        send(pid, Signal::SIGTSTP);
        until("it is stopped", || is_halted(pid));
        assert_eq!(hand.suspend(pid, &[queue]).unwrap(), [queue]);
        // The signal itself stops it for a moment, before it is delivered and stops the process for good.
        until("it stays so", || is_halted(pid));
        send(pid, Signal::SIGCONT);
        client.enough();
        assert!(!client.is_done(0));
        assert_eq!(hand.resume(pid, &[queue]).unwrap(), [queue]);
        client.must_end_right(0);
        assert!(is_traced(pid));
        client.leave();
        hand.must_hear_of_end(pid);
    });
}

#[test]
fn a_process_that_is_not_the_one_meant_is_left_alone() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(1);
        let pid = client.pid();
        let mut hand = Hand::start();
        assert_eq!(hand.attach_started(pid, start_of(pid) + 1).unwrap_err().kind, CommandRefusalKind::Gone);
        assert_eq!(hand.attach_started(Pid(u32::MAX >> 1), 1).unwrap_err().kind, CommandRefusalKind::Gone);
        assert_eq!(hand.suspend(pid, &[queue]).unwrap_err().kind, CommandRefusalKind::Gone);
        assert!(process(&status(), pid.0).unwrap()["debugger"].is_null());
        client.enough();
        client.must_end_right(0);
        client.leave();
    });
}
