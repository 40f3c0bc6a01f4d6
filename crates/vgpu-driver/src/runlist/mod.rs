//! What is to be on a gpu: the list the driver hands to the hardware scheduler, and what that makes of it.
//!
//! The list has the newest process first and the newest queue of a process first. The hardware holds as many processes
//! as it has address spaces and as many compute queues as it has slots; if there are more, the list is
//! *over-subscribed* and its groups take turns, as do queues with global wave sync of two processes. Queues take slots
//! in the order of the list, from pipe to pipe: that is where an MI308X was seen to have them.
//!
//! Source: `kfd_packet_manager.c` and `kgd2kfd_device_init` of Linux 6.12.

mod packets;

use super::process::Process;
use super::queues::Queue;
use super::{Driver, ProcessKey, WaveControl};
use crate::profile::Profile;
pub(super) use packets::doorbell_word;

/// Pipes with compute queues.
pub(super) const PIPES: u32 = 4;
/// Slots of a pipe. The first ones are the kernel's.
pub(super) const QUEUES_PER_PIPE: u32 = 8;
/// Address spaces of a gpu, and the first that is not the kernel's.
const VMIDS: u32 = 16;
const FIRST_VMID: u32 = 3;

/// A slot of the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HqdSlot {
    /// One of a compute pipe, the same on every XCC of the gpu.
    Compute {
        /// The pipe.
        pipe: u32,
        /// The slot.
        queue: u32,
    },
    /// One of a copy engine.
    Sdma {
        /// The engine.
        engine: u32,
        /// The slot.
        queue: u32,
    },
}

/// Where a queue is on the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HqdPlacement {
    /// Address space of its process.
    pub vmid: u32,
    /// Slot.
    pub slot: HqdSlot,
}

/// A queue that is to be on a gpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MappedQueue {
    /// The queue.
    pub id: u32,
    /// Slot and address space that it occupies.
    pub place: HqdPlacement,
}

/// The queues of one process that are to be on a gpu together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The process.
    pub process: ProcessKey,
    /// Its queues, newest first.
    pub queues: Vec<MappedQueue>,
    /// What its debugger wants of its waves.
    pub waves: WaveControl,
}

/// What is to be on a gpu: newest process first. The hardware holds one group at a time; if there are several it goes
/// from one to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runlist {
    /// What is on the gpu together.
    pub groups: Vec<Vec<Mapped>>,
    /// There is more than the hardware holds. Processes whose queues are all inactive count too.
    pub over_subscribed: bool,
    /// The packets that say so, empty if no queue is active.
    pub packets: Vec<u8>,
}

/// How much the hardware holds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) first_vmid: u32,
    pub(super) processes: u32,
    pub(super) compute_queues: u32,
}

impl Limits {
    /// Of a gpu. Partitions of one XCC share the address spaces of two.
    pub(super) fn of(profile: &Profile, gpu: u32) -> Limits {
        let all = VMIDS - FIRST_VMID;
        let compute_queues = profile.cp_queues.clamp(1, PIPES * QUEUES_PER_PIPE);
        if profile.partitions && profile.xcc == 1 && profile.gpus > 1 {
            let processes = all / 2;
            let first_vmid = VMIDS - processes * if gpu.is_multiple_of(2) { 2 } else { 1 };
            return Limits { first_vmid, processes, compute_queues };
        }
        Limits { first_vmid: FIRST_VMID, processes: all, compute_queues }
    }

    /// The slot of the nth compute queue of a group.
    pub(super) const fn slot(self, nth: u32) -> HqdSlot {
        let first = QUEUES_PER_PIPE - self.compute_queues.div_ceil(PIPES);
        HqdSlot::Compute { pipe: nth % PIPES, queue: first + nth / PIPES }
    }
}

/// A process that the scheduler of a gpu knows.
pub(super) struct Scheduled<'a> {
    pub(super) key: ProcessKey,
    pub(super) process: &'a Process,
    /// Its active queues, newest first.
    pub(super) active: Vec<&'a Queue>,
}

impl Driver {
    /// What is to be on a gpu now.
    #[must_use]
    pub fn runlist(&self, gpu: u32) -> Runlist {
        let limits = Limits::of(&self.profile, gpu);
        let scheduled = self.scheduled(gpu);
        let active = scheduled.iter().flat_map(|process| &process.active);
        let compute = active.clone().filter(|queue| queue.sdma_slot().is_none()).count();
        let gws = active.clone().filter(|queue| queue.gws).count();
        let is_idle = active.count() == 0;
        let over_subscribed =
            scheduled.len() > limits.processes as usize || compute > limits.compute_queues as usize || gws > 1;
        let mut groups = Groups { limits, done: Vec::new(), group: Vec::new(), compute: 0, gws: false };
        for process in &scheduled {
            groups.add(process);
        }
        groups.finish_group();
        // Those of other contexts take the hardware's room, and have no executors.
        let mut groups = groups.done;
        groups.iter_mut().for_each(|group| group.retain(|mapped| !mapped.process.is_secondary()));
        groups.retain(|group| !group.is_empty());
        let packets = if is_idle { Vec::new() } else { self.runlist_packets(gpu, &scheduled, over_subscribed, limits) };
        Runlist { groups, over_subscribed, packets }
    }

    /// The processes with queues on a gpu, newest first. Some may have no active one.
    pub(super) fn scheduled(&self, gpu: u32) -> Vec<Scheduled<'_>> {
        let mut scheduled: Vec<(u64, Scheduled<'_>)> = Vec::new();
        for (key, process) in &self.processes {
            let Some(on) = process.gpus.get(gpu as usize).filter(|on| on.queues > 0) else { continue };
            let mut active = process.queues_newest_first();
            active.retain(|queue| queue.spec.gpu == gpu && process.is_active(queue));
            scheduled.push((on.scheduling.registered, Scheduled { key: *key, process, active }));
        }
        scheduled.sort_by_key(|(registered, _)| std::cmp::Reverse(*registered));
        scheduled.into_iter().map(|(_, process)| process).collect()
    }
}

/// A list that is being cut into groups.
struct Groups {
    limits: Limits,
    done: Vec<Vec<Mapped>>,
    group: Vec<Mapped>,
    /// Compute queues of the group.
    compute: u32,
    /// Whether one of them has global wave sync.
    gws: bool,
}

impl Groups {
    /// A process stays together unless its own queues are more than the hardware holds.
    fn add(&mut self, process: &Scheduled<'_>) {
        if process.active.is_empty() {
            return;
        }
        let compute = process.active.iter().filter(|queue| queue.sdma_slot().is_none()).count() as u32;
        let full = self.group.len() >= self.limits.processes as usize;
        // Cooperative grids of two processes could each hold what the other needs.
        let gws = process.active.iter().any(|queue| queue.gws);
        if full || self.compute + compute > self.limits.compute_queues || self.gws && gws {
            self.finish_group();
        }
        self.gws |= gws;
        self.start_process(process);
        for queue in &process.active {
            if queue.sdma_slot().is_none() && self.compute >= self.limits.compute_queues {
                self.finish_group();
                self.start_process(process);
            }
            self.push(queue);
        }
    }

    fn start_process(&mut self, process: &Scheduled<'_>) {
        self.group.push(Mapped { process: process.key, queues: Vec::new(), waves: process.process.debug.waves });
    }

    fn push(&mut self, queue: &Queue) {
        let slot = match queue.sdma_slot() {
            Some((engine, queue)) => HqdSlot::Sdma { engine, queue },
            None => {
                self.compute += 1;
                self.limits.slot(self.compute - 1)
            }
        };
        let vmid = self.limits.first_vmid + (self.group.len() as u32).saturating_sub(1);
        if let Some(mapped) = self.group.last_mut() {
            mapped.queues.push(MappedQueue { id: queue.spec.id, place: HqdPlacement { vmid, slot } });
        }
    }

    fn finish_group(&mut self) {
        if !self.group.is_empty() {
            self.done.push(std::mem::take(&mut self.group));
        }
        self.compute = 0;
        self.gws = false;
    }
}
