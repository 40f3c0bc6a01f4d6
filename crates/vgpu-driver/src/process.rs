//! What a process has.

use std::collections::BTreeMap;

use kfd_abi::PAGE_SIZE;
use kfd_abi::exception::ExceptionMask;
use kfd_abi::queue::MAX_QUEUES_PER_PROCESS;
use serde::{Deserialize, Serialize};

use super::buffers::Held;
use super::debug::{Debug, Runtime};
use super::events::Events;
use super::gem::Opening;
use super::hardware::Scheduling;
use super::ids::{Ids, Space};
use super::memory::{Handle, Mapping};
use super::queues::{DoorbellSlots, Queue};
use super::svm::Ranges;
use super::{Errno, VmFault, layout};

/// A process, told from a later one with the same pid by when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessKey {
    /// Its pid.
    pub pid: u32,
    /// When it started, in whatever unit tells two processes apart.
    pub start: u64,
    /// Number of a context that it made beside its first, which has none.
    pub context: Option<u16>,
}

impl ProcessKey {
    /// Names a process by its pid and when it started.
    #[must_use]
    pub const fn new(pid: u32, start: u64) -> ProcessKey {
        ProcessKey { pid, start, context: None }
    }

    /// Returns whether it names a context beside the first of its process.
    #[must_use]
    pub const fn is_secondary(self) -> bool {
        self.context.is_some()
    }
}

/// What a process has on one gpu.
#[derive(Debug)]
pub(super) struct ProcessGpu {
    /// The opening of the render node whose address space it uses.
    pub(super) vm: Option<u64>,
    pub(super) handles: BTreeMap<u32, Handle>,
    pub(super) handle_ids: Ids,
    /// What the gpu sees, by address.
    pub(super) mappings: BTreeMap<u64, Mapping>,
    pub(super) doorbells: DoorbellSlots,
    /// Bytes of video memory, as sysfs shows them.
    pub(super) vram_usage: u64,
    pub(super) queues: u32,
    /// Resources of global wave sync.
    pub(super) num_gws: u32,
    /// How many reasons there are why its queues may not be on the gpu.
    pub(super) evicted: u32,
    pub(super) scheduling: Scheduling,
    /// What happened on it, for a debugger.
    pub(super) exceptions: ExceptionMask,
    /// The failed memory access that a debugger has not cleared yet.
    pub(super) fault: Option<VmFault>,
}

impl ProcessGpu {
    fn new() -> ProcessGpu {
        ProcessGpu {
            vm: None,
            handles: BTreeMap::new(),
            handle_ids: Ids::new(0..u32::MAX),
            mappings: BTreeMap::new(),
            doorbells: DoorbellSlots::new(),
            vram_usage: 0,
            queues: 0,
            num_gws: 0,
            evicted: 0,
            scheduling: Scheduling::default(),
            exceptions: ExceptionMask::EMPTY,
            fault: None,
        }
    }

    /// Whether any page of the range is mapped. Ranges are not empty and do not wrap.
    pub(super) fn overlaps(&self, va: u64, size: u64) -> bool {
        let below = self.mappings.range(..va.saturating_add(size)).next_back();
        below.is_some_and(|(start, mapping)| start + mapping.size > va)
    }

    /// The mapping that `address` lies in, with its start.
    pub(super) fn mapping_at(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.size).then_some((*start, mapping))
    }
}

/// A process that has the driver open.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pasid: u32,
    /// By index of the gpu.
    pub(super) gpus: Vec<ProcessGpu>,
    /// Offsets of the render file.
    pub(super) offsets: Space,
    /// Buffers that it has handles of.
    pub(super) held: BTreeMap<u64, Held>,
    /// Its openings of render nodes on which it made calls about buffers.
    pub(super) openings: BTreeMap<u64, Opening>,
    pub(super) events: Events,
    pub(super) queues: BTreeMap<u32, Queue>,
    pub(super) queue_ids: Ids,
    pub(super) svm: Ranges,
    pub(super) xnack: bool,
    pub(super) runtime: Runtime,
    pub(super) debug: Debug,
    /// Numbers of the contexts beside its first, which hands them out.
    pub(super) context_ids: Ids,
}

impl Process {
    pub(super) fn new(pasid: u32, gpus: usize, context: Option<u16>) -> Process {
        Process {
            pasid,
            gpus: std::iter::repeat_with(ProcessGpu::new).take(gpus).collect(),
            offsets: Space::new(layout::buffers(context)),
            held: BTreeMap::new(),
            openings: BTreeMap::new(),
            events: Events::new(),
            queues: BTreeMap::new(),
            queue_ids: Ids::new(0..MAX_QUEUES_PER_PROCESS),
            svm: Ranges::default(),
            xnack: false,
            runtime: Runtime::default(),
            debug: Debug::default(),
            context_ids: Ids::new(0..layout::MAX_CONTEXTS),
        }
    }

    pub(super) fn is_bound(&self, gpu: usize) -> bool {
        self.gpus.get(gpu).is_some_and(|gpu| gpu.vm.is_some())
    }

    /// Whether a queue of this process belongs into the runlist of its gpu.
    pub(super) fn is_active(&self, queue: &Queue) -> bool {
        queue.is_active() && self.gpus.get(queue.spec.gpu as usize).is_some_and(|gpu| gpu.evicted == 0)
    }

    /// Its queues, the newest first.
    pub(super) fn queues_newest_first(&self) -> Vec<&Queue> {
        let mut queues: Vec<&Queue> = self.queues.values().collect();
        queues.sort_unstable_by_key(|queue| std::cmp::Reverse(queue.serial));
        queues
    }

    /// Ids of its queues, the newest first.
    pub(super) fn newest_first(&self) -> Vec<u32> {
        self.queues_newest_first().into_iter().map(|queue| queue.spec.id).collect()
    }

    /// What the process has on a gpu that exists.
    pub(super) fn on(&mut self, gpu: usize) -> Result<&mut ProcessGpu, Errno> {
        self.gpus.get_mut(gpu).ok_or(Errno::EINVAL)
    }

    pub(super) fn handle(&self, gpu: usize, id: u32) -> Option<&Handle> {
        self.gpus.get(gpu)?.handles.get(&id)
    }
}

/// `size` in whole pages; `None` if it is more than any address space has.
pub(super) fn whole_pages(size: u64) -> Option<u64> {
    let size = size.checked_next_multiple_of(PAGE_SIZE.into())?;
    (size <= 1 << 47).then_some(size)
}

/// Whether a program may have memory at the address: what `access_ok` asks.
pub(super) fn is_user_address(address: u64) -> bool {
    address < (1 << 47) - u64::from(PAGE_SIZE)
}

pub(super) fn is_page_aligned(value: u64) -> bool {
    value.is_multiple_of(PAGE_SIZE.into())
}
