//! Queue descriptors (`mqds`) and hardware queue slots (`hqds`) of all processes, from the driver's debugfs. Only root
//! may read it.
//!
//! A descriptor holds the addresses of a ring's indices, so that a queue can be observed without tracing its process.
//! The text has no queue ids; a queue is found by the address of its ring.
//!
//! The text is meant for people and differs between drivers (some write the address space number in decimal), so lines
//! of a form that is not known are left out, and so is a descriptor that is not complete.

use std::io;
use std::path::Path;

use kfd_abi::mqd;
use kfd_abi::queue::PipePriority;

pub use kfd_abi::sysfs::DEBUG_DIR as DIRECTORY;

/// A process with the queues it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqdProcess {
    /// Its pid, in the initial namespace.
    pub pid: u32,
    /// Its queues, the newest first. A process has a record for each of its contexts, with the same pid.
    pub queues: Vec<MqdQueue>,
}

/// Kind of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MqdKind {
    /// Compute.
    Compute,
    /// Copies.
    Sdma,
}

/// A queue as its memory queue descriptors (MQD) describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqdQueue {
    /// Its kind.
    pub kind: MqdKind,
    /// Its gpu, as the topology names it.
    pub gpu_id: u32,
    /// Its descriptors, one for each XCC; a copy queue has one.
    pub descriptors: Vec<Mqd>,
}

impl MqdQueue {
    fn first(&self) -> Option<&Mqd> {
        self.descriptors.first()
    }

    /// A word of the first descriptor of a compute queue.
    fn compute_word(&self, offset: usize) -> Option<u32> {
        self.first().filter(|_| self.kind == MqdKind::Compute)?.word(offset)
    }

    /// Address of the ring.
    #[must_use]
    pub fn ring(&self) -> Option<u64> {
        let offset = match self.kind {
            MqdKind::Compute => mqd::PQ_BASE,
            MqdKind::Sdma => mqd::sdma::RB_BASE,
        };
        Some(self.first()?.double(offset)? << 8)
    }

    /// Bytes of a compute queue's ring.
    #[must_use]
    pub fn ring_bytes(&self) -> Option<u64> {
        // The hardware keeps the logarithm of the dwords, less one.
        let order = self.compute_word(mqd::PQ_CONTROL)? & 0x3F;
        8_u64.checked_shl(order).filter(|bytes| *bytes != 0)
    }

    /// Returns whether the ring of a compute queue holds AQL packets; else it holds PM4.
    #[must_use]
    pub fn is_aql(&self) -> Option<bool> {
        self.compute_word(mqd::AQL_CONTROL).map(|control| control & 1 != 0)
    }

    /// Address at which the program finds the read index.
    #[must_use]
    pub fn rptr_address(&self) -> Option<u64> {
        let first = self.first()?;
        match self.kind {
            MqdKind::Compute => first.double(mqd::PQ_RPTR_REPORT_ADDR),
            MqdKind::Sdma => {
                let high = first.word(mqd::sdma::RB_RPTR_ADDR_HI)?;
                Some(u64::from(high) << 32 | u64::from(first.word(mqd::sdma::RB_RPTR_ADDR_LO)?))
            }
        }
    }

    /// Address at which the program puts the write index. The descriptor of a copy queue does not have it.
    #[must_use]
    pub fn wptr_address(&self) -> Option<u64> {
        self.first().filter(|_| self.kind == MqdKind::Compute)?.double(mqd::PQ_WPTR_POLL_ADDR)
    }

    /// Pipe class of a compute queue: all that the hardware knows of its priority. The word behind it had the priority
    /// itself until Linux 7.2, which leaves it zero.
    #[must_use]
    pub fn pipe_priority(&self) -> Option<PipePriority> {
        self.compute_word(mqd::PIPE_PRIORITY).map(PipePriority)
    }

    /// Whether a compute queue is on the hardware.
    #[must_use]
    pub fn is_active(&self) -> Option<bool> {
        self.compute_word(mqd::ACTIVE).map(|active| active != 0)
    }

    /// Address of a compute queue's save area on an XCC, and its bytes.
    #[must_use]
    pub fn save_area(&self, xcc: usize) -> Option<(u64, u32)> {
        let descriptor = self.descriptors.get(xcc).filter(|_| self.kind == MqdKind::Compute)?;
        Some((descriptor.double(mqd::CTX_SAVE_BASE_ADDR)?, descriptor.word(mqd::CTX_SAVE_SIZE)?))
    }
}

/// A descriptor: [`kfd_abi::mqd`] says what is where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mqd {
    bytes: Vec<u8>,
}

impl Mqd {
    /// The 32 bits at an offset.
    #[must_use]
    pub fn word(&self, offset: usize) -> Option<u32> {
        mqd::word(&self.bytes, offset)
    }

    /// The 64 bits at an offset.
    #[must_use]
    pub fn double(&self, offset: usize) -> Option<u64> {
        mqd::double(&self.bytes, offset)
    }
}

/// The slots of a gpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HqdNode {
    /// Number of its node in the topology.
    pub node: u32,
    /// Its name there.
    pub gpu_id: u32,
    /// Its slots.
    pub slots: Vec<HqdSlot>,
}

/// Location of a hardware queue slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HqdPlace {
    /// That of the driver's own queue on an XCC.
    Driver {
        /// The XCC.
        xcc: u32,
    },
    /// One of a compute pipe of an XCC.
    Compute {
        /// The XCC.
        xcc: u32,
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

/// A slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HqdSlot {
    /// Location.
    pub place: HqdPlace,
    /// Addresses of its registers and what they hold.
    pub registers: Vec<(u32, u32)>,
}

impl HqdSlot {
    /// The register of a compute slot that is at this offset of a descriptor.
    #[must_use]
    pub fn register(&self, offset: usize) -> Option<u32> {
        if matches!(self.place, HqdPlace::Sdma { .. }) {
            return None;
        }
        self.registers.get(mqd::register_index(offset)?).map(|(_, value)| *value)
    }

    /// Whether a compute slot has a queue.
    #[must_use]
    pub fn is_active(&self) -> Option<bool> {
        self.register(mqd::ACTIVE).map(|active| active != 0)
    }
}

/// Reads the queues of all processes.
///
/// # Errors
/// If the file cannot be read: only the superuser may, and debugfs must be there.
pub fn read_queues() -> io::Result<Vec<MqdProcess>> {
    read_queues_in(Path::new(DIRECTORY))
}

/// The queues of all processes, by the files of another directory than the driver's.
///
/// # Errors
/// As [`read_queues`].
pub fn read_queues_in(directory: &Path) -> io::Result<Vec<MqdProcess>> {
    Ok(parse_queues(&std::fs::read_to_string(directory.join("mqds"))?))
}

/// The queues in the text of `mqds`.
#[must_use]
pub fn parse_queues(text: &str) -> Vec<MqdProcess> {
    let mut processes: Vec<MqdProcess> = Vec::new();
    let mut dump = Vec::new();
    // Whether the rows that come belong to the last queue.
    let mut in_queue = false;
    for line in text.lines() {
        if let Some((offset, words)) = row(line) {
            if !in_queue {
                continue;
            }
            if offset == 0 {
                dump.clear();
            }
            if offset as usize != dump.len() {
                dump.clear();
                continue;
            }
            dump.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            if let Some(queue) = processes.last_mut().and_then(|process| process.queues.last_mut()) {
                take_descriptor(queue, &mut dump);
            }
            continue;
        }
        dump.clear();
        in_queue = false;
        if let Some(pid) = process_heading(line) {
            processes.push(MqdProcess { pid, queues: Vec::new() });
        } else if let (Some((kind, gpu_id)), Some(process)) = (queue_heading(line), processes.last_mut()) {
            process.queues.push(MqdQueue { kind, gpu_id, descriptors: Vec::new() });
            in_queue = true;
        }
    }
    processes
}

/// Moves a dump that is complete to its queue. After the descriptor of a copy queue the driver may go on with those of
/// other queues.
fn take_descriptor(queue: &mut MqdQueue, dump: &mut Vec<u8>) {
    let size = match queue.kind {
        MqdKind::Compute => mqd::SIZE,
        MqdKind::Sdma => mqd::SDMA_SIZE,
    };
    if dump.len() != size {
        return;
    }
    let bytes = std::mem::take(dump);
    if queue.kind == MqdKind::Compute || queue.descriptors.is_empty() {
        queue.descriptors.push(Mqd { bytes });
    }
}

/// The slots in the text of `hqds`. The driver stops all work of a gpu for milliseconds to write that text.
#[must_use]
pub fn parse_slots(text: &str) -> Vec<HqdNode> {
    let mut nodes: Vec<HqdNode> = Vec::new();
    let mut in_slot = false;
    for line in text.lines() {
        if let Some((address, words)) = row(line) {
            let slot = nodes.last_mut().and_then(|node| node.slots.last_mut()).filter(|_| in_slot);
            if let Some(slot) = slot {
                let addresses = (0..).map(|at: u32| address.wrapping_add(at.wrapping_mul(4)));
                slot.registers.extend(addresses.zip(words));
            }
            continue;
        }
        in_slot = false;
        if let Some((node, gpu_id)) = node_heading(line) {
            nodes.push(HqdNode { node, gpu_id, slots: Vec::new() });
        } else if let (Some(place), Some(node)) = (slot_heading(line), nodes.last_mut()) {
            node.slots.push(HqdSlot { place, registers: Vec::new() });
            in_slot = true;
        }
    }
    nodes
}

/// A line of a dump: where it starts, and up to eight words.
fn row(line: &str) -> Option<(u32, Vec<u32>)> {
    let (start, rest) = line.strip_prefix("    ")?.split_once(": ")?;
    let words: Option<Vec<u32>> = rest.split(' ').map(|word| hex(word).filter(|_| word.len() == 8)).collect();
    let words = words.filter(|words| words.len() <= 8)?;
    Some((hex(start)?, words))
}

/// What follows is the number of the address space, or, from Linux 7.2 on, the pid once more.
fn process_heading(line: &str) -> Option<u32> {
    let (pid, pasid) = line.strip_prefix("Process ")?.strip_suffix(':')?.split_once(" PASID ")?;
    pasid.strip_prefix("0x").map_or_else(|| decimal(pasid), hex)?;
    decimal(pid)
}

fn queue_heading(line: &str) -> Option<(MqdKind, u32)> {
    let (kind, gpu_id) = line.strip_prefix("  ")?.split_once(" queue on device ")?;
    let kind = match kind {
        "Compute" => MqdKind::Compute,
        "SDMA" => MqdKind::Sdma,
        _ => return None,
    };
    Some((kind, hex(gpu_id)?))
}

fn node_heading(line: &str) -> Option<(u32, u32)> {
    let (node, gpu_id) = line.strip_prefix("Node ")?.strip_suffix(':')?.split_once(", gpu_id ")?;
    Some((decimal(node)?, hex(gpu_id)?))
}

fn slot_heading(line: &str) -> Option<HqdPlace> {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix("SDMA Engine ") {
        let (engine, queue) = rest.split_once(", RLC ")?;
        return Some(HqdPlace::Sdma { engine: decimal(engine)?, queue: decimal(queue)? });
    }
    let (xcc, rest) = line.strip_prefix("Inst ")?.split_once(", ")?;
    let xcc = decimal(xcc)?;
    let rest = rest.trim_start();
    if rest.starts_with("HIQ on MEC ") {
        return Some(HqdPlace::Driver { xcc });
    }
    let (pipe, queue) = rest.strip_prefix("CP Pipe ")?.split_once(", Queue ")?;
    Some(HqdPlace::Compute { xcc, pipe: decimal(pipe)?, queue: decimal(queue)? })
}

/// Digits alone: no sign, no blank.
fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn decimal(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
