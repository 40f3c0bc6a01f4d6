//! The whole-gpu switch: when a higher level waits behind a lower one, stop the gpu's scheduler and start it again.
//!
//! It takes all tasks off the gpu and cannot choose which come back: all do, with their waves. The cycle is paid for
//! and nothing is gained. It is included so that it need not be tried on a machine.

use gpreempt_core::Nanos;

use super::levels::Levels;
use super::{Mechanism, MechanismSpec};
use crate::machine::{Machine, SwitchPath, micros};

pub(super) const SPEC: MechanismSpec = MechanismSpec {
    name: "stop-sched",
    about: "the gpu's scheduler is stopped and started again on inversion (unsuitable: every task comes back)",
    assumes: &["it looks every 5 ms: estimate of what a scan of all queues allows"],
    build: |profile, workload| {
        Box::new(StopSched { levels: Levels::new(workload), ioctl: micros(&profile.host.ioctl_us) })
    },
};

/// Period of observation, and so the shortest time between two actions.
const PERIOD: Nanos = Nanos::from_millis(5);

struct StopSched {
    levels: Levels,
    ioctl: Nanos,
}

impl StopSched {
    /// Returns a task with work on `gpu` while a task of a lower level has workgroups there.
    fn inverted(&self, machine: &Machine, gpu: usize) -> Option<usize> {
        let view = |task| machine.view(task, gpu);
        (0..machine.tasks()).find(|&task| {
            view(task).is_some_and(|queue| queue.unfinished)
                && self.levels.below(task).iter().any(|&lower| view(lower).is_some_and(|queue| queue.resident > 0))
        })
    }
}

impl Mechanism for StopSched {
    fn start(&mut self, machine: &mut Machine) {
        machine.set_timer(PERIOD, 0);
    }

    fn timer(&mut self, machine: &mut Machine, _token: u64) {
        for gpu in 0..machine.gpus() {
            if let Some(task) = self.inverted(machine, gpu) {
                machine.detected(task, gpu);
                machine.switch(gpu, &[], &[], SwitchPath::Driver, self.ioctl);
            }
        }
        machine.set_timer(machine.now().plus(PERIOD), 0);
    }
}
