//! `/sys/kernel/debug/kfd`: descriptors, slots, runlists and memory in use, in the text of the kernel.
//!
//! Source: `kfd_debugfs.c`, `pqm_debugfs_mqds`, `dqm_debugfs_hqds`, `pm_debugfs_runlist` and
//! `kfd_debugfs_kfd_mem_limits`. Only the superuser can read the real directory.

mod hqds;

use std::fmt::Write;

use kfd_abi::mqd;
use kfd_abi::sysfs::DEBUG_DIR;

use super::mqd::Descriptor;
use super::process::Process;
use super::queues::Queue;
use super::{Driver, Observed, ProcessKey};
use crate::sysfs::{DirEntry, EntryKind, Node};

const FILES: &[&str] = &["hang_hws", "hqds", "mem_limit", "mqds", "rls"];

/// Bytes of a line of a dump.
const LINE: usize = 32;

impl Driver {
    /// What is at a path in debugfs; `None` if it is not the driver's.
    pub(super) fn debugfs(&self, path: &str, observed: &dyn Observed) -> Option<Node> {
        let rest = path.strip_prefix(DEBUG_DIR)?;
        if rest.is_empty() {
            let entry = |name: &&str| DirEntry { name: (*name).to_owned(), kind: EntryKind::File };
            return Some(Node::Dir(FILES.iter().map(entry).collect()));
        }
        let text = match rest.strip_prefix('/')? {
            // What reading it returns; the file is meant to be written.
            "hang_hws" => "echo gpu_id > hang_hws\n".to_owned(),
            "hqds" => self.by_gpu(|text, gpu| self.hqds(text, gpu, observed)),
            "mem_limit" => self.mem_limit(),
            "mqds" => self.mqds(),
            "rls" => self.by_gpu(|text, gpu| {
                let packets = self.runlist(gpu).packets;
                if packets.is_empty() {
                    text.push_str("  No active runlist\n");
                } else {
                    hex_dump(text, "  ", &packets);
                }
            }),
            _ => return None,
        };
        Some(Node::File(text))
    }

    fn by_gpu(&self, show: impl Fn(&mut String, u32)) -> String {
        let mut text = String::new();
        for (index, state) in self.gpus.iter().enumerate() {
            line(&mut text, format_args!("Node {}, gpu_id {:x}:", state.gpu.node, state.gpu.gpu_id));
            show(&mut text, index as u32);
        }
        text
    }

    /// The driver counts what the gpus have of the machine's memory once; the real one counts what it allocated itself
    /// apart from what programs brought.
    fn mem_limit(&self) -> String {
        let (used, limit) = (self.system_used >> 20, self.profile.gtt_bytes() >> 20);
        format!("System mem used {used}M out of {limit}M\nTTM mem used {used}M out of {limit}M\n")
    }

    fn mqds(&self) -> String {
        let mut text = String::new();
        for (key, process) in &self.processes {
            if self.kernel.shows_pasid {
                line(&mut text, format_args!("Process {} PASID 0x{:x}:", key.pid, process.pasid));
            } else {
                line(&mut text, format_args!("Process {0} PASID {0}:", key.pid));
            }
            self.process_mqds(&mut text, process);
        }
        text
    }

    /// The descriptors of a process's queues. A compute queue has one for each XCC. The real driver then goes on to
    /// show as many for copy queues: those of the slots that follow.
    fn process_mqds(&self, text: &mut String, process: &Process) {
        let mut shown = 1;
        for queue in process.queues_newest_first() {
            let gpu_id = self.gpus.get(queue.spec.gpu as usize).map_or(0, |state| state.gpu.gpu_id);
            let descriptors = self.descriptors(process, queue);
            match queue.sdma_slot() {
                None => {
                    shown = descriptors.len();
                    line(text, format_args!("  Compute queue on device {gpu_id:x}"));
                }
                Some(_) => line(text, format_args!("  SDMA queue on device {gpu_id:x}")),
            }
            for descriptor in &descriptors {
                hex_dump(text, "    ", descriptor.bytes());
            }
            for descriptor in self.following(queue).take(shown - descriptors.len().min(shown)) {
                hex_dump(text, "    ", descriptor.bytes());
            }
        }
    }

    /// Descriptors of the slots after that of a copy queue, without end.
    fn following(&self, queue: &Queue) -> impl Iterator<Item = Descriptor> {
        let per_engine = self.profile.sdma_queues_per_engine.max(1);
        let (engine, slot) = queue.sdma_slot().unwrap_or_default();
        let first = engine * per_engine + slot;
        let gpu = queue.spec.gpu;
        (first + 1..).map(move |at| {
            let wanted = Some((at / per_engine, at % per_engine));
            let found = self.queues_on(gpu).find(|(_, _, queue)| queue.sdma_slot() == wanted);
            let descriptor = found.and_then(|(_, process, queue)| self.descriptors(process, queue).pop());
            descriptor.unwrap_or_else(|| Descriptor::new(mqd::SDMA_SIZE))
        })
    }

    /// The queues of all processes on a gpu.
    fn queues_on(&self, gpu: u32) -> impl Iterator<Item = (ProcessKey, &Process, &Queue)> {
        self.processes.iter().flat_map(move |(key, process)| {
            let queues = process.queues.values().filter(move |queue| queue.spec.gpu == gpu);
            queues.map(move |queue| (*key, process, queue))
        })
    }
}

/// Writing to a string does not fail.
fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{arguments}");
}

/// Words, eight in a line, each line with its offset.
fn hex_dump(text: &mut String, prefix: &str, bytes: &[u8]) {
    for (at, row) in bytes.chunks(LINE).enumerate() {
        let _ = write!(text, "{prefix}{:08x}:", at * LINE);
        for offset in (0..row.len()).step_by(4) {
            let _ = write!(text, " {:08x}", mqd::word(row, offset).unwrap_or_default());
        }
        text.push('\n');
    }
}
