//! The combined actuator over a driver that remembers its calls.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Duration;

use super::super::CommandRefusalKind;
use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A driver whose processes start at their pid plus 1000; process 9 is another user's.
#[derive(Clone, Default)]
struct FakeDriver {
    calls: Arc<Mutex<Vec<Vec<SwitchEntry>>>>,
    /// Queues whose entries fail, with the number.
    failing: Arc<Mutex<HashMap<u32, Errno>>>,
    /// States of queues; others run.
    states: Arc<Mutex<HashMap<u32, QueueFlags>>>,
}

impl FakeDriver {
    fn result(&self, entry: &SwitchEntry) -> Result<u32, i32> {
        if entry.started != u64::from(entry.pid.0) + 1000 {
            return Err(Errno::ESRCH as i32);
        }
        if entry.pid == Pid(9) {
            return Err(Errno::EPERM as i32);
        }
        let failing = self.failing.lock().unwrap();
        let errno = entry.queue.and_then(|queue| failing.get(&queue.0));
        errno.map_or(Ok(u32::from(entry.queue.is_some())), |errno| Err(*errno as i32))
    }
}

impl SwitchCalls for FakeDriver {
    fn switch(&self, entries: &[SwitchEntry], _: Grace) -> kfd::Result<Switched> {
        self.calls.lock().unwrap().push(entries.to_vec());
        let results: Vec<_> = entries.iter().map(|entry| self.result(entry)).collect();
        // One gpu only.
        let cycles = u32::from(results.iter().any(|result| result.is_ok_and(|changed| changed > 0)));
        Ok(Switched { results, cycles, took: Duration::ZERO })
    }

    fn queues(&self, pid: Pid) -> kfd::Result<Vec<SwitchQueue>> {
        let states = self.states.lock().unwrap();
        let queue = |queue_id: u32| SwitchQueue {
            start_time: u64::from(pid.0) + 1000,
            pid: pid.0.cast_signed(),
            context_id: CONTEXT_PRIMARY,
            gpu_id: 7,
            queue_id,
            flags: states.get(&queue_id).copied().unwrap_or(QueueFlags::ACTIVE),
            ..SwitchQueue::default()
        };
        // Another context has a queue of the same number, which is none of the targets.
        let elsewhere = SwitchQueue { context_id: 0, ..queue(1) };
        Ok([queue(1), elsewhere, queue(2)].to_vec())
    }
}

/// The daemon's end.
struct Hand {
    driver: FakeDriver,
    actuator: Combined,
    reports: BufReader<UnixStream>,
}

impl Hand {
    fn new() -> Hand {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let driver = FakeDriver::default();
        let actuator = Combined::start(driver.clone(), Arc::new(Reports::new(theirs))).unwrap();
        Hand { driver, actuator, reports: BufReader::new(ours) }
    }

    fn hear(&mut self) -> ActuatorEvent {
        let mut line = String::new();
        self.reports.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn attach(&mut self, pid: u32) -> ActuatorEvent {
        self.actuator.obey(ActuatorCommand::Attach { pid, started: u64::from(pid) + 1000 });
        self.hear()
    }

    /// Makes changes and returns the answers; the driver's calls before are forgotten.
    fn switch(&mut self, changes: Vec<QueueChange>) -> Vec<ActuatorEvent> {
        self.driver.calls.lock().unwrap().clear();
        let count = changes.len();
        self.actuator.obey(ActuatorCommand::Switch { changes, grace: None });
        (0..count).map(|_| self.hear()).collect()
    }

    fn calls(&self) -> Vec<Vec<SwitchEntry>> {
        self.driver.calls.lock().unwrap().clone()
    }

    fn fails(&self, queue: u32, errno: Errno, state: QueueFlags) {
        self.driver.failing.lock().unwrap().insert(queue, errno);
        self.driver.states.lock().unwrap().insert(queue, state);
    }
}

fn change(ticket: u64, pid: u32, preempt: bool) -> QueueChange {
    QueueChange { ticket, pid, gpu: GpuId(7), queues: vec![1, 2], preempt }
}

fn kind(told: &ActuatorEvent) -> Option<(Option<u64>, CommandRefusalKind)> {
    match told {
        ActuatorEvent::Refused(refusal) => Some((refusal.ticket, refusal.kind)),
        _ => None,
    }
}

#[test]
fn a_plan_is_one_call_and_its_cycle_counts_once() {
    let mut hand = Hand::new();
    for pid in [3, 4] {
        let ActuatorEvent::Attached { runtime: true, queues, .. } = hand.attach(pid) else { panic!() };
        assert_eq!(queues.iter().map(|queue| queue.queue).collect::<Vec<_>>(), [1, 2]);
    }
    let answers = hand.switch(vec![change(11, 3, true), change(12, 4, false)]);
    let calls = hand.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    let entry = |pid: u32, queue, action| SwitchEntry {
        pid: Pid(pid),
        started: u64::from(pid) + 1000,
        queue: Some(QueueId(queue)),
        action,
    };
    let (stop, go) = (SwitchAction::Preempt, SwitchAction::Resume);
    assert_eq!(calls[0], [entry(3, 1, stop), entry(3, 2, stop), entry(4, 1, go), entry(4, 2, go)]);
    let done = |told: &ActuatorEvent| match told {
        ActuatorEvent::Done { ticket, pid, queues, cycles, .. } => (*ticket, *pid, queues.clone(), *cycles),
        other => panic!("{other:?}"),
    };
    let answers: Vec<_> = answers.iter().map(done).collect();
    assert_eq!(answers, [(11, 3, vec![1, 2], 1), (12, 4, vec![1, 2], 0)]);
}

#[test]
fn a_refused_process_does_not_hold_up_the_others() {
    let mut hand = Hand::new();
    assert_eq!(kind(&hand.attach(9)), Some((None, CommandRefusalKind::Permission)));
    hand.actuator.obey(ActuatorCommand::Attach { pid: 5, started: 1 });
    assert_eq!(kind(&hand.hear()), Some((None, CommandRefusalKind::Gone)), "the pid belongs to a later process");
    hand.attach(3);
    let answers = hand.switch(vec![change(1, 5, true), change(2, 3, true)]);
    assert_eq!(kind(&answers[0]), Some((Some(1), CommandRefusalKind::Gone)));
    assert!(matches!(answers[1], ActuatorEvent::Done { ticket: 2, cycles: 1, .. }), "{answers:?}");
    assert_eq!(hand.calls()[0].len(), 2, "what is no target is not named to the driver");
}

#[test]
fn a_queue_that_is_leaving_is_told_from_one_that_is_anothers() {
    let mut hand = Hand::new();
    hand.attach(3);
    for (errno, state) in [
        (Errno::ENOENT, QueueFlags::ACTIVE),
        (Errno::EBUSY, QueueFlags::DESTROYED),
        (Errno::EIO, QueueFlags::RESET | QueueFlags::PREEMPTED),
    ] {
        hand.fails(2, errno, state);
        let answers = hand.switch(vec![change(1, 3, true)]);
        assert!(matches!(&answers[0], ActuatorEvent::Done { queues, .. } if *queues == [1]), "{answers:?}");
    }
    for (errno, expected) in [(Errno::EBUSY, CommandRefusalKind::Debugger), (Errno::EIO, CommandRefusalKind::Reset)] {
        hand.fails(2, errno, QueueFlags::PREEMPTED);
        let answers = hand.switch(vec![change(1, 3, true)]);
        assert_eq!(kind(&answers[0]), Some((Some(1), expected)));
    }
}

#[test]
fn what_is_no_target_any_more_is_resumed() {
    let mut hand = Hand::new();
    hand.attach(3);
    hand.driver.calls.lock().unwrap().clear();
    hand.actuator.obey(ActuatorCommand::Detach { pid: 3 });
    hand.attach(4);
    let all = |pid: u32| {
        vec![SwitchEntry { pid: Pid(pid), started: 1000 + u64::from(pid), queue: None, action: SwitchAction::Resume }]
    };
    assert_eq!(hand.calls(), [all(3), all(4)]);
    let Hand { driver, actuator, .. } = hand;
    actuator.close().join().unwrap();
    assert_eq!(Arc::strong_count(&driver.calls), 1, "the descriptor is closed with the thread");
}
