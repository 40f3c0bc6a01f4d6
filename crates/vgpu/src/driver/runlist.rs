//! What is to be on a gpu.

use super::queues::Queue;
use super::{Driver, ProcessKey};

/// The queues of one process that are to be on a gpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The process.
    pub process: ProcessKey,
    /// Its queues, newest first.
    pub queues: Vec<u32>,
}

/// What is to be on a gpu: newest process first. The hardware holds one group at a time; if there are several it goes
/// from one to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runlist {
    /// What is on the gpu together.
    pub groups: Vec<Vec<Mapped>>,
}

impl Driver {
    /// What is to be on a gpu now.
    #[must_use]
    pub fn runlist(&self, gpu: u32) -> Runlist {
        let mut group = Vec::new();
        for (key, process) in self.processes.iter().rev() {
            if process.gpus.get(gpu as usize).is_some_and(|on| on.evicted > 0) {
                continue;
            }
            let active = |queue: &&Queue| queue.spec.gpu == gpu && queue.is_active();
            let queues: Vec<u32> = process.queues.values().rev().filter(active).map(|queue| queue.spec.id).collect();
            if !queues.is_empty() {
                group.push(Mapped { process: *key, queues });
            }
        }
        Runlist { groups: if group.is_empty() { Vec::new() } else { vec![group] } }
    }
}
