//! The packets of a runlist, in the form of the MI200 and MI300 families.
//!
//! Source: `kfd_packet_manager_v9.c` and its headers in Linux 6.12. Addresses that the kernel chooses and no program
//! sees (page tables, the list itself) are made up, but differ where the kernel's differ.

use kfd_abi::queue::DOORBELL_SLICE;

use super::{Limits, Scheduled};
use crate::process::Process;
use crate::profile::Gfx;
use crate::queues::Queue;
use crate::{Driver, FIRST_PASID};

/// Bytes of the packet that begins a process.
pub(crate) const MAP_PROCESS_SIZE: usize = 84;
/// Bytes of the packet of a queue.
pub(crate) const MAP_QUEUES_SIZE: usize = 28;
/// Bytes of the packet that goes back to the start of an over-subscribed list.
pub(crate) const RUN_LIST_SIZE: usize = 16;

pub(crate) const MAP_PROCESS: u32 = 0xA1;
pub(crate) const MAP_QUEUES: u32 = 0xA2;
pub(crate) const RUN_LIST: u32 = 0xA5;

/// Turn of a process in an over-subscribed list; the unit is the firmware's.
const PROCESS_QUANTUM: u32 = 10;
/// Where the list lies in the gpu's view of system memory.
const LIST_ADDRESS: u64 = 0x6E_9000;
/// Where the page tables of the first process lie, and how far apart they are.
const PAGE_TABLES: u64 = 0x1000_0000;
const PAGE_TABLE_STRIDE: u64 = 0x20_0000;
/// Marks a page-table address as valid.
const VALID: u64 = 1;
/// The kernel's trap handler and its memory, at the upper end of every address space.
const TRAP_HANDLER: u64 = 0xFFFF_FFBF_E000;
const TRAP_MEMORY: u64 = TRAP_HANDLER + 4096 + 2048;
/// Upper 16 bits of the apertures of shared and private memory.
const SHARED_BASE: u32 = 1;
const PRIVATE_BASE: u32 = 2;
const ALIGNMENT_UNALIGNED: u32 = 3 << 3;
const F8_MODE: u32 = 1 << 8;
const RETRY_DISABLE: u32 = 1 << 12;
/// Doorbells of the first process begin at this word of all doorbells.
const FIRST_DOORBELL: u32 = 0x1000;

/// First word of a packet of so many bytes.
const fn header(opcode: u32, size: usize) -> u32 {
    3 << 30 | (size as u32 / 4 - 2) << 16 | opcode << 8
}

const fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

impl Driver {
    pub(super) fn runlist_packets(
        &self,
        gpu: u32,
        scheduled: &[Scheduled<'_>],
        over_subscribed: bool,
        limits: Limits,
    ) -> Vec<u8> {
        let mut words = Vec::new();
        for process in scheduled {
            words.extend(self.map_process(gpu, process));
            for queue in &process.active {
                words.extend(map_queues(process.process, queue));
            }
        }
        if over_subscribed {
            let together = limits.processes.min(scheduled.len() as u32);
            words.extend(run_list((words.len() + RUN_LIST_SIZE / 4) as u32, together));
        }
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    fn map_process(&self, gpu: u32, scheduled: &Scheduled<'_>) -> [u32; MAP_PROCESS_SIZE / 4] {
        let process = scheduled.process;
        let (queues, num_gws) = process.gpus.get(gpu as usize).map_or((0, 0), |on| (on.queues, on.num_gws));
        let gws = if scheduled.active.iter().any(|queue| queue.gws) { num_gws } else { 0 };
        let page_table = (PAGE_TABLES + u64::from(process.pasid - FIRST_PASID) * PAGE_TABLE_STRIDE) | VALID;
        let mut config = ALIGNMENT_UNALIGNED;
        if self.profile.gfx == Gfx::Gfx942 {
            config |= F8_MODE;
        }
        if !process.xnack {
            config |= RETRY_DISABLE;
        }
        let mut words = [0; MAP_PROCESS_SIZE / 4];
        words[0] = header(MAP_PROCESS, MAP_PROCESS_SIZE);
        words[1] = PROCESS_QUANTUM << 25 | process.pasid & 0xFFFF;
        words[2..4].copy_from_slice(&halves(page_table));
        words[4] = SHARED_BASE << 16 | PRIVATE_BASE;
        words[5] = config;
        words[14] = process.debug.waves.register();
        words[6..8].copy_from_slice(&halves(TRAP_HANDLER >> 8));
        words[8..10].copy_from_slice(&halves(TRAP_MEMORY >> 8));
        // Copies are allowed, and this many queues exist, active or not.
        words[13] = gws & 0x7F | 1 << 7 | (queues & 0x3FF) << 22;
        words
    }
}

/// Position of a queue's doorbell among all doorbells of the gpu, in words.
pub(crate) fn doorbell_word(process: &Process, queue: &Queue) -> u32 {
    let slice = (process.pasid - FIRST_PASID) * (DOORBELL_SLICE / 4);
    FIRST_DOORBELL + slice + queue.spec.doorbell * 2
}

fn map_queues(process: &Process, queue: &Queue) -> [u32; MAP_QUEUES_SIZE / 4] {
    // Engine, and which numbering of engines it is from.
    let (engine, numbering) = match queue.sdma_slot() {
        None => (0, 0),
        Some((engine @ 0..2, _)) => (engine + 2, 0),
        Some((engine @ 2..8, _)) => (engine, 1),
        Some((engine, _)) => (engine % 8, 2),
    };
    let one_queue = 1 << 29;
    let scheduler_chooses_the_slot = 1 << 4;
    let gws_control_queue = u32::from(queue.gws) << 12;
    let [descriptor, descriptor_hi] = halves(queue.hardware.descriptor);
    let [wptr, wptr_hi] = halves(queue.spec.wptr);
    [
        header(MAP_QUEUES, MAP_QUEUES_SIZE),
        one_queue | engine << 26 | gws_control_queue | scheduler_chooses_the_slot | numbering << 2,
        (doorbell_word(process, queue) & 0x3FF_FFFF) << 2,
        descriptor,
        descriptor_hi,
        wptr,
        wptr_hi,
    ]
}

fn run_list(words: u32, processes: u32) -> [u32; RUN_LIST_SIZE / 4] {
    let [address, address_hi] = halves(LIST_ADDRESS);
    let chain = 1 << 20;
    let idle_disable = 1 << 22;
    let valid = 1 << 23;
    [
        header(RUN_LIST, RUN_LIST_SIZE),
        address,
        address_hi,
        words & 0xF_FFFF | chain | idle_disable | valid | (processes & 0xF) << 24,
    ]
}
