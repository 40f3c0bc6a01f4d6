//! `/sys/class/kfd/kfd/proc`: what each process has, as files.

use kfd_abi::queue::QueueType;
use kfd_abi::sysfs::{PROCESS_DIR, SysfsQueueType, process};

use super::process::Process;
use super::{Driver, GpuState, Observed, ProcessKey, Unobserved};
use crate::sysfs::{DirEntry, EntryKind, KFD_DEVICE_DIR, Node};

/// Files of a gpu's page-fault counters.
const PAGE_COUNTERS: &[&str] = &["faults", "page_in", "page_out"];

fn dir(names: impl IntoIterator<Item = String>, kind: EntryKind) -> Vec<DirEntry> {
    names.into_iter().map(|name| DirEntry { name, kind }).collect()
}

impl Driver {
    /// What is at `path`, files of processes included. As with [`Tree::lookup`](crate::sysfs::Tree::lookup), links on
    /// the way are followed and the last one is not.
    #[must_use]
    pub fn sysfs(&self, path: &str) -> Option<Node> {
        self.sysfs_observed(path, &Unobserved)
    }

    /// The same, with what the device knows at this moment.
    #[must_use]
    pub fn sysfs_observed(&self, path: &str, observed: &dyn Observed) -> Option<Node> {
        let real = format!("{KFD_DEVICE_DIR}/proc");
        let rest = path.strip_prefix(PROCESS_DIR).or_else(|| path.strip_prefix(&real));
        match rest {
            Some("") => self.processes_node("", observed),
            Some(rest) if rest.starts_with('/') => self.processes_node(&rest[1..], observed),
            _ => self.debugfs(path, observed).or_else(|| self.tree.lookup(path)),
        }
    }

    fn processes_node(&self, rest: &str, observed: &dyn Observed) -> Option<Node> {
        if rest.is_empty() {
            let processes = self.processes.keys().filter(|key| !key.is_secondary());
            return Some(Node::Dir(dir(processes.map(|key| key.pid.to_string()), EntryKind::Dir)));
        }
        let (pid, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (key, found) = self.processes.iter().find(|(key, _)| !key.is_secondary() && key.pid.to_string() == pid)?;
        let (name, inner) = rest.split_once('/').unwrap_or((rest, ""));
        match name.strip_prefix(process::CONTEXT) {
            Some(number) => {
                let (context, found) = self.contexts_of(*key).find(|(context, _)| is_numbered(*context, number))?;
                self.process_node(context, found, inner, observed)
            }
            None => self.process_node(*key, found, rest, observed),
        }
    }

    /// Returns the contexts of a process beside its first.
    fn contexts_of(&self, key: ProcessKey) -> impl Iterator<Item = (ProcessKey, &Process)> {
        let of_it = move |(other, _): &(&ProcessKey, &Process)| {
            key.context.is_none() && other.is_secondary() && (other.pid, other.start) == (key.pid, key.start)
        };
        self.processes.iter().filter(of_it).map(|(key, process)| (*key, process))
    }

    fn process_node(&self, key: ProcessKey, found: &Process, rest: &str, observed: &dyn Observed) -> Option<Node> {
        let per_gpu = |prefixes: [&'static str; 2]| {
            let names = move |state: &GpuState| prefixes.map(|prefix| format!("{prefix}{}", state.gpu.gpu_id));
            self.gpus.iter().flat_map(names)
        };
        let at = |name: &str, prefix: &str| {
            self.gpus.iter().position(|state| name == format!("{prefix}{}", state.gpu.gpu_id))
        };
        match rest.split_once('/').unwrap_or((rest, "")) {
            ("", "") => {
                let files = [process::PASID.to_owned()].into_iter().chain(per_gpu([process::VRAM, process::SDMA]));
                let dirs = [process::QUEUES.to_owned()].into_iter();
                let contexts = self.contexts_of(key).filter_map(|(context, _)| context.context);
                let contexts = contexts.map(|number| format!("{}{number}", process::CONTEXT));
                let dirs = dirs.chain(per_gpu([process::STATS, process::COUNTERS])).chain(contexts);
                let mut entries = dir(files, EntryKind::File);
                entries.extend(dir(dirs, EntryKind::Dir));
                entries.sort_by(|a, b| a.name.cmp(&b.name));
                Some(Node::Dir(entries))
            }
            (process::PASID, "") => {
                let pasid = if self.kernel.shows_pasid { found.pasid } else { 0 };
                Some(Node::File(format!("{pasid}\n")))
            }
            (process::QUEUES, rest) => self.queues_node(found, rest),
            (name, rest) => {
                if let Some(gpu) = at(name, process::STATS) {
                    let names = [process::CU_OCCUPANCY, process::EVICTED_MS];
                    return numbers_node(rest, &names, |name| match name {
                        process::CU_OCCUPANCY => self.cu_occupancy(key, gpu, observed),
                        _ => found.gpus.get(gpu).map_or(0, |on| on.scheduling.evicted_ms()),
                    });
                }
                if at(name, process::COUNTERS).is_some() {
                    // Pages do not move here.
                    return numbers_node(rest, PAGE_COUNTERS, |_| 0);
                }
                if !rest.is_empty() {
                    return None;
                }
                if let Some(gpu) = at(name, process::VRAM) {
                    return Some(number(found.gpus.get(gpu)?.vram_usage));
                }
                at(name, process::SDMA).map(|gpu| number(observed.sdma_us(key, gpu as u32)))
            }
        }
    }

    /// Values of a queue have no newline, as in the driver.
    fn queues_node(&self, found: &Process, rest: &str) -> Option<Node> {
        if rest.is_empty() {
            return Some(Node::Dir(dir(found.queues.keys().map(u32::to_string), EntryKind::Dir)));
        }
        let (id, name) = rest.split_once('/').unwrap_or((rest, ""));
        let (_, queue) = found.queues.iter().find(|(known, _)| known.to_string() == id)?;
        let files = [process::QUEUE_GPUID, process::QUEUE_SIZE, process::QUEUE_TYPE];
        Some(match name {
            "" => Node::Dir(dir(files.map(str::to_owned), EntryKind::File)),
            process::QUEUE_GPUID => {
                let gpu_id = self.gpus.get(queue.spec.gpu as usize).map_or(0, |state| state.gpu.gpu_id);
                Node::File(gpu_id.to_string())
            }
            process::QUEUE_SIZE => Node::File(queue.spec.settings.ring_size.to_string()),
            process::QUEUE_TYPE => Node::File(self.sysfs_type(queue.queue_type).to_string()),
            _ => return None,
        })
    }

    /// A queue on a chosen engine has become one of the engine's kind when it was made.
    const fn sysfs_type(&self, queue_type: QueueType) -> u32 {
        match queue_type {
            QueueType::SDMA => SysfsQueueType::SDMA.0,
            QueueType::SDMA_XGMI => self.kernel.xgmi_queue_type,
            _ => SysfsQueueType::COMPUTE.0,
        }
    }

    /// Compute units that the waves of a process would fill. The real driver counts those of the first XCC and takes
    /// the others to have as many (`kfd_get_cu_occupancy`).
    fn cu_occupancy(&self, key: ProcessKey, gpu: usize, observed: &dyn Observed) -> u64 {
        let waves_per_cu = u64::from(self.profile.simd_per_cu * self.profile.waves_per_simd);
        u64::from(observed.waves(key, gpu as u32)).div_ceil(waves_per_cu.max(1))
    }
}

fn number(value: u64) -> Node {
    Node::File(format!("{value}\n"))
}

/// A directory of numbers.
fn numbers_node(rest: &str, names: &[&str], value: impl Fn(&str) -> u64) -> Option<Node> {
    if rest.is_empty() {
        return Some(Node::Dir(dir(names.iter().map(|name| (*name).to_owned()), EntryKind::File)));
    }
    names.contains(&rest).then(|| number(value(rest)))
}

/// Whether this is the number of a context, as the name of its directory has it.
fn is_numbered(context: ProcessKey, number: &str) -> bool {
    context.context.is_some_and(|known| known.to_string() == number)
}
