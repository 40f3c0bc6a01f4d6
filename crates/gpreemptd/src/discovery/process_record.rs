//! The record of one process that has the driver open.

use std::collections::BTreeMap;
use std::time::Instant;

use kfd::process::{ListedQueue, SysfsQueue};
use kfd::{GpuId, Pid, Processes, QueueId, SysfsQueueType};

use super::program::Program;
use super::rings::{Rings, Wanted};
use super::{DiscoveryEvent, Process, Tenant};

#[derive(Debug, Default)]
pub(super) struct ProcessRecord {
    /// With the number that tells each from a later one of the same id.
    queues: BTreeMap<QueueId, (u64, SysfsQueue)>,
    usages: BTreeMap<GpuId, GpuUsage>,
    /// Read when it has compute queues, and only then.
    pub(super) program: Option<Program>,
    /// When the program was found to have ended, while the driver still lists what it had.
    pub(super) departed: Option<Instant>,
    /// Contexts beside the first.
    contexts: Vec<u32>,
    /// What was told last, with the tracer and the number of contexts at that time.
    told: Option<(Vec<Tenant>, Option<Pid>, usize)>,
    dirty: bool,
    /// The host knows of it, whatever has to be read again meanwhile.
    announced: bool,
}

/// What it has on one gpu.
#[derive(Debug, Default)]
struct GpuUsage {
    compute: Vec<ListedQueue>,
    /// Compute queues of contexts beside the first.
    elsewhere: usize,
    sdma: Vec<QueueId>,
    rings: Rings,
    vram: u64,
}

impl ProcessRecord {
    /// Nothing is known but that its program has ended.
    pub(super) fn departed(now: Instant) -> ProcessRecord {
        ProcessRecord { departed: Some(now), ..ProcessRecord::default() }
    }

    /// Takes note of its queues; those that are known are read again only if `thoroughly`. Says whether any changed.
    pub(super) fn update_queues(
        &mut self,
        pid: Pid,
        listing: &[ListedQueue],
        processes: &Processes,
        thoroughly: bool,
    ) -> kfd::Result<bool> {
        let same = |listed: &ListedQueue| self.queues.get(&listed.id).is_some_and(|(inode, _)| *inode == listed.inode);
        if !thoroughly && listing.len() == self.queues.len() && listing.iter().all(same) {
            return Ok(false);
        }
        let mut queues = BTreeMap::new();
        for listed in listing {
            let known = self.queues.get(&listed.id).filter(|(inode, _)| *inode == listed.inode && !thoroughly);
            let queue = match known {
                Some((_, queue)) => Some(*queue),
                None => processes.queue(pid, listed.id)?,
            };
            // One whose files are not complete is just being made or destroyed, and looked at again.
            queues.extend(queue.map(|queue| (listed.id, (listed.inode, queue))));
        }
        if queues == self.queues {
            return Ok(false);
        }
        self.queues = queues;
        self.group(pid, processes)?;
        self.dirty = true;
        Ok(true)
    }

    /// Sorts the queues by gpu. Rings are forgotten where compute queues changed.
    fn group(&mut self, pid: Pid, processes: &Processes) -> kfd::Result<()> {
        let mut before = std::mem::take(&mut self.usages);
        for (id, (inode, queue)) in &self.queues {
            let usage = self.usages.entry(queue.gpu).or_default();
            match queue.kind {
                SysfsQueueType::COMPUTE => usage.compute.push(ListedQueue { id: *id, inode: *inode }),
                kind if kind.is_copy() => usage.sdma.push(*id),
                _ => {}
            }
        }
        for (gpu, usage) in &mut self.usages {
            match before.remove(gpu) {
                Some(old) => {
                    (usage.vram, usage.elsewhere) = (old.vram, old.elsewhere);
                    if old.compute == usage.compute {
                        usage.rings = old.rings;
                    }
                }
                None => usage.vram = processes.vram(pid, *gpu)?.unwrap_or_default(),
            }
        }
        Ok(())
    }

    pub(super) fn has_compute(&self) -> bool {
        self.usages.values().any(|usage| !usage.compute.is_empty())
    }

    /// Takes note of its identity, which has to be told.
    pub(super) fn set_program(&mut self, program: Program) {
        self.forget_program();
        self.program = Some(program);
    }

    /// Makes its identity be read and told again.
    pub(super) fn forget_program(&mut self) {
        self.program = None;
        self.tell_again();
    }

    /// Tells that it is gone, if the host knew of it.
    pub(super) fn leave(&mut self, pid: Pid, found: &mut Vec<DiscoveryEvent>) {
        if std::mem::take(&mut self.announced) {
            found.push(DiscoveryEvent::Gone { pid });
        }
    }

    /// What was told has to be told again.
    pub(super) fn tell_again(&mut self) {
        self.told = None;
        self.dirty = true;
    }

    /// Looks at what changes seldom.
    pub(super) fn refresh(&mut self, pid: Pid, processes: &Processes) -> kfd::Result<()> {
        let Some(program) = &mut self.program else { return Ok(()) };
        if program.update() {
            self.tell_again();
        }
        for (gpu, usage) in &mut self.usages {
            let vram = processes.vram(pid, *gpu)?.unwrap_or_default();
            self.dirty |= std::mem::replace(&mut usage.vram, vram) != vram;
        }
        Ok(())
    }

    /// Counts its contexts beside the first and their compute queues. Says whether any came or went.
    pub(super) fn update_contexts(&mut self, pid: Pid, processes: &Processes) -> kfd::Result<bool> {
        let contexts = processes.contexts(pid)?.unwrap_or_default();
        let mut queues: BTreeMap<GpuId, usize> = BTreeMap::new();
        for context in &contexts {
            let all = processes.context_queues(pid, *context)?;
            for queue in all.iter().filter(|queue| queue.kind == SysfsQueueType::COMPUTE) {
                *queues.entry(queue.gpu).or_default() += 1;
            }
        }
        let mut changed = self.contexts != contexts;
        self.contexts = contexts;
        for (gpu, usage) in &mut self.usages {
            let elsewhere = queues.get(gpu).copied().unwrap_or(0);
            if std::mem::replace(&mut usage.elsewhere, elsewhere) != elsewhere {
                usage.rings = Rings::Unknown;
                changed = true;
            }
        }
        self.dirty |= changed;
        Ok(changed)
    }

    pub(super) fn contexts(&self) -> usize {
        self.contexts.len()
    }

    /// Where nothing is mapped any more there is no ring: a queue was replaced by one that looks the same.
    pub(super) fn forget_rings(&mut self) {
        self.usages.values_mut().for_each(|usage| usage.rings = Rings::Unknown);
        self.dirty = true;
    }

    /// Its tenants whose rings are not known.
    pub(super) fn wanted(&mut self, pid: Pid) -> Vec<Wanted<'_>> {
        if self.program.is_none() {
            return Vec::new();
        }
        let lacking = |usage: &GpuUsage| !usage.compute.is_empty() && !usage.rings.are_known();
        let usages = self.usages.iter_mut().filter(|(_, usage)| lacking(usage));
        let wanted: Vec<Wanted<'_>> = usages
            .map(|(gpu, GpuUsage { compute, elsewhere, rings, .. })| Wanted {
                pid,
                gpu: *gpu,
                count: compute.len() + *elsewhere,
                rings,
            })
            .collect();
        // What is found may have to be told.
        self.dirty |= !wanted.is_empty();
        wanted
    }

    /// What has to be told, if anything.
    pub(super) fn report(&mut self) -> Option<Process> {
        if !std::mem::take(&mut self.dirty) {
            return None;
        }
        let program = self.program.as_ref()?;
        // Where it only copies there is nothing to stop and nothing to wait for.
        let computing = self.usages.iter().filter(|(_, usage)| !usage.compute.is_empty());
        let tenants: Vec<Tenant> = computing.map(|(gpu, usage)| usage.tenant(*gpu)).collect();
        let contexts = self.contexts.len();
        let now = (tenants.clone(), program.traced_by, contexts);
        if self.told.as_ref() == Some(&now) {
            return None;
        }
        self.told = Some(now);
        self.announced = true;
        Some(Process {
            identity: program.identity.clone(),
            memory: program.memory.clone(),
            tenants,
            traced_by: program.traced_by,
            contexts,
        })
    }
}

impl GpuUsage {
    fn tenant(&self, gpu: GpuId) -> Tenant {
        let (rings, blind) = match &self.rings {
            Rings::Known(rings) => (rings.clone(), None),
            Rings::Blind(why) => (Vec::new(), Some(why.clone())),
            Rings::Unknown => (Vec::new(), None),
        };
        let compute = self.compute.iter().map(|listed| listed.id).collect();
        Tenant { gpu, compute, sdma: self.sdma.clone(), rings, blind, vram: self.vram }
    }
}
